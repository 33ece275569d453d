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


def test_few_samples_tell_nothing() -> None:
    for one, other in [((0.2, 0.5), (0.5, 0.8)), ((0.2, 0.8), (0.2, 0.8))]:
        assert alternate(pairs(one, other, samples=20), [FIRST, SECOND]) is None


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
