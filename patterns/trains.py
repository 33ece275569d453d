"""Trains: turns that gather parameters and reduce gradients in many parts, told by their pauses.

Where a model is sharded, the longest pause of a turn is one of computing, and an iteration ends at
a shorter one. Which one that is follows from the volumes that pass between the pauses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from patterns.pauses import OF_PERIOD, ONE_SIGMA_BELOW, SIGMAS, Pace, Pause

UNITS: Final = range(3, 33)  # parts of a model that are gathered one by one
FEWEST_PLACES: Final = 8  # of pauses, before their places tell anything
GRADIENTS: Final = (1, 2)  # bytes of a gradient per byte of a parameter: bf16 or fp32
FEWEST_STEPS: Final = 4  # of the pace in a part, or parts cannot be told
FEWEST_OF_TURN: Final = 32  # steps: no turn of `UNITS` has fewer
WITHIN: Final = 0.3  # of a part: how well its pause must be placed
MOST_BATCHES: Final = 16
AT_KNOWN: Final = 3.0  # times the spread of steps: a pause where one is expected
UNMATCHED: Final = 0.12  # of the pauses, there and expected, that may have no partner
SURELY: Final = 2  # pauses without a partner more, if the turn is counted from anywhere else
LONG: Final = 0.6  # of the longest pause
FEWEST_LONG: Final = 3  # micro-batches, from which on the odd one is told
EQUAL: Final = 0.1  # of a micro-batch: how equal their volumes are
SHORTER: Final = 0.85  # times the pauses between micro-batches: the optimiser's


@dataclass(frozen=True, slots=True)
class Train:
    """The pause that ends the iteration, how that is known, and whether no other is nearly so.

    With the micro-batches of an iteration.
    """

    end: Pause
    basis: str
    batches: int
    sure: bool = True


def find_train(pace: Pace) -> Train | None:
    """The end of an iteration that gathers or reduces in parts; None where the turn is none such.

    Parameters
    ----------
    pace : Pace
        Counted from any of its pauses. A share of 1 stands for that one.
    """
    share, seconds = _pauses(pace)
    found = _by_micro_batch(share, seconds, pace.steps)
    # Parts are told by steps of their own size: finer ones are less certain each.
    while found is None and pace.steps >= FEWEST_OF_TURN:
        found, pace = _by_unit(pace), pace.coarser()
    return found


def _pauses(pace: Pace) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All pauses of a turn, also short ones close together: shares (from 0) and seconds.

    The first is the one that the turn is counted from.
    """
    steps = -np.diff(pace.left_s)
    low, usual = np.quantile(steps, (ONE_SIGMA_BELOW, 0.5))
    limit = max(OF_PERIOD * pace.period_s, SIGMAS / 2 * float(usual - low))
    excess = steps - usual
    loud = excess > limit / 2
    edges = np.flatnonzero(np.diff(loud, prepend=False, append=False))
    share, seconds = [0.0], [pace.outer_s]
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        part = excess[begin:end]
        if part.sum() >= limit:
            middle = (np.abs(part) * (np.arange(begin, end) + 1)).sum() / np.abs(part).sum()
            share.append(float(middle) / pace.steps)
            seconds.append(float(part.sum()))
    return np.array(share), np.array(seconds)


def _by_micro_batch(
    share: NDArray[np.float64], seconds: NDArray[np.float64], steps: int
) -> Train | None:
    """Gradients reduced for each of several micro-batches, parameters gathered once.

    Forward passes part the turn into equal volumes. One is larger by the parameters, which follow
    a micro-batch's gradients after the optimiser's pause.
    """
    long = np.flatnonzero(seconds >= LONG * seconds.max())
    if len(long) < FEWEST_LONG:
        return None
    volume = np.diff(share[long], append=share[long[0]] + 1)
    batch = float(np.median(volume))
    within = max(EQUAL * batch, 1.5 / steps)
    odd = int(np.abs(volume - batch).argmax())
    if np.abs(np.delete(volume, odd) - batch).max() > within:
        return None
    if abs(volume[odd] - batch / GRADIENTS[-1]) <= within:
        # The optimiser's pause is as long as a forward pass, and the parameters lie between both.
        end, batches = int(long[odd]), len(long) - 1
    else:
        if min(abs(volume[odd] - batch - batch / factor) for factor in GRADIENTS) > within:
            return None
        away = _apart(share, share[long[odd]] + batch)
        end, batches = int(away.argmin()), len(long)
        if away[end] > within or seconds[end] > SHORTER * float(np.median(seconds[long])):
            return None
    basis = f"{batches} micro-batches of gradients, and parameters after the optimiser's pause"
    return Train(_pause(share, seconds, end), basis, batches)


