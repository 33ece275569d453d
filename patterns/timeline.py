"""The iterations' final places: where the gradient burst of the data-parallel groups ends.

A turn's gradient traffic is one burst (all-reduce), or two where the optimiser runs between a
reduce-scatter and an all-gather. An iteration ends with the last packet of the burst that follows
the longest pause; what the optimiser sends afterwards belongs to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.claim import claim
from patterns.result import Claim, Collective
from reconstruct.activity import prompt
from reconstruct.bins import Progress

FOLD: Final = 200
QUIET_SHARE: Final = 0.04  # of the mean rate: a phase below it is a pause
SHORTEST_PAUSE: Final = 2  # phases of FOLD
HALVES: Final = (0.5, 2 / 3)  # reduce-scatter's share: equal widths, or fp32 before bf16
HALVES_WITHIN: Final = 0.04


@dataclass(frozen=True, slots=True)
class Bursts:
    """The bursts of a mean turn.

    Parameters
    ----------
    pause : (float, float)
        The longest pause, as phases of the provisional turn; the second may exceed 1.
    gap : (float, float) or None
        The pause between reduce-scatter and all-gather, likewise, behind the longest one.
    first_share : float
        Share of the samples between the two.
    """

    pause: tuple[float, float]
    gap: tuple[float, float] | None
    first_share: float


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


def bursts(signal: Pulse, turns_ns: NDArray[np.int64]) -> Bursts | None:
    """How the signal is spread over a mean turn; None where it never pauses."""
    turn = np.searchsorted(turns_ns, signal.time_ns, "right") - 1
    inside = (turn >= 0) & (turn < len(turns_ns) - 1)
    turn, time, weight = turn[inside], signal.time_ns[inside], signal.weight[inside]
    phase = (time - turns_ns[turn]) / np.diff(turns_ns)[turn]
    profile = np.bincount(np.minimum((phase * FOLD).astype(np.int64), FOLD - 1), weight, FOLD)
    runs = _quiet_runs(profile <= QUIET_SHARE * profile.mean())
    if not runs:
        return None
    start, length = max(runs, key=lambda run: run[1])
    pause = (start / FOLD, (start + length) / FOLD)
    share_from = np.concatenate([[0.0], np.cumsum(np.roll(profile, -(start + length)))])
    total = share_from[-1]
    for quiet, quiet_length in sorted(runs, key=lambda run: -run[1])[1:]:
        at = (quiet - (start + length)) % FOLD
        share = float(share_from[at] / total)
        if any(abs(share - half) <= HALVES_WITHIN for half in HALVES):
            begin = (start + length + at) / FOLD
            return Bursts(pause, (begin, begin + quiet_length / FOLD), share)
    return Bursts(pause, None, 1.0)


def _quiet_runs(quiet: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(start, length) of each circular run of quiet phases of at least SHORTEST_PAUSE."""
    if quiet.all() or not quiet.any():
        return []
    first_loud = int(np.flatnonzero(~quiet)[0])
    rolled = np.roll(quiet, -first_loud)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], rolled.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    return [
        (int((s + first_loud) % len(quiet)), int(e - s))
        for s, e in zip(starts, ends, strict=True)
        if e - s >= SHORTEST_PAUSE
    ]


def ends(
    signal: Pulse, turns_ns: NDArray[np.int64], shape: Bursts
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Crude end of the gradient burst of each turn and a moment in the pause behind it.

    The end is the last sample before the widest gap near the place where the mean turn pauses.

    Returns
    -------
    ends, pauses : int64[k], int64[k]
        Ascending; turns whose pause lies outside the signal are left out.
    """
    quiet = shape.gap or shape.pause
    middle = (quiet[0] + quiet[1]) / 2
    reach = max(0.06, (quiet[1] - quiet[0]) / 2 + 0.04)
    found: dict[int, int] = {}
    for start, length in zip(turns_ns, np.diff(turns_ns), strict=False):
        a, b = np.searchsorted(
            signal.time_ns,
            (start + (middle - reach) * length, start + (middle + reach) * length),
        )
        if a == 0 or b == len(signal.time_ns):
            continue
        around = signal.time_ns[a - 1 : b + 1]
        widest = int(np.diff(around).argmax())
        found[int(around[widest])] = int(around[widest] + around[widest + 1]) // 2
    moments = sorted(found)
    return np.array(moments, np.int64), np.array([found[m] for m in moments], np.int64)


def collective(shape: Bursts, samples: int, turns: int) -> tuple[Collective, Claim]:
    """What gradient rings do: one burst per turn reduces to all, two scatter and then gather."""
    needed = 20.0 * turns
    if shape.gap is None:
        return "all_reduce", claim(0.93, samples, needed, "one burst of gradients per iteration")
    return "reduce_scatter+all_gather", claim(
        0.93,
        samples,
        needed,
        f"two bursts per iteration, the first with {shape.first_share:.0%} of the bytes, "
        f"{shape.gap[1] - shape.gap[0]:.1%} of a turn apart",
    )
