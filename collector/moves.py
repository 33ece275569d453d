"""Agents that change their address: one exporter, not two.

SONiC takes another agent address when an interface loses its own, or when it is configured anew
(sonic-net/sonic-buildimage#6951, #13108). The new one is the old exporter if it goes on with its
numbers and its uptime, or comes from the address that only the old one sent from, and the old one
is silent from then on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector.columns import joined
from collector.schema import I64, U32, U64

_KNOWN_DATAGRAMS: Final = 8  # of the old address, before it can have an heir
_HEARD_DATAGRAMS: Final = 5  # of the new one, until it is believed
_SILENT_NS: Final = 5_000_000_000  # and for so long nothing comes from the old one
_TOGETHER_NS: Final = 1_000_000_000  # apart from both: they were two after all
_MOST_JOINS: Final = 1 << 10  # forged agents could move for ever
_NEXT: Final = 64  # numbers that may be lost in between
_UPTIME_MS: Final = 1_500  # some agents tell it in whole seconds


class _State(NamedTuple):
    """One row per (agent, sub-agent)."""

    same: I64  # the exporter that it is; itself, unless it is another's new address
    datagrams: I64
    arrival_ns: I64  # of the newest
    sequence: I64
    uptime_ms: I64
    sender_hi: U64
    sender_lo: U64
    sub_agent: U64
    was: I64  # whom it may continue; -1 = nobody
    heir: I64  # who may continue it; -1 = nobody
    since_ns: I64  # its first datagram


@njit(cache=True, nogil=True)
def _continued(e: int, count: int, state: _State) -> int:
    """Whom a new exporter may continue; -1 = nobody."""
    of_sender = 0
    found = -1
    by_sender = -1
    for a in range(count):
        if a == e or state.same[a] != a or not state.datagrams[a]:
            continue
        same_sender = (
            state.sender_hi[a] == state.sender_hi[e] and state.sender_lo[a] == state.sender_lo[e]
        )
        of_sender += same_sender
        if state.datagrams[a] < _KNOWN_DATAGRAMS or state.sub_agent[a] != state.sub_agent[e]:
            continue
        ahead = (state.sequence[e] - state.sequence[a]) & 0xFFFF_FFFF
        passed_ms = (state.arrival_ns[e] - state.arrival_ns[a]) // 1_000_000
        lived_ms = (state.uptime_ms[e] - state.uptime_ms[a]) & 0xFFFF_FFFF
        if 0 < ahead <= _NEXT and abs(lived_ms - passed_ms) <= _UPTIME_MS:
            if found >= 0:
                return -1  # two that it could be: it is neither
            found = a
        if same_sender:
            by_sender = a
    if found < 0 and of_sender == 1:
        return by_sender
    return found


@njit(cache=True, nogil=True)
def _follow(
    number: I64,
    arrival_ns: I64,
    sequence: U32,
    uptime_ms: U32,
    sender_hi: U64,
    sender_lo: U64,
    count: int,
    state: _State,
    joined: I64,
) -> int:
    """Replace numbers by those of the exporters they are; `joined` gets what was found so."""
    joins = 0
    for row in range(len(number)):
        e = number[row]
        a = state.same[e]
        new = not state.datagrams[e]
        state.datagrams[e] += 1
        state.arrival_ns[e] = arrival_ns[row]
        state.sequence[e] = np.int64(sequence[row])
        state.uptime_ms[e] = np.int64(uptime_ms[row])
        state.sender_hi[e] = sender_hi[row]
        state.sender_lo[e] = sender_lo[row]
        if new:
            state.since_ns[e] = arrival_ns[row]
            was = _continued(e, count, state)
            state.was[e] = was
            if was >= 0:
                state.heir[was] = e
        elif a != e:  # known to be another's new address
            state.arrival_ns[a] = arrival_ns[row]
            state.sequence[a] = state.sequence[e]
            state.uptime_ms[a] = state.uptime_ms[e]
        elif state.was[e] >= 0 and joins < len(joined):
            was = state.was[e]
            silent = arrival_ns[row] - state.since_ns[e] >= _SILENT_NS
            if state.heir[was] == e and silent and state.datagrams[e] >= _HEARD_DATAGRAMS:
                state.same[e] = was
                joined[joins] = e
                joins += 1
                a = was
                state.was[e] = -1
        heir = state.heir[e]
        if heir >= 0:
            if state.same[heir] != e:
                # It speaks again, and was not only overtaken: nobody continued it.
                if arrival_ns[row] - state.since_ns[heir] > _TOGETHER_NS:
                    state.heir[e] = -1
            elif arrival_ns[row] - state.arrival_ns[heir] < _TOGETHER_NS:
                state.heir[e] = -1
                state.same[heir] = heir
        number[row] = a
    return joins


class Moves:
    """Follows the addresses of exporters, in the order of arrival."""

    def __init__(self) -> None:
        self._state = _rows(0, 0)
        self._joins = 0

    def follow(
        self,
        exporters: int,
        number: I64,
        sub_agent: U32,
        arrival_ns: I64,
        sequence: U32,
        uptime_ms: U32,
        sender: tuple[U64, U64],
    ) -> tuple[I64, list[tuple[int, int]]]:
        """Which exporter each datagram is of.

        Parameters
        ----------
        exporters
            How many there are by now.
        number : int64, shape (n,)
            Exporters by (agent, sub-agent).
        sub_agent, sequence, uptime_ms : uint32, shape (n,)
        arrival_ns : int64, shape (n,)
        sender : two uint64, shape (n,)
            Whom the datagrams came from.

        Returns
        -------
        number : int64, shape (n,)
        list of (new, old)
            Exporters that were found to be the new address of another.
        """
        self._grow(exporters)
        self._state.sub_agent[number] = sub_agent
        joined = np.empty(_MOST_JOINS - self._joins, np.int64)
        out = number.copy()
        joins = _follow(
            *(out, arrival_ns, sequence, uptime_ms, *sender, exporters),
            self._state,
            joined,
        )
        self._joins += joins
        pairs = [(int(new), int(self._state.same[new])) for new in joined[:joins]]
        for new, old in pairs:
            out[number == new] = old  # nothing of this batch was counted yet
        return out, pairs

    def heard_ns(self, exporters: int) -> I64:
        """When the newest datagram of each came; int64, shape (exporters,)."""
        return self._state.arrival_ns[:exporters]

    def since_ns(self, exporter: int) -> int:
        """When the first datagram with this address came."""
        return int(self._state.since_ns[exporter])

    def moved(self, exporter: int) -> int | None:
        """The exporter that it is the new address of."""
        same = int(self._state.same[exporter])
        return None if same == exporter else same

    def _grow(self, exporters: int) -> None:
        held = len(self._state.same)
        if exporters > held:
            more = _rows(held, max(exporters, 2 * held) - held)
            self._state = joined((self._state, more))


def _rows(first: int, count: int) -> _State:
    return _State(
        same=np.arange(first, first + count, dtype=np.int64),
        datagrams=np.zeros(count, np.int64),
        arrival_ns=np.zeros(count, np.int64),
        sequence=np.zeros(count, np.int64),
        uptime_ms=np.zeros(count, np.int64),
        sender_hi=np.zeros(count, np.uint64),
        sender_lo=np.zeros(count, np.uint64),
        sub_agent=np.zeros(count, np.uint64),
        was=np.full(count, -1, np.int64),
        heir=np.full(count, -1, np.int64),
        since_ns=np.zeros(count, np.int64),
    )
