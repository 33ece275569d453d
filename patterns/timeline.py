"""The iterations' final places: where the last gradient-reducing transfer ends.

Gradients pass in one burst or in several (buckets during the backward pass); a sharded optimiser
adds a second train of bursts, its parameter all-gather, which belongs to the next iteration. The
pauses between bursts, placed by volume, tell which of these it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from patterns import boundaries
from patterns.boundaries import SHARES, VolumeClock
from patterns.claim import claim
from patterns.result import Claim, Collective
from reconstruct.activity import prompt
from reconstruct.bins import Progress

FOLD: Final = 200
QUIET_SHARE: Final = 0.04  # of the mean rate: a phase below it is a pause
SHORTEST_PAUSE: Final = 2  # phases of FOLD

HALF: Final = 1 / 2  # reduce-scatter's share of the bytes where both run in one width
TWO_THIRDS: Final = 2 / 3  # gradients in fp32, parameters in bf16
SHARE_WITHIN: Final = 0.012
GAP_OF_PERIOD: Final = 0.003  # a shorter pause inside a burst is not told from its unevenness
GAP_SIGMAS: Final = 8.0  # and it must stand out of the unevenness of the burst's own pace
ONE_SIGMA_BELOW: Final = 0.1587  # quantile of a normal distribution
OPTIMISER_SEEN: Final = 0.006  # of the period: an optimiser step shorter than this is unheard of
GAP_AROUND: Final = 12  # steps to either side that show its usual unevenness
GAP_REACH: Final = 2  # steps of the pace curve over which a pause may smear
EDGE: Final = 0.03  # a pause this near the burst's own end is that end, smeared
LAST_WITHIN: Final = 0.005  # of the period: an end so near behind the last sample was reached
OPTIMISER: Final = 0.06  # of the period; a longer pause is compute between buckets
REGULAR: Final = 0.15  # buckets of one backward pass follow each other within this


@dataclass(frozen=True, slots=True)
class Pulse:
    """Samples of the connections that mark iterations, in order of time."""

    time_ns: NDArray[np.int64]
    weight: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gap:
    """A pause inside an iteration's traffic: after which share of its volume, how long."""

    share: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Ends of the gradient bursts and what the bursts say of the collective.

    Parameters
    ----------
    ends_ns : int64[k]
    collective : str
    claim : Claim
    """

    ends_ns: NDArray[np.int64]
    collective: Collective
    claim: Claim


def place(
    progress: Progress, connections: NDArray[np.int32], turns_ns: NDArray[np.int64]
) -> Timeline | None:
    """The ends of iterations by the job's gradient connections.

    Parameters
    ----------
    progress : Progress
    connections : int32[c]
        Connections of the job's data-parallel groups.
    turns_ns : int64[k]
        Provisional turns, see `reconstruct.iterations`.

    Returns
    -------
    Timeline or None
        None where they never pause together, so that no end can be told.
    """
    signal = pulse(progress, connections)
    pause = longest_pause(signal, turns_ns)
    if pause is None:
        return None
    crude, pauses = _crude_ends(signal, turns_ns, pause)
    if len(crude) < 2:
        return None
    reading = _read(progress, connections, crude, pauses)
    if reading is None:
        unknown = claim(0.5, 0, 1.0, "too few samples per connection to follow its volume")
        return Timeline(crude, "unknown", unknown)
    reading = _from_longest_pause(progress, connections, reading)
    clock, ends, curve = reading.clock, reading.ends_ns, reading.curve
    share, collective, said = _read_gaps(reading)
    before_s = _before_gap(curve, share) if share < 1.0 else 0.0
    wanted = ends - int(before_s * 1e9)
    last = boundaries.last_reached(clock, share, curve, before_s)
    horizon = progress.window_end_ns + int(LAST_WITHIN * reading.period_s * 1e9)
    if last is not None and last <= horizon:
        clock = replace(clock, turns=clock.turns + 1)
        wanted = np.append(wanted, last)
    if share < 1.0 or len(wanted) > len(ends):
        wanted = boundaries.reached(clock, share, wanted)
    inside = wanted >= progress.window_start_ns
    return Timeline(np.unique(wanted[inside]), collective, said)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Gradient traffic on the axis of volume, counted from one pause of the turn.

    Parameters
    ----------
    clock : VolumeClock
    ends_ns : int64[k]
        Ends of the traffic before that pause.
    curve : float64[SHARES]
        Seconds to that end by share.
    gaps : list of Gap
        The other pauses.
    period_s : float
    """

    clock: VolumeClock
    ends_ns: NDArray[np.int64]
    curve: NDArray[np.float64]
    gaps: list[Gap]
    period_s: float


