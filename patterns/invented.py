"""Ends of iterations that are none: where a burst paused and no iteration had ended.

A step that takes much longer than the others leaves room for one end too many, and where steps
become longer for good, another pause of the turn may be taken for its end from then on. The bytes
that went by tell: between two ends a whole number of iterations' worth has passed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.missed import Pulse
from reconstruct.bins import Progress
from reconstruct.restarts import restarts

WHOLE_WITHIN: Final = 0.25  # iterations: what passed between two ends is whole up to this
EDGE_WITHIN: Final = 0.45  # the same of the first and the last step, as far as these are known
ERRORS: Final = 2.0  # standard errors
FEWEST_TO_AGREE: Final = 3  # connections, before their spread says how well they know
FEWEST_TO_COUNT: Final = 1.5  # the same by their weights: one alone agrees with itself
TO_SIGMA: Final = 1.2533 * 1.4826  # of a median, by the median distance from it
CLOSEST: Final = 0.05  # iterations between two samples: no weight is beyond that of so few
READABLE: Final = 0.1  # median distance from whole, up to which the bytes tell anything
BREAK: Final = 1.5  # ends that one step of an odd volume may cost; a false end makes two such steps
LOOK_BACK: Final = 8  # ends in a row that may be false
ODD: Final = 0.06  # iterations: bytes of so much lie between pauses that are told apart
NOISES: Final = 3.0  # and so many times what the error of a step may add up to
NEAR: Final = 0.08  # iterations: where the pause of most turns is looked for in the others
FEWEST_ENDS: Final = 4  # to know what an iteration sends
WHOLE_SENT: Final = 0.75  # of the usual samples: with fewer, no iteration was sent
AS_LONG: Final = 0.5  # of the gap in most turns: what is found there is that pause


def true_ends(
    progress: Progress, connections: NDArray[np.int32], middles_ns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which of the pauses are behind whole iterations.

    Parameters
    ----------
    progress : Progress
    connections : int32[c]
        Those that mark the ends; each carries as much in every iteration.
    middles_ns : int64[k]
        A moment in each pause, ascending.

    Returns
    -------
    bool[k]
        All true where too few samples tell the bytes between pauses.
    """
    passed, error = _passed(progress, connections, middles_ns)
    if not len(passed) or np.median(np.abs(passed - np.maximum(np.rint(passed), 1))) > READABLE:
        return np.ones(len(middles_ns), np.bool_)
    within = np.full(len(passed), WHOLE_WITHIN)
    # At the window's edges few connections tell, and no step on the other side does.
    within[[0, -1]] = np.clip(ERRORS * error[[0, -1]], WHOLE_WITHIN, EDGE_WITHIN)
    kept = np.zeros(len(middles_ns), np.bool_)
    kept[_chain(passed, within)] = True
    return kept


