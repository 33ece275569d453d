"""Drift: whether rhythms that look alike keep step through the window.

Rails of one job wait for one another in every iteration, so the lag between two of them stays.
Two jobs that happen to be in phase drift apart: their periods differ a little, and each one's
iterations take a little longer or shorter by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from reconstruct.activity import activity
from reconstruct.bins import BIN_NS
from reconstruct.likeness import Moments
from reconstruct.merging import group_rows
from reconstruct.period import find_period

PARTS: Final = 8  # of the window, in each of which the lag is measured
SLACK: Final = 0.002  # turns by which the lag within a job may wander
LOST: Final = 1e3  # variance of a phase of which nothing was seen, turns^2
BLOCK: Final = 1 << 17  # pairs at a time
MOST_BINS: Final = 1 << 14  # of a signal; a longer window gets wider bins


@dataclass(frozen=True, slots=True)
class Drift:
    """How much the lag of pairs changed through the window.

    Parameters
    ----------
    sigmas : float64[k]
        Root mean square change of the lag over that by counting and `SLACK`: about 1 in step, 0
        where nothing is known.
    at_once : float64[k]
        The same without one step of the lag, as when a link becomes slow, where that explains more
        than a steady drift does.
    noise : float64[k]
        Change of the lag by counting and `SLACK`, turns; infinite where nothing is known.
    turns : float64[k]
        Turns of the pair's cycle in the window.
    """

    sigmas: NDArray[np.float64]
    at_once: NDArray[np.float64]
    noise: NDArray[np.float64]
    turns: NDArray[np.float64]


def drift(seen: Moments, one: NDArray[np.intp], other: NDArray[np.intp]) -> Drift:
    """Drift of pairs of components whose rhythms look alike.

    Parameters
    ----------
    seen : Moments
    one, other : intp[k]
        Components of each pair. Those that pairs connect have about one period.
    """
    out = np.zeros((4, len(one)))
    out[2] = np.inf
    edges = (np.ones(len(one)), (one, other))
    count, cluster = connected_components(coo_array(edges, shape=(seen.count, seen.count)), False)
    cluster = cluster.astype(np.int32)
    of_row = cluster[seen.owner]
    rows = group_rows(of_row, count)
    ends = np.cumsum(np.bincount(of_row, minlength=count))
    pairs = group_rows(cluster[one], count)
    pair_ends = np.cumsum(np.bincount(cluster[one], minlength=count))
    number = np.zeros(seen.count, np.int32)
    for c in np.unique(cluster[one]):
        members = np.flatnonzero(cluster == c)
        number[members] = np.arange(len(members))
        part = seen.take(rows[ends[c - 1] if c else 0 : ends[c]])
        period_s = _period(part)
        if period_s is None:
            continue
        part = replace(part, owner=number[part.owner], count=len(members))
        found = _phases(part, period_s)
        of_cluster = pairs[pair_ends[c - 1] if c else 0 : pair_ends[c]]
        for at in range(0, len(of_cluster), BLOCK):
            block = of_cluster[at : at + BLOCK]
            out[:3, block] = _changes(found, number[one[block]], number[other[block]])
        out[3, of_cluster] = found.turns
    return Drift(*out)


def _period(seen: Moments) -> float | None:
    """Period of all components together, seconds; roughly, as all are held against the same."""
    start, end = int(seen.last_ns.min()), int(seen.last_ns.max()) + 1
    width = max(BIN_NS, (end - start) // MOST_BINS)
    period = find_period(activity(seen.last_ns, seen.samples, start, end, width), width / 1e9)
    return None if period is None else period.seconds


@dataclass(frozen=True, slots=True)
class _Phases:
    """Where in its turn each component is active, by parts of the window.

    Parameters
    ----------
    phasor : complex128[n, parts]
        Of length 1, its angle the phase.
    variance : float64[n, parts]
        Of the phase by counting, turns^2; `LOST` where nothing was seen.
    turns : float
        In the window.
    """

    phasor: NDArray[np.complex128]
    variance: NDArray[np.float64]
    turns: float


def _phases(seen: Moments, period_s: float) -> _Phases:
    """Phases of components with about this period.

    Notes
    -----
    The phase is the angle of the mean z of exp(2 pi i t / period) over n samples. Its variance is
    (1 - c) / (2 n R^2), R = |z| and c the second harmonic's part along 2 phases (Mardia and Jupp,
    Directional Statistics, 2000, 4.8); R^2 without the 1 / n that noise adds.
    """
    turns = (seen.end_ns - seen.start_ns) / 1e9 / period_s
    parts = int(np.clip(turns, 2, PARTS))
    since = seen.last_ns - seen.start_ns
    part = np.minimum(since * parts // (seen.end_ns - seen.start_ns), parts - 1)
    cell = seen.owner.astype(np.int64) * parts + part

    def total(value: NDArray[np.float64]) -> NDArray[np.float64]:
        summed = np.bincount(cell, value, seen.count * parts).astype(np.float64)
        return summed.reshape(seen.count, parts)

    turn = np.exp(2j * np.pi * (since / 1e9 / period_s))
    samples = total(seen.samples)
    first = total(seen.samples * turn.real) + 1j * total(seen.samples * turn.imag)
    turn *= turn
    second = total(seen.samples * turn.real) + 1j * total(seen.samples * turn.imag)
    length = np.abs(first)
    phasor = np.divide(first, length, out=np.ones_like(first), where=length > 0)
    peaked = (second * np.conj(phasor) ** 2).real.sum(axis=1) / np.maximum(samples.sum(axis=1), 1)
    # n R^2 of one part is a weak estimate where it is small, so it may not exceed that of all.
    strength = np.maximum(length**2 - samples, 1e-9)
    overall = strength.sum(axis=1) / np.maximum((samples**2).sum(axis=1), 1)
    strength = np.minimum(strength / np.maximum(samples, 1), overall[:, None] * samples)
    variance = np.clip(1 - peaked, 0, 2)[:, None] / (2 * np.maximum(strength, 1e-9))
    return _Phases(phasor, np.minimum(variance / (2 * np.pi) ** 2, LOST), turns)


def _changes(
    found: _Phases, one: NDArray[np.integer], other: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """`Drift.sigmas`, `at_once` and `noise` of pairs."""
    weight = 1 / (found.variance[one] + found.variance[other] + SLACK**2)
    between = found.phasor[one] * np.conj(found.phasor[other])
    mean = (between * weight).sum(axis=1, keepdims=True)
    length = np.abs(mean)
    mean = np.divide(mean, length, out=np.ones_like(mean), where=length > 0)
    lag = np.angle(between * np.conj(mean)) / (2 * np.pi)
    parts = lag.shape[1]
    squares = (weight * lag**2).sum(axis=1)
    # Sums up to each place where the lag may step, and of the rest.
    left = np.cumsum(weight, axis=1)
    moved = np.cumsum(weight * lag, axis=1)
    explained = moved[:, :-1] ** 2 / left[:, :-1]
    explained += (moved[:, -1:] - moved[:, :-1]) ** 2 / (left[:, -1:] - left[:, :-1])
    step = explained.max(axis=1)
    since = np.arange(parts) - (weight * np.arange(parts)).sum(axis=1, keepdims=True) / left[:, -1:]
    steady = (weight * since * lag).sum(axis=1) ** 2 / (weight * since**2).sum(axis=1)
    rest = np.maximum(squares - step, 0)
    return (
        np.sqrt(squares / (parts - 1)),
        np.sqrt(np.where(step > steady, rest / max(parts - 2, 1), squares / (parts - 1))),
        np.sqrt(parts / left[:, -1]),
    )
