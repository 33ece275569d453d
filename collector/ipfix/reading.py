"""Records out of sets: a kernel that runs plans over bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector.ipfix.elements import VARIABLE, Field, Kind
from collector.ipfix.hft import unsigned
from collector.ipfix.plans import SKIP, Plan
from collector.records import ABSENT_U64
from collector.schema import I64, U8, U64
from collector.wire import mapped, u8, u16, u64

_VARIABLE: Final = VARIABLE
_ADDRESSES: Final = (Field.SRC_HI, Field.SRC_LO, Field.DST_HI, Field.DST_LO)


class Steps(NamedTuple):
    """The steps of several plans, one behind the other."""

    first: I64  # by plan
    last: I64
    least: I64
    fixed: I64
    steps: I64


class Rows:
    """Fields of records, read from their sets; see `read`."""

    def __init__(self, sets: I64, values: U64, fields: Sequence[int]) -> None:
        self.sets = sets
        self._values = values
        self._row = {field: row for row, field in enumerate(fields)}

    def __len__(self) -> int:
        return len(self.sets)

    def take(self, index: I64) -> Rows:
        """Some of the records, in that order."""
        return Rows(self.sets[index], self._values[:, index], list(self._row))

    def has(self, field: Field) -> bool:
        """Whether any template here names it."""
        return int(field) in self._row

    def of(self, field: Field) -> U64:
        """One value per record; `ABSENT_U64` where the record does not say, zero of addresses."""
        row = self._row.get(int(field))
        if row is None:
            fill = 0 if field in _ADDRESSES else ABSENT_U64
            return np.full(len(self.sets), fill, np.uint64)
        column: U64 = self._values[row]
        return column


@njit(cache=True, nogil=True)
def _length(buffer: U8, at: int, end: int) -> tuple[int, int]:
    """Where a field of variable length begins and how long it is; -1 = it is cut."""
    if end - at < 1:
        return at, -1
    size = u8(buffer, at)
    at += 1
    if size == 255:
        if end - at < 2:
            return at, -1
        size = u16(buffer, at)
        at += 2
    if size > end - at:
        return at, -1
    return at, size


@njit(cache=True, nogil=True)
def _count(buffer: U8, start: I64, end: I64, plan: I64, of: Steps, records: I64, rest: I64) -> None:
    """Whole records by set, and the bytes behind them."""
    for row in range(len(start)):
        p = plan[row]
        at = int(start[row])
        stop = int(end[row])
        least = int(of.least[p])
        if of.fixed[p]:
            records[row] = (stop - at) // least
            rest[row] = (stop - at) % least
            continue
        count = 0
        while stop - at >= least:
            ahead = at
            whole = True
            for step in range(of.first[p], of.last[p]):
                ahead += of.steps[step, 0]
                size = int(of.steps[step, 1])
                if size == _VARIABLE:
                    ahead, size = _length(buffer, ahead, stop)
                if size < 0 or size > stop - ahead:
                    whole = False
                    break
                ahead += size
            if not whole:
                break
            at = ahead
            count += 1
        records[row] = count
        rest[row] = stop - at


@njit(cache=True, nogil=True)
def _fill(
    buffer: U8,
    start: I64,
    end: I64,
    plan: I64,
    of: Steps,
    records: I64,
    sets: I64,
    values: U64,
) -> None:
    row = 0
    for number in range(len(start)):
        p = plan[number]
        at = int(start[number])
        stop = int(end[number])
        for _ in range(records[number]):
            sets[row] = number
            for step in range(of.first[p], of.last[p]):
                at += of.steps[step, 0]
                size = int(of.steps[step, 1])
                if size == _VARIABLE:
                    at, size = _length(buffer, at, stop)
                column = of.steps[step, 2]
                if column == SKIP:
                    at += size
                    continue
                kind = of.steps[step, 3]
                if kind == Kind.IPV4:
                    value = mapped(buffer, at)
                    if value & np.uint64(0xFFFF_FFFF) or not (
                        values[column, row] or values[column - 1, row]
                    ):
                        values[column, row] = value
                        values[column - 1, row] = 0
                elif kind == Kind.IPV6:
                    high = u64(buffer, at)
                    low = u64(buffer, at + 8)
                    if high or low:
                        values[column, row] = high
                        values[column + 1, row] = low
                elif kind == Kind.SECTION:
                    values[column, row] = at
                    values[column + 1, row] = size
                else:
                    value = unsigned(buffer, at, size)
                    if value == np.uint64(ABSENT_U64):
                        value -= np.uint64(1)  # said, however absurd
                    if value or kind == Kind.UNSIGNED or values[column, row] == ABSENT_U64:
                        values[column, row] = value
                at += size
            row += 1


def count(buffer: U8, start: I64, end: I64, plan: I64, plans: Sequence[Plan]) -> tuple[I64, I64]:
    """How many whole records each set holds, and how many bytes are left behind them.

    Parameters
    ----------
    buffer : uint8
    start, end, plan : int64, shape (sets,)
        Bounds of each set's content, and which of `plans` it follows.
    """
    records, rest = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    _count(buffer, start, end, plan, _joined(plans, None), records, rest)
    return records, rest


def read(buffer: U8, start: I64, end: I64, plan: I64, records: I64, plans: Sequence[Plan]) -> Rows:
    """Read the records of sets whose plans are alike in use.

    Parameters
    ----------
    buffer, start, end, plan
        As for `count`, which found `records`.
    """
    fields = {int(f) for each in plans for f in each.steps[:, 2] if f != SKIP}
    # Fields that are filled in pairs stand side by side.
    if fields & {int(field) for field in _ADDRESSES}:
        fields |= {int(field) for field in _ADDRESSES}
    for at, held in ((Field.FRAME_AT, Field.FRAME_HELD), (Field.PACKET_AT, Field.PACKET_HELD)):
        if at in fields:
            fields.add(int(held))
    ordered = sorted(fields)
    places = np.full(len(Field) + 1, SKIP, np.int64)
    places[ordered] = np.arange(len(ordered))
    rows = int(records.sum())
    values = np.full((len(ordered), rows), ABSENT_U64, np.uint64)
    for field in _ADDRESSES:
        if int(field) in fields:
            values[places[field]] = 0
    sets = np.zeros(rows, np.int64)
    _fill(buffer, start, end, plan, _joined(plans, places), records, sets, values)
    return Rows(sets, values, ordered)


def _joined(plans: Sequence[Plan], places: I64 | None) -> Steps:
    """The steps of plans as one table; `places` says which column holds which field."""
    sizes = np.array([len(plan.steps) for plan in plans], np.int64)
    last = np.cumsum(sizes)
    steps = np.concatenate([plan.steps for plan in plans] or [np.zeros((0, 4), np.int64)])
    if places is not None:
        steps = steps.copy()
        steps[:, 2] = places[steps[:, 2]]  # SKIP is the last place, and stays
    return Steps(
        first=last - sizes,
        last=last,
        least=np.array([plan.least_bytes for plan in plans], np.int64),
        fixed=np.array([plan.fixed for plan in plans], np.int64),
        steps=steps,
    )
