"""Scores of jobs, volumes and iterations, on documents whose numbers can be worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from bench.timing import ENOUGH_SAMPLES, Timing, period_only, timing
from tests.bench.documents import document, iterations, job, ring

Json = dict[str, Any]
ENDS = [2.0, 3.0, 4.0, 5.0]


def truth(*jobs: Json, samples: float = ENOUGH_SAMPLES) -> Json:
    seen = {one["id"]: {"samples_per_iteration": samples} for one in jobs}
    return document(
        *jobs,
        scenario="s",
        seed=7,
        level="rich",
        observable={"jobs": seen},
        export={"timestamps": True},
    )


def scored(ends: list[float], samples: float = ENOUGH_SAMPLES, **changes: Any) -> Timing:
    said = job("r", [ring("g", "abcd")], iterations=iterations(ends, 1.0), **changes)
    return timing("m", truth(job("t", [ring("g", "abcd")]), samples=samples), document(said))


def counts(score: Timing) -> tuple[int, int, int, int]:
    return score.iterations, score.missed, score.invented, score.unknown


def test_a_right_result() -> None:
    score = scored(ENDS)
    assert (score.method, score.scenario, score.seed, score.level) == ("m", "s", 7, "rich")
    assert score.jobs is not None
    assert score.jobs.all_exact
    assert [m.error for m in score.periods] == [0.0]
    assert [m.error for m in score.group_bytes] == [0.0]
    assert score.boundaries == score.held == (0.0,) * 4
    assert score.lasting == (0.0,) * 3
    assert counts(score) == (4, 0, 0, 0)


def test_distances_are_of_paired_ends_only() -> None:
    score = scored([2.1, 4.0, 5.2, 7.5])
    assert score.boundaries == pytest.approx((0.1, 0.0, 0.2))
    assert counts(score) == (4, 1, 1, 0)


def test_few_samples_are_held_to_no_boundary() -> None:
    score = scored(ENDS, samples=ENOUGH_SAMPLES - 0.1)
    assert score.boundaries == (0.0,) * 4
    assert score.held == ()


def test_a_constant_offset_moves_no_duration() -> None:
    assert scored([2.3, 3.3, 4.3, 5.3]).lasting == pytest.approx((0.0,) * 3)
    # Iterations of 1.1 s and 0.9 s; the offset is the median one.
    assert scored([2.3, 3.4, 4.3, 5.3]).lasting == pytest.approx((0.1, 0.1, 0.0))


def test_a_gap_has_no_duration() -> None:
    assert scored([2.0, 4.0, 5.0]).lasting == pytest.approx((0.0,))


def test_an_unknown_period_misses_no_iteration() -> None:
    score = scored([], period_s=None)
    assert counts(score) == (4, 0, 0, 4)
    assert score.boundaries == ()


def test_without_iterations_but_with_a_period_all_are_missed() -> None:
    assert counts(scored([])) == (4, 4, 0, 0)


def test_iterations_beside_an_unknown_period_are_guesses() -> None:
    assert counts(scored([2.0, 9.0], period_s=None)) == (4, 3, 1, 0)
    assert counts(scored([9.0], period_s=None)) == (4, 4, 1, 0)


def test_a_job_that_was_not_found_misses_all() -> None:
    score = timing("m", truth(job("t", [ring("g", "abcd")])), document())
    assert counts(score) == (4, 4, 0, 0)
    assert [m.error for m in score.periods] == [None]


def test_one_period_for_all_jobs() -> None:
    jobs = [job("t", [ring("g", "ab")], period_s=2.0), job("u", [ring("g", "cd")], period_s=3.0)]
    score = period_only("m", truth(*jobs), 3.0)
    assert score.jobs is None
    assert [m.error for m in score.periods] == [0.5, 0.0]
    assert [m.error for m in period_only("m", truth(*jobs), None).periods] == [None, None]
