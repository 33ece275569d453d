"""Tempo: the periods that a job keeps one after the other.

Steps that become longer for good leave no lag at which the whole signal resembles itself but a
common multiple of both periods. Parts of the window, each looked at by itself, tell them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from reconstruct.period import SMOOTHING_SHARE, Period, find_period, likeness_at

PARTS: Final = 4  # lengths of a part that the window holds
STEPS: Final = 2  # parts begin so often in each
SAME: Final = 0.1  # of a period: parts that differ by less are followed as one
TRAIN: Final = (
    1.7  # times a period: whoever finds so much longer a one in a stretch found its train
)
CLEARLY: Final = 0.1  # more alike at the own period than at the other


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a signal and the period it keeps.

    Parameters
    ----------
    start, end : int
        Bins.
    period : Period
    """

    start: int
    end: int
    period: Period


def find_tempo(
    activity: NDArray[np.float64], bin_s: float, written: NDArray[np.float64] | None = None
) -> list[Stretch]:
    """Stretches of an activity signal with one period each, in order; empty where there is none.

    Parameters
    ----------
    activity : float64[n]
        Samples (or bytes) per bin.
    bin_s : float
        Width of a bin in seconds.
    written : float64[n] or None
        See `reconstruct.stops.between_stops`.

    Notes
    -----
    Together the stretches hold all of the signal. There are several only where each resembles
    itself clearly more at its own period than at its neighbours', which no multiple does and no
    beat inside the cycle.
    """
    n = len(activity)
    whole = find_period(activity, bin_s, written)
    alone = [] if whole is None else [Stretch(0, n, whole)]
    length = n // PARTS
    starts = [k * length // STEPS for k in range(STEPS * (PARTS - 1) + 1)]
    runs: list[list[tuple[int, Period]]] = []
    for start in starts:
        part = slice(start, start + length)
        period = find_period(activity[part], bin_s, None if written is None else written[part])
        if period is None:
            continue
        if runs and _same(runs[-1][-1][1], period):
            runs[-1].append((start, period))
        else:
            runs.append([(start, period)])
    # A part that holds a change may show any period; one that two parts agree on is kept.
    kept = [run for run in runs if len(run) > 1]
    if len(kept) < 2:
        return alone
    edges = [0]
    for one, other in pairwise(kept):
        between = one[-1][0] + length // 2, other[0][0] + length // 2
        edges.append(_change(activity, between, _lag(one, bin_s), _lag(other, bin_s)))
    edges.append(n)
    pieces = [activity[start:end] for start, end in pairwise(edges)]
    lags = [_lag(run, bin_s) for run in kept]
    for i, j in pairwise(range(len(kept))):
        for own, near in ((i, j), (j, i)):
            gain = likeness_at(pieces[own], lags[own]) - likeness_at(pieces[own], lags[near])
            if gain < CLEARLY:
                return alone
    if any(_a_train(pieces[i], pieces[j], lags[i], lags[j]) for i, j in pairwise(range(len(kept)))):
        return [Stretch(0, n, _clearest(kept[int(np.argmax(lags))]))]
    return [
        Stretch(start, end, _clearest(run))
        for (start, end), run in zip(pairwise(edges), kept, strict=True)
    ]


def _a_train(
    one: NDArray[np.float64], other: NDArray[np.float64], lag: float, next_lag: float
) -> bool:
    """Whether two stretches show one cycle, of which the other sees a beat only.

    Steps that take several times as long do not carry so many times as much.
    """
    rates = float(one.mean()), float(other.mean())
    apart = max(lag, next_lag) / min(lag, next_lag)
    return apart >= TRAIN and max(rates) <= (1 + SAME) * min(rates)


def _clearest(run: Sequence[tuple[int, Period]]) -> Period:
    return max((period for _, period in run), key=lambda period: period.sigmas)


def _lag(run: Sequence[tuple[int, Period]], bin_s: float) -> float:
    return _clearest(run).seconds / bin_s


def _same(one: Period, other: Period) -> bool:
    return abs(one.seconds - other.seconds) <= SAME * min(one.seconds, other.seconds)


def _change(
    activity: NDArray[np.float64], between: tuple[int, int], one: float, other: float
) -> int:
    """Bin at which the period changes.

    What lies before it resembles what was a period earlier, what follows what comes a period later.
    """
    width = SMOOTHING_SHARE * min(one, other)
    signal = gaussian_filter1d(activity, width)
    signal -= signal.mean()
    n = len(signal)
    back, ahead = round(one), round(other)
    before, behind = np.zeros(n), np.zeros(n)
    before[back:] = signal[back:] * signal[:-back]
    behind[:-ahead] = signal[:-ahead] * signal[ahead:]
    gain = np.cumsum(before) + behind.sum() - np.cumsum(behind)
    low, high = between
    return low + int(gain[low : max(high, low + 1)].argmax())
