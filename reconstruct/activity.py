"""Activity: how many samples of a set of connections fall into each moment."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from reconstruct.bins import ProgressBins

PROMPT_NS: Final = 50_000_000  # a sample whose time is less certain than this blurs every edge


def prompt(bins: ProgressBins) -> NDArray[np.bool_]:
    """Rows whose time is good to `PROMPT_NS`: stamped, or sent on soon after being sampled."""
    return np.asarray(bins.slack_ns <= PROMPT_NS)


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
