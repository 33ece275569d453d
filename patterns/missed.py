"""Ends of iterations that no sample shows: where telemetry was missing for a while.

The bytes that went by, by the sequence numbers on both sides, tell missing telemetry from a job
that stalled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import Transport
from reconstruct.acknowledgements import PSN_BITS
from reconstruct.activity import prompt
from reconstruct.bins import Progress

CUT_OFF: Final = 0.25  # of the period: a silence so much longer than the usual one hides something
TIMELY: Final = 0.03  # of the period: telemetry that stops so near to an end leaves it where it is
WHOLE_WITHIN: Final = 0.25  # iterations: how well the bytes between two ends are known, and
WHOLE_EACH: Final = 0.02  # how much less well for each iteration more
FAR_SIDE: Final = 0.2  # of a counter's range
WHOLE_CLEARLY: Final = 0.1  # iterations: by so much must one count fit better than another


@dataclass(frozen=True, slots=True)
class Pulse:
    """Samples of the connections that mark iterations, in order of time."""

    time_ns: NDArray[np.int64]
    weight: NDArray[np.float64]


def pulse(progress: Progress, connections: NDArray[np.int32]) -> Pulse:
    """Sample times of some connections, where they are known well enough.

    A row of `ProgressBins` holds two times, its first and its last sample's.
    """
    bins = progress.bins
    rows = np.flatnonzero(np.isin(bins.connection, connections) & prompt(bins))
    several = bins.samples[rows] > 1
    time = np.concatenate([bins.last_ns[rows], bins.first_ns[rows][several]])
    half = np.where(several, bins.samples[rows] / 2, 1.0)
    weight = np.concatenate([half, half[several]])
    order = np.argsort(time, kind="stable")
    return Pulse(time[order], weight[order])


def fill(
    progress: Progress,
    connections: NDArray[np.int32],
    signal: Pulse,
    ends_ns: NDArray[np.int64],
    middles_ns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends of bursts and the middles of the pauses behind them, also where none were seen.

    Parameters
    ----------
    progress : Progress
    connections : int32[c]
        Those that mark the ends.
    signal : Pulse
        Of these connections.
    ends_ns, middles_ns : int64[k]
        Ascending, at least two; an end may be none, where telemetry stopped in a burst.

    Returns
    -------
    ends_ns, middles_ns : int64[n]
        Ascending; n may be less than 2.
    """
    ends_ns, middles_ns = _without_cut_off(progress, connections, signal, ends_ns, middles_ns)
    if len(ends_ns) < 2:
        return ends_ns, middles_ns
    return _filled(progress, connections, signal, ends_ns, middles_ns)


def _without_cut_off(
    progress: Progress,
    connections: NDArray[np.int32],
    signal: Pulse,
    ends_ns: NDArray[np.int64],
    middles_ns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends and pauses without those where not a burst ended, but telemetry did.

    A job that stalls is silent for as long, but a whole iteration's bytes went by before.
    """
    behind = np.searchsorted(signal.time_ns, ends_ns, "right")
    silent = signal.time_ns[np.minimum(behind, len(signal.time_ns) - 1)] - ends_ns
    period = float(np.median(np.diff(ends_ns)))
    suspect = silent > np.median(silent) + CUT_OFF * period
    if not suspect.any():
        return ends_ns, middles_ns
    turns = np.diff(ends_ns) / period
    count = np.maximum(np.rint(turns), 1)
    off = _away(progress, connections, ends_ns, count) + np.abs(turns - count)
    # Nothing tells of the time before the first end: a job that stopped behind it went on from it.
    first = float(_away(progress, connections, ends_ns[:2], np.ones(1))[0])
    # What came a turn behind another end came in time, however few samples tell of its bytes.
    timely = np.append(False, np.abs(turns - 1) <= TIMELY)
    kept = ~suspect | timely | (np.append(min(first, off[0]), off) <= WHOLE_WITHIN)
    return ends_ns[kept], middles_ns[kept]


def _filled(
    progress: Progress,
    connections: NDArray[np.int32],
    signal: Pulse,
    ends_ns: NDArray[np.int64],
    middles_ns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends and pauses with those put in that lie unseen in a stretch of several iterations.

    A stretch of k periods is k iterations only if it also holds k iterations' samples or, where
    telemetry itself was missing, if k iterations' bytes went by; else it is one that took so long.
    """
    lengths = np.diff(ends_ns)
    period = float(np.median(lengths))
    periods = np.rint(lengths / period)
    gone_by = np.concatenate([[0.0], np.cumsum(signal.weight)])
    held = np.diff(gone_by[np.searchsorted(signal.time_ns, ends_ns, "right")])
    parts = np.maximum(np.minimum(periods, np.rint(held / np.median(held))), 1)
    if (parts < periods).any():
        away = _away(progress, connections, ends_ns, periods)
        fewer = _away(progress, connections, ends_ns, parts)
        unseen = (away <= WHOLE_WITHIN + WHOLE_EACH * periods) & (away < fewer - WHOLE_CLEARLY)
        parts = np.where(unseen, periods, parts)
    lag = int(np.median(middles_ns - ends_ns))
    missed = [
        int(end + length * j / k)
        for end, length, k in zip(ends_ns, lengths, parts, strict=False)
        for j in range(1, int(k))
    ]
    if not missed:
        return ends_ns, middles_ns
    put_in = np.array(missed, np.int64)
    return np.sort(np.append(ends_ns, put_in)), np.sort(np.append(middles_ns, put_in + lag))


def _away(
    progress: Progress,
    connections: NDArray[np.int32],
    moments_ns: NDArray[np.int64],
    count: NDArray[np.float64],
) -> NDArray[np.float64]:
    """How far from `count` iterations' worth the bytes between moments are; float64[k - 1].

    By the median connection, in iterations; a counter may have gone round unseen. Infinite where
    none has samples, or where that leaves open what passed.
    """
    bins = progress.bins
    roce = progress.connections.transport == Transport.ROCEV2
    away, circle = [], []
    for connection in connections:
        first, last = np.searchsorted(bins.connection, (connection, connection + 1))
        if last - first < 2:
            continue
        after = np.clip(np.searchsorted(bins.first_ns[first:last], moments_ns), 1, last - first - 1)
        late, early = first + after, first + after - 1
        # Nothing moves in a pause: the nearer sample tells, however far away the other one is.
        nearer = bins.first_ns[late] - moments_ns < moments_ns - bins.last_ns[early]
        steps = np.diff(np.where(nearer, bins.first_seq[late], bins.last_seq[early]))
        # Outside its first and last sample a connection may not have been there.
        lived = (moments_ns >= bins.first_ns[first]) & (moments_ns <= bins.last_ns[last - 1])
        lived = lived[1:] & lived[:-1]
        typical = float(np.median(steps[lived])) if lived.any() else 0.0
        if typical > 0:
            circle.append(2.0 ** (PSN_BITS if roce[connection] else 32) / typical)
            off = steps / typical - count
            away.append(np.where(lived, off - circle[-1] * np.rint(off / circle[-1]), np.nan))
    if not away:
        return np.full(len(moments_ns) - 1, np.inf)
    every = np.array(away)
    unknown = np.isnan(every).all(axis=0)
    every[:, unknown] = np.inf
    # On the far side of the circle more and less are the same, and their median is nothing.
    far = np.nanmedian(np.abs(every) / np.array(circle)[:, None], axis=0) > FAR_SIDE
    return np.where(far | unknown, np.inf, np.abs(np.nanmedian(every, axis=0)))
