"""Calibration: what a connection's samples say of its volume, put right by those of its group.

Between two pauses a connection with few samples is known to a sample's distance only. But all
connections of a ring move together: at a given time before the end of the burst each has moved the
same share of its volume. What all of them show together at that time calibrates each of them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from patterns.boundaries import VolumeClock, median_by
from patterns.regimes import regimes

FEWEST_ROWS: Final = 400  # of a group, to draw a common curve
FINE: Final = 8  # rows of a connection and turn, from which on it is known well by itself
ROWS_PER_BIN: Final = 40
MOST_BINS: Final = 300
OF_CONNECTION: Final = 8  # rows of a connection, to calibrate it
ROUNDS: Final = 3
REWEIGHTED: Final = 3
FAR: Final = 3.0  # times the usual distance from the curve: what lies further off counts little
EDGE: Final = 0.02  # of the rows at either end of the turn's volume: where begin and end are read
EDGE_WITHIN: Final = 0.04  # further off, samples do not lie evenly
SLOPE_WITHIN: Final = 0.1  # by so much at most the volume of an iteration is put right


def calibrated(clock: VolumeClock, ends_ns: NDArray[np.int64]) -> VolumeClock:
    """The clock with each connection's volumes put right by its group.

    Parameters
    ----------
    clock : VolumeClock
        Whose groups' connections move together.
    ends_ns : int64[k]
        End of each turn's traffic, roughly.

    Returns
    -------
    VolumeClock
        Groups and connections with too few rows, or with many, are as they came.
    """
    inside = clock.turn < len(ends_ns)
    group = clock.group[clock.owner]
    members = np.bincount(clock.group)
    held = np.bincount(group, minlength=len(members))  # the last groups may have no rows
    coarse = held <= FINE * members * len(ends_ns)
    rows = np.flatnonzero(inside & ((held >= FEWEST_ROWS) & coarse)[group])
    if not len(rows):
        return clock
    turn = clock.turn[rows]
    left = (ends_ns[turn] - clock.origin_ns) / 1e9 - clock.time_s[rows]
    # Where steps become longer for good, they are paced otherwise, too.
    alike = group[rows] * len(ends_ns) + _regime(ends_ns)[turn]
    order = np.lexsort((left, alike))
    rows, turn, left, alike = rows[order], turn[order], left[order], alike[order]
    owner = clock.owner[rows]
    edges = np.flatnonzero(np.diff(alike, prepend=-1))
    volume = clock.volume.copy()
    for _ in range(ROUNDS):
        gone = volume[rows] - (turn - 1)
        usual = np.concatenate(
            [
                _curve(left[a:b], gone[a:b])
                for a, b in zip(edges, [*edges[1:], len(rows)], strict=True)
            ]
        )
        slope, offset = _line(owner, volume[rows], usual + (turn - 1), clock.connections)
        volume = offset[clock.owner] + slope[clock.owner] * volume
    for a, b in pairwise([*edges, len(rows)]):
        gone = volume[rows[a:b]] - (turn[a:b] - 1)
        volume[rows[a:b]] = turn[a:b] - 1 + _spread(gone)
    return replace(clock, volume=volume)


def _spread(gone: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares gone by, moved so that they begin with none and end with all.

    Packets are sampled alike, so shares of samples lie evenly from 0 to 1.
    """
    low, high = np.quantile(gone, (EDGE, 1 - EDGE))
    if max(abs(low - EDGE), abs(high - 1 + EDGE)) > EDGE_WITHIN:
        return gone
    return np.asarray(EDGE + (gone - low) * (1 - 2 * EDGE) / (high - low))


def _regime(ends_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which stretch of like turns each end belongs to; int64[k]."""
    durations = np.diff(ends_ns) / 1e9
    out = np.zeros(len(ends_ns), np.int64)
    for number, one in enumerate(regimes(durations) if (durations > 0).all() else []):
        out[one.first + 1 : one.last + 1] = number
    return out


def _curve(left: NDArray[np.float64], gone: NDArray[np.float64]) -> NDArray[np.float64]:
    """Usual share gone by at each row, by time left; rows are sorted by it."""
    count = int(np.clip(len(left) // ROWS_PER_BIN, 1, MOST_BINS))
    slot = np.arange(len(left)) * count // len(left)
    place, share = median_by(slot, left, count), median_by(slot, gone, count)
    falling = isotonic_regression(share, increasing=False).x
    return np.asarray(np.interp(left, place, falling))


def _line(
    owner: NDArray[np.intp], given: NDArray[np.float64], wanted: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slope and offset that lead from given to wanted volumes, by owner, whatever few say."""
    weight = np.ones(len(owner))
    rows = np.bincount(owner, minlength=count)
    slope, offset = np.ones(count), np.zeros(count)
    for _ in range(REWEIGHTED):
        total = np.maximum(np.bincount(owner, weight, count), 1e-9)
        x = np.bincount(owner, weight * given, count) / total
        y = np.bincount(owner, weight * wanted, count) / total
        away = given - x[owner]
        square = np.bincount(owner, weight * away**2, count)
        product = np.bincount(owner, weight * away * (wanted - y[owner]), count)
        slope = np.where(square > 0, product / np.maximum(square, 1e-12), 1.0)
        told = (rows >= OF_CONNECTION) & (np.abs(slope - 1) <= SLOPE_WITHIN)
        slope = np.where(told, slope, 1.0)
        offset = np.where(told, y - slope * x, 0.0)
        wrong = wanted - offset[owner] - slope[owner] * given
        far = FAR * max(1.4826 * float(np.median(np.abs(wrong))), 1e-9)
        weight = 1 / (1 + (wrong / far) ** 2) ** 2
    return slope, offset