def _read(
    progress: Progress,
    connections: NDArray[np.int32],
    crude_ns: NDArray[np.int64],
    pauses_ns: NDArray[np.int64],
) -> _Reading | None:
    """The reading from given pauses; None where no connection has samples around them."""
    clock = boundaries.read_clock(progress, connections, pauses_ns)
    if not clock.connections:
        return None
    ends = boundaries.reached(clock, 1.0, crude_ns)
    curve = boundaries.pace(clock, ends)
    if not np.isfinite(curve).any():
        return None
    period_s = float(np.median(np.diff(ends))) / 1e9
    return _Reading(clock, ends, curve, gaps(curve, period_s), period_s)


def _from_longest_pause(
    progress: Progress, connections: NDArray[np.int32], reading: _Reading
) -> _Reading:
    """The reading counted from the longest pause of the turn.

    Pauses between many buckets blur in a fold by time, so the first choice may be a short one.
    """
    outer_s = reading.period_s - float(_filled(reading.curve)[0])
    longest = max(reading.gaps, key=lambda gap: gap.seconds, default=None)
    if longest is None or longest.seconds <= outer_s:
        return reading
    before_ns = int(_before_gap(reading.curve, longest.share) * 1e9)
    ends = boundaries.reached(reading.clock, longest.share, reading.ends_ns - before_ns)
    pauses = ends + int(longest.seconds / 2 * 1e9)
    inside = (pauses > progress.window_start_ns) & (pauses < progress.window_end_ns)
    if inside.sum() < 2:
        return reading
    return _read(progress, connections, ends[inside], pauses[inside]) or reading


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


def longest_pause(signal: Pulse, turns_ns: NDArray[np.int64]) -> tuple[float, float] | None:
    """The longest pause of a mean turn as phases (the second may exceed 1), None without one."""
    turn = np.searchsorted(turns_ns, signal.time_ns, "right") - 1
    inside = (turn >= 0) & (turn < len(turns_ns) - 1)
    turn, time, weight = turn[inside], signal.time_ns[inside], signal.weight[inside]
    phase = (time - turns_ns[turn]) / np.diff(turns_ns)[turn]
    profile = np.bincount(np.minimum((phase * FOLD).astype(np.int64), FOLD - 1), weight, FOLD)
    quiet = profile <= QUIET_SHARE * profile.mean()
    if quiet.all() or not quiet.any():
        return None
    first_loud = int(np.flatnonzero(~quiet)[0])
    rolled = np.roll(quiet, -first_loud)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], rolled.astype(np.int8), [0]])))
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    longest = int(lengths.argmax())
    if lengths[longest] < SHORTEST_PAUSE:
        return None
    start = (starts[longest] + first_loud) % FOLD
    return float(start) / FOLD, float(start + lengths[longest]) / FOLD


