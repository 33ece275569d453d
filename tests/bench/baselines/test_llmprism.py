"""LLMPrism's jobs and timelines on records whose answer can be read off."""

from __future__ import annotations

import numpy as np
import pytest

from bench.baselines.flow_records import Ends
from bench.baselines.llmprism import data_parallel, divide, jobs, longest_pauses, recognise
from tests.bench.baselines.flows import PERIOD_S, STEPS, flows, ring


def ends(*server: int) -> Ends:
    return Ends(tuple(f"10.0.0.{n}" for n in range(len(server))), np.array(server))


def found(rows: list[tuple[float, float, int, int, int]], server: list[int]) -> list[list[int]]:
    return sorted(members.tolist() for members in recognise(flows(rows), np.array(server)))


def test_rails_of_the_same_servers_are_one_job() -> None:
    rows = ring([0, 2, 4]) + ring([1, 3, 5])
    assert found(rows, [0, 0, 1, 1, 2, 2]) == [[0, 1, 2, 3, 4, 5]]


def test_rails_of_other_servers_are_jobs_of_their_own() -> None:
    rows = ring([0, 2, 4]) + ring([1, 3])
    assert found(rows, [0, 0, 1, 1, 2, 2]) == [[0, 2, 4], [1, 3]]


def test_two_jobs_on_the_same_servers_are_taken_for_one() -> None:
    # What the method cannot know: nothing but the servers joins clusters.
    rows = ring([0, 2]) + ring([1, 3], late_s=0.7)
    assert found(rows, [0, 0, 1, 1]) == [[0, 1, 2, 3]]


def test_traffic_with_what_is_no_gpu_joins_nothing() -> None:
    rows = ring([0, 1]) + ring([2, 3]) + [(0.0, 9.0, 0, 4, 10**9), (0.0, 9.0, 2, 4, 10**9)]
    two = jobs(flows(rows), ends(0, 1, 2, 3, -1))
    assert sorted(job.endpoints.tolist() for job in two) == [[0, 1], [2, 3]]


def test_a_step_ends_with_its_last_flow_on_any_rank() -> None:
    (job,) = jobs(flows(ring([0, 1, 2])), ends(0, 1, 2))
    np.testing.assert_allclose(job.step_ends_s, np.arange(STEPS) * PERIOD_S + 0.8)


def test_a_step_that_the_window_cuts_has_no_end() -> None:
    (job,) = jobs(flows(ring([0, 1, 2])[:-8]), ends(0, 1, 2))
    np.testing.assert_allclose(job.step_ends_s, np.arange(STEPS - 1) * PERIOD_S + 0.8)


def test_activations_of_one_size_are_not_gradients() -> None:
    pipeline = [
        (step * PERIOD_S + 0.9 + 0.05 * k, step * PERIOD_S + 0.91 + 0.05 * k, 0, 3, 2_000_000)
        for step in range(STEPS)
        for k in range(8)
    ]
    records = flows(ring([0, 1, 2]) + pipeline)
    (job,) = jobs(records, ends(0, 1, 2, 3))
    assert job.endpoints.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(job.step_ends_s, np.arange(STEPS) * PERIOD_S + 0.8)


def test_a_pair_between_data_parallel_ones_is_one_too() -> None:
    several, single = ring([0, 1]), [(9.0, 9.1, 0, 1, 5), (9.0, 9.1, 2, 3, 5)]
    records = flows(several + single)
    pair = np.array([[0, 1], [1, 0], [2, 3]])
    rows = [np.flatnonzero((records.src == a) & (records.dst == b)) for a, b in pair]
    steps = divide(records, rows)
    assert data_parallel(records, pair, rows, steps).tolist() == [True, True, False]


@pytest.mark.parametrize("stall_s", [[], [30.0], [30.0, 40.0]])
def test_the_longest_usual_pause_divides_steps(stall_s: list[float]) -> None:
    pauses = np.array(([0.001] * 3 + [0.1] + [0.001] * 3 + [1.4]) * 9 + stall_s)
    begins = pauses > 0.05
    chosen = longest_pauses(np.log(pauses), begins)
    assert pauses[chosen].tolist() == [1.4] * 9 + stall_s