def _by_unit(pace: Pace) -> Train | None:
    """Parameters gathered part by part, forward and again backward, where gradients join them.

    This may be done for each of several micro-batches, of which only the last ends with a pause.
    """
    share, _ = _pauses(pace)
    seconds, limit_s = _at_each_step(pace)
    there = seconds >= limit_s
    fits = [_fit(parts, batches, share, there) for parts, batches in _turns(pace.steps)]
    if not fits:
        return None
    best = min(fits, key=lambda fit: fit.off.min())
    if best.off.min() > UNMATCHED:
        return None
    tied = np.flatnonzero(best.off == best.off.min())
    at = int(tied[_from(share * pace.steps, pace.steps)[tied].argmin()])
    alone = best.alone[at]
    ends = (at + np.arange(best.batches) * pace.steps / best.batches) % pace.steps
    # What is expected may lie so far to either side of what is there.
    other = _from(ends, pace.steps) > 2 * best.within + 1
    elsewhere = [fit.alone[other].min() for fit in fits]
    if min(elsewhere) <= alone:
        return None
    length = seconds[np.rint(ends).astype(np.int64) % pace.steps]
    longest = int(length.argmax())
    basis = f"parameters gathered in parts forward and backward, {len(share)} pauses a turn"
    if best.batches > 1:
        if length[longest] < np.sort(length)[-2] + limit_s:
            return None
        basis += f", for each of {best.batches} micro-batches"
    end = _nearest(share, ends[longest] / pace.steps, best.within / pace.steps)
    sure = min(elsewhere) >= alone + SURELY
    return Train(Pause(end or 1.0, float(length[longest]), 1.0), basis, best.batches, sure)


@dataclass(frozen=True, slots=True)
class _Fit:
    """How well turns of one kind fit, by the step at which they are taken to end.

    `alone` pauses are expected and not there, or there and not expected, which is `off` of all;
    `within` so many steps a pause is in its place.
    """

    batches: int
    alone: NDArray[np.float64]
    off: NDArray[np.float64]
    within: float


def _fit(
    parts: list[int], batches: int, share: NDArray[np.float64], there: NDArray[np.bool_]
) -> _Fit:
    steps = len(there)
    total = batches * sum(parts)
    at = np.cumsum([0, *(parts * batches)[:-1]]) / total * steps
    within = WITHIN * min(parts) / total * steps
    near = _from(at, steps) <= within
    # Where a micro-batch ends that is not the last, no optimiser makes a pause.
    expected = np.delete(at, np.s_[:: len(parts)]) if batches > 1 else at
    found = _counted(share * steps, steps)
    missing = len(expected) - _around(_counted(expected, steps), there.astype(np.float64))
    strange = len(share) - _around(near.astype(np.float64), found)
    alone = np.rint(missing + strange)
    return _Fit(batches, alone, alone / (len(expected) + len(share)), within)


def _counted(at: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """How many places fall on each step of a turn."""
    return np.bincount(np.rint(at).astype(np.int64) % steps, minlength=steps).astype(np.float64)


def _around(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of products with the first moved on by 0, 1, ... steps around the turn."""
    return np.asarray(irfft(np.conj(rfft(one)) * rfft(other), len(one)))


def _from(at: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """How far each step is from the nearest of some places, around the turn; float64[steps]."""
    away = np.abs(np.arange(steps)[:, None] - at)
    return np.asarray(np.minimum(away, steps - away).min(axis=1))


def _nearest(share: NDArray[np.float64], place: float, within: float) -> float:
    """The pause at a place of the turn, or the place where none is so near."""
    away = _apart(share, place)
    nearest = int(away.argmin())
    return float(share[nearest]) if away[nearest] <= within else place % 1.0


def _at_each_step(pace: Pace) -> tuple[NDArray[np.float64], float]:
    """Seconds of a pause at each step of a turn, and how many show one at a place that is known.

    The first step is the pause that the turn is counted from.
    """
    steps = np.append(pace.outer_s, -np.diff(pace.left_s) - pace.usual_s)
    spread = pace.usual_s - float(np.quantile(-np.diff(pace.left_s), ONE_SIGMA_BELOW))
    pair = steps + np.roll(steps, -1)
    limit = max(OF_PERIOD * pace.period_s, AT_KNOWN * 2**0.5 * spread)
    return np.maximum(pair, np.roll(pair, 1)), limit


def _turns(steps: int) -> Iterator[tuple[list[int], int]]:
    """Volumes between the pauses of a micro-batch, from its end on, and how many an iteration has.

    Volumes are in parameters of one part. Parts are gathered one ahead of their use, or when they
    are used; in the backward pass with the gradients of the part before.
    """
    for units in UNITS:
        for factor in GRADIENTS:
            both = 1 + factor
            ahead = [2, *[1] * (units - 2), 2, *[both] * (units - 2), factor, factor]
            used = [*[1] * (units + 1), *[both] * (units - 1), factor]
            for batches in range(-(-FEWEST_PLACES // len(ahead)), MOST_BATCHES + 1):
                if FEWEST_STEPS <= steps / (batches * sum(ahead)) < 2 * FEWEST_STEPS:
                    yield ahead, batches
                    yield used, batches


def _apart(one: NDArray[np.float64], other: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """How far apart shares of a turn are, around it."""
    away = one - other
    return np.asarray(np.abs(away - np.rint(away)))


def _pause(share: NDArray[np.float64], seconds: NDArray[np.float64], at: int) -> Pause:
    return Pause(float(share[at]) if at else 1.0, float(seconds[at]), 1.0)