def _crude_ends(
    signal: Pulse, turns_ns: NDArray[np.int64], pause: tuple[float, float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Last sample before the widest gap near each turn's pause, and the middle of that gap."""
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
        if a == 0 or b == len(signal.time_ns):
            continue
        around = signal.time_ns[a - 1 : b + 1]
        widest = int(np.diff(around).argmax())
        found[int(around[widest])] = int(around[widest] + around[widest + 1]) // 2
    moments = sorted(found)
    return np.array(moments, np.int64), np.array([found[m] for m in moments], np.int64)


def gaps(curve: NDArray[np.float64], period_s: float) -> list[Gap]:
    """Pauses inside the burst, in order of volume.

    Parameters
    ----------
    curve : float64[SHARES]
        As `boundaries.pace` gives it.
    period_s : float
    """
    steps = -np.diff(_filled(curve))
    usual = float(np.median(np.abs(steps)))
    kernel = np.ones(2 * GAP_REACH)
    smeared = np.convolve(steps - usual, kernel, "same")
    limit = shortest_gaps(curve, period_s)
    out: list[Gap] = []
    for i in range(GAP_REACH, len(smeared) - GAP_REACH):
        near = smeared[i - GAP_REACH : i + GAP_REACH + 1]
        if (
            smeared[i] >= limit[i]
            and smeared[i] == near.max()
            and i == i - GAP_REACH + near.argmax()
        ):
            inside = np.clip(steps[i - GAP_REACH : i + GAP_REACH] - usual, 0, None)
            places = np.arange(i - GAP_REACH, i + GAP_REACH) + 1
            share = float((inside * places).sum() / inside.sum()) / SHARES
            if out and share - out[-1].share < EDGE:
                out[-1] = max(out[-1], Gap(share, float(smeared[i])), key=lambda g: g.seconds)
            elif EDGE <= share <= 1 - EDGE:
                out.append(Gap(share, float(smeared[i])))
    return out


def shortest_gaps(curve: NDArray[np.float64], period_s: float) -> NDArray[np.float64]:
    """The shortest pause, in seconds, that would show at each step of a pace curve.

    Pauses make steps longer only, so the lower side of the steps around shows how uneven the
    traffic is there by itself.
    """
    steps = -np.diff(_filled(curve))
    around = sliding_window_view(np.pad(steps, GAP_AROUND, "reflect"), 2 * GAP_AROUND + 1)
    low, middle = np.quantile(around, (ONE_SIGMA_BELOW, 0.5), axis=1)
    limit = GAP_SIGMAS * math.sqrt(2 * GAP_REACH) * (middle - low)
    return np.asarray(np.maximum(GAP_OF_PERIOD * period_s, limit))


def _filled(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The curve with empty steps interpolated."""
    told = np.flatnonzero(np.isfinite(curve))
    return np.asarray(np.interp(np.arange(len(curve)), told, curve[told]))


def _before_gap(curve: NDArray[np.float64], share: float) -> float:
    """Seconds from the moment a pause behind `share` begins to the end of the burst."""
    filled = _filled(curve)
    usual = float(np.median(np.abs(np.diff(filled))))
    clear = max(0, round(share * SHARES) - 1 - GAP_REACH)  # the last step the pause did not smear
    return float(filled[clear]) - (share * SHARES - clear - 0.5) * usual


def _read_gaps(reading: _Reading) -> tuple[float, Collective, Claim]:
    """Share of the volume at which an iteration ends, the collective, and how sure it is."""
    found, period_s = reading.gaps, reading.period_s
    samples = len(reading.clock.owner)
    needed = 20.0 * reading.clock.turns
    if not found:
        blind = float(shortest_gaps(reading.curve, period_s).max())
        basis = f"one burst of gradients per iteration, with no pause above {blind:.3f} s"
        ceiling = 0.92 if blind <= OPTIMISER_SEEN * period_s else 0.7
        return 1.0, "all_reduce", claim(ceiling, samples, needed, basis)
    splits = [g for g in found if _is_split(g.share)]
    if not splits or (len(found) > 1 and _is_regular(found, reading.curve)):
        said = claim(0.9, samples, needed, f"{len(found) + 1} buckets of gradients per iteration")
        return 1.0, "all_reduce", said
    # Of two pauses at telling shares the optimiser's is the shorter: buckets wait for compute.
    split = min(splits, key=lambda g: g.seconds)
    if len(found) == 1 and split.seconds > OPTIMISER * period_s:
        said = claim(0.7, samples, needed, "two bursts per iteration, far apart as two buckets are")
        return 1.0, "all_reduce", said
    basis = (
        f"{split.share:.0%} of the bytes before a pause of {split.seconds:.3f} s, as gradients "
        "before an optimiser step and parameters after it"
    )
    sure = abs(split.share - TWO_THIRDS) <= SHARE_WITHIN or len(found) > 1
    said = claim(0.85 if sure else 0.75, samples, needed, basis)
    return split.share, "reduce_scatter+all_gather", said


def _is_split(share: float) -> bool:
    return min(abs(share - HALF), abs(share - TWO_THIRDS)) <= SHARE_WITHIN


def _is_regular(found: list[Gap], curve: NDArray[np.float64]) -> bool:
    """Whether bursts start at equal distances, as the buckets of one backward pass do."""
    filled = _filled(curve)
    shares = [0.0, *(g.share for g in found)]
    starts = [filled[min(SHARES - 1, int(s * SHARES) + GAP_REACH)] for s in shares]
    distance = -np.diff(starts)
    volumes = np.diff([*shares, 1.0])
    return bool(
        len(distance) > 1
        and np.ptp(distance) <= 2 * REGULAR * distance.mean()
        and np.ptp(volumes) <= 2 * REGULAR * volumes.mean()
    )
