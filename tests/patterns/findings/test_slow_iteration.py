from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns.findings.slow_iteration import slow_iterations
from patterns.result import Anomaly, Iteration, Subject
from reconstruct.outflow import NO_OUTFLOW, STEP_NS, Outflow

MS = 1_000_000


def iterations(durations_ms: Sequence[int], incomplete: tuple[int, ...] = ()) -> list[Iteration]:
    """One behind the other, from time 5 s."""
    out, start = [], 5_000 * MS
    for index, duration in enumerate(durations_ms):
        end = start + duration * MS
        out.append(Iteration(index, start, end, 1e9, index not in incomplete, True))
        start = end
    return out


STEADY = [1000, 1002, 998, 1001, 999, 1003, 997, 1000, 1001, 999]


def found_in(
    made: list[Iteration], samples: int = 100_000, flow: Outflow = NO_OUTFLOW
) -> list[Anomaly]:
    return slow_iterations("job-0", made, samples, flow)


def slow(durations_ms: Sequence[int], incomplete: tuple[int, ...] = ()) -> list[str]:
    return [one.id for one in found_in(iterations(durations_ms, incomplete))]


def test_one_slow_iteration_is_one_finding() -> None:
    [found] = found_in(iterations([*STEADY, 1500, *STEADY]))
    assert found.id == "job-0/slow_iteration/10"
    assert (found.kind, found.severity, found.verdict) == ("slow_iteration", "warning", "undecided")
    assert found.subjects == (Subject("job", "job-0"),)
    assert (found.start_ns, found.end_ns) == (15_000 * MS, 16_500 * MS)
    assert "iteration 10" in found.summary
    assert "1.500 s" in found.summary
    assert "1.50 times" in found.summary
    assert found.evidence["duration_s"] == pytest.approx(1.5)
    assert found.evidence["median_s"] == pytest.approx(1.0)
    assert found.evidence["iterations"] == 21
    assert 0.6 < found.confidence <= 0.95


def test_twice_the_median_is_critical() -> None:
    found = found_in(iterations([*STEADY, 2100, *STEADY, 1900]))
    assert [(one.id, one.severity) for one in found] == [
        ("job-0/slow_iteration/10", "critical"),
        ("job-0/slow_iteration/21", "warning"),
    ]


@pytest.mark.parametrize("duration", [1190, 1100, 700, 10])
def test_a_little_slower_or_faster_is_nothing(duration: int) -> None:
    assert slow([*STEADY, duration]) == []


def test_a_fifth_is_slow_only_where_others_are_steady() -> None:
    assert slow([*STEADY, 1300]) == ["job-0/slow_iteration/10"]
    assert slow([900, 1100, 950, 1050, 930, 1080, 1000, 1000, 970, 1030, 1300]) == []


def test_an_iteration_that_the_window_cuts_counts_neither_way() -> None:
    assert slow([*STEADY, 5000], incomplete=(10,)) == []
    assert slow([4000, *STEADY, 1500], incomplete=(0,)) == ["job-0/slow_iteration/11"]


@pytest.mark.parametrize(("steady", "wanted"), [(6, 0), (7, 1)])
def test_fewer_than_eight_iterations_say_nothing(steady: int, wanted: int) -> None:
    assert len(slow([*STEADY[:steady], 3000])) == wanted


@pytest.mark.parametrize("durations", [[], [1000], [1000] * 30])
def test_no_spread_is_no_finding(durations: list[int]) -> None:
    assert slow(durations) == []


def test_equal_iterations_still_show_a_slow_one() -> None:
    [found] = found_in(iterations([1000] * 20 + [1400]))
    assert found.evidence["spread_s"] == 0
    assert found.confidence == 0.95


def test_a_job_that_becomes_slower_for_good_is_not_many_slow_iterations() -> None:
    longer = [int(1.5 * d) for d in STEADY]
    assert slow([*STEADY, *longer, *longer]) == []
    assert slow([*STEADY, *STEADY, *longer]) == []
    assert slow([*longer, *STEADY, *STEADY]) == []


def test_a_slow_iteration_is_told_by_its_own_regime() -> None:
    longer = [int(1.5 * d) for d in STEADY]
    [found] = found_in(iterations([*STEADY, 1500, *STEADY, *longer, 3000, *longer])[11:])
    assert found.id == "job-0/slow_iteration/31"
    assert found.evidence["median_s"] == pytest.approx(1.5)
    assert "2.00 times" in found.summary


def sent(made: list[Iteration], *, silent: bool, always: float = 0.0) -> Outflow:
    """What a job sends of which the last iteration is the slow one: to itself, but for that one's
    middle where it is silent, and then to storage."""
    time = np.arange(made[0].start_ns, made[-1].end_ns, STEP_NS)
    writing = (time > made[-1].start_ns + 600 * MS) & (time < made[-1].end_ns - 600 * MS)
    inside = np.where(writing & silent, 0.0, 1e9)
    return Outflow(time, inside, np.where(writing, 5e8, always))


def test_an_iteration_with_a_checkpoint_is_not_slow() -> None:
    made = iterations([*STEADY, 6000])
    assert len(found_in(made)) == 1
    assert found_in(made, flow=sent(made, silent=True)) == []
    assert found_in(made, flow=sent(made, silent=True, always=1e8)) == []


def test_a_job_that_goes_on_while_others_are_sent_to_is_slow() -> None:
    made = iterations([*STEADY, 6000])
    assert len(found_in(made, flow=sent(made, silent=False))) == 1
    assert len(found_in(made, flow=sent(made, silent=True, always=4e8))) == 1


def test_a_boundary_in_the_wrong_place_is_no_slow_iteration() -> None:
    assert slow([*STEADY, 1400, 600, *STEADY]) == []
    assert slow([*STEADY, 600, 1400, *STEADY]) == []


def test_a_finding_of_few_samples_is_less_sure() -> None:
    made = iterations([*STEADY, 1500, *STEADY])
    few, many = found_in(made, 100), found_in(made, 100_000)
    assert few[0].confidence < 0.8 < many[0].confidence


@given(
    st.lists(st.integers(950, 1100), min_size=8, max_size=30),
    st.integers(1, 10**6),
    st.integers(0, 29),
)
def test_time_scale_and_place_do_not_matter(base: list[int], scale: int, at: int) -> None:
    durations = [*base[: at % len(base)], 9000, *base[at % len(base) :]]
    one, other = slow(durations), slow([d * scale for d in durations])
    assert one == other == [f"job-0/slow_iteration/{at % len(base)}"]
