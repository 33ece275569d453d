"""The mean turn: a job's samples folded by its turns, and the pause in which turns end."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.missed import Pulse
from reconstruct.activity import prompt
from reconstruct.bins import Progress
from reconstruct.dwells import find_cuts
from reconstruct.lockstep import find_walks

FOLD: Final = 200
FEWEST_TURNS: Final = 5
USUALLY: Final = 2.0  # times the usual time from a last sample to its end: one in four is longer
FADING: Final = 3.0  # times the time between a burst's last two samples
QUIET_SHARE: Final = 0.04  # of the mean rate: a phase below it is a pause
SHORTEST_PAUSE: Final = 2  # phases of FOLD
WHOLE_PAUSE: Final = 0.5  # of the usual one: as pauses wander, so much of it lies where it should


def find_pauses(signal: Pulse, turns_ns: NDArray[np.int64]) -> list[tuple[float, float]]:
    """Pauses of a mean turn as phases (the second may exceed 1), the longest first."""
    return [
        (start / FOLD, (start + length) / FOLD)
        for start, length in quiet(profile_of(signal, turns_ns))
        if length >= SHORTEST_PAUSE
    ]


def profile_of(signal: Pulse, turns_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Samples by phase of the turns; float64[FOLD]."""
    turn = np.searchsorted(turns_ns, signal.time_ns, "right") - 1
    inside = (turn >= 0) & (turn < len(turns_ns) - 1)
    turn, time, weight = turn[inside], signal.time_ns[inside], signal.weight[inside]
    phase = (time - turns_ns[turn]) / np.diff(turns_ns)[turn]
    slot = np.minimum((phase * FOLD).astype(np.int64), FOLD - 1)
    return np.asarray(np.bincount(slot, weight, FOLD), np.float64)


def quiet(profile: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pauses of a mean turn: first phase and number of phases of each, the longest first."""
    low = profile <= QUIET_SHARE * profile.mean()
    if low.all() or not low.any():
        return []
    first_loud = int(np.flatnonzero(~low)[0])
    rolled = np.roll(low, -first_loud)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], rolled.astype(np.int8), [0]])))
    starts, lengths = (edges[::2] + first_loud) % FOLD, edges[1::2] - edges[::2]
    order = np.argsort(-lengths, kind="stable")
    return list(zip(starts[order].tolist(), lengths[order].tolist(), strict=True))


def crude_ends(
    signal: Pulse, turns_ns: NDArray[np.int64], pause: tuple[float, float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Last sample before the gap that covers most of each turn's pause, and that gap's middle."""
    middle = (pause[0] + pause[1]) / 2
    reach = max(0.06, (pause[1] - pause[0]) / 2 + 0.04)
    found: dict[int, int] = {}
    lengths = np.diff(turns_ns)
    # A burst that the window cut in half has an end all the same: look one turn beyond each side.
    starts = np.concatenate([[turns_ns[0] - lengths[0]], turns_ns])
    lengths = np.concatenate([[lengths[0]], lengths, [lengths[-1]]])
    for start, length in zip(starts, lengths, strict=True):
        a, b = np.searchsorted(
            signal.time_ns,
            (start + (middle - reach) * length, start + (middle + reach) * length),
        )
        cut_off = a == 0 or b == len(signal.time_ns)
        around = signal.time_ns[max(a - 1, 0) : b + 1]
        if len(around) < 2:
            continue
        begin, end = start + pause[0] * length, start + pause[1] * length
        covered = np.minimum(around[1:], end) - np.maximum(around[:-1], begin)
        best = int(covered.argmax())
        # At the window's edge only a gap that may be the whole pause is one.
        if cut_off and covered[best] < WHOLE_PAUSE * (end - begin):
            continue
        found[int(around[best])] = int(around[best] + around[best + 1]) // 2
    moments = sorted(found)
    return np.array(moments, np.int64), np.array([found[m] for m in moments], np.int64)


def overshot_ns(signal: Pulse, ends_ns: NDArray[np.int64]) -> int:
    """By how much ends lie behind the last samples before them, beyond what chance leaves unseen.

    Behind the last sample a burst goes on for about as long as lies between that and the one
    before, or for a few times as long where it fades. Where its last bytes pass faster than those
    before, ends are read too late.
    """
    time = np.unique(signal.time_ns)
    at = np.searchsorted(time, ends_ns, "right")
    seen = at > 1
    at, ends_ns = at[seen], ends_ns[seen]
    if len(at) < FEWEST_TURNS:
        return 0
    last = time[at - 1]
    apart = float(np.median(last - time[at - 2]))
    left = float(np.median(ends_ns - last))
    return int(left - apart) if left > FADING * apart else 0


def unseen_ns(signal: Pulse, ends_ns: NDArray[np.int64]) -> int:
    """Up to how long before an end its last sample may come, as those of other ends do."""
    at = np.searchsorted(signal.time_ns, ends_ns, "right")
    at, ends_ns = at[at > 0], ends_ns[at > 0]
    if len(at) < FEWEST_TURNS:
        return 0
    return int(USUALLY * np.median(ends_ns - signal.time_ns[at - 1]))


def by_volume(
    progress: Progress,
    connections: NDArray[np.int32],
    signal: Pulse,
    turns_ns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What `crude_ends` returns, where pauses wander too much to be seen by time."""
    rows = np.flatnonzero(np.isin(progress.bins.connection, connections) & prompt(progress.bins))
    rows = rows[np.argsort(progress.bins.last_ns[rows], kind="stable")]
    middles = find_cuts(find_walks(progress, rows, progress.bins.last_ns[rows]), turns_ns)
    if middles is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return signal.time_ns[np.searchsorted(signal.time_ns, middles) - 1], middles
