"""Where in time a given share of an iteration's gradients was through, by progress.

A connection moves the same bytes in every iteration, so a sample's sequence number says how much
of the iteration's volume was through when it was taken: the volume is a clock. Read against real
time it shows the pauses between bursts without the blur that wandering step times give, and every
sample near a wanted share is a reading of when that share was reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.schema import Transport
from reconstruct.acknowledgements import PSN_BITS
from reconstruct.activity import prompt
from reconstruct.bins import Progress

NEAR_SHARES: Final = (0.06, 0.12, 0.25, 0.5)  # rows this close to a share tell when it was reached
ROWS_PER_TURN: Final = 8  # enough of them to go no further away
MOST_OF: Final = 0.5  # of the usual rows of a turn
CURVE_BINS: Final = 10
ROUNDS: Final = 4
LATEST: Final = 0.9  # quantile of the groups' ends: the last of them, less their noise
CLOSEST: Final = 0.2  # of the median distance of samples around pauses: no weight is beyond that
FAR: Final = 2.0  # times that distance: what lies further off the line is in no pause of it
REWEIGHTED: Final = 3
FEWEST_TURNS: Final = 3  # pauses with samples around them, before a volume is known
UNSEEN: Final = 0.1  # of a turn: a moment so far behind the sample before it was put there
BLIND: Final = 1.5  # turns without any sample: telemetry was missing, or the job stood still
NEAR_ENOUGH: Final = 2.0  # times what other turns leave unseen of a burst that ended
FEWEST_ROWS: Final = 10  # of a group, before it gets an offset of its own
BEYOND: Final = 0.02  # of the volume outside the first or last turn: it is of a turn not given


@dataclass(frozen=True, slots=True)
class VolumeClock:
    """Samples of a job's gradient connections on the axis of volume.

    Parameters
    ----------
    owner : intp[n]
        Connection of each row, counted from 0.
    group : intp[connections]
        Group of each connection, by its place in what `read_clock` was given.
    turn : int64[n]
        Pauses that had gone by; the turn before the first is 0.
    volume : float64[n]
        Volume gone by, in turns: pause k lies at k.
    time_s : float64[n]
        Seconds since `origin_ns`.
    origin_ns : int
    turns : int
        Pauses that were given.
    """

    owner: NDArray[np.intp]
    group: NDArray[np.intp]
    turn: NDArray[np.int64]
    volume: NDArray[np.float64]
    time_s: NDArray[np.float64]
    origin_ns: int
    turns: int

    @property
    def connections(self) -> int:
        return len(self.group)

    @property
    def share(self) -> NDArray[np.float64]:
        """Share of the turn's volume that was through; float64[n], 0 to 1.

        Pauses part the turns; a volume that says otherwise is a little wrong, not the turn.
        """
        return np.clip(self.volume - (self.turn - 1), 0.0, 1.0)


def read_clock(
    progress: Progress, groups: Sequence[NDArray[np.int32]], pauses_ns: NDArray[np.int64]
) -> VolumeClock:
    """The volume clock of some groups' connections.

    Parameters
    ----------
    progress : Progress
    groups : sequence of int32[c]
        Connections of each group.
    pauses_ns : int64[k]
        A moment in the pause after each iteration's burst, ascending.
    """
    bins = progress.bins
    group_of = np.full(len(progress.connections), -1, np.intp)
    for i, connections in enumerate(groups):
        group_of[connections] = i
    rows = np.flatnonzero((group_of[bins.connection] >= 0) & prompt(bins))
    connection = bins.connection[rows]
    heads = np.flatnonzero(np.diff(connection, prepend=-1))
    blind = _blind(np.sort(bins.last_ns[rows]), pauses_ns)
    owner = np.zeros(len(rows), np.intp)
    volume = np.full(len(rows), np.nan)
    group: list[int] = []
    for head, tail in zip(heads, np.append(heads[1:], len(rows)), strict=True):
        line = _line(progress, rows[head:tail], pauses_ns, blind)
        if line is None:
            continue
        owner[head:tail] = len(group)
        volume[head:tail] = line
        group.append(int(group_of[connection[head]]))
    # Outside the first and the last pause there may be more turns than one, and where telemetry was
    # missing the counter may have gone round, so that the volume does not tell.
    time = bins.last_ns[rows]
    told = (volume >= -1 - BEYOND) & (volume <= len(pauses_ns) + BEYOND)
    if len(pauses_ns) > 1:
        lasted_ns = np.diff(pauses_ns)
        usual_ns = np.median(lasted_ns)
        told &= time >= pauses_ns[0] - BLIND * max(usual_ns, lasted_ns[0])
        told &= time <= pauses_ns[-1] + BLIND * max(usual_ns, lasted_ns[-1])
    time = time[told]
    turn = np.searchsorted(pauses_ns, time)
    origin = int(pauses_ns[0])
    return VolumeClock(
        owner=owner[told],
        group=np.array(group, np.intp),
        turn=turn,
        volume=volume[told],
        time_s=(time - origin) / 1e9,
        origin_ns=origin,
        turns=len(pauses_ns),
    )


def _blind(time_ns: NDArray[np.int64], pauses_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Pauses in a stretch without samples of any connection; bool[k]."""
    if len(pauses_ns) < 2:
        return np.zeros(len(pauses_ns), np.bool_)
    after = np.clip(np.searchsorted(time_ns, pauses_ns), 1, len(time_ns) - 1)
    silent = time_ns[after] - time_ns[after - 1]
    return np.asarray(silent > BLIND * np.median(np.diff(pauses_ns)))


