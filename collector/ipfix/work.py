"""Sets that are ready to be read: their layout is known, and so is where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.ipfix import reading
from collector.ipfix.layouts import Replay
from collector.ipfix.plans import Plan, Use
from collector.ipfix.reading import Rows
from collector.schema import I64, U8

_MOST_ROWS: Final = 1 << 17  # read at once: what is read is wider than what is kept


class Work(NamedTuple):
    """Sets with a known layout; columns of shape (sets,) beside the buffer."""

    buffer: U8
    start: I64
    end: I64
    plan: I64
    records: I64
    position: I64
    arrival_ns: I64
    export_ns: I64
    uptime_ms: I64
    exporter: I64
    stream: I64
    sampling: I64

    def take(self, index: I64) -> Work:
        return Work(self.buffer, *(column[index] for column in self[1:]))


def replayed(replays: Sequence[Replay], plans: Sequence[Plan]) -> Work:
    """Sets that waited, with their layout."""
    held = [each for replay in replays for each in replay.held]
    plan = np.repeat(
        np.array([replay.plan for replay in replays], np.int64),
        [len(replay.held) for replay in replays],
    )
    buffer = np.frombuffer(b"".join(each.content for each in held) or b"\0", np.uint8)
    end = np.cumsum(np.array([len(each.content) for each in held], np.int64))
    start = np.concatenate((np.zeros(1, np.int64), end[:-1]))
    records, _ = reading.count(buffer, start, end, plan, plans)
    arrival_ns, export_ns, uptime_ms, exporter, stream = (
        np.array([each[column] for each in held], np.int64) for column in range(5)
    )
    zero = np.zeros(len(held), np.int64)
    whole = Work(
        buffer,
        start,
        end,
        plan,
        records,
        zero,
        arrival_ns,
        export_ns,
        uptime_ms,
        exporter,
        stream,
        zero,
    )
    return whole.take(np.flatnonzero(records > 0))


def parts(work: Work, plans: Sequence[Plan], use: Use) -> list[Work]:
    """The sets of one use, in pieces of bounded size."""
    wanted: NDArray[np.bool_] = np.array([plan.use == use for plan in plans] or [False])
    chosen = np.flatnonzero(wanted[work.plan]) if len(work.plan) else np.zeros(0, np.int64)
    if not len(chosen):
        return []
    piece = (np.cumsum(work.records[chosen]) - 1) // _MOST_ROWS
    cuts = np.flatnonzero(np.diff(piece)) + 1
    return [work.take(rows) for rows in np.split(chosen, cuts)]


def by_plan(work: Work) -> list[tuple[int, Work]]:
    """The sets of each plan, by its number."""
    return [
        (number, work.take(np.flatnonzero(work.plan == number)))
        for number in np.unique(work.plan).tolist()
    ]


def read(work: Work, plans: Sequence[Plan]) -> Rows:
    """The records of sets of one use."""
    numbers, plan = np.unique(work.plan, return_inverse=True)
    return reading.read(
        work.buffer,
        work.start,
        work.end,
        plan.astype(np.int64),
        work.records,
        [plans[number] for number in numbers.tolist()],
    )
