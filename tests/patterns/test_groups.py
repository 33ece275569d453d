from __future__ import annotations

from itertools import permutations

import pytest

from patterns.groups import recognise
from patterns.layers import split
from tests.patterns.drawn import path
from tests.patterns.made import Wire, flows_of, rows


@pytest.mark.parametrize("stages", [*permutations([1, 4, 6, 9, 12], 5)][::17])
def test_what_is_handed_on_one_way_has_the_order_of_its_data(stages: tuple[int, ...]) -> None:
    flows = flows_of([Wire(u, v) for u, v in path(stages)])
    [found] = recognise(flows, split(flows, rows(flows), {}))
    assert found.role.algorithm == "chain"
    assert found.shape.members == stages
    assert found.shape.channels[0].order == stages
    assert found.order.confidence > 0.6
