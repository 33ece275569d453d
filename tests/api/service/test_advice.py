from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from api.service.advice import job_findings
from api.service.doctor import Finding
from api.service.doubts import NO_DOUBTS, Doubts
from tests.api.service.made import DOUBTS, PENDING

NO_JOBS: dict[str, int] = {}
SEEN = "32 endpoints, 10.0.0.1 the first, repeat something every 2 s, with "
# A hundred seconds of 32 endpoints, 20 samples a second.
BUSY = replace(DOUBTS, endpoints=32, connections=64, doubted=2000, doubted_s=100.0)


def finding(
    doubts: Doubts,
    jobs: Mapping[str, int] | None = NO_JOBS,
    window_s: float = 600.0,
    rates: tuple[int, ...] = (4000,),
) -> Finding:
    (only,) = job_findings(jobs, doubts, window_s, rates)
    return only


def pending(**changes: object) -> Doubts:
    return replace(BUSY, pending=(replace(PENDING, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ({"training": 1}, "1 job told of (1 training): ringscope jobs"),
        ({"training": 2, "idle": 1}, "3 jobs told of (1 idle, 2 training): ringscope jobs"),
    ],
)
def test_jobs_are_told_of(jobs: dict[str, int], text: str) -> None:
    assert finding(BUSY, jobs) == Finding("jobs", "ok", text)


def test_where_all_jobs_are_idle_samples_may_have_ceased() -> None:
    assert finding(DOUBTS, {"idle": 2}) == Finding(
        "jobs",
        "note",
        "2 jobs told of (2 idle): ringscope jobs",
        "nothing of theirs is sampled any more: see exporters",
    )


def test_results_that_cannot_be_read_say_nothing_of_jobs() -> None:
    assert job_findings(None, BUSY, 600.0, (4000,)) == ()


class TestPending:
    def test_not_looked_at(self) -> None:
        assert finding(pending(studied=False, shaped=False)) == Finding(
            "jobs",
            "note",
            SEEN + "60 samples an iteration (1.9 an endpoint): not looked at closely yet",
            "wait some seconds",
        )

    def test_too_few_samples_for_shapes_wait_or_sample_more(self) -> None:
        """128 samples on 64 connections in 100 s: after 200 s there are 4 each."""
        found = finding(pending(shaped=False, turns=64, samples_per_turn=2.0))
        assert found == Finding(
            "jobs",
            "note",
            SEEN + "2 samples an iteration (0.062 an endpoint): 2 samples a connection are too few"
            " to see who talks to whom; 4 would do",
            "wait 100 s, or sample 1:2,000 instead of 1:4,000",
        )

    def test_waiting_does_not_help_where_the_window_is_too_short(self) -> None:
        found = finding(pending(shaped=False, turns=64, samples_per_turn=2.0), window_s=150.0)
        assert (found.state, found.advice) == ("wrong", "sample 1:2,000 instead of 1:4,000")

    def test_samples_enough_and_no_collective(self) -> None:
        found = finding(pending(shaped=False))
        assert found.state == "note"
        assert found.text.endswith("no ring, tree, chain or all-to-all carries most of it")

    def test_too_short(self) -> None:
        found = finding(replace(pending(), doubted_s=7.0))
        assert (found.state, found.advice) == ("note", "wait")
        assert found.text.endswith(": seen for 7 s, 20 s are needed")

    def test_a_longer_cycle(self) -> None:
        found = finding(pending(longer=True))
        assert found.text.endswith(": a longer cycle shows, not yet 5 times")
        assert found.advice == "wait; in 600 s (analysis.window_s) one of up to 120 s is found"

    def test_a_period_that_is_not_believed(self) -> None:
        found = finding(pending(samples_per_turn=20.0))
        assert found == Finding(
            "jobs",
            "wrong",
            SEEN + "20 samples an iteration (0.62 an endpoint): its period is not believed;"
            " 50 samples an iteration make it sure",
            "sample 1:1,600 instead of 1:4,000; it will be told of, with its period in doubt, after"
            " 12 looks (3 so far)",
        )

    def test_a_matter_of_time(self) -> None:
        found = finding(pending())
        assert (found.state, found.advice) == ("note", "wait some seconds")

    def test_many_are_counted(self) -> None:
        found = job_findings(NO_JOBS, replace(BUSY, pending=(PENDING,) * 7), 600.0, (4000,))
        assert len(found) == 6
        assert found[-1].text == "2 more like these are not told of yet"


class TestNothingRepeats:
    def test_not_looked_yet(self) -> None:
        assert finding(NO_DOUBTS).text == "nothing has been looked at yet"

    def test_telemetry_that_has_stopped(self) -> None:
        found = finding(replace(DOUBTS, samples=0))
        assert (found.state, found.text) == (
            "wrong",
            "no data of RoCE or TCP was sampled in the last 600 s",
        )

    def test_no_job_runs(self) -> None:
        found = finding(replace(DOUBTS, storage=2900, management=60, control=40))
        assert found == Finding(
            "jobs",
            "ok",
            "no job seems to run: 3,000 samples, 2,900 of storage, 60 of management,"
            " 40 of small messages",
        )

    def test_too_little_time(self) -> None:
        found = finding(replace(BUSY, doubted_s=7.0))
        assert found == Finding(
            "jobs",
            "note",
            "32 endpoints outside of jobs have been seen for 7 s",
            "wait: a job is told of after 5 iterations, and not before 20 s",
        )

    def test_too_few_samples(self) -> None:
        """20 samples a second: 50 an iteration need 2.5 s."""
        assert finding(BUSY) == Finding(
            "jobs",
            "wrong",
            "nothing repeats among 2,000 samples of 32 endpoints outside of jobs in 100 s"
            " (0.62 an endpoint and second): an iteration must have some 50, so one of less than"
            " 2.5 s cannot be told",
            "for iterations of 1 s, sample 1:1,600 instead of 1:4,000",
        )

    def test_so_few_that_no_iteration_could_be_seen(self) -> None:
        found = finding(replace(BUSY, doubted=30), window_s=600.0)
        assert "one of less than 166.7 s cannot be told" in found.text
        assert found.advice == (
            "for iterations of 1 s, sample 1:24 instead of 1:4,000 (many switches go no lower than"
            " 256); no longer ones than 120 s are found"
        )

    def test_samples_enough(self) -> None:
        found = finding(replace(BUSY, doubted=100_000))
        assert found.state == "note"
        assert found.text.endswith(": no iterations of up to 20 s")
        assert found.advice == "it may be no job; longer iterations need more time, so wait"


@pytest.mark.parametrize("rates", [(), (1000, 4000)])
def test_without_one_rate_the_factor_is_said(rates: tuple[int, ...]) -> None:
    assert finding(BUSY, rates=rates).advice == "for iterations of 1 s, sample 3 times as often"
