"""The end of each gradient burst, by the progress of every connection.

A connection moves the same bytes in every iteration, so a sample's sequence number says which
share of the burst was still to come, and the mean burst says how long that takes. Every sample in
the second half of a burst is thus a reading of when the burst ended; together they place it far
better than the last sample does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reconstruct.activity import prompt
from reconstruct.bins import Progress

LATE_SHARE: Final = 0.12  # rows are read from here on: what came earlier says little of the end
CURVE_BINS: Final = 10
ROUNDS: Final = 4
FEWEST_ROWS: Final = 3  # of a connection, before it gets an offset of its own


@dataclass(frozen=True, slots=True)
class _Lines:
    """Position at the end of turn k of each connection: `start + k * volume`."""

    connection: NDArray[np.int32]
    start: NDArray[np.float64]
    volume: NDArray[np.float64]


def refine(
    progress: Progress,
    connections: NDArray[np.int32],
    crude_ns: NDArray[np.int64],
    pauses_ns: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Ends of the gradient bursts, refined from crude ones.

    Parameters
    ----------
    progress : Progress
    connections : int32[c]
        Those whose progress marks the end.
    crude_ns : int64[k]
        Ends to about a burst's length.
    pauses_ns : int64[k]
        A moment in the pause behind each.

    Returns
    -------
    int64[k]
        The crude ends where too little is known to do better.
    """
    bins = progress.bins
    rows = np.flatnonzero(np.isin(bins.connection, connections) & prompt(bins))
    lines = _lines(progress, rows, pauses_ns)
    if not len(lines.connection):
        return crude_ns
    at = np.searchsorted(lines.connection, bins.connection[rows])
    at = np.minimum(at, len(lines.connection) - 1)
    known = lines.connection[at] == bins.connection[rows]
    rows, owner = rows[known], at[known]
    done = (bins.last_seq[rows] - lines.start[owner]) / lines.volume[owner]
    turn = np.ceil(done).astype(np.int64)
    left = turn - done
    late = (left <= LATE_SHARE) & (turn >= 0) & (turn < len(crude_ns))
    owner, turn, left = owner[late], turn[late], left[late]
    if len(owner) < 2 * len(crude_ns):
        return crude_ns
    origin = int(crude_ns[0])
    time = (bins.last_ns[rows[late]] - origin) / 1e9
    ends = (crude_ns - origin) / 1e9
    refined = _fit(owner, turn, left, time, ends, len(lines.connection))
    return np.asarray(origin + (refined * 1e9).astype(np.int64), np.int64)


def _lines(progress: Progress, rows: NDArray[np.intp], pauses_ns: NDArray[np.int64]) -> _Lines:
    """Fit of each connection's position in the pauses, halfway between its samples around them."""
    bins = progress.bins
    found: list[tuple[int, float, float]] = []
    connection = bins.connection[rows]
    heads = np.flatnonzero(np.diff(connection, prepend=-1))
    for head, tail in zip(heads, np.append(heads[1:], len(rows)), strict=True):
        mine = rows[head:tail]
        after = np.searchsorted(bins.first_ns[mine], pauses_ns)
        seen = (after > 0) & (after < len(mine))
        if seen.sum() < FEWEST_ROWS:
            continue
        turns = np.flatnonzero(seen)
        before_seq = bins.last_seq[mine[after[seen] - 1]]
        after_seq = bins.first_seq[mine[after[seen]]]
        volume, start = np.polyfit(turns, (before_seq + after_seq) / 2, 1)
        if volume > 0:
            found.append((int(connection[head]), float(start), float(volume)))
    table = np.array(found, np.float64).reshape(-1, 3)
    return _Lines(table[:, 0].astype(np.int32), table[:, 1], table[:, 2])


def _fit(
    owner: NDArray[np.intp],
    turn: NDArray[np.int64],
    left: NDArray[np.float64],
    time: NDArray[np.float64],
    ends: NDArray[np.float64],
    connections: int,
) -> NDArray[np.float64]:
    """Ends from readings `time + curve(left) + offset[connection]`, by turns of medians."""
    slot = np.minimum((left / LATE_SHARE * CURVE_BINS).astype(np.int64), CURVE_BINS - 1)
    offset = np.zeros(connections)
    level = float(np.median(ends))
    enough = np.bincount(owner, minlength=connections) >= FEWEST_ROWS
    for _ in range(ROUNDS):
        remaining = ends[turn] - time
        curve = _curve(left, remaining - offset[owner])
        wrong = remaining - curve - offset[owner]
        offset += np.where(enough, _median_by(owner, wrong, connections), 0.0)
        wrong = remaining - curve - offset[owner]
        spread = np.maximum(_median_by(slot, np.abs(wrong), CURVE_BINS), 1e-7)
        weight = 1 / spread[slot] ** 2
        # A reading far off its turn was put into the wrong one, or its packet was sent again.
        weight = weight / (1 + (wrong / (3 * spread[slot])) ** 2) ** 2
        total = np.bincount(turn, weight, len(ends))
        shift = np.bincount(turn, weight * wrong, len(ends)) / np.maximum(total, 1e-30)
        ends = np.where(total > 0, ends - shift, ends)
    return np.asarray(ends - float(np.median(ends)) + level)


def _curve(left: NDArray[np.float64], remaining: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median time to the end by share of the volume left, linear between bins; float64[n]."""
    slot = np.minimum((left / LATE_SHARE * CURVE_BINS).astype(np.int64), CURVE_BINS - 1)
    middle = np.bincount(slot, left, CURVE_BINS) / np.maximum(np.bincount(slot, None, CURVE_BINS), 1)
    filled = np.bincount(slot, None, CURVE_BINS) > 0
    height = _median_by(slot, remaining, CURVE_BINS)
    return np.asarray(np.interp(left, middle[filled], height[filled]))


def _median_by(
    group: NDArray[np.int64] | NDArray[np.intp], value: NDArray[np.float64], groups: int
) -> NDArray[np.float64]:
    """Median of the values of each group; 0 for one without."""
    order = np.lexsort((value, group))
    count = np.bincount(group, minlength=groups)
    last = np.cumsum(count)
    ranked = value[order]
    low = np.clip(last - count + (count - 1) // 2, 0, max(0, len(value) - 1))
    high = np.clip(last - count + count // 2, 0, max(0, len(value) - 1))
    if not len(value):
        return np.zeros(groups)
    return np.where(count > 0, (ranked[low] + ranked[high]) / 2, 0.0)
