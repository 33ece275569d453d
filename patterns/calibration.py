"""Calibration: what a connection's samples say of its volume, put right by those of its group.

Between two pauses a connection with few samples is known to a sample's distance only. But all
connections of a ring move together: their common way (see `reconstruct.lockstep`) places each
sample of each of them, and a pause lies between two samples of any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.boundaries import VolumeClock
from reconstruct.lockstep import TOGETHER, eras, together

FEWEST_ROWS: Final = 100  # of a group, to draw its way
FEWEST_PAUSES: Final = 3
OWN_ROWS: Final = 2.0  # rows: what lies so near to a pause is parted by it, not by its volume
CLOSEST: Final = 0.2  # of the median distance of samples around pauses: no weight is beyond that
FAR: Final = 2.0  # times that distance: what lies further off the line is in no pause of it
REWEIGHTED: Final = 5


def calibrated(clock: VolumeClock) -> VolumeClock:
    """The clock with each connection's volumes put right by its group.

    Parameters
    ----------
    clock : VolumeClock

    Returns
    -------
    VolumeClock
        Groups with too few rows and those whose connections do not move together are as they came.
        A connection that does not keep to its group's way has no rows.
    """
    volume, turn = clock.volume.copy(), clock.turn.copy()
    kept = np.ones(len(clock.owner), np.bool_)
    for rows in _sets(clock):
        way, gone, apart = together(volume[rows], clock.owner[rows])
        if float(np.median(apart)) > TOGETHER:
            continue
        kept[rows] = False
        rows = rows[way]
        kept[rows] = True
        line = _pauses_line(gone, clock.turn[rows])
        if line is None:
            continue
        volume[rows] = (gone - line[0]) / line[1]
        # Pauses part the turns, but for one that was taken for another of its turn.
        by_volume = np.clip(np.ceil(volume[rows]), 0, clock.turns).astype(np.int64)
        away = np.abs(volume[rows] - np.rint(volume[rows]))
        turn[rows] = np.where(away > OWN_ROWS * clock.turns / len(rows), by_volume, turn[rows])
    return replace(
        clock,
        owner=clock.owner[kept],
        turn=turn[kept],
        volume=volume[kept],
        time_s=clock.time_s[kept],
    )


def _sets(clock: VolumeClock) -> Iterator[NDArray[np.intp]]:
    """Rows of each group's connections that lived at one time, in order of time."""
    group = clock.group[clock.owner]
    for one in np.unique(group).tolist():
        rows = np.flatnonzero(group == one)
        rows = rows[np.argsort(clock.time_s[rows], kind="stable")]
        era = eras(clock.owner[rows])
        for part in range(int(era.max()) + 1):
            if (era == part).sum() >= FEWEST_ROWS:
                yield rows[era == part]


def _pauses_line(gone: NDArray[np.float64], turn: NDArray[np.int64]) -> tuple[float, float] | None:
    """Where on the way pause 0 lies, and how far the pauses are apart; rows in order of time.

    A pause lies between the samples before and behind it, and some of these are close.
    """
    last = np.flatnonzero(np.diff(turn) == 1)
    if len(last) < FEWEST_PAUSES:
        return None
    number = turn[last].astype(np.float64)
    before, behind = gone[last], gone[last + 1]
    position, apart = (before + behind) / 2, behind - before
    apart = np.maximum(apart, max(CLOSEST * float(np.median(apart)), 1e-12))
    weight = 1 / apart**2
    slope = middle = mean = 0.0
    for _ in range(REWEIGHTED):
        middle, mean = np.average(number, weights=weight), np.average(position, weights=weight)
        away = number - middle
        slope = float(np.average(away * (position - mean), weights=weight))
        slope /= float(np.average(away**2, weights=weight))
        wrong = position - mean - slope * away
        weight = 1 / (apart * (1 + (wrong / (FAR * apart)) ** 2)) ** 2
    return (mean - slope * middle, slope) if slope > 0 else None