def _line(
    progress: Progress,
    rows: NDArray[np.intp],
    pauses_ns: NDArray[np.int64],
    blind: NDArray[np.bool_],
) -> NDArray[np.float64] | None:
    """Volume gone by at each row of a connection, in turns; pause k lies at k.

    None where too few pauses have samples around them.
    """
    bins = progress.bins
    after = np.searchsorted(bins.first_ns[rows], pauses_ns)
    # Halfway between the samples around a blind stretch is in no certain pause.
    seen = (after > 0) & (after < len(rows)) & ~blind
    if seen.sum() < FEWEST_TURNS:
        return None
    turn, at = np.flatnonzero(seen), after[seen]
    before, behind = bins.last_seq[rows[at - 1]], bins.first_seq[rows[at]]
    position = (before + behind) / 2
    gone = bins.last_seq[rows].astype(np.float64)
    for row, short in _rounds_lost(progress, rows, turn, at, position, blind):
        position[at > row] += short
        gone[row:] += short
    # The position in a pause lies between those of the samples around it: some are close. One that
    # does not fit was read in another pause of its turn.
    apart = np.abs(behind - before).astype(np.float64)
    apart = np.maximum(apart, max(CLOSEST * float(np.median(apart)), 1.0))
    weight = 1 / apart**2
    for _ in range(REWEIGHTED):
        middle, mean = np.average(turn, weights=weight), np.average(position, weights=weight)
        moved = np.average((turn - middle) * (position - mean), weights=weight)
        volume = float(moved / np.average((turn - middle) ** 2, weights=weight))
        wrong = position - mean - volume * (turn - middle)
        weight = 1 / (apart * (1 + (wrong / (FAR * apart)) ** 2)) ** 2
    return (gone - mean) / volume + middle if volume > 0 else None


def _rounds_lost(
    progress: Progress,
    rows: NDArray[np.intp],
    turn: NDArray[np.intp],
    at: NDArray[np.intp],
    position: NDArray[np.float64],
    blind: NDArray[np.bool_],
) -> list[tuple[int, float]]:
    """Where the counter went round unseen: the first row behind, and by how much it is short.

    `at` is the first row behind the pause of each turn, `position` that of the pause.
    """
    turns, moved = np.diff(turn), np.diff(position)
    roce = progress.connections.transport[progress.bins.connection[rows[0]]] == Transport.ROCEV2
    whole = 2.0 ** (PSN_BITS if roce else 32)
    rounds = np.rint((turns * np.median(moved / turns) - moved) / whole)
    time = progress.bins.last_ns[rows]
    lost = []
    for k in np.flatnonzero(rounds > 0).tolist():
        silent = np.diff(time[at[k] - 1 : at[k + 1]])
        if len(silent) and blind[turn[k] : turn[k + 1]].any():
            lost.append((int(at[k]) + int(silent.argmax()), float(rounds[k] * whole)))
    return lost


def has_reached(clock: VolumeClock, share: float, turn: int) -> bool:
    """Whether samples of a turn come near enough to a share to say when it was reached.

    Where turns have few of them, half as many as usual will do, if they come as near.
    """
    left = share - clock.share
    near = (left >= 0) & (left < NEAR_SHARES[-1]) & (clock.turn <= turn)
    rows = np.bincount(clock.turn[near], minlength=turn + 1)
    if rows[turn] >= ROWS_PER_TURN:
        return True
    usual = float(np.median(rows[1:turn])) if turn > FEWEST_TURNS else np.inf
    return bool(rows[turn] >= MOST_OF * usual > 0) and is_through(clock, share, turn)


def is_through(clock: VolumeClock, share: float, turn: int) -> bool:
    """Whether samples of a turn come as near to a share as those of turns that reached it.

    A burst that stalls comes to a stand anywhere; one that ends leaves only what no sample shows.
    """
    inside = (clock.share <= share) & (clock.turn > 0) & (clock.turn <= turn)
    left = np.full((turn + 1, clock.connections), np.nan)
    np.fmin.at(left, (clock.turn[inside], clock.owner[inside]), share - clock.share[inside])
    with_samples = ~np.isnan(left).all(axis=1)
    if not with_samples[turn] or with_samples[1:turn].sum() < FEWEST_TURNS:
        return False
    usual = np.nanmedian(left[1:turn][with_samples[1:turn]], axis=1)
    return bool(np.nanmedian(left[turn]) <= NEAR_ENOUGH * np.quantile(usual, LATEST))


