"""Counts that go on: what was added since the flow's last record.

Source: RFC 5102, 5.10 (octetTotalCount 85, packetTotalCount 86: since the metering process began
or restarted for this flow).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from collector.ipfix.names import Names
from collector.keys import KeyTable
from collector.records import ABSENT_U64
from collector.schema import I64, U64

MOST_FLOWS: Final = 1 << 17
_WRAP: Final = 1 << 32


@njit(cache=True, nogil=True)
def _added(now: np.uint64, before: np.uint64) -> np.uint64:
    """What a total grew by; one that fell has begun anew, unless 32 bits ran over."""
    if now >= before:
        return np.uint64(now - before)
    if np.uint64(_WRAP // 2) <= before < np.uint64(_WRAP) and now < np.uint64(_WRAP // 2):
        return np.uint64(now + np.uint64(_WRAP) - before)
    return np.uint64(now)


@njit(cache=True, nogil=True)
def _advance(
    flow: I64,
    start_ns: I64,
    end_ns: I64,
    total: U64,
    counted: U64,
    last_total: U64,
    last_counted: U64,
    last_end: I64,
    since_ns: int,
    octets: U64,
    packets: U64,
) -> None:
    absent = np.uint64(ABSENT_U64)
    for row in range(len(flow)):
        f = flow[row]
        if f >= len(last_total) - 1:
            continue
        known = last_end[f] != 0
        # A flow that began after the last record of its name is another one.
        if known and start_ns[row] > last_end[f]:
            known = False
        # Its former records may have been forgotten, and have counted.
        counts = known or start_ns[row] > since_ns
        if counts and total[row] != absent:
            fresh = not known or last_total[f] == absent
            octets[row] = total[row] if fresh else _added(total[row], last_total[f])
        if counts and counted[row] != absent:
            fresh = not known or last_counted[f] == absent
            packets[row] = counted[row] if fresh else _added(counted[row], last_counted[f])
        last_total[f] = total[row]
        last_counted[f] = counted[row]
        if known and start_ns[row] < last_end[f] <= end_ns[row]:
            start_ns[row] = last_end[f]
        last_end[f] = max(end_ns[row], 1)


class Totals:
    """The newest totals of flows; when there are too many, all are forgotten."""

    def __init__(self, most: int = MOST_FLOWS) -> None:
        self._most = most
        self._names = Names()
        self._since_ns = 0
        self._newest_ns = 0
        self._begin()

    def _begin(self) -> None:
        self._keys = KeyTable(self._most)
        self._total = np.full(self._most + 1, ABSENT_U64, np.uint64)
        self._counted = np.full(self._most + 1, ABSENT_U64, np.uint64)
        self._end = np.zeros(self._most + 1, np.int64)

    def advance(
        self,
        key: list[U64],
        start_ns: I64,
        end_ns: I64,
        total: U64,
        counted: U64,
    ) -> tuple[U64, U64]:
        """What was added by each record, in order; bytes and packets, `ABSENT_U64` = not known.

        Parameters
        ----------
        key
            At most 16 columns that together name a flow.
        start_ns, end_ns : int64, shape (n,)
            `start_ns` is set, in place, to the end of the flow's record before.
        total, counted : uint64, shape (n,)
            Bytes and packets since the flow began.

        Notes
        -----
        The first record of a flow counts whole: it says what passed since the flow's start.
        When the table is full it is begun anew; then the first record of a flow that is older than
        that has no count, for its former ones may have counted.
        """
        octets = np.full(len(total), ABSENT_U64, np.uint64)
        packets = octets.copy()
        if len(self._keys) >= self._most:
            self._since_ns = self._newest_ns
            self._begin()
        self._newest_ns = max(self._newest_ns, int(end_ns.max(initial=0)))
        flow = self._keys.number(*self._names.of(key), np.zeros(len(total), np.uint64))
        _advance(
            flow,
            start_ns,
            end_ns,
            total,
            counted,
            self._total,
            self._counted,
            self._end,
            self._since_ns,
            octets,
            packets,
        )
        return octets, packets
