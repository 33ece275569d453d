"""What sequence numbers say: loss, reordering, duplicates and restarts of numbered streams.

A stream is whatever numbers its own messages: the datagrams of one (agent, sub-agent), or the
samples of one data source. Its first number is no loss, a number that arrives late takes its loss
back, and a restart begins a new count.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.columns import joined
from collector.schema import I64, U8, U32, U64

# How far behind the newest a message can be and still be told from a duplicate: one machine word.
WINDOW: Final = 64
# An agent's clock that falls by more than this has started again; less is reordering.
_RESTART_MS: Final = 10_000
# Numbers that leap further than this belong to another stream: no such outage is plausible.
_LEAP: Final = 1 << 20
_UPTIME_WRAP_MS: Final = 1 << 32


class Order(IntEnum):
    """Where a message stands in its stream."""

    NEXT = 0  # ahead of all before it
    LATE = 1
    DUPLICATE = 2
    REUSED = 3  # a number seen before, with other content
    RESTART = 4  # its sender's clock began anew
    LEAP = 5  # its number is nowhere near those before it: another count


class _State(NamedTuple):
    """One row per stream."""

    started: U8
    newest: I64
    span: I64  # newest minus the first number of this count
    seen: U64  # bit i: newest - i has arrived
    uptime_ms: I64
    expected: I64
    received: I64
    former_ms: I64  # uptime and newest number before the last restart
    former_newest: I64
    began_ms: I64  # uptime of the first message after it; -1 = there was none


@njit(cache=True, nogil=True)
def _restarted(before_ms: int, now_ms: int) -> bool:
    if now_ms >= before_ms - _RESTART_MS:
        return False
    # 49.7 days of milliseconds fill 32 bits
    return before_ms < _UPTIME_WRAP_MS - 600_000 or now_ms > 600_000


@njit(cache=True, nogil=True)
def _follow(
    stream: I64,
    sequence: U32,
    uptime_ms: U32,
    digest: U64,
    state: _State,
    digests: NDArray[np.uint64],
    order: U8,
) -> None:
    for row in range(len(stream)):
        s = stream[row]
        number = int(np.int64(sequence[row]))
        now_ms = int(np.int64(uptime_ms[row]))
        width = digests.shape[1]
        ahead = (number - state.newest[s]) & 0xFFFF_FFFF
        if ahead >= 0x8000_0000:
            ahead -= 0x1_0000_0000
        before_ms = int(state.uptime_ms[s])
        fresh = not state.started[s]
        restart = not fresh and _restarted(before_ms, now_ms)
        began_ms = state.began_ms[s]
        young = 0 <= began_ms <= before_ms <= began_ms + _RESTART_MS
        if young and abs(now_ms - state.former_ms[s]) <= _RESTART_MS < now_ms - before_ms:
            # Sent before the restart, and overtaken by what came after it.
            if width and digests[s, number % width] == digest[row]:
                order[row] = Order.DUPLICATE
                continue
            order[row] = Order.LATE
            behind = (state.former_newest[s] - number) & 0xFFFF_FFFF
            if 0 < behind < WINDOW:  # and was taken for lost
                state.received[s] += 1
            continue
        if fresh or restart or ahead > _LEAP or (ahead <= -WINDOW and now_ms >= before_ms):
            order[row] = Order.NEXT if fresh else Order.RESTART if restart else Order.LEAP
            if restart:
                state.former_ms[s] = before_ms
                state.former_newest[s] = state.newest[s]
                state.began_ms[s] = now_ms
            state.started[s] = 1
            state.newest[s] = number
            state.span[s] = 0
            state.seen[s] = 1
            state.expected[s] += 1
            state.received[s] += 1
        elif ahead > 0:
            order[row] = Order.NEXT
            state.newest[s] = number
            state.span[s] += ahead
            if ahead < WINDOW:
                state.seen[s] = (state.seen[s] << np.uint64(ahead)) | np.uint64(1)
            else:
                state.seen[s] = 1
            state.expected[s] += ahead
            state.received[s] += 1
        elif ahead <= -WINDOW:
            order[row] = Order.LATE
            if -ahead > state.span[s]:
                state.expected[s] += -ahead - state.span[s]
                state.span[s] = -ahead
            state.received[s] += 1
            continue  # neither newest nor its time
        else:
            bit = np.uint64(1) << np.uint64(-ahead)
            if state.seen[s] & bit:
                same = width > 0 and digests[s, number % width] == digest[row]
                order[row] = Order.DUPLICATE if same else Order.REUSED
                continue
            order[row] = Order.LATE
            state.seen[s] |= bit
            state.received[s] += 1
            if -ahead > state.span[s]:
                state.expected[s] += -ahead - state.span[s]
                state.span[s] = -ahead
        if width:
            digests[s, number % width] = digest[row]
        if order[row] != Order.LATE:
            state.uptime_ms[s] = now_ms


class Streams:
    """Follows any number of streams over any number of batches.

    Parameters
    ----------
    digests
        Whether messages come with a digest of their content, so that a repeated number can be told
        from a duplicated message.
    """

    def __init__(self, *, digests: bool) -> None:
        self._width = WINDOW if digests else 0
        self._state = self._rows(0)
        self._digests = np.zeros((0, self._width), np.uint64)

    @staticmethod
    def _rows(count: int) -> _State:
        return _State(
            started=np.zeros(count, np.uint8),
            newest=np.zeros(count, np.int64),
            span=np.zeros(count, np.int64),
            seen=np.zeros(count, np.uint64),
            uptime_ms=np.zeros(count, np.int64),
            expected=np.zeros(count, np.int64),
            received=np.zeros(count, np.int64),
            former_ms=np.zeros(count, np.int64),
            former_newest=np.zeros(count, np.int64),
            began_ms=np.full(count, -1, np.int64),
        )

    def follow(self, streams: int, stream: I64, sequence: U32, uptime_ms: U32, digest: U64) -> U8:
        """Take in messages in the order of their arrival.

        Parameters
        ----------
        streams
            How many streams there are by now.
        stream : int64, shape (n,)
            Which stream each message belongs to.
        sequence, uptime_ms : uint32, shape (n,)
            The message's number, and its sender's uptime.
        digest : uint64, shape (n,)
            Ignored by streams without digests.

        Returns
        -------
        uint8, shape (n,)
            `Order` of each message.
        """
        self.grow(streams)
        order = np.zeros(len(stream), np.uint8)
        _follow(stream, sequence, uptime_ms, digest, self._state, self._digests, order)
        return order

    def grow(self, streams: int) -> None:
        """Make room for so many streams."""
        missing = streams - len(self._state.started)
        if missing > 0:
            room = max(missing, len(self._state.started))
            self._state = joined((self._state, self._rows(room)))
            self._digests = np.concatenate(
                (self._digests, np.zeros((room, self._width), np.uint64))
            )

    def adopt(self, stream: I64, other: I64) -> None:
        """Let streams go on where others stand, and take over what these lost.

        Parameters
        ----------
        stream, other : int64, shape (n,)
            Each has room.
        """
        for name, column in self._state._asdict().items():
            if name in ("expected", "received"):
                column[stream] += column[other]
                column[other] = 0
            else:
                column[stream] = column[other]
        self._digests[stream] = self._digests[other]

    def lost(self, streams: int) -> I64:
        """Messages that never came, by stream; int64, shape (streams,)."""
        lost: I64 = self._state.expected[:streams] - self._state.received[:streams]
        return lost.clip(min=0)
