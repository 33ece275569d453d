from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from api.reports.picture import steps_of
from api.reports.series import Series, series_of
from patterns.result import Anomaly, Iteration, JobResult
from tests.api import made

START_NS = made.START_NS
SECOND_NS = made.SECOND_NS


def _series(iterations: Sequence[Iteration], most: int = 100, **changes: object) -> Series:
    job = made.job(iterations=tuple(iterations), **changes)
    series = _of(job, most)
    assert series is not None
    return series


def _of(job: JobResult, most: int = 100) -> Series | None:
    return series_of(job, steps_of(job), START_NS + 1000 * SECOND_NS, most)


def test_one_mark_per_complete_iteration() -> None:
    series = _of(made.job())
    assert series is not None
    assert [mark.first_index for mark in series.marks] == [1, 2, 3, 4, 5, 6]
    assert [mark.middle_s for mark in series.marks] == pytest.approx([1, 1.01, 0.99, 1, 1.55, 1])
    assert [mark.slow_s for mark in series.marks if mark.slow_s] == pytest.approx([1.55])
    assert series.usual_s == pytest.approx(1.0)
    assert (series.folded, series.gaps) == (False, ())
    assert series.start_ns == START_NS + round(0.4 * SECOND_NS)
    assert series.end_ns == made.job().iterations[-1].end_ns


def test_nothing_complete_is_no_series() -> None:
    assert _of(made.job(iterations=())) is None
    assert _of(made.job(iterations=made.iterations([0.4]))) is None


def test_time_without_a_complete_iteration_is_a_gap() -> None:
    whole = list(made.iterations([1.0] * 10, cut_first=False))
    cut = [replace(i, complete=i.index not in (3, 4)) for i in whole]
    later = [replace(i, start_ns=i.start_ns + 4, end_ns=i.end_ns + 4) for i in cut[5:]]
    series = _series([*cut[:5], *later])
    assert series.gaps == ((START_NS + 3 * SECOND_NS, START_NS + 5 * SECOND_NS + 4),)
    assert _series([*whole[:5], *later]).gaps == ()  # 4 ns: nobody would see it


def test_iterations_share_columns_where_there_are_too_many() -> None:
    durations = [1.0] * 1000
    durations[500] = 3.0
    whole = made.iterations(durations, cut_first=False)
    slow = replace(made.job().anomalies[0], start_ns=whole[500].start_ns, end_ns=whole[500].end_ns)
    series = _series(whole, most=100, anomalies=(slow,))
    assert series.folded
    assert 90 <= len(series.marks) <= 100
    assert [mark.first_index for mark in series.marks][:2] == [0, 11]
    assert sum(mark.last_index - mark.first_index + 1 for mark in series.marks) == 1000
    (worst,) = [mark for mark in series.marks if mark.slow_s is not None]
    assert (worst.low_s, worst.middle_s, worst.high_s, worst.slow_s) == (1.0, 1.0, 3.0, 3.0)
    assert worst.first_index <= 500 <= worst.last_index


def test_many_gaps_become_as_many_as_can_be_told_apart() -> None:
    half = [replace(i, complete=i.index % 2 == 0) for i in made.iterations([1.0] * 5001)]
    assert 1 <= len(_series(half).gaps) <= 101


@pytest.mark.parametrize("status", ["idle", "hung", "training"])
def test_silence_up_to_now_shows_where_the_job_rests(status: str) -> None:
    now_ns = START_NS + 1000 * SECOND_NS
    series = _series(made.iterations([1.0] * 10, cut_first=False), status=status)
    rests = ((START_NS + 10 * SECOND_NS, now_ns),)
    assert series.gaps == (() if status == "training" else rests)


def test_ended_job_is_shown_to_its_end() -> None:
    series = _series(
        made.iterations([1.0] * 10, cut_first=False),
        status="ended",
        ended_at_ns=START_NS + 12 * SECOND_NS,
    )
    assert series.end_ns == START_NS + 12 * SECOND_NS


def test_slow_iterations_are_those_that_a_finding_covers() -> None:
    steps = made.iterations([1.0] * 6, cut_first=False)
    one = made.job().anomalies[0]

    def slow(start: int, end: int | None) -> Anomaly:
        end_ns = None if end is None else steps[end].end_ns
        return replace(one, start_ns=steps[start].start_ns, end_ns=end_ns)

    def marked(*anomalies: Anomaly) -> list[int]:
        job = made.job(iterations=steps, anomalies=anomalies)
        return [step.iteration.index for step in steps_of(job) if step.slow]

    assert marked(slow(2, 2)) == [2]
    assert marked(slow(0, 3), slow(1, 1)) == [0, 1, 2, 3]  # the first outlasts the second
    assert marked(slow(4, None)) == [4, 5]
    assert marked(replace(slow(1, 1), kind="hang")) == []
