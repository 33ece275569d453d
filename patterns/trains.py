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
from scipy.ndimage import binary_closing

from patterns.pauses import OF_PERIOD, ONE_SIGMA_BELOW, SIGMAS, Pace, Pause

UNITS: Final = range(4, 33)  # parts of a model that are gathered one by one
GRADIENTS: Final = (1, 2)  # bytes of a gradient per byte of a parameter: bf16 or fp32
FEWEST_STEPS: Final = 4  # of the pace in a part, or parts cannot be told
WITHIN: Final = 0.3  # of a part: how well its pause must be placed
UNMATCHED: Final = 0.12  # of the pauses, there and expected, that may have no partner
SURELY: Final = 2  # pauses without a partner more, if the turn is counted from anywhere else
LONG: Final = 0.6  # of the longest pause
FEWEST_LONG: Final = 3  # micro-batches, from which on the odd one is told
EQUAL: Final = 0.1  # of a micro-batch: how equal their volumes are
SHORTER: Final = 0.85  # times the pauses between micro-batches: the optimiser's


@dataclass(frozen=True, slots=True)
class Train:
    """The pause that ends the iteration, how that is known, and whether no other is nearly so."""

    end: Pause
    basis: str
    sure: bool = True


def find_train(pace: Pace) -> Train | None:
    """The end of an iteration that gathers or reduces in parts; None where the turn is none such.

    Parameters
    ----------
    pace : Pace
        Counted from any of its pauses. A share of 1 stands for that one.
    """
    share, seconds = _pauses(pace)
    return _by_micro_batch(share, seconds, pace.steps) or _by_unit(share, seconds, pace.steps)


def _pauses(pace: Pace) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All pauses of a turn, also short ones close together: shares (from 0) and seconds.

    The first is the one that the turn is counted from.
    """
    steps = -np.diff(pace.left_s)
    low, usual = np.quantile(steps, (ONE_SIGMA_BELOW, 0.5))
    limit = max(OF_PERIOD * pace.period_s, SIGMAS / 2 * float(usual - low))
    excess = steps - usual
    # What lies between two steps of one pause may well be less than usual: it was put too late.
    loud = binary_closing(excess > limit / 2, np.ones(FEWEST_STEPS - 1, np.bool_))
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
    odd = int(volume.argmax())
    within = max(EQUAL * batch, 1.5 / steps)
    if np.abs(np.delete(volume, odd) - batch).max() > within:
        return None
    if min(abs(volume[odd] - batch - batch / factor) for factor in GRADIENTS) > within:
        return None
    away = _apart(share, share[long[odd]] + batch)
    end = int(away.argmin())
    if away[end] > within or seconds[end] > SHORTER * float(np.median(seconds[long])):
        return None
    basis = f"{len(long)} micro-batches of gradients, and parameters after the optimiser's pause"
    return Train(_pause(share, seconds, end), basis)


def _by_unit(share: NDArray[np.float64], seconds: NDArray[np.float64], steps: int) -> Train | None:
    """Parameters gathered part by part, forward and again backward, where gradients join them."""
    scores: list[tuple[int, int, int]] = []
    expected = 0
    for parts in _turns():
        total = sum(parts)
        if min(parts) / total * steps < FEWEST_STEPS:
            continue
        at = np.concatenate([[0.0], np.cumsum(parts)[:-1]]) / total
        within = WITHIN * min(parts) / total
        for end in range(len(share)):
            away = np.abs(_apart(share[:, None], (at + share[end])[None, :]))
            alone = (away.min(axis=1) > within).sum() + (away.min(axis=0) > within).sum()
            scores.append((int(alone), end, len(at)))
    if not scores:
        return None
    alone, end, expected = min(scores)
    if alone > UNMATCHED * (expected + len(share)):
        return None
    elsewhere = min((one for one, other, _ in scores if other != end), default=alone)
    if elsewhere == alone:
        return None
    basis = f"parameters gathered in parts forward and backward, {len(share)} pauses a turn"
    return Train(_pause(share, seconds, end), basis, sure=elsewhere >= alone + SURELY)


def _turns() -> Iterator[list[int]]:
    """Volumes between the pauses of an iteration, from its end on, in parameters of one part.

    Parts are gathered one ahead of their use, or when they are used; in the backward pass with the
    gradients of the part before.
    """
    for units in UNITS:
        for factor in GRADIENTS:
            both = 1 + factor
            ahead = [2, *[1] * (units - 2), 2, *[both] * (units - 2), factor, factor]
            yield ahead
            yield [*[1] * (units + 1), *[both] * (units - 1), factor]


def _apart(one: NDArray[np.float64], other: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """How far apart shares of a turn are, around it."""
    away = one - other
    return np.asarray(np.abs(away - np.rint(away)))


def _pause(share: NDArray[np.float64], seconds: NDArray[np.float64], at: int) -> Pause:
    return Pause(float(share[at]) if at else 1.0, float(seconds[at]), 1.0)
