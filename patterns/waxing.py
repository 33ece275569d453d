"""Which of two pauses a turn ends in: where all wait for the burst before it.

A backward pass goes on while its first gradients are reduced, so that a burst inside a step that
lasts longer leaves as much less of the pause behind it; for the last burst of a step, all wait. And
a batch that takes longer takes longer before each of its bursts: pauses of one step wax and wane
together, those on both sides of its last burst are of two batches.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from patterns.missed import Pulse

FEWEST_TURNS: Final = 8  # of which a correlation says something
CLEARLY: Final = 2.0  # log-likelihood ratio
WEIGHT: Final = 0.25  # of a turn: half of a length's, as each is in two differences
SHARP: Final = 3.0  # times the distance of samples: by so much do lengths have to differ


def ends_inside(signal: Pulse, outer_ns: NDArray[np.int64], inner_ns: NDArray[np.int64]) -> bool:
    """Whether a step ends in the second of two pauses of a turn, and clearly not in the first.

    Parameters
    ----------
    signal : Pulse
    outer_ns, inner_ns : int64[k], int64[m]
        Moments in the first and in the second pause of turns, ascending. A turn of which one was
        not seen tells nothing.
    """
    time = signal.time_ns
    behind = np.searchsorted(outer_ns, inner_ns)
    once = np.bincount(behind, minlength=len(outer_ns) + 1)[behind] == 1
    whole = once & (behind > 0) & (behind < len(outer_ns))
    behind = behind[whole]
    # First sample behind each of three pauses in a row; at the window's edges there is none.
    pauses = np.stack([outer_ns[behind - 1], inner_ns[whole], outer_ns[behind]])
    first = np.searchsorted(time, pauses)
    first = first[
        :, (first[0] > 1) & (first[2] < len(time)) & (np.diff(first, axis=0) > 0).all(axis=0)
    ]
    if first.shape[1] < FEWEST_TURNS:
        return False
    begins, ends = time[first], time[first - 1]
    silent = begins - ends
    lasted = ends[1:] - begins[:-1]
    # Where samples are far apart, a burst that shows little makes both pauses around it longer.
    least = SHARP * float(np.median(ends - time[first - 2]))
    for_inner = _together(silent[1], silent[2], least) + _together(lasted[1], -silent[2], least)
    for_outer = _together(silent[0], silent[1], least) + _together(lasted[0], -silent[1], least)
    return for_inner - for_outer > CLEARLY


def _spread(lengths: NDArray[np.int64]) -> float:
    """Half of the range that holds two thirds of them."""
    low, high = np.quantile(lengths, (1 / 6, 5 / 6))
    return float(high - low) / 2


def _together(one: NDArray[np.int64], other: NDArray[np.int64], least: float) -> float:
    """By how much likelier it is that two lengths go together than not; a logarithm.

    From turn to turn, as steps that become longer and longer make all lengths go together. Of
    normal variates with the correlation that is seen, or none where it is negative, or where one of
    them spreads by less than `least`. By ranks, as a step that stalls is far longer than others.
    """
    one, other = np.diff(one), np.diff(other)
    if min(_spread(one), _spread(other)) <= math.sqrt(2) * least:
        return 0.0
    seen = float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])
    limit = 1.0 - 1.0 / len(one)  # what this many pairs can show
    return -WEIGHT * len(one) * math.log1p(-(min(max(seen, 0.0), limit) ** 2))
