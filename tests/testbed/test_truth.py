"""Truths of the testbed, before anything runs: what programs draw, and where ranks are placed."""

from __future__ import annotations

import numpy as np
import pytest

from bench.accuracy import check
from bench.compare import edges_of
from tests.patterns.drawn import both, parents_of
from tests.testbed import shapes, truth
from tests.testbed.cases import CASES, Case
from tests.testbed.clocks import Clocks
from tests.testbed.hosts import place

S = 1_000_000_000
START_NS = 1_800_000_000 * S


def clocks(ranks: int, turns: int = 5) -> Clocks:
    """Turns of a second; each rank ends a little after the one before."""
    began = START_NS + S * np.arange(turns) + np.zeros((ranks, 1), np.int64)
    ended = began + S // 2 + 1000 * np.arange(ranks)[:, None]
    return Clocks(began, began + S // 4, ended)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_truths_are_documents_of_the_schema(case: Case) -> None:
    ranks = sum(program.ranks for program in case.programs)
    placed = place(ranks, case.hosts, seed=1)
    jobs = []
    for i, program in enumerate(case.programs):
        on = placed[i * program.ranks : (i + 1) * program.ranks]
        jobs.append(truth.job(f"job-{i}", program, on, [clocks(program.ranks)]))
    check(truth.window(START_NS, START_NS + 9 * S, jobs), "document")


def test_another_seed_gives_the_permuted_truth() -> None:
    (program,) = next(case for case in CASES if case.name == "mpi-ring").programs
    one, other = (place(8, 8, seed) for seed in (1, 2))
    assert one != other
    moved = {a.address: b.address for a, b in zip(one, other, strict=True)}
    first, second = (truth.job("j", program, on, [clocks(8)]) for on in (one, other))
    assert {(moved[a], moved[b]) for a, b in edges_of(first["groups"][0])} == edges_of(
        second["groups"][0]
    )


def test_iterations_end_when_the_last_rank_has_its_sum_and_runs_count_on() -> None:
    (program,) = next(case for case in CASES if case.name == "mpi-ring").programs
    later = clocks(8)
    later = Clocks(*(times + 60 * S for times in (later.began_ns, later.ready_ns, later.ended_ns)))
    job = truth.job("j", program, place(8, 8, 1), [clocks(8), later])
    assert [i["index"] for i in job["iterations"]] == list(range(8))
    assert job["iterations"][0]["end"] == truth.rfc3339(START_NS + S + S // 2 + 7000)
    assert job["iterations"][4]["start"] == truth.rfc3339(START_NS + 60 * S + S // 2 + 7000)
    assert job["period_s"] == 1.0


def test_the_double_tree_is_nccls() -> None:
    first, second = shapes.double_tree(8).channels
    up = {child: parent for child, parent in enumerate(parents_of(8)) if parent >= 0}
    assert set(first.edges) == both(up.items())
    assert set(second.edges) == both((7 - a, 7 - b) for a, b in up.items())


def test_broadcast_trees_reach_every_rank_once() -> None:
    assert shapes.binomial(8) == {1: 0, 2: 0, 3: 1, 4: 0, 5: 1, 6: 2, 7: 3}
    assert shapes.fan_of_chains(8, 4) == {1: 0, 2: 1, 3: 0, 4: 3, 5: 0, 6: 5, 7: 0}
