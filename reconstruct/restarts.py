"""Restarts: moments at which all of a job's connections gave way to others between the same pairs.

A job that is killed and started again opens new queue pairs (TCP: new ports). Each of its
connections then shows what passes in one run only.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collector.schema import I64
from reconstruct.bins import Progress

LINGERING: Final = 0.02  # of the samples: connections that may outlive a restart (a heartbeat)
SAME_PAIRS: Final = 0.8  # of the samples on either side, between pairs that both sides have
NEAR: Final = 0.05  # of an iteration: how well its ends are known
FEWEST: Final = 30  # samples beyond the first of each connection: chance halves with every one


def restarts(progress: Progress, connections: NDArray[np.int32]) -> I64:
    """When a job stopped and went on with new connections.

    Parameters
    ----------
    progress : Progress
    connections : int32[c]
        Of the job.

    Returns
    -------
    int64[k, 2]
        Of each restart the last moment before and the first one after it, ns, in order of time.
    """
    held, first, last = spans(progress, connections)
    if not len(held):
        return np.zeros((0, 2), np.int64)
    samples = np.bincount(progress.bins.connection, progress.bins.samples)
    weight = samples[held].astype(np.int64)
    pair = progress.connections.src[held].astype(np.int64) << 32 | progress.connections.dst[held]
    out: list[tuple[int, int]] = []
    begin = int(first.min())
    for stopped, resumed in _quiet(first, last, weight):
        middle = (stopped + resumed) / 2
        since = (first + last) / 2 >= begin
        before, after = since & (last < middle), first > middle
        if _replaced(pair, weight, before, after):
            begin = int(first[after].min())
            out.append((int(last[before].max()), begin))
    return np.array(out, np.int64).reshape(-1, 2)


def spans(progress: Progress, connections: NDArray[np.int32]) -> tuple[I64, I64, I64]:
    """Which connections have samples, and when the first and the last one was; int64[k] each."""
    bins = progress.bins
    rows = np.flatnonzero(np.isin(bins.connection, connections))
    held, head = np.unique(bins.connection[rows], return_index=True)
    if not len(held):
        return (np.zeros(0, np.int64),) * 3
    first = np.minimum.reduceat(bins.first_ns[rows], head)
    return held.astype(np.int64), first, np.maximum.reduceat(bins.last_ns[rows], head)


def undisturbed(begin_ns: ArrayLike, end_ns: ArrayLike, breaks: I64) -> NDArray[np.bool_]:
    """Which iterations lie inside one run, from an end to the next.

    What looks like an end where a run begins is none: nothing was sent before it.

    Parameters
    ----------
    begin_ns, end_ns : int64[k]
        Of iterations.
    breaks : int64[r, 2]
        See `restarts`.

    Returns
    -------
    bool[k]
    """
    begin, end = np.atleast_1d(begin_ns), np.atleast_1d(end_ns)
    stopped, resumed = breaks[:, :1], breaks[:, 1:]
    near = NEAR * (end - begin)
    return np.asarray(((end <= stopped + near) | (begin >= resumed + near)).all(axis=0))


def _quiet(first: I64, last: I64, weight: I64) -> list[tuple[int, int]]:
    """Stretches between the first and the last moment in which hardly a connection is alive."""
    time, step = np.concatenate([first, last]), np.concatenate([weight, -weight])
    order = np.lexsort((-step, time))
    low = np.cumsum(step[order]) <= LINGERING * weight.sum()
    changes = time[order][np.flatnonzero(np.diff(low)) + 1].tolist()
    changes = changes[1:] if low[0] else changes
    return list(zip(changes[::2], changes[1::2], strict=False))  # the last one does not end


def _replaced(pair: I64, weight: I64, before: NDArray[np.bool_], after: NDArray[np.bool_]) -> bool:
    """Whether the same pairs had connections before and have others after."""
    common = np.intersect1d(pair[before], pair[after])
    for side in (before, after):
        here = side & np.isin(pair, common)
        if weight[here].sum() < SAME_PAIRS * weight[side].sum():
            return False
        if (weight[here] - 1).sum() < FEWEST:
            return False
    return True