def reached(clock: VolumeClock, share: float, crude_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """When each iteration had moved `share` of its volume.

    Parameters
    ----------
    clock : VolumeClock
    share : float
        1 for the end of the burst before the pause.
    crude_ns : int64[k]
        The same to about a burst's length, for the first k turns.

    Returns
    -------
    int64[k]
        The crude times where too little is known to do better.
    """
    left = share - clock.share
    inside = (clock.turn < len(crude_ns)) & (left >= 0)
    close = np.bincount(clock.turn[inside & (left <= NEAR_SHARES[0])], minlength=len(crude_ns))
    # What comes close to the share tells even where the job stood still or was not seen behind it.
    unseen = _unseen(clock, crude_ns) & (close < ROWS_PER_TURN)
    inside[inside] = ~unseen[clock.turn[inside]]
    for near in NEAR_SHARES:
        late = inside & (left <= near)
        if late.sum() >= ROWS_PER_TURN * len(crude_ns):
            break
    else:
        return crude_ns
    refined = _fit(
        clock.group[clock.owner[late]],
        clock.turn[late],
        left[late] / near,
        clock.time_s[late],
        (crude_ns - clock.origin_ns) / 1e9,
    )
    return np.asarray(clock.origin_ns + (refined * 1e9).astype(np.int64), np.int64)


def _unseen(clock: VolumeClock, crude_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of these moments lie in a stretch without samples, that others follow; bool[k]."""
    if len(crude_ns) < 2 or not len(clock.time_s):
        return np.zeros(len(crude_ns), np.bool_)
    time = np.sort(clock.time_s)
    crude = (crude_ns - clock.origin_ns) / 1e9
    before = np.maximum(np.searchsorted(time, crude, "right") - 1, 0)
    unseen = crude - time[before] > UNSEEN * np.median(np.diff(crude))
    return np.asarray(unseen & (before < len(time) - 1))


def _fit(
    group: NDArray[np.intp],
    turn: NDArray[np.int64],
    left: NDArray[np.float64],
    time: NDArray[np.float64],
    ends: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Ends from readings `time + curve(left) + offset[group]`, by turns of medians.

    Groups end at different moments of a turn (pipeline stages one after the other); the end
    returned is that of the last ones.
    """
    groups = int(group.max()) + 1
    slot = np.minimum((left * CURVE_BINS).astype(np.int64), CURVE_BINS - 1)
    offset = np.zeros(groups)
    enough = np.bincount(group, minlength=groups) >= FEWEST_ROWS
    for _ in range(ROUNDS):
        remaining = ends[turn] - time
        curve = _curve(left, slot, remaining - offset[group])
        wrong = remaining - curve(left) - offset[group]
        offset += np.where(enough, median_by(group, wrong, groups), 0.0)
        wrong = remaining - curve(left) - offset[group]
        spread = np.maximum(median_by(slot, np.abs(wrong), CURVE_BINS), 1e-7)
        weight = 1 / spread[slot] ** 2
        # A reading far off its turn was put on the wrong side of a pause, or was sent again.
        weight = weight / (1 + (wrong / (3 * spread[slot])) ** 2) ** 2
        total = np.bincount(turn, weight, len(ends))
        shift = np.bincount(turn, weight * wrong, len(ends)) / np.maximum(total, 1e-30)
        ends = np.where(total > 0, ends - shift, ends)
    latest = float(np.quantile(-offset[enough], LATEST)) if enough.any() else 0.0
    return np.asarray(ends + latest - float(curve(np.zeros(1))[0]))


def _curve(
    left: NDArray[np.float64], slot: NDArray[np.int64], remaining: NDArray[np.float64]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Median time to the end by volume left: linear between the bins' middles, and on to zero."""
    count = np.bincount(slot, minlength=CURVE_BINS)
    middle = (np.bincount(slot, left, CURVE_BINS) / np.maximum(count, 1))[count > 0]
    height = median_by(slot, remaining, CURVE_BINS)[count > 0]
    # By the usual of its steps: one of them may hold a pause between buckets.
    slopes = np.diff(height) / np.diff(middle)
    slope = float(np.median(slopes)) if len(slopes) else 0.0
    middle = np.concatenate([[0.0], middle])
    height = np.concatenate([[height[0] - slope * middle[1]], height])
    return lambda at: np.asarray(np.interp(at, middle, height))


@njit(cache=True)
def median_by(
    group: NDArray[np.int64] | NDArray[np.intp], value: NDArray[np.float64], groups: int
) -> NDArray[np.float64]:
    """Median of the values of each group; float64[groups], 0 for one without."""
    start = np.zeros(groups + 1, np.int64)
    for i in range(len(group)):
        start[group[i] + 1] += 1
    for i in range(groups):
        start[i + 1] += start[i]
    filled = start[:-1].copy()
    gathered = np.empty(len(value))
    for i in range(len(group)):
        gathered[filled[group[i]]] = value[i]
        filled[group[i]] += 1
    out = np.zeros(groups)
    for i in range(groups):
        ranked = np.sort(gathered[start[i] : start[i + 1]])
        if len(ranked):
            out[i] = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
    return out
