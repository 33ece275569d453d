from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from patterns import chains
from patterns.layers import edge_graph
from patterns.shape import Shape
from patterns.stages import Chain, lags, orient, read_chain
from reconstruct.edges import Flows
from tests.patterns.made import MIB, Wire, flows_of, rows


def pipeline(
    stages: list[int], lag: float = 0.12, samples: int = 200, volume: float = 50 * MIB
) -> list[Wire]:
    """Activations along `stages`, gradients back a `lag` of the turn later."""
    return [
        wire
        for u, v in pairwise(stages)
        for wire in (
            Wire(u, v, volume, samples, active=(0.1, 0.5)),
            Wire(v, u, volume, samples, active=(0.1 + lag, 0.5 + lag)),
        )
    ]


def chain_of(wires: list[Wire]) -> Chain:
    flows = flows_of(wires)
    return read_chain(flows, rows(flows), shape_of(flows))


def shape_of(flows: Flows) -> Shape:
    shape = chains.find(edge_graph(flows, rows(flows)))
    assert shape is not None
    return shape


@pytest.mark.parametrize("stages", [[3, 5, 8, 9], [9, 8, 5, 3], [4, 1], [2, 9, 1, 7]])
def test_the_forward_direction_leads(stages: list[int]) -> None:
    [(shape, claim)] = orient([chain_of(pipeline(stages))], {})
    assert list(shape.members) == stages
    assert shape.channels[0].order == shape.members
    assert claim.confidence > 0.9


def test_directions_at_once_are_a_toss_up() -> None:
    [(_, claim)] = orient([chain_of(pipeline([3, 5, 8], lag=0.0))], {})
    assert claim.confidence == pytest.approx(0.5, abs=0.05)


def test_a_chain_without_samples_is_a_toss_up() -> None:
    [(shape, claim)] = orient([chain_of(pipeline([3, 5, 8], samples=1))], {})
    assert set(shape.members) == {3, 5, 8}
    assert claim.confidence == 0.5


def test_replicas_are_read_together() -> None:
    # Replica 0 is well seen; of the others each alone would be a toss-up. Stage 0 has the higher
    # addresses in some, so that they are found the other way round.
    well = pipeline([11, 21, 31], samples=400)
    poor = [pipeline([*stages], samples=2) for stages in ([32, 22, 12], [13, 23, 33])]
    group_of = {11: 0, 32: 0, 13: 0, 21: 1, 22: 1, 23: 1, 31: 2, 12: 2, 33: 2}
    made = [chain_of(wires) for wires in (well, *poor)]
    out = orient(made, group_of)
    assert [list(shape.members) for shape, _ in out] == [[11, 21, 31], [32, 22, 12], [13, 23, 33]]
    assert min(claim.confidence for _, claim in out) > 0.9
    alone = orient(made[1:], {})
    assert max(claim.confidence for _, claim in alone) < 0.9


def test_other_pipelines_are_not_read_together() -> None:
    # Two halves of a cluster that run in opposite directions through the same numbers.
    group_of = {1: 0, 2: 1, 3: 2, 11: 5, 12: 6, 13: 7}
    out = orient([chain_of(pipeline([1, 2, 3])), chain_of(pipeline([13, 12, 11]))], group_of)
    assert [list(shape.members) for shape, _ in out] == [[1, 2, 3], [13, 12, 11]]


@pytest.mark.parametrize(
    "group_of",
    [{1: 0, 13: 0}, {1: 0, 2: 1, 3: 0, 11: 0, 12: 1, 13: 0}, {}],
    ids=["members without a group", "the same group at both ends", "no groups"],
)
def test_chains_whose_groups_do_not_name_a_direction_are_read_alone(
    group_of: dict[int, int],
) -> None:
    out = orient([chain_of(pipeline([1, 2, 3])), chain_of(pipeline([13, 12, 11]))], group_of)
    assert [list(shape.members) for shape, _ in out] == [[1, 2, 3], [13, 12, 11]]
    assert min(claim.confidence for _, claim in out) > 0.9


def test_the_lag_of_like_chains_is_shared() -> None:
    alike = [chain_of(pipeline([i, i + 10], samples=40)) for i in range(6)]
    together = lags(alike)
    assert [lag.share for lag in together] == pytest.approx([0.12] * 6, abs=0.01)
    assert together[0].sigmas > 2 * lags(alike[:1])[0].sigmas


def test_collectives_have_no_lag() -> None:
    at_once = [chain_of(pipeline([i, i + 10], lag=0.0)) for i in range(6)]
    assert max(lag.share for lag in lags(at_once)) < 0.01
    assert max(lag.sigmas for lag in lags(at_once)) < 1


def test_chains_of_another_volume_or_length_are_not_alike() -> None:
    pipelines = [chain_of(pipeline([i, i + 10])) for i in range(4)]
    collective = chain_of(pipeline([5, 15], lag=0.0, volume=500 * MIB))
    longer = chain_of(pipeline([6, 16, 26], lag=0.0, volume=25 * MIB))
    *_, heavy, long = lags([*pipelines, collective, longer])
    assert heavy.share < 0.01
    assert long.share < 0.01


def test_a_chain_of_nothing_has_no_lag() -> None:
    unseen = chain_of(pipeline([0, 1], samples=1))
    assert np.isinf(unseen.lead.error)
    assert (lags([unseen])[0].share, lags([unseen])[0].sigmas) == (0.0, 0.0)
