"""Stops: rare silences of a job, for a checkpoint or a restart, that are no part of its cycle.

A cycle is seen `CYCLES` times, and so is its longest pause. What is clearly longer and rarer is no
pause of the cycle, and what lies on both of its sides is out of step.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

CYCLES: Final = 5  # a job repeats at least so often (the definition of a job)
LONGER: Final = 1.5  # times the longest pause that is seen `CYCLES` times


def between_stops(activity: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The stretches of a signal between its stops, in order.

    Parameters
    ----------
    activity : float64[n]
        Samples (or bytes) per bin.

    Returns
    -------
    list of float64[k]
        Views; the signal itself where it has no stop.
    """
    edges = np.flatnonzero(np.diff(activity == 0, prepend=False, append=False))
    begin, end = edges[::2], edges[1::2]
    length = end - begin
    if len(length) < CYCLES:
        return [activity]
    usual = np.partition(length, -CYCLES)[-CYCLES]
    stop = length > LONGER * usual
    cuts = np.column_stack([begin[stop], end[stop]]).ravel()
    return [piece for piece in np.split(activity, cuts)[::2] if len(piece)]
