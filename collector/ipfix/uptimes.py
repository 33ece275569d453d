"""When exporters started, by stream: by what they say in options, and by messages of version 9.

A message of NetFlow version 9 tells whole seconds of its clock beside an uptime in milliseconds
(RFC 3954, 5.1). The exporter cannot have started before any of its messages says, less its uptime,
and started within a second of that: the latest of them says when a message was really sent.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector.columns import joined
from collector.ipfix.messages import NETFLOW_9, Messages
from collector.schema import I64

_MS: Final = 1_000_000
# What a message may lie behind the latest one, with milliseconds cut; beyond, a clock was set back.
_SECOND_NS: Final = 1_002 * _MS
# Uptimes and clocks that run apart by as much (100 ppm) are followed.
_DRIFT_NS_PER_MS: Final = 100
_UNKNOWN: Final = -1


class Starts(NamedTuple):
    """By stream."""

    boot_ms: I64  # by the exporter's options, since the epoch
    latest_ns: I64  # by its messages
    uptime_ms: I64  # of the last message


@njit(cache=True, nogil=True)
def _sharpen(stream: I64, version: I64, uptime_ms: I64, time_ns: I64, state: Starts) -> None:
    for row in range(len(stream)):
        s = stream[row]
        if s < 0 or version[row] != NETFLOW_9:
            continue
        said = time_ns[row] - uptime_ms[row] * _MS
        latest = state.latest_ns[s]
        latest -= max(uptime_ms[row] - state.uptime_ms[s], 0) * _DRIFT_NS_PER_MS
        if state.uptime_ms[s] < 0 or said > latest or said < latest - _SECOND_NS:
            latest = said
        state.latest_ns[s] = latest
        state.uptime_ms[s] = uptime_ms[row]
        time_ns[row] = latest + uptime_ms[row] * _MS


class Uptimes:
    """What is known of any number of streams."""

    def __init__(self) -> None:
        self._state = _rows(0)

    def grow(self, streams: int) -> None:
        """Make room for so many streams."""
        missing = streams - len(self._state.boot_ms)
        if missing > 0:
            self._state = joined((self._state, _rows(max(missing, len(self._state.boot_ms)))))

    def sharpen(self, stream: I64, messages: Messages) -> None:
        """Put the times of version 9's messages right, in place and in the order of their arrival.

        Parameters
        ----------
        stream : int64, shape (n,)
            -1 = of none.
        messages : Messages
            After n messages at random moments of their seconds, times are right to a second by n.
        """
        version = messages.version.astype(np.int64)
        _sharpen(stream, version, messages.uptime_ms, messages.time_ns, self._state)

    def learn(self, stream: I64, boot_ms: I64) -> None:
        """Starts by options, ms since the epoch, in the order of their arrival."""
        self._state.boot_ms[stream] = boot_ms

    def boot_ms(self, stream: I64) -> I64:
        """The start of each stream's exporter by its options; -1 = not known."""
        return self._state.boot_ms[stream]


def _rows(count: int) -> Starts:
    return Starts(*(np.full(count, _UNKNOWN, np.int64) for _ in range(3)))
