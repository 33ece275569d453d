"""Regimes: stretches of iterations in a row that have one usual length.

A job's step becomes longer or shorter for good when its batch, its sequence or its hosts change. It
is told apart from one step that took long, a checkpoint's or a stall's, by what comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

HAZARD: Final = 0.01  # chance that a regime ends with any iteration
ALONE: Final = 0.03  # chance that an iteration is unlike its regime all by itself
RANGE: Final = 2.0  # logarithms of durations: such a one may lie anywhere within this
APART: Final = 0.3  # spread of the regimes' lengths around the window's, as logarithms
SHAPE: Final = 1.0  # iterations' worth of trust in the spread that all together have
LEAST_SPREAD: Final = 0.002  # of a duration: no collective is steadier
FEWEST: Final = 4  # iterations of a regime
DIFFERENT: Final = 0.03  # two regimes in a row differ by this share at least, and
ERRORS: Final = 5.0  # by so many standard errors of their medians
MAD_TO_SIGMA: Final = 1.4826  # for a normal distribution
MEDIAN_COST: Final = 1.2533  # standard error of a median over that of a mean, normal values


@dataclass(frozen=True, slots=True)
class Regime:
    """Iterations `first` to before `last` of a series, and their median duration."""

    first: int
    last: int
    median_s: float


def regimes(durations_s: Sequence[float] | NDArray[np.float64]) -> list[Regime]:
    """The regimes of a series of durations, in order; together they hold all of it.

    Parameters
    ----------
    durations_s : float64[n]
        Above 0.

    Notes
    -----
    A regime ends where the likeliest run that holds its last value begins (see `run_lengths`), seen
    from the series' end backwards. What is too short for one, or hardly differs from the one before
    it, is part of that.
    """
    durations = np.asarray(durations_s, np.float64)
    if not len(durations):
        return []
    chance = run_lengths(np.log(durations))
    starts = []
    at = len(durations) - 1
    while at >= 0:
        at -= int(chance[at].argmax())
        starts.append(at)
        at -= 1
    edges = [*starts[::-1], len(durations)]
    found: list[Regime] = []
    for first, last in pairwise(edges):
        begin = first
        if found and not _differ(durations[found[-1].first : first], durations[first:last]):
            begin = found.pop().first
        found.append(Regime(begin, last, float(np.median(durations[begin:last]))))
    return found


def _differ(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two stretches are both long enough and of clearly different medians."""
    if min(len(one), len(other)) < FEWEST:
        return False
    middles = float(np.median(one)), float(np.median(other))
    away = abs(middles[0] - middles[1])
    rest = np.abs(np.concatenate([one - middles[0], other - middles[1]]))
    # Few values say little of their own spread, so both share one.
    error = MEDIAN_COST * MAD_TO_SIGMA * np.median(rest) * np.sqrt(1 / len(one) + 1 / len(other))
    return bool(away > max(DIFFERENT * min(middles), ERRORS * error))


def run_lengths(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances of the run that holds each value, by how many values of it came before.

    Parameters
    ----------
    values : float64[n]

    Returns
    -------
    float64[n, n]
        Entry (i, r): the chance that value i is the one with number r of its run, by the values up
        to i. Rows add up to 1.

    Notes
    -----
    Bayesian online change-point detection: Adams and MacKay 2007, arXiv:0710.3742, algorithm 1,
    with normal runs whose mean and precision are Normal-Gamma. Differs from the paper in that a run
    ends before the value that does not fit, so that this value is the first of the next, and in
    that a value may be unlike its run and leave it be: its likelihood is a mixture with a flat one,
    and what a run learns from it is weighted by the chance that it belongs.
    """
    n = len(values)
    chance = np.zeros((n, n))
    if not n:
        return chance
    spread = _usual_spread(values)
    # What is known of a run before its first value.
    weight0, shape0, scale0 = (spread / APART) ** 2, SHAPE, SHAPE * spread**2
    centre = float(np.median(values))
    mean, weight = np.array([centre]), np.array([weight0])
    shape, scale = np.array([shape0]), np.array([scale0])
    logs = np.zeros(0)
    for i, value in enumerate(values.tolist()):
        own = np.log1p(-ALONE) + _log_student(value - mean, weight, shape, scale)
        fit = np.logaddexp(own, np.log(ALONE / RANGE))
        if i:
            begun = np.logaddexp.reduce(logs) + np.log(HAZARD) + fit[0]
            logs = np.append(begun, logs + np.log1p(-HAZARD) + fit[1:])
        else:
            logs = fit
        logs = logs - np.logaddexp.reduce(logs)
        chance[i, : i + 1] = np.exp(logs)
        belongs = np.exp(own - fit)
        away = value - mean
        scale = np.append(scale0, scale + belongs * weight * away**2 / (2 * (weight + belongs)))
        mean = np.append(centre, mean + belongs * away / (weight + belongs))
        weight = np.append(weight0, weight + belongs)
        shape = np.append(shape0, shape + belongs / 2)
    return chance


def _usual_spread(values: NDArray[np.float64]) -> float:
    """Standard deviation within runs, by the steps from value to value: few of them are changes."""
    if len(values) < 2:
        return LEAST_SPREAD
    steps = np.abs(np.diff(values))
    return max(LEAST_SPREAD, MAD_TO_SIGMA * float(np.median(steps) / np.sqrt(2)))


def _log_student(
    off: NDArray[np.float64],
    weight: NDArray[np.float64],
    shape: NDArray[np.float64],
    scale: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Log density of a run's next value: Student's t with 2 `shape` degrees of freedom."""
    spread = scale * (weight + 1) / (shape * weight)
    constant = gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(2 * np.pi * shape * spread)
    bent = np.log1p(off**2 / (2 * shape * spread))
    return np.asarray(constant - (shape + 0.5) * bent)
