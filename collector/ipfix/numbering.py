"""What the numbers of messages say: loss and restarts.

Source: RFC 7011, 3.1 (IPFIX counts data records before the message, by observation domain), RFC
3954, 5.1 (version 9 counts messages), Cisco (version 5 counts records before it).

Open vSwitch has one count for all domains: what it tells of itself, as domain 0, counts among the
records of another.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.columns import joined
from collector.schema import I64, U8, U32

# Numbers that leap further belong to another count: no such outage is plausible.
_LEAP: Final = 1 << 24
_RESTART_MS: Final = 10_000  # an uptime that falls by more than this is no reordering
_YOUNG_MS: Final = 600_000
_WRAP_MS: Final = 1 << 32


class Numbers(NamedTuple):
    """By stream."""

    started: U8
    next: I64  # the number that should follow
    sure: U8  # 0: how many records the last message held is not known
    lost: I64  # records; version 9: messages
    uptime_ms: I64
    restarts: I64


class Sessions(NamedTuple):
    """By session."""

    newest: I64  # the stream of the domain that spoke last, 0 left out; -1 = none
    pending: I64  # records of domain 0 that may have counted among that stream's
    shared: U8  # they do


@njit(cache=True, nogil=True)
def _restarts(stream: I64, uptime_ms: I64, state: Numbers, out: U8) -> None:
    for row in range(len(stream)):
        s = stream[row]
        now = uptime_ms[row]
        if s < 0 or now < 0:
            continue
        before = state.uptime_ms[s]
        fell = before >= 0 and now < before - _RESTART_MS
        wrapped = before > _WRAP_MS - _YOUNG_MS and now < _YOUNG_MS
        if fell and not wrapped and now < before // 2:
            out[row] = 1
            state.restarts[s] += 1
            state.started[s] = 0
        if now > before or out[row] or wrapped:
            state.uptime_ms[s] = now


@njit(cache=True, nogil=True)
def _follow(
    stream: I64,
    session: I64,
    whole: NDArray[np.bool_],
    sequence: U32,
    units: I64,
    state: Numbers,
    sessions: Sessions,
) -> None:
    for row in range(len(stream)):
        s = stream[row]
        if s < 0:
            continue
        number = np.int64(sequence[row])
        count = max(units[row], 0)
        of, pending = session[row], 0
        if not whole[row]:
            sessions.newest[of] = s
            pending = sessions.pending[of]
            sessions.pending[of] = 0
        elif sessions.newest[of] >= 0:
            other = sessions.newest[of]
            fits = state.started[other] and number == state.next[other]
            if fits and state.started[s] and number != state.next[s]:
                sessions.shared[of] = 1
            if sessions.shared[of]:
                s = other
            elif fits:
                sessions.pending[of] += count
        gap = (number - state.next[s]) & 0xFFFF_FFFF
        if gap >= 0x8000_0000:
            gap -= 0x1_0000_0000
        if pending > 0 and gap == pending:
            sessions.shared[of] = 1
            gap = 0
        if not state.started[s] or abs(gap) > _LEAP:
            state.started[s] = 1
        elif gap < 0:
            if state.sure[s]:  # late: what was taken for lost has come
                state.lost[s] = max(state.lost[s] - count, 0)
                continue
        elif state.sure[s]:
            state.lost[s] += gap
        state.sure[s] = units[row] >= 0
        state.next[s] = (number + count) & 0xFFFF_FFFF


class Numbering:
    """Follows the numbers of any number of streams."""

    def __init__(self) -> None:
        self._state = _rows(0)
        self._sessions = _unheard(0)

    def grow(self, streams: int) -> None:
        """Make room for so many streams, and no more sessions than these."""
        missing = streams - len(self._state.started)
        if missing > 0:
            more = max(missing, len(self._state.started))
            self._state = joined((self._state, _rows(more)))
            self._sessions = joined((self._sessions, _unheard(more)))

    def restarts(self, stream: I64, uptime_ms: I64) -> U8:
        """Which messages come from an exporter that began anew since its last one.

        Parameters
        ----------
        stream : int64, shape (n,)
            -1 = of none.
        uptime_ms : int64, shape (n,)
            -1 = the message does not say.
        """
        out = np.zeros(len(stream), np.uint8)
        _restarts(stream, uptime_ms, self._state, out)
        return out

    def follow(
        self, stream: I64, session: I64, whole: NDArray[np.bool_], sequence: U32, units: I64
    ) -> None:
        """Take in messages in the order of their arrival.

        Parameters
        ----------
        stream : int64, shape (n,)
            -1 = of none.
        session : int64, shape (n,)
        whole : bool, shape (n,)
            Whether the message is of no domain (IPFIX, domain 0).
        sequence : uint32, shape (n,)
        units : int64, shape (n,)
            What the message adds to the count; -1 = not known, a set could not be read.
        """
        _follow(stream, session, whole, sequence, units, self._state, self._sessions)

    def lost(self, streams: int) -> I64:
        """What never came, by stream, in the unit of its protocol."""
        return self._state.lost[:streams].copy()

    def restarted(self, streams: int) -> I64:
        """How often each stream's exporter began anew."""
        return self._state.restarts[:streams].copy()


def _rows(count: int) -> Numbers:
    return Numbers(
        started=np.zeros(count, np.uint8),
        next=np.zeros(count, np.int64),
        sure=np.zeros(count, np.uint8),
        lost=np.zeros(count, np.int64),
        uptime_ms=np.full(count, -1, np.int64),
        restarts=np.zeros(count, np.int64),
    )


def _unheard(count: int) -> Sessions:
    return Sessions(
        newest=np.full(count, -1, np.int64),
        pending=np.zeros(count, np.int64),
        shared=np.zeros(count, np.uint8),
    )
