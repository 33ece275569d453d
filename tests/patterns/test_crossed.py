from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns.crossed import join
from patterns.layers import Part, edge_graph, shape_of
from patterns.messages import UNKNOWN
from tests.patterns.drawn import Edge, cycle
from tests.patterns.made import Wire, flows_of


def nics(hosts: int, rails: int, draw: Random) -> list[list[int]]:
    """Endpoint ids by host and rail, in no order."""
    ids = list(range(hosts * rails))
    draw.shuffle(ids)
    return [ids[h * rails : (h + 1) * rails] for h in range(hosts)]


def known(hosts: list[list[int]]) -> dict[int, str]:
    return {nic: f"host-{h}" for h, own in enumerate(hosts) for nic in own}


def parts_of(edges: list[Edge]) -> list[Part]:
    """Every circle as a part of its own."""
    after = dict(edges)
    parts, seen = [], set[int]()
    flows = flows_of([Wire(u, v) for u, v in edges])
    for start in after:
        circle = []
        while start not in seen:
            seen.add(start)
            circle.append(start)
            start = after[start]
        if circle:
            rows = np.flatnonzero(np.isin(flows.src, circle))
            graph = edge_graph(flows, rows)
            parts.append(Part(rows, graph, shape_of(graph, UNKNOWN, written=True), UNKNOWN))
    return parts


@given(st.integers(3, 9), st.sampled_from([2, 4, 8]), st.randoms(use_true_random=False))
def test_rings_that_cross_rails_are_one_group(hosts: int, rails: int, draw: Random) -> None:
    place = nics(hosts, rails, draw)
    entered = {
        rail: [(place[h][(rail + 1) % rails], place[(h + 1) % hosts][rail]) for h in range(hosts)]
        for rail in range(rails)
    }
    parts = parts_of([edge for edges in entered.values() for edge in edges])
    [part] = join(parts, known(place))
    shape = part.shape
    assert shape is not None
    assert sorted(part.flows) == list(range(hosts * rails))
    assert sorted(shape.members) == list(range(hosts * rails))
    assert {frozenset(c.edges) for c in shape.channels} == set(map(frozenset, entered.values()))
    for channel in shape.channels:
        assert channel.order is not None
        wanted = next(r for r, edges in entered.items() if set(channel.edges) == set(edges))
        assert set(cycle(channel.order)) == set(cycle([own[wanted] for own in place]))


PLACE = [[0, 1], [2, 3], [4, 5]]
CROSSED = [(1, 2), (3, 4), (5, 0), (0, 3), (2, 5), (4, 1)]


@pytest.mark.parametrize(
    ("edges", "hosts"),
    [
        ([*cycle([0, 2, 4]), *cycle([1, 3, 5])], known(PLACE)),
        (CROSSED, {}),
        (CROSSED, known(PLACE[:2])),
        (CROSSED, {nic: f"host-{nic}" for nic in range(6)}),
        ([(1, 2), (3, 4), (5, 1), (0, 3), (2, 5), (4, 0)], known(PLACE)),
        ([(1, 2), (2, 4), (4, 1), (0, 5), (5, 3), (3, 0)], known(PLACE)),
    ],
    ids=["rails", "no hosts", "one unknown", "one NIC each", "not alike", "two ways round"],
)
def test_other_rings_stay_as_they_are(edges: list[Edge], hosts: dict[int, str]) -> None:
    parts = parts_of(edges)
    assert len(parts) in (1, 2)
    assert join(parts, hosts) == parts
