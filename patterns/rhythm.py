"""Iterations and the period, from the cuts between turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import I64
from patterns.claim import claim
from patterns.regimes import MEDIAN_COST, regimes
from patterns.result import Claim, Iteration, JobResult
from reconstruct.period import Period
from reconstruct.restarts import undisturbed

FULL_SIGMAS: Final = 12.0  # above noise, at which a rhythm is beyond doubt
RIVAL: Final = 0.75  # a shorter lag that looks this much alike makes a multiple likely
SURE_ERROR: Final = 0.003  # relative error of the median, up to which a period is called right
LONGER: Final = 1.25  # times as much alike at a lag too long to be counted on: a cycle hides there
_LONGER_CYCLE: Final = "a longer cycle, seen too few times to be told, repeats more exactly"
CLEAR_RHYTHM: Final = 8.0  # sigmas, from which on a rhythm alone says what a job's steps are
MOST_UNKNOWN: Final = 0.2  # of a period, that times of samples may be off: flushing has a rhythm
MOST_DOUBT: Final = 0.05  # of a period, that its boundaries leave
FEWEST_A_TURN: Final = 6  # samples: of fewer, a part of a step looks as much alike as the whole
NEEDED: Final = 50.0  # samples per iteration, from which prototypes always met 1 %


def is_beat(period: Period) -> bool:
    """Whether a period may be but the beat of something inside a longer cycle."""
    return period.longer > LONGER


def only_told_steps(result: JobResult, period: Period, known_ns: int) -> JobResult:
    """The job, without steps where its rhythm may not be theirs; see `period_claim`."""
    why = why_untold(result, period, known_ns)
    if why is None:
        return result
    found = f"a rhythm of {period.seconds:.4g} s is seen, but {why}"
    return replace(
        result,
        evidence={**result.evidence, "period": claim(0.5, 0, 1.0, f"unknown: {found}")},
        groups=tuple(replace(group, bytes_per_iteration=None) for group in result.groups),
        period_s=None,
        period_ci_s=None,
        iterations=(),
        anomalies=tuple(a for a in result.anomalies if a.kind != "slow_iteration"),
        hints={},
    )


def why_untold(result: JobResult, period: Period, known_ns: int) -> str | None:
    """Why a rhythm may be that of something else than steps; None where nothing speaks for it."""
    if result.period_s is None:
        return None
    if is_beat(period):
        return _LONGER_CYCLE
    if known_ns > MOST_UNKNOWN * period.seconds * 1e9:
        return f"times of samples are known to {known_ns / 1e9:.2f} s only"
    if result.evidence["period"].samples < FEWEST_A_TURN:
        return "too few samples each time tell a step from its parts"
    turns = sum(i.complete for i in result.iterations)
    if _median_error(result.iterations, max(turns, 1)) > MOST_DOUBT * result.period_s:
        return "its ends are put so badly that it may be several steps"
    if not result.groups and period.sigmas < CLEAR_RHYTHM:
        return f"only {period.sigmas:.0f} sigma above noise, and of unknown groups"
    return None


def iterations_between(
    cuts_ns: NDArray[np.int64], window_ns: tuple[int, int], volume: float, breaks: I64
) -> tuple[Iteration, ...]:
    """Iterations between the cuts, and the two that the window cuts off.

    One in which the job was started again is not complete.

    Parameters
    ----------
    cuts_ns : int64[k]
        Ends of iterations, ascending.
    window_ns : (int, int)
    volume : float
        Bytes of a whole iteration.
    breaks : int64[r, 2]
        See `reconstruct.restarts`.
    """
    start, end = window_ns
    cuts = [int(t) for t in cuts_ns]
    out = []
    if start < cuts[0]:
        out.append(Iteration(0, start, cuts[0], None, False, True))
    whole = undisturbed(cuts_ns[:-1], cuts_ns[1:], breaks)
    for (begin, finish), complete in zip(pairwise(cuts), whole.tolist(), strict=True):
        bytes_ = volume if complete else None
        out.append(Iteration(len(out), begin, finish, bytes_, complete, True))
    if cuts[-1] < end:
        out.append(Iteration(len(out), cuts[-1], end, None, False, False))
    return tuple(out)


def median_period(
    iterations: Sequence[Iteration],
) -> tuple[float | None, tuple[float, float] | None]:
    """Median duration of the complete iterations and the 95 % interval of that median.

    The interval is by order statistics (binomial), free of any distribution.
    """
    durations = np.sort([i.duration_s for i in iterations if i.complete])
    n = len(durations)
    if not n:
        return None, None
    reach = 1.96 * np.sqrt(n) / 2
    low = durations[max(0, int(np.floor(n / 2 - reach)))]
    high = durations[min(n - 1, int(np.ceil(n / 2 + reach)))]
    return float(np.median(durations)), (float(low), float(high))


def boundary_noise_s(iterations: Sequence[Iteration]) -> float:
    """Standard error of a boundary, by what durations lose to their neighbours.

    A boundary that is put too late makes one iteration longer and the next as much shorter, so
    neighbouring durations covary by minus the variance of a boundary's error.
    """
    durations = np.array([i.duration_s for i in iterations if i.complete])
    if len(durations) < 3:
        return 0.0
    away = np.clip(durations - np.median(durations), *_bounds(durations))
    return float(np.sqrt(max(0.0, -float(np.mean(away[1:] * away[:-1])))))


def _bounds(durations: NDArray[np.float64]) -> tuple[float, float]:
    """Deviations beyond which a duration is an event of its own."""
    spread = 4 * 1.4826 * float(np.median(np.abs(durations - np.median(durations))))
    return -spread, spread


def _changes(iterations: Sequence[Iteration]) -> str:
    """How long iterations took by regime, in words; empty where there is one."""
    complete = [i for i in iterations if i.complete]
    found = regimes([i.duration_s for i in complete])
    lengths = [f"{one.median_s:.4g} s from iteration {complete[one.first].index}" for one in found]
    return ", ".join(lengths) if len(found) > 1 else ""


def _median_error(iterations: Sequence[Iteration], turns: int) -> float:
    """Standard error of the median duration, seconds, by what boundaries are off."""
    return float(MEDIAN_COST * np.sqrt(2 / turns) * boundary_noise_s(iterations))


def period_claim(
    period: Period, iterations: Sequence[Iteration], samples: int, known_ns: int
) -> Claim:
    """How sure the period is: of its multiple, of the noise, of its boundaries.

    Parameters
    ----------
    period : Period
    iterations : sequence of Iteration
    samples : int
    known_ns : int
        How well the samples' times are known; 0 where they are good.
    """
    turns = sum(i.complete for i in iterations)
    typical, _ = median_period(iterations)
    if not turns or typical is None:
        return claim(0.5, 0, 1.0, "no complete iteration")
    ceiling = 0.6 + 0.39 * min(1.0, period.sigmas / FULL_SIGMAS)
    basis = f"signal repeats {turns} times, {period.sigmas:.0f} sigma above noise"
    if period.rival > RIVAL:
        ceiling = min(ceiling, 0.7)
        basis += f"; a shorter one looks {period.rival:.0%} as much alike"
    if is_beat(period):
        ceiling = min(ceiling, 0.5)
        basis += f"; {_LONGER_CYCLE}"
    if changes := _changes(iterations):
        # One end more or less in the window may put the median into another regime.
        ceiling = min(ceiling, 0.6)
        basis += f"; steps changed: {changes}"
    if known_ns:
        # An agent's flushing has a rhythm of its own, which may be all that is seen.
        ceiling = min(ceiling, 0.6)
        basis += f"; sample times known to {known_ns / 1e9:.2f} s only"
    error = _median_error(iterations, turns) / typical
    if error > SURE_ERROR:
        ceiling = min(ceiling, 0.85 if error < 2 * SURE_ERROR else 0.6)
        basis += f"; boundaries leave {error:.1%} of doubt"
    return claim(ceiling, samples // turns, NEEDED / 3, basis)
