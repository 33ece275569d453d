from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from patterns.result import Claim, Iteration, JobResult, Parallelism
from patterns.rhythm import iterations_between, median_period, only_told_steps, period_claim
from reconstruct.period import Period

S = 1_000_000_000
NO_RESTARTS = np.zeros((0, 2), np.int64)
CLEAR = Period(seconds=1.0, similarity=0.9, sigmas=30.0, rival=0.2, longer=1.0)


def lasting(durations_s: Sequence[float]) -> tuple[Iteration, ...]:
    """Complete iterations of these durations between two that the window cuts off."""
    cuts = S + np.round(np.concatenate([[0.0], np.cumsum(durations_s)]) * S).astype(np.int64)
    return iterations_between(cuts, (S // 2, int(cuts[-1]) + S // 2), 1e9, NO_RESTARTS)


def claimed(durations_s: Sequence[float], period: Period = CLEAR, known_ns: int = 0) -> Claim:
    return period_claim(period, lasting(durations_s), 100 * len(durations_s), known_ns)


def jittered(count: int, jitter: float = 0.002, seed: int = 1) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(d) for d in 1 + jitter * rng.standard_normal(count)]


def test_iterations_lie_between_cuts_and_the_window_cuts_two_off() -> None:
    made = lasting([1.0, 1.5])
    assert [i.index for i in made] == [0, 1, 2, 3]
    assert [i.complete for i in made] == [False, True, True, False]
    assert [i.final for i in made] == [True, True, True, False]
    assert [i.duration_s for i in made] == [0.5, 1.0, 1.5, 0.5]
    assert [i.bytes for i in made] == [None, 1e9, 1e9, None]


def test_the_period_is_the_median_of_complete_iterations() -> None:
    period, interval = median_period(lasting([1.0, 1.1, 5.0, 0.9, 1.2]))
    assert period == 1.1
    assert interval is not None
    assert interval[0] <= 1.1 <= interval[1]
    assert median_period(()) == (None, None)


def test_steady_steps_make_a_sure_period() -> None:
    assert claimed(jittered(30)).confidence > 0.9


@pytest.mark.parametrize("factor", [0.7, 1.2, 1.6])
def test_a_period_of_two_regimes_says_both_and_is_not_sure(factor: float) -> None:
    said = claimed([1.0, 1.01, 0.99] * 5 + [factor, 1.01 * factor, 0.99 * factor] * 5)
    assert said.confidence <= 0.6
    assert f"steps changed: 1 s from iteration 1, {factor} s from iteration 16" in said.basis


def test_checkpoints_change_no_regime() -> None:
    steps = jittered(30)
    steps[4::6] = [3.0] * len(steps[4::6])
    assert "steps changed" not in claimed(steps).basis


@pytest.mark.parametrize(
    ("period", "known_ns", "most"),
    [
        (Period(1.0, 0.9, 3.0, 0.2, 1.0), 0, 0.75),
        (Period(1.0, 0.9, 30.0, 0.9, 1.0), 0, 0.7),
        (Period(1.0, 0.9, 30.0, 0.2, 2.0), 0, 0.5),
        (CLEAR, S // 10, 0.6),
    ],
    ids=["faint", "rival", "longer", "times in doubt"],
)
def test_what_speaks_against_a_period_makes_it_less_sure(
    period: Period, known_ns: int, most: float
) -> None:
    assert claimed(jittered(30), period, known_ns).confidence <= most


def test_ends_that_are_put_badly_leave_doubt() -> None:
    rng = np.random.default_rng(2)
    error = 0.05 * rng.standard_normal(31)
    said = claimed([float(d) for d in 1 + np.diff(error)])
    assert said.confidence <= 0.85
    assert "boundaries leave" in said.basis


def test_no_complete_iteration_is_no_period() -> None:
    said = period_claim(CLEAR, (Iteration(0, 0, S, None, False, True),), 100, 0)
    assert said.confidence == 0.5


def studied(samples: int = 2000, period: Period = CLEAR) -> JobResult:
    """A job of 20 turns with so many samples in all, and no groups."""
    turns = lasting([1.0] * 20)
    return JobResult(
        id="job-0",
        hosts=("a",),
        endpoints=("10.0.0.1", "10.0.0.2"),
        confidence=0.9,
        evidence={"period": period_claim(period, turns, samples, 0)},
        parallelism=Parallelism(None, None, None, None, None, (), {}, 0.5),
        period_s=1.0,
        period_ci_s=(0.9, 1.1),
        iterations=turns,
    )


def test_steps_that_are_told_stay() -> None:
    told = studied()
    assert only_told_steps(told, CLEAR, 0) is told
    assert only_told_steps(told, CLEAR, S // 10) is told


@pytest.mark.parametrize(
    ("period", "samples", "known_ns", "why"),
    [
        (replace(CLEAR, longer=1.3), 2000, 0, "a longer cycle"),
        (CLEAR, 100, 0, "too few samples each time"),
        (replace(CLEAR, sigmas=6.0), 2000, 0, "only 6 sigma above noise"),
        (CLEAR, 2000, S // 4, "times of samples are known to 0.25 s only"),
    ],
)
def test_steps_that_may_be_parts_of_others_are_unknown(
    period: Period, samples: int, known_ns: int, why: str
) -> None:
    told = only_told_steps(studied(samples, period), period, known_ns)
    assert (told.period_s, told.period_ci_s, told.iterations, told.hints) == (None, None, (), {})
    claimed = told.evidence["period"]
    assert claimed.confidence == 0.5
    assert claimed.basis.startswith(f"unknown: a rhythm of 1 s is seen, but {why}")
    assert told.endpoints == studied().endpoints


def test_steps_whose_ends_are_put_badly_are_unknown() -> None:
    late = [0.4 if n % 2 else 1.6 for n in range(12)]
    told = replace(studied(), iterations=lasting(late))
    told = only_told_steps(told, CLEAR, 0)
    assert told.period_s is None
    assert "its ends are put so badly" in told.evidence["period"].basis
