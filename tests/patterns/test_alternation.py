from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from patterns.alternation import alternate, likeness
from reconstruct.edges import Flows
from tests.patterns.made import TURN_NS, Wire, flows_of

FIRST, SECOND = np.array([0, 1]), np.array([2, 3])


def pairs(one: tuple[float, float], other: tuple[float, float], samples: int = 400) -> Flows:
    """Two senders, each with a partner of the first set and one of the second."""
    return flows_of(
        [
            *(Wire(v, v + 2, samples=samples, active=one) for v in (0, 1)),
            *(Wire(v, v + 4, samples=samples, active=other) for v in (0, 1)),
        ]
    )


@pytest.mark.parametrize(
    ("one", "other", "wanted", "taking"),
    [
        ((0.2, 0.5), (0.5, 0.8), 0.0, True),
        ((0.2, 0.8), (0.2, 0.8), 1.0, False),
        ((0.2, 0.5), (0.2, 0.8), 0.5**0.5, False),
        ((0.2, 0.5), (0.4, 0.7), 1 / 3, None),
    ],
    ids=["in turn", "at once", "one for longer", "they meet"],
)
def test_sets_are_as_alike_as_their_times(
    one: tuple[float, float], other: tuple[float, float], wanted: float, taking: bool | None
) -> None:
    flows = pairs(one, other)
    assert likeness(flows, FIRST, SECOND) == pytest.approx(wanted, abs=0.1)
    assert alternate(flows, [FIRST, SECOND]) is taking


def test_steps_that_come_again_and_again_take_turns() -> None:
    """Folded by phase they would be on top of each other."""
    flows = pairs((0.2, 0.8), (0.2, 0.8), samples=1500)
    time = flows.sightings.time_ns
    step = time % TURN_NS // (TURN_NS // 10)
    second = np.isin(flows.sightings.flow, SECOND)
    moved = time + np.where((step % 2 == 1) == second, 0, TURN_NS // 10)
    turning = replace(flows, sightings=replace(flows.sightings, time_ns=moved))
    assert alternate(flows, [FIRST, SECOND]) is False
    assert alternate(turning, [FIRST, SECOND]) is True


def test_any_two_sets_at_once_are_no_turns() -> None:
    flows = flows_of(
        [Wire(0, v, samples=400, active=at) for v, at in enumerate([(0.1, 0.4), (0.5, 0.8)] * 2, 1)]
    )
    assert alternate(flows, [np.array([0]), np.array([1])]) is True
    assert alternate(flows, [np.array([0]), np.array([1]), np.array([2])]) is False


@pytest.mark.parametrize("samples", [5, 20, 40, 80])
def test_few_samples_never_tell_wrongly(samples: int) -> None:
    """How many of 100 windows show what: of sets used at once none shows turns."""
    at_once = [alternate(chance(seed, samples, turn=False), [FIRST, SECOND]) for seed in range(100)]
    assert True not in at_once
    in_turn = [alternate(chance(seed, samples, turn=True), [FIRST, SECOND]) for seed in range(100)]
    assert False not in in_turn
    assert in_turn.count(True) >= (0 if samples < 20 else 90)


def test_a_handful_of_samples_tells_nothing() -> None:
    for one, other in [((0.2, 0.5), (0.5, 0.8)), ((0.2, 0.8), (0.2, 0.8))]:
        assert alternate(pairs(one, other, samples=4), [FIRST, SECOND]) is None


def chance(seed: int, samples: int, *, turn: bool) -> Flows:
    """Two sets in steps of 0.3 turns each, or both at once; the samples lie elsewhere by seed."""
    flows = pairs((0.2, 0.5), (0.5, 0.8) if turn else (0.2, 0.5), samples)
    seen, rng = flows.sightings, np.random.default_rng(seed)
    second = turn & np.isin(seen.flow, SECOND)
    place = 0.2 + 0.3 * second + 0.3 * rng.random(len(seen.flow))
    turns = rng.integers(0, 60, len(seen.flow))
    time = (turns * TURN_NS + place * TURN_NS).astype(np.int64)
    phases = np.zeros_like(flows.phases)
    np.add.at(phases, (seen.flow, (place * phases.shape[1]).astype(int)), 1.0)
    order = np.argsort(time, kind="stable")
    sightings = replace(seen, time_ns=time[order], flow=seen.flow[order], slack_ns=seen.slack_ns)
    return replace(flows, sightings=sightings, phases=phases)


@pytest.mark.parametrize(
    ("one", "other", "taking"),
    [((0.2, 0.5), (0.5, 0.8), True), ((0.2, 0.8), (0.2, 0.8), False)],
)
def test_times_that_are_not_good_leave_the_phases(
    one: tuple[float, float], other: tuple[float, float], taking: bool
) -> None:
    flows = pairs(one, other)
    late = np.full(len(flows.sightings.flow), 50_000_000)
    flows = replace(flows, sightings=replace(flows.sightings, slack_ns=late))
    assert likeness(flows, FIRST, SECOND) is None
    assert alternate(flows, [FIRST, SECOND]) is taking
