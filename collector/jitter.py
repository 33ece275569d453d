"""How unevenly an exporter's datagrams arrive, by its own uptime.

Source: RFC 3550, 6.4.1 and A.8 (interarrival jitter). Differs from it in reading an uptime in
milliseconds, which is that of sending only where the agent keeps it so.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.columns import joined
from collector.schema import I64, U32

LEAST: Final = 16  # datagrams; RFC 3550 filters with this weight
_LONGEST_MS: Final = 60_000.0  # silence says nothing of delays


class _State(NamedTuple):
    """One row per exporter."""

    arrival_ns: I64
    uptime_ms: I64
    jitter_ms: NDArray[np.float64]
    seen: I64
    fine: I64  # of them, at no whole second after the one before


@njit(cache=True, nogil=True)
def _follow(rows: I64, exporter: I64, arrival_ns: I64, uptime_ms: U32, state: _State) -> None:
    for row in rows:
        e = exporter[row]
        now_ms = np.int64(uptime_ms[row])
        lived_ms = now_ms - state.uptime_ms[e]
        passed_ms = (arrival_ns[row] - state.arrival_ns[e]) / 1e6
        if state.arrival_ns[e] and 0 <= lived_ms < _LONGEST_MS and 0 <= passed_ms < _LONGEST_MS:
            state.jitter_ms[e] += (abs(passed_ms - lived_ms) - state.jitter_ms[e]) / 16.0
            state.seen[e] += 1
            state.fine[e] += lived_ms % 1000 != 0
        state.arrival_ns[e] = arrival_ns[row]
        state.uptime_ms[e] = now_ms


class Jitter:
    """Follows exporters, in the order of arrival."""

    def __init__(self) -> None:
        self._state = _rows(0)

    def follow(
        self, exporters: int, rows: I64, exporter: I64, arrival_ns: I64, uptime_ms: U32
    ) -> None:
        """Take in datagrams that came in order.

        Parameters
        ----------
        exporters
            How many there are by now.
        rows : int64, shape (m,)
            Which of the datagrams.
        exporter, arrival_ns : int64, shape (n,)
        uptime_ms : uint32, shape (n,)
        """
        missing = exporters - len(self._state.seen)
        if missing > 0:
            self._state = joined((self._state, _rows(max(missing, len(self._state.seen)))))
        _follow(rows, exporter, arrival_ns, uptime_ms, self._state)

    def jitter_s(self, exporter: int) -> float | None:
        """Of one exporter; None = not known: too few, or its uptime counts whole seconds."""
        state = self._state
        if state.seen[exporter] < LEAST or 2 * state.fine[exporter] < state.seen[exporter]:
            return None
        return float(state.jitter_ms[exporter]) / 1e3


def _rows(count: int) -> _State:
    zeros = [np.zeros(count, np.int64) for _ in range(4)]
    return _State(zeros[0], zeros[1], np.zeros(count), zeros[2], zeros[3])
