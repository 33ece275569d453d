"""Stops: silences of a job, for a checkpoint or a restart, that are no part of its cycle.

A cycle is seen `CYCLES` times, and so is its longest pause. What is clearly longer and rarer is no
pause of the cycle, and what lies on both of its sides is out of step. Where the job writes to
storage in its longest silences, and hardly else, these are stops, too.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

CYCLES: Final = 5  # a job repeats at least so often (the definition of a job)
LONGER: Final = 1.5  # times the longest pause that is seen `CYCLES` times
MOST: Final = 0.8  # of all that is written goes out in stops, and in so many of them something,
MORE: Final = 3.0  # and so many times as much per moment as else


def between_stops(
    activity: NDArray[np.float64], written: NDArray[np.float64] | None = None
) -> list[NDArray[np.float64]]:
    """The stretches of a signal between its stops, in order.

    Parameters
    ----------
    activity : float64[n]
        Samples (or bytes) per bin.
    written : float64[n] or None
        What the job sent to others meanwhile. Silences in which it wrote, and which are longer than
        all others, are stops however often they come.

    Returns
    -------
    list of float64[k]
        Views; the signal itself where it has no stop.
    """
    cuts = find_stops(activity, written).ravel()
    return [piece for piece in np.split(activity, cuts)[::2] if len(piece)] or [activity]


def find_stops(
    activity: NDArray[np.float64], written: NDArray[np.float64] | None = None
) -> NDArray[np.intp]:
    """First bin of each stop and the one behind it; intp[k, 2]. See `between_stops`."""
    edges = np.flatnonzero(np.diff(activity == 0, prepend=False, append=False))
    begin, end = edges[::2], edges[1::2]
    length = end - begin
    if len(length) < CYCLES:
        return np.zeros((0, 2), np.intp)
    stop = np.zeros(len(length), np.bool_) if written is None else _writes(written, begin, end)
    usual = np.partition(length[~stop], -CYCLES)[-CYCLES]
    stop |= length > LONGER * usual
    return np.column_stack([begin[stop], end[stop]])


def _writes(
    written: NDArray[np.float64], begin: NDArray[np.intp], end: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """The longest silences, if the job writes in these and hardly else; bool[k]."""
    length = end - begin
    ranked = np.sort(length)[CYCLES - 1 :]
    none = np.zeros(len(length), np.bool_)
    gaps = np.flatnonzero(ranked[1:] > LONGER * ranked[:-1])
    if not len(gaps):
        return none
    long = length > ranked[gaps[-1]]
    gone = np.concatenate([[0.0], np.cumsum(written)])
    sent = gone[end] - gone[begin]
    in_long, rest = float(sent[long].sum()), len(written) - int(length[long].sum())
    rate = in_long / length[long].sum()
    elsewhere = max(
        (gone[-1] - in_long) / max(rest, 1), sent[~long].sum() / max(length[~long].sum(), 1)
    )
    each = (sent[long] > 0).mean() >= MOST and in_long >= MOST * gone[-1]
    return long if each and rate > MORE * elsewhere else none
