"""Who marks a turn: which of a job's connections tell when an iteration ends, or begins.

In a ring all members send from the begin of a collective to its end. Where a collective goes in
steps (recursive doubling, a tree of messages), other connections send in each of them, so that
those of the last step alone tell its end and those of the first its begin. Read backwards, a begin
is an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from patterns.boundaries import VolumeClock
from patterns.shape import Shape

Marks = Literal["burst", "bursts", "steps", "halves", "begin"]
"""What marks iterations: one burst of reducing, bursts that may be halves of it (a reduce-scatter
and an all-gather), steps of reducing, steps that are such halves, or, where nothing reduces, the
first transfer."""

# What reduce-scatters and all-gathers run over, or may: two members do not show what they run.
SHARDING: Final = ("ring", "recursive", "unknown")
FEWEST_ROWS: Final = 4  # of a connection, to say when in a turn it ends
BUSY: Final = (0.05, 0.95)  # quantiles of a connection's rows: between them it is busy
NEAR: Final = 0.25  # of a turn's volume: what is so near to its end tells when that is
FEWEST_PAIRS: Final = 8  # of samples of one connection near a turn's end, to know its pace
NOISES: Final = 3.0  # times what chance leaves between a connection's end and its last row


def marks_of(shapes: Sequence[Shape]) -> Marks:
    """How the groups that reduce gradients, which have these shapes, mark iterations."""
    if not shapes:
        return "begin"
    if all(_in_steps(shape) for shape in shapes):
        halves = [shape.collective == "reduce_scatter+all_gather" for shape in shapes]
        return "halves" if all(halves) else "steps"
    return "bursts" if any(shape.algorithm in SHARDING for shape in shapes) else "burst"


def _in_steps(shape: Shape) -> bool:
    """Whether connections of one collective take turns, step by step.

    Where a ring and a tree run one after the other, a link of both, or of one of them, has moved
    other shares of its bytes at a time.
    """
    return bool(shape.parts or shape.roots) or shape.algorithm == "recursive"


def of_last(clock: VolumeClock, ends_ns: NDArray[np.int64]) -> VolumeClock:
    """The clock of those connections that send last in a turn.

    Parameters
    ----------
    clock : VolumeClock
    ends_ns : int64[k]
        End of each turn's traffic, roughly.

    Returns
    -------
    VolumeClock
        As it came where no connection has rows enough.
    """
    inside = clock.turn < len(ends_ns)
    owner = clock.owner[inside]
    left = (ends_ns[clock.turn[inside]] - clock.origin_ns) / 1e9 - clock.time_s[inside]
    order = np.lexsort((left, owner))
    owner, left = owner[order], left[order]
    first = np.searchsorted(owner, np.arange(clock.connections + 1))
    rows = np.diff(first)
    told = np.flatnonzero(rows >= FEWEST_ROWS)
    if not len(told):
        return clock
    # A row in four turns comes as near to the end as this one.
    near = np.minimum(rows[told], len(ends_ns)) // 4
    low, high = (first[told] + (rows[told] * part).astype(np.int64) for part in BUSY)
    gap = left[first[told] + near]
    chance = NOISES * (near + 1) / rows[told] * (left[high] - left[low])
    latest = int((gap + chance).argmin())
    last = told[gap - chance <= gap[latest] + chance[latest]]
    number = np.full(clock.connections, -1, np.intp)
    number[last] = np.arange(len(last))
    kept = number[clock.owner] >= 0
    return replace(
        clock,
        owner=number[clock.owner[kept]],
        group=clock.group[last],
        turn=clock.turn[kept],
        volume=clock.volume[kept],
        time_s=clock.time_s[kept],
    )


def latest(clock: VolumeClock, ends_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """When the last of some connections had sent all, turn by turn.

    Members enter their step when what they wait for is there, so that each ends at a time of its
    own. What a connection's last sample leaves unseen of the turn's volume, it sends at the pace
    that others near the end show.

    Parameters
    ----------
    clock : VolumeClock
        Of connections that end together, see `of_last`.
    ends_ns : int64[k]
        The same, roughly.

    Returns
    -------
    int64[k]
        As they came in turns of which no sample is near the end.
    """
    left = 1 - clock.share
    rows = np.flatnonzero((clock.turn < len(ends_ns)) & (left < NEAR))
    rows = rows[np.lexsort((left[rows], clock.owner[rows], clock.turn[rows]))]
    place = clock.turn[rows] * clock.connections + clock.owner[rows]
    left, time = left[rows], clock.time_s[rows]
    follows = np.flatnonzero((np.diff(place) == 0) & (np.diff(left) > 0))
    if len(follows) < FEWEST_PAIRS:
        return ends_ns
    pace_s = float(np.median(-np.diff(time)[follows] / np.diff(left)[follows]))
    # What is misplaced by a turn makes any pace: none needs longer than all of a turn's traffic.
    pace_s = min(pace_s, _busy_s(clock))
    nearest = np.unique(place, return_index=True)[1]
    each = time[nearest] + max(pace_s, 0.0) * left[nearest]
    out = np.full(len(ends_ns), -np.inf)
    np.maximum.at(out, place[nearest] // clock.connections, each)
    told = np.isfinite(out)
    found = clock.origin_ns + np.rint(out[told] * 1e9).astype(np.int64)
    ends_ns = ends_ns.copy()
    ends_ns[told] = found
    return ends_ns


def _busy_s(clock: VolumeClock) -> float:
    """From the first sample of a turn to the last, usually."""
    first, last = np.full(clock.turns + 1, np.inf), np.full(clock.turns + 1, -np.inf)
    np.minimum.at(first, clock.turn, clock.time_s)
    np.maximum.at(last, clock.turn, clock.time_s)
    seen = np.isfinite(first)
    return float(np.median((last - first)[seen]))


def backwards(clock: VolumeClock) -> VolumeClock:
    """The clock with time running the other way: begins are ends, the last turn is the first."""
    return replace(
        clock,
        turn=clock.turns - clock.turn,
        volume=clock.turns - 1 - clock.volume,
        time_s=-clock.time_s,
        origin_ns=-clock.origin_ns,
    )
