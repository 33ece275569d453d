"""Activity: how many samples of a set of connections fall into each moment."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from reconstruct.bins import ProgressBins

EXACT_NS: Final = 2_000_000  # a stamp of a clock that was put right is known as well as that
PROMPT_NS: Final = 50_000_000  # a sample whose time is less certain than this blurs every edge
ENOUGH_PROMPT: Final = 0.3  # of the samples in good time: the others are left out


def prompt(bins: ProgressBins) -> NDArray[np.bool_]:
    """Rows whose time is good to `PROMPT_NS`: stamped, or sent on soon after being sampled."""
    return np.asarray(bins.slack_ns <= PROMPT_NS)


def timed(
    bins: ProgressBins, rows: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.int64], int]:
    """Rows whose time is of use for a rhythm, their times, and how well these are known.

    Rows whose time is known to `EXACT_NS` where there are enough of them, else those in good time;
    else all, each at the middle of what its time may be.

    Returns
    -------
    rows : intp[k]
    time_ns : int64[k]
    known_ns : int
        Half of the rows' times are known better than this.
    """
    slack = bins.slack_ns[rows]
    # What is known well first: of flow records only the short ones would be in good time, so that
    # turns seemed to differ by how long their records happened to be.
    for within_ns in (EXACT_NS, PROMPT_NS):
        good = rows[slack <= within_ns]
        if len(good) >= ENOUGH_PROMPT * len(rows):
            return good, bins.last_ns[good], 0
    return rows, bins.last_ns[rows] - slack // 2, int(np.median(slack))


def activity(
    time_ns: NDArray[np.int64],
    weight: NDArray[np.float64],
    start_ns: int,
    end_ns: int,
    bin_ns: int,
) -> NDArray[np.float64]:
    """Sum of weights per bin of `bin_ns` from `start_ns` to `end_ns`.

    Parameters
    ----------
    time_ns : int64[n]
    weight : float64[n]

    Returns
    -------
    float64[ceil((end - start) / bin)]
        Times outside are left out.
    """
    count = max(1, -(-(end_ns - start_ns) // bin_ns))
    slot = (time_ns - start_ns) // bin_ns
    inside = (slot >= 0) & (slot < count)
    return np.bincount(slot[inside], weight[inside], count).astype(np.float64)