def in_one_pause(
    progress: Progress,
    connections: NDArray[np.int32],
    signal: Pulse,
    ends_ns: NDArray[np.int64],
    middles_ns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends and the middles of the pauses behind them, all in that pause of the turn that most have.

    Parameters
    ----------
    progress : Progress
    connections : int32[c]
        As of `true_ends`.
    signal : Pulse
        Of these connections.
    ends_ns, middles_ns : int64[k]
        Ascending.

    Returns
    -------
    ends_ns, middles_ns : int64[n]
        As they came where bytes do not tell, or where no such pause is in the other turns.
    """
    as_it_is = ends_ns, middles_ns
    passed, _ = _passed(progress, connections, middles_ns)
    if not len(passed):
        return as_it_is
    beyond = passed - np.maximum(np.rint(passed), 1)
    beyond -= np.median(beyond)
    # Errors of steps add up on the way from one turn to another.
    noise = float(np.median(np.abs(beyond))) * np.sqrt(len(beyond))
    odd = max(ODD, NOISES * noise)
    place = np.concatenate([[0.0], np.cumsum(beyond)])
    apart = folded(place[:, None] - place[None, :])
    usual = int((np.abs(apart) <= odd / 2).sum(axis=0).argmax())
    move = -apart[:, usual]
    off = np.abs(move) > odd
    time, gone = signal.time_ns, np.cumsum(signal.weight)
    behind = np.searchsorted(time, middles_ns)
    inside = (behind > 0) & (behind < len(time))
    if not off.any() or not inside.all():
        return as_it_is
    a_turn = float(np.median(np.diff(gone[behind - 1])))
    usual_ns = float(np.median((time[behind] - time[behind - 1])[~off]))
    found_ns = []
    for at, share in zip(behind[off].tolist(), move[off].tolist(), strict=True):
        target = gone[at - 1] + share * a_turn
        low, high = np.searchsorted(gone, (target - NEAR * a_turn, target + NEAR * a_turn))
        gaps = np.diff(time[max(low, 0) : high + 1])
        if len(gaps):
            longest = low + int(gaps.argmax())
            found_ns.append((int(time[longest]), int(time[longest + 1])))
    found = np.array(found_ns, np.int64).reshape(-1, 2)
    if not len(found) or np.median(found[:, 1] - found[:, 0]) < AS_LONG * usual_ns:
        return as_it_is
    ends = np.concatenate([ends_ns[~off], found[:, 0]])
    middles = np.concatenate([middles_ns[~off], found.sum(axis=1) // 2])
    ends, first = np.unique(ends, return_index=True)
    return ends, middles[first]


def behind_start_ups(
    progress: Progress,
    connections: NDArray[np.int32],
    signal: Pulse,
    ends_ns: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which ends are those of iterations, not of what a job sends when it starts; bool[k].

    Parameters that are spread at a start pass over the same links as gradients and pause behind
    like these, but they carry less than an iteration does.
    """
    true = np.ones(len(ends_ns), np.bool_)
    if len(ends_ns) < FEWEST_ENDS or not len(signal.time_ns):
        return true
    gone = np.append(0.0, np.cumsum(signal.weight))
    at = np.searchsorted(signal.time_ns, ends_ns, "right")
    usual = float(np.median(np.diff(gone[at])))
    period_ns = float(np.median(np.diff(ends_ns)))
    begins = [int(resumed) for _, resumed in restarts(progress, connections)]
    first_ns = int(signal.time_ns[0])
    # In a period of silence an iteration would have shown.
    if first_ns - progress.window_start_ns > period_ns:
        begins.append(first_ns)
    for begin_ns in begins:
        first = int(np.searchsorted(ends_ns, begin_ns))
        if first < len(ends_ns):
            sent = gone[at[first]] - gone[np.searchsorted(signal.time_ns, begin_ns)]
            true[first] = sent >= WHOLE_SENT * usual
    return true


def folded(turns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without whole turns, from -1/2 to 1/2."""
    return np.asarray(turns - np.rint(turns))


def _passed(
    progress: Progress, connections: NDArray[np.int32], moments_ns: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Iterations' worth of bytes between moments, by the weighted median of living connections.

    One counts the more, the less it sent between its samples around both moments.

    Returns
    -------
    passed, error : float64[k - 1]
        With the standard error of that median. Empty where no connection has samples.
    """
    bins = progress.bins
    told, weights = [], []
    for connection in connections:
        first, last = np.searchsorted(bins.connection, (connection, connection + 1))
        if last - first < 2:
            continue
        after = np.clip(np.searchsorted(bins.first_ns[first:last], moments_ns), 1, last - first - 1)
        late, early = first + after, first + after - 1
        # Nothing moves in a pause: the nearer sample tells, however far away the other one is.
        nearer = bins.first_ns[late] - moments_ns < moments_ns - bins.last_ns[early]
        steps = np.diff(np.where(nearer, bins.first_seq[late], bins.last_seq[early]))
        # Before its first sample and after its last a connection may not have been there.
        lived = (moments_ns >= bins.first_ns[first]) & (moments_ns <= bins.last_ns[last - 1])
        lived = lived[1:] & lived[:-1]
        typical = float(np.median(steps[lived])) if lived.any() else 0.0
        if typical > 0:
            open_ = np.abs(bins.first_seq[late] - bins.last_seq[early]) / typical
            told.append(np.where(lived, steps / typical, np.nan))
            weights.append(1 / (open_[1:] ** 2 + open_[:-1] ** 2 + CLOSEST**2))
    if not told:
        return np.zeros(0), np.zeros(0)
    every, weight = np.array(told), np.array(weights)
    unknown = np.isnan(every).all(axis=0)
    every[:, unknown] = 1.0  # no connection lived on: as good as one
    weight[np.isnan(every)] = 0.0
    middle = _weighted_median(np.nan_to_num(every), weight)
    away = np.abs(np.nan_to_num(every) - middle)
    spread = TO_SIGMA * _weighted_median(away, weight)
    counted = weight.sum(axis=0) ** 2 / (weight**2).sum(axis=0)
    few = ((weight > 0).sum(axis=0) < FEWEST_TO_AGREE) | (counted < FEWEST_TO_COUNT)
    return middle, np.where(few, np.inf, spread / np.sqrt(counted))


def _weighted_median(
    value: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of each column; between the two values that part the weight."""
    order = np.argsort(value, axis=0, kind="stable")
    ranked = np.take_along_axis(value, order, axis=0)
    gone = np.cumsum(np.take_along_axis(weight, order, axis=0), axis=0)
    half = gone[-1] / 2
    columns = np.arange(value.shape[1])
    low = np.minimum((gone < half).sum(axis=0), len(value) - 1)
    high = np.minimum((gone <= half).sum(axis=0), len(value) - 1)
    return np.asarray((ranked[low, columns] + ranked[high, columns]) / 2)


def _chain(passed: NDArray[np.float64], within: NDArray[np.float64]) -> list[int]:
    """The longest chain of ends with whole iterations between them.

    A step of another volume breaks no chain, but costs `BREAK` ends: counters may be lost.
    `within` is how near to whole each step is.
    """
    gone = np.concatenate([[0.0], np.cumsum(passed)])
    best, back = [1.0], [-1]
    for here in range(1, len(gone)):
        value, source = 1.0, -1
        for before in range(max(0, here - LOOK_BACK), here):
            step = gone[here] - gone[before]
            whole = max(round(step), 1)
            if abs(step - whole) <= max(within[before], within[here - 1]):
                gain = best[before] + 1
            elif before == here - 1:
                gain = best[before] + 1 - BREAK
            else:
                continue
            if gain > value:
                value, source = gain, before
        best.append(value)
        back.append(source)
    chain = [int(np.argmax(best))]
    while back[chain[-1]] >= 0:
        chain.append(back[chain[-1]])
    return chain[::-1]
