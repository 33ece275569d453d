"""The period of a job: how long one turn of its cycle takes.

The signal is the job's samples, pooled over all its edges: every rank repeats the same cycle, so
a few points per port become a sharp comb together. The period is the shortest lag at which the
signal resembles itself nearly as well as at the best one; micro-batches and layers resemble each
other less than whole iterations do, because gradients are reduced once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.ndimage import maximum_filter1d

from reconstruct.stops import CYCLES as CYCLES
from reconstruct.stops import between_stops

SHORTEST_S: Final = 0.1
SMOOTHING_SHARE: Final = 0.03  # smooth by at most this share of the lag: keeps neighbours apart
HARMONIC_SHARE: Final = 0.93  # a shorter lag this close to the best is the fundamental
BEAT_SHARE: Final = 0.98  # the same where the best is no multiple of it, as a cycle is of a beat
ODD: Final = 0.1  # of a lag: so far from a multiple of it is none
BLUR_SIGMAS: Final = 2.0
MULTIPLE: Final = 3.2  # a period seen doubled or tripled is what this guards against
DIP_SHARE: Final = 0.6  # the signal must differ from itself between 0 and the period
# A train of bursts with a pause behind it resembles itself less and less at multiples of the
# bursts' distance, least where they meet the pause, and again a whole train later.
REVIVED: Final = 0.8  # of the likeness at the bursts' distance, a whole train later
FADED: Final = 0.75  # of that, where bursts meet the pause
SHORTEST_TRAIN: Final = 3  # bursts
SHORTEST_CYCLE: Final = 1.7  # beats
MORE_ALIKE: Final = 1.1  # times as much, that a cycle is itself than a beat inside it
PARTS: Final = (1, 2, 3, 4)  # of several cycles that look more alike than one
WIDER: Final = 3.3  # smoothing, as of so much a lag, that leaves a beat and steadies a longer cycle
FEWEST_PAIRS: Final = 0.1  # of the bins, that a likeness rests on
ENOUGH_PAIRS: Final = 0.4  # the same, for a lag that is too long to be a period
NOISE_SIGMAS: Final = 4.5  # a peak below this many standard deviations of the noise is none


@dataclass(frozen=True, slots=True)
class Period:
    """A period found in a signal.

    Parameters
    ----------
    seconds : float
    similarity : float
        Autocorrelation at the period, 0 to 1, of the smoothed signal.
    sigmas : float
        How far that stands above what as many unrelated samples would give.
    rival : float
        Score of the best whole part of this lag over its own: near 1 the period may be a multiple.
    longer : float
        Likeness at the best lag that is too long to be seen `CYCLES` times, over that at this one:
        clearly above 1 this is the beat of something inside a longer cycle.
    cycles_s : tuple of float
        Longer cycles, in seconds, of which this one may be but a beat.
    """

    seconds: float
    similarity: float
    sigmas: float
    rival: float
    longer: float = 0.0
    cycles_s: tuple[float, ...] = ()


def find_period(
    activity: NDArray[np.float64], bin_s: float, written: NDArray[np.float64] | None = None
) -> Period | None:
    """The period of an activity signal, or None where nothing stands out of the noise.

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
    A lag is scored by the autocorrelation after a Gaussian smoothing by `SMOOTHING_SHARE` of the
    lag, times sqrt(1 - lag / length): long lags rest on less overlap. Only pairs between the same
    two stops count (see `reconstruct.stops`).
    """
    pieces = between_stops(activity, written)
    n = sum(map(len, pieces))
    longest = n // CYCLES
    shortest = max(2, int(SHORTEST_S / bin_s))
    if longest <= shortest + 2 or not activity.any():
        return None
    half = n // 2
    lags = np.arange(longest + 1)
    pairs = _pairs(pieces, half)
    overlap = np.sqrt(pairs[: longest + 1] / n)
    widths = _widths(longest)
    power, size = _power(pieces, half)
    likeness = np.array([_smoothed(power, size, pairs, width) for width in widths])
    likeness[:, pairs < FEWEST_PAIRS * n] = 0.0
    scores = likeness[:, : longest + 1] * overlap
    level = _level(lags, len(widths))
    score = _at_level(scores, level, lags)
    # As many unrelated samples, smoothed alike, would show this much.
    noise = np.sqrt(np.maximum(1.0, 2 * np.sqrt(np.pi) * SMOOTHING_SHARE * lags) / n)
    peaks = _peaks(score, shortest)
    peaks = peaks[score[peaks] > NOISE_SIGMAS * noise[peaks]]
    if not len(peaks):
        return None
    best = int(peaks[score[peaks].argmax()])
    # Of a multiple of a multiple, the shorter one is looked at anew.
    while (first := _shortest_alike(scores, score, level, noise, peaks, best)) < best:
        best = first
    lag = _whole_train(score, noise, peaks, first)
    similarity = score / np.maximum(overlap, 1e-9)
    part = lag / peaks
    shorter = peaks[(part > 1 + ODD) & (np.abs(part - np.rint(part)) <= ODD)]
    seen = np.flatnonzero(pairs >= ENOUGH_PAIRS * n)
    longer = np.append(lag, seen[seen > longest])
    wide = _level(np.full(len(longer), int(WIDER * lag)), len(widths))
    alike = _at_level(likeness, wide, longer)
    return Period(
        seconds=_refine(similarity, lag) * bin_s,
        similarity=float(similarity[lag]),
        sigmas=float(similarity[lag] / noise[lag]),
        rival=float(score[shorter].max() / score[lag]) if len(shorter) else 0.0,
        longer=float(alike[1:].max(initial=0.0) / max(float(alike[0]), 1e-9)),
        cycles_s=tuple(one * bin_s for one in _cycles(likeness, pairs, lag, longest)),
    )


def _shortest_alike(
    scores: NDArray[np.float64],
    score: NDArray[np.float64],
    level: NDArray[np.float64],
    noise: NDArray[np.float64],
    peaks: NDArray[np.intp],
    best: int,
) -> int:
    """The shortest of some peaks that is nearly as much alike as the one at `best`."""
    peaks = peaks[peaks <= best]
    # Wide smoothing flatters long lags, so one not much shorter is compared at its own widest;
    # a much shorter one is not, as the wander of step times blurs long lags at fine widths.
    near = peaks * MULTIPLE >= best
    rival = np.where(near, _at_level(scores, level[peaks], np.full(len(peaks), best)), score[best])
    # What is not similarity is counting noise, and it blurs the comparison by as much.
    blur = BLUR_SIGMAS * (1 - rival) * noise[peaks]
    # A cycle repeats the beat inside it nearly as well, and is no multiple of it, but for chance.
    beat = np.abs(best / peaks - np.rint(best / peaks)) > ODD
    share = np.where(beat, BEAT_SHARE, HARMONIC_SHARE)
    fundamental = score[peaks] >= share * rival - np.where(near, blur, 0.0)
    return int(peaks[np.flatnonzero(fundamental)[0]])


def likeness_at(activity: NDArray[np.float64], lag: float) -> float:
    """How much a signal resembles itself `lag` bins later, smoothed as `find_period` does."""
    at = round(lag)
    if at >= len(activity):
        return 0.0
    power, size = _power([activity], at)
    return float(_smoothed(power, size, _pairs([activity], at), SMOOTHING_SHARE * lag)[at])


def autocorrelation(signal: NDArray[np.float64], longest: int) -> NDArray[np.float64]:
    """Autocorrelation at lags 0..longest, each normalised by its overlap; float64[longest + 1]."""
    power, size = _power([signal], longest)
    return _smoothed(power, size, _pairs([signal], longest), 0.0)


def _pairs(pieces: Sequence[NDArray[np.float64]], longest: int) -> NDArray[np.float64]:
    """Pairs of bins of one piece at lags 0..longest; float64[longest + 1]."""
    lags = np.arange(longest + 1)
    return np.asarray(sum(np.maximum(len(piece) - lags, 0) for piece in pieces), np.float64)


def _power(pieces: Sequence[NDArray[np.float64]], longest: int) -> tuple[NDArray[np.float64], int]:
    """Summed power spectrum of centred pieces, padded so that lags up to `longest` do not wrap."""
    size = next_fast_len(max(map(len, pieces)) + longest + 1)
    mean = sum(float(piece.sum()) for piece in pieces) / sum(map(len, pieces))
    power = np.zeros(size // 2 + 1)
    for piece in pieces:
        power += np.abs(rfft(piece - mean, size)) ** 2
    return power, size


def _smoothed(
    power: NDArray[np.float64], size: int, pairs: NDArray[np.float64], width: float
) -> NDArray[np.float64]:
    """Autocorrelation of a signal after a Gaussian of `width` bins, from its power."""
    response = np.exp(-2 * (np.pi * width * np.arange(len(power)) / size) ** 2)
    raw = irfft(power * response**2, size)[: len(pairs)]
    if raw[0] <= 0:
        return np.zeros(len(pairs))
    return np.asarray(raw / np.maximum(pairs, 1.0) / (raw[0] / pairs[0]))


def _widths(longest: int) -> list[float]:
    """Smoothing widths in bins: none, then doubling up to the share of the longest lag."""
    out = [0.0]
    width = 1.0
    while width <= longest * SMOOTHING_SHARE:
        out.append(width)
        width *= 2
    return out


def _level(lags: NDArray[np.int64], levels: int) -> NDArray[np.float64]:
    """Which of the doubling widths a lag is smoothed by, between two of them; float64.

    The width is `SMOOTHING_SHARE` of the lag. It grows without steps, as a step in it would be a
    step in the score and pass for a peak.
    """
    width = SMOOTHING_SHARE * lags
    level = np.where(width < 1, width, 1 + np.log2(np.maximum(width, 1)))
    return np.asarray(np.minimum(level, levels - 1), np.float64)


def _at_level(
    scores: NDArray[np.float64], level: NDArray[np.float64], lags: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Scores at lags, linear between the two widths around each level."""
    low = np.floor(level).astype(np.int64)
    high = np.minimum(low + 1, len(scores) - 1)
    part = level - low
    return np.asarray((1 - part) * scores[low, lags] + part * scores[high, lags])


