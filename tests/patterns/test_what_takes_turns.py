"""The same edges: used in turn they are a collective, used at once they are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from collector.inventory import Inventory
from collector.schema import FlowBatch
from patterns.analyse import analyse_window
from patterns.result import Analysis
from tests.patterns.drawn import Edge, both, cycle, grid
from tests.patterns.test_single_trees import binomial, down
from tests.reconstruct.made import address, telemetry
from tests.reconstruct.rhythm import cuts, repeated

SEND_MIDDLE = 0x01
PERIOD_S, TURNS, STEP_S = 1.1, 25, 0.22  # `repeated` sends for a fifth of a turn


def sent(steps: Sequence[Iterable[Edge]], opcode: int = SEND_MIDDLE) -> Analysis:
    """What is said of connections that send step by step, in every turn."""
    rng = np.random.default_rng(1)
    turns = cuts(PERIOD_S, TURNS, 0.005, rng)
    batches: list[FlowBatch] = [
        repeated(turns - STEP_S * (len(steps) - 1 - number), *edge, rng, micro_batches=0)
        for number, step in enumerate(steps)
        for edge in sorted(step)
    ]
    for batch in batches:
        batch.opcode[:] = opcode
    return analyse_window(telemetry(*batches), Inventory())


def by_bit(ranks: int) -> list[set[Edge]]:
    bits = range((ranks - 1).bit_length())
    return [{(r, r ^ (1 << bit)) for r in range(ranks)} for bit in bits]


def against(ranks: int) -> list[set[Edge]]:
    return [set(cycle(range(ranks))), set(cycle(range(ranks)[::-1]))]


IN_TURN = {
    "four partners": (by_bit(4), "recursive", "recursive_doubling"),
    "eight partners": (by_bit(8), "recursive", "recursive_doubling"),
    "rings against each other": (against(6), "ring", None),
    "rings of four against each other": (against(4), "ring", None),
}


@pytest.mark.parametrize(("steps", "algorithm", "variant"), IN_TURN.values(), ids=IN_TURN)
def test_steps_that_follow_each_other_are_a_job(
    steps: list[set[Edge]], algorithm: str, variant: str | None
) -> None:
    [job] = sent(steps).jobs
    [group] = job.groups
    assert (group.kind, group.algorithm) == ("dp", algorithm)
    assert group.algorithms[0].variant == variant
    edges = set().union(*steps)
    assert set(group.edges) == {(address(u), address(v)) for u, v in edges}


NO_JOBS = {
    **{f"{name}, at once": [set().union(*steps)] for name, (steps, *_) in IN_TURN.items()},
    "grid": [grid(3, 4)],
    "grid that is a cube": [grid(4, 4)],
    "pairs": [both([(0, 1), (2, 3), (4, 5)])],
    "parameter server": [{(i, 0) for i in range(1, 7)}, {(0, i) for i in range(1, 7)}],
}


@pytest.mark.parametrize("steps", NO_JOBS.values(), ids=NO_JOBS)
def test_neighbours_that_send_at_once_are_no_job(steps: list[set[Edge]]) -> None:
    assert sent(steps).jobs == ()


def test_a_loop_of_broadcasts_is_a_job_of_unknown_kind() -> None:
    edges = down(binomial(8), [5, 2, 7, 0, 3, 6, 1, 4])
    [job] = sent([edges], opcode=0x07).jobs
    [group] = job.groups
    assert (group.kind, group.algorithm, group.collective) == ("unknown", "tree", "broadcast")
    assert group.algorithms[0].variant == "binomial"
    parent = group.algorithms[0].channels[0].parent
    assert parent == {address(child): address(up) for up, child in edges}
