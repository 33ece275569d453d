"""A job's beat: what places its iterations in new telemetry without analysing it anew.

The structure of a job holds for hours, its iterations come every few seconds. So the connections
that mark an iteration's end are learned with the structure, and only the ends are read often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collector.schema import U64
from patterns import timeline
from patterns.turns import Marks
from reconstruct.activity import timed
from reconstruct.bins import Progress
from reconstruct.iterations import follow_cycle


@dataclass(frozen=True, slots=True)
class Beat:
    """How a job marks its iterations.

    Parameters
    ----------
    connections : uint64[c]
        Keys of the connections that mark its cycle: some of many.
    groups : tuple of uint64[r]
        Keys of those of each group that marks it.
    marks : Marks
        See `patterns.timeline.place`.
    period_s : float
    volume_bytes : float
        Of an iteration.
    known_ns : int
        How well the samples' times are known; 0 where they are good.
    samples_per_turn, marks_per_turn : int
        Of all its connections, and of those that mark.
    """

    connections: U64
    groups: tuple[U64, ...]
    marks: Marks
    period_s: float
    volume_bytes: float
    known_ns: int
    samples_per_turn: int
    marks_per_turn: int


def find_ends(progress: Progress, beat: Beat) -> NDArray[np.int64]:
    """Ends of the iterations in a window.

    Parameters
    ----------
    progress : Progress
        Some periods of `Beat.connections`, and nothing else.
    beat : Beat

    Returns
    -------
    int64[k]
        ns since the epoch, ascending; empty where too little of the cycle is seen.
    """
    bins = progress.bins
    keys = progress.connections.key
    rows, time, _ = timed(bins, np.arange(len(bins)))
    order = np.argsort(time, kind="stable")
    weight = bins.samples[rows[order]].astype(np.float64)
    turns = follow_cycle(time[order], weight, beat.period_s)
    if len(turns) < 2:
        return turns[:0]
    groups = [np.flatnonzero(np.isin(keys, group)).astype(np.int32) for group in beat.groups]
    groups = [group for group in groups if len(group)]
    if not groups:
        return turns[:0]
    placed = timeline.place(progress, groups, turns, beat.marks)
    return turns[:0] if placed is None else placed.ends_ns
