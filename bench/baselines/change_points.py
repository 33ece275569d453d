"""Bayesian online change-point detection (Adams and MacKay 2007, arXiv:0710.3742), many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

F64 = NDArray[np.float64]

# A run is normal; its mean and precision are Normal-Gamma. Fit for logarithms of times: one value
# says little of the mean beforehand, and a spread of about one is usual.
WEIGHT: Final = 0.1
SHAPE: Final = 1.0
SCALE: Final = 0.5
HAZARD: Final = 0.3  # how often a run ends
LONGEST: Final = 16  # run lengths that are told apart; longer ones count as this one


def change_points(series: Sequence[F64]) -> list[NDArray[np.bool_]]:
    """Where a new run begins in each series.

    Parameters
    ----------
    series : float64, one array each, of any lengths

    Returns
    -------
    bool, one array per series: whether the likeliest run at this value begins with it.

    Notes
    -----
    Differs from the paper in when a run ends: here before the value that does not fit, so that the
    value itself is named (the paper's run ends after it), and in that runs beyond `LONGEST` are
    one. A series' mean is the mean expected of any run. All series take a step together, since one
    value of one series is no work for NumPy.
    """
    order = np.argsort([-len(values) for values in series], kind="stable")
    length = np.array([len(series[i]) for i in order], np.int64)
    longest = int(length.max(initial=0))
    block = np.zeros((len(order), longest))
    for row, i in enumerate(order):
        block[row, : length[row]] = series[i]
    begins = np.zeros(block.shape, np.bool_)
    mean = first_mean = (block.sum(axis=1) / np.maximum(length, 1))[:, None]
    scale = first_scale = np.full((len(order), 1), SCALE)
    chance = np.zeros((len(order), 0))
    for step in range(longest):
        active = int(np.searchsorted(-length, -step, "left"))
        x = block[:active, step : step + 1]
        mean, scale, chance = mean[:active], scale[:active], chance[:active]
        # Column 0 of mean and scale is what is expected before any value: a run that begins here.
        run = np.arange(mean.shape[1])
        fit = _log_student(x - mean, WEIGHT + run, SHAPE + run / 2, scale)
        if step:
            before = np.logaddexp.reduce(chance, axis=1, keepdims=True) + np.log(HAZARD)
            grown = chance + fit[:, 1:] + np.log1p(-HAZARD)
            chance = np.concatenate([before + fit[:, :1], grown], axis=1)
        else:
            chance = fit
        begins[:active, step] = np.argmax(chance, axis=1) == 0
        if chance.shape[1] > LONGEST:
            last = np.logaddexp(chance[:, -2:-1], chance[:, -1:])
            chance = np.concatenate([chance[:, :-2], last], axis=1)
        chance = chance - chance.max(axis=1, keepdims=True)
        run = run[: chance.shape[1]]
        off = x - mean[:, : len(run)]
        grown_mean = mean[:, : len(run)] + off / (WEIGHT + run + 1)
        grown_scale = scale[:, : len(run)] + (WEIGHT + run) * off**2 / (2 * (WEIGHT + run + 1))
        mean = np.concatenate([first_mean[:active], grown_mean], axis=1)
        scale = np.concatenate([first_scale[:active], grown_scale], axis=1)
    row_of = np.argsort(order)
    return [begins[row_of[i], : len(values)] for i, values in enumerate(series)]


def _log_student(off: F64, weight: F64, shape: F64, scale: F64) -> F64:
    """Log density of the next value: Student's t with 2 `shape` degrees of freedom."""
    spread = scale * (weight + 1) / (shape * weight)
    constant = gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(2 * np.pi * shape)
    bent = np.log1p(off**2 / (2 * shape * spread))
    return np.asarray(constant - 0.5 * np.log(spread) - (shape + 0.5) * bent, np.float64)