def _peaks(score: NDArray[np.float64], shortest: int) -> NDArray[np.intp]:
    """Lags that are the highest within 3 % around them and follow a dip."""
    found = np.flatnonzero((score[1:-1] >= score[:-2]) & (score[1:-1] > score[2:])) + 1
    keep = []
    lowest = np.minimum.accumulate(score)
    for lag in found:
        if lag < shortest or score[lag] <= 0:
            continue
        reach = max(1, int(lag * SMOOTHING_SHARE))
        if score[lag] < score[max(1, lag - reach) : lag + reach + 1].max():
            continue
        if lowest[lag] <= DIP_SHARE * score[lag]:
            keep.append(lag)
    return np.array(keep, np.intp)


def _whole_train(
    score: NDArray[np.float64], noise: NDArray[np.float64], peaks: NDArray[np.intp], lag: int
) -> int:
    """The lag of a whole train of bursts, where `lag` is but the distance from burst to burst."""
    longer = peaks[peaks >= SHORTEST_TRAIN * lag]
    if not len(longer):
        return lag
    most = float(score[longer].max())
    train = int(longer[np.flatnonzero(score[longer] >= HARMONIC_SHARE * most)[0]])
    # The highest within each stretch of one lag, between the two.
    crest = maximum_filter1d(score[: train + 1], lag)[lag + lag // 2 : train - lag // 2]
    low = min(FADED * score[train], score[train] - NOISE_SIGMAS * noise[train])
    faded = crest.min(initial=np.inf) <= low
    return train if faded and score[train] >= REVIVED * score[lag] else lag


def _cycles(
    likeness: NDArray[np.float64], pairs: NDArray[np.float64], lag: int, longest: int
) -> list[int]:
    """Lags of whole cycles that the signal may have, where `lag` is but that of a beat inside.

    Smoothed alike, no multiple of a cycle is clearly more like it than the cycle itself. Of the one
    that is, parts may be the cycle.
    """
    lags = np.arange(int(SHORTEST_CYCLE * lag), longest + 1)
    lags = lags[pairs[lags] >= FEWEST_PAIRS * pairs[0]]
    if not len(lags):
        return []
    every = np.append(lag, lags)
    wide = _level(np.full(len(every), int(WIDER * lag)), len(likeness))
    alike = _at_level(likeness, wide, every)
    best = int(lags[alike[1:].argmax()])
    if alike[1:].max() < MORE_ALIKE * alike[0]:
        return []
    return [round(best / part) for part in PARTS if best / part >= lags[0]]


def _refine(similarity: NDArray[np.float64], lag: int) -> float:
    """The peak's place between bins, by the parabola through it and its neighbours."""
    if lag + 1 >= len(similarity):
        return float(lag)
    left, top, right = similarity[lag - 1 : lag + 2]
    bend = left - 2 * top + right
    return float(lag + (0.5 * (left - right) / bend if bend < 0 else 0.0))
