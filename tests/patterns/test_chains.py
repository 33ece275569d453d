from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns import chains
from tests.patterns.drawn import Edge, both, cycle, edges_of, graph_of, grid, path

MEMBERS = st.lists(st.integers(0, 10_000), min_size=2, max_size=30, unique=True)


@given(MEMBERS)
def test_a_path_used_both_ways_is_a_chain_along_it(members: list[int]) -> None:
    shape = chains.find(graph_of(both(path(members))))
    assert shape is not None
    assert (shape.algorithm, shape.variant) == ("chain", None)
    assert list(shape.members) in (members, members[::-1])
    assert edges_of(shape) == both(path(members))
    assert bool(shape.ambiguous) == (len(members) == 2)


@given(MEMBERS.filter(lambda members: len(members) >= 3), st.integers(2, 6))
def test_an_interleaved_pipeline_closes_with_one_message_less(
    members: list[int], chunks: int
) -> None:
    closing = (members[-1], members[0])
    weight = {edge: float(chunks) for edge in both(path(members))}
    weight |= {closing: chunks - 1.0, closing[::-1]: chunks - 1.0}
    shape = chains.find(graph_of(weight, weight))
    assert shape is not None
    assert shape.variant == "interleaved"
    assert list(shape.members) in (members, members[::-1])
    assert edges_of(shape) == both(cycle(members))


@pytest.mark.parametrize("closing", [1.0, 0.95, 1.1, 5.0])
def test_a_cycle_without_a_lighter_link_has_no_first_stage(closing: float) -> None:
    weight = dict.fromkeys(both(path(range(6))), 1.0) | dict.fromkeys(both([(5, 0)]), closing)
    assert chains.find(graph_of(weight, weight)) is None


def test_a_cycle_with_two_lighter_links_has_no_first_stage() -> None:
    light = both([(5, 0), (2, 3)])
    weight = dict.fromkeys(both(path(range(6))), 1.0) | dict.fromkeys(light, 0.5)
    assert chains.find(graph_of(weight, weight)) is None


@pytest.mark.parametrize("noise", [0.7, 1.0])
def test_two_trees_over_three_members_are_no_chain(noise: float) -> None:
    weight = dict.fromkeys(both([(0, 1)]), 2.0)
    weight |= dict.fromkeys(both([(1, 2)]), 1.0) | dict.fromkeys(both([(2, 0)]), noise)
    assert chains.find(graph_of(weight, weight)) is None


NO_CHAINS: dict[str, list[Edge] | set[Edge]] = {
    "one-way path": path(range(6)),
    "one-way link": [*both(path(range(6))), (5, 6)],
    "ring": cycle(range(6)),
    "two-way ring": both(cycle(range(6))),
    "star": both((0, i) for i in range(1, 6)),
    "branch": both([*path(range(6)), (2, 6)]),
    "chord": both([*path(range(6)), (0, 4)]),
    "grid": grid(3, 3),
    "all": both((u, v) for u in range(5) for v in range(u)),
    "two paths": both([*path(range(3)), *path(range(3, 6))]),
    "self loop": [*both(path(range(6))), (0, 0)],
    "loop in a pair": [(0, 1), (1, 0), (1, 1)],
    "two rings": both([*cycle(range(3)), *cycle(range(3, 6))]),
}


@pytest.mark.parametrize("edges", NO_CHAINS.values(), ids=NO_CHAINS)
def test_what_is_no_chain(edges: list[Edge]) -> None:
    assert chains.find(graph_of(edges)) is None


def test_a_path_beside_a_cycle_is_no_chain() -> None:
    assert chains.find(graph_of(both([*path(range(3)), *cycle(range(3, 6))]))) is None


def handed_on(samples: int = 50, heavier: float = 1.0) -> nx.DiGraph[int]:
    graph = graph_of(path([4, 2, 7, 0, 3, 9]))
    for edge in graph.edges:
        graph.edges[edge]["samples"] = samples
    graph.edges[7, 0]["bytes"] = heavier
    return graph


def test_a_broadcast_that_is_handed_on_is_a_chain_one_way() -> None:
    shape = chains.find_one_way(handed_on())
    assert shape is not None
    assert (shape.algorithm, shape.variant, shape.collective) == ("chain", "pipeline", "broadcast")
    assert shape.members == (4, 2, 7, 0, 3, 9)
    assert shape.ambiguous
    assert edges_of(shape) == set(path([4, 2, 7, 0, 3, 9]))


@pytest.mark.parametrize(
    "graph",
    [
        handed_on(samples=10),
        handed_on(heavier=1.5),
        graph_of(path(range(4))),
        graph_of([(0, 1), (1, 2), (2, 3), (2, 4)]),
        graph_of([(0, 1), (1, 2), (3, 2), (3, 4)]),
        graph_of([*path(range(5)), (4, 0)]),
        graph_of(both(path(range(6)))),
    ],
    ids=["an edge may be missed", "uneven", "short", "fork", "two ends", "ring", "both ways"],
)
def test_what_is_no_broadcast_handed_on(graph: nx.DiGraph[int]) -> None:
    assert chains.find_one_way(graph) is None
