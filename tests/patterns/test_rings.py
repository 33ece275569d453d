from __future__ import annotations

from itertools import permutations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns import rings
from tests.patterns.drawn import Edge, both, cycle, edges_of, graph_of, grid, path, renamed

MEMBERS = st.lists(st.integers(0, 10_000), min_size=3, max_size=40, unique=True)


@given(MEMBERS)
def test_a_cycle_is_a_ring_in_its_direction(members: list[int]) -> None:
    shape = rings.find(graph_of(cycle(members)))
    assert shape is not None
    assert shape.algorithm == "ring"
    assert (shape.missing, shape.ambiguous) == (0, None)
    assert edges_of(shape) == set(cycle(members))
    assert set(cycle(shape.members)) == set(cycle(members))
    assert shape.channels[0].order == shape.members


def test_every_ring_of_five_is_told_from_every_other() -> None:
    found = set()
    for rest in permutations(range(1, 5)):
        shape = rings.find(graph_of(cycle([0, *rest])))
        assert shape is not None
        assert shape.members == (0, *rest)
        found.add(shape.members)
    assert len(found) == 24


@given(MEMBERS)
def test_names_of_endpoints_do_not_matter(members: list[int]) -> None:
    n = len(members)
    shape = rings.find(graph_of(cycle(range(n))))
    other = rings.find(renamed(graph_of(cycle(range(n))), members))
    assert shape is not None
    assert other is not None
    assert edges_of(other) == {(members[u], members[v]) for u, v in edges_of(shape)}


@given(MEMBERS.filter(lambda members: len(members) >= 5), st.integers(0, 39))
def test_one_edge_unseen_is_a_ring_that_says_so(members: list[int], at: int) -> None:
    edges = cycle(members)
    del edges[at % len(edges)]
    shape = rings.find(graph_of(edges))
    assert shape is not None
    assert shape.missing == 1
    assert shape.ambiguous
    assert edges_of(shape) == set(cycle(members))


@pytest.mark.parametrize(
    "edges",
    [
        both(path(range(8))),
        both(cycle(range(8))),
        [*cycle(range(8)), (0, 4)],
        [*cycle(range(8)), (5, 4)],
        [*cycle(range(8)), (3, 3)],
        [*cycle(range(8)), (3, 8)],
        [*cycle(range(4)), *cycle(range(4, 8))],
        [*path(range(4)), *cycle(range(4, 8))],
        [*path(range(4)), *path(range(4, 8))],
        [*path(range(7)), (7, 7)],
        [(i, i) for i in range(6)],
        [(0, i) for i in range(1, 8)],
        both((0, i) for i in range(1, 8)),
        grid(4, 4),
        path(range(4)),
        [(0, 1), (1, 0)],
        [(0, 1)],
        [(0, 1), (1, 2), (2, 3), (3, 1), (4, 0)],
        [(u, (u + 1) % 8) if u != 3 else (4, 3) for u in range(8)],
    ],
    ids=[
        *("two-way path", "two-way ring", "chord", "reversed chord", "self loop", "tail"),
        *("two rings", "path and ring", "two paths", "path and loop", "loops", "star"),
        *("two-way star", "grid", "short path", "pair", "edge", "path into ring", "turned edge"),
    ],
)
def test_what_is_no_ring(edges: list[Edge]) -> None:
    assert rings.find(graph_of(edges)) is None


@given(
    st.integers(3, 6).flatmap(lambda n: st.permutations(range(n))),
    st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=1),
)
def test_rings_are_exactly_the_connected_permutations(to: list[int], more: set[Edge]) -> None:
    """Against the definition: one way in and out each, and everyone reached from anywhere."""
    graph = graph_of({*enumerate(to), *more})
    by_definition = (
        all(d == 1 for _, d in graph.in_degree)
        and all(d == 1 for _, d in graph.out_degree)
        and nx.is_strongly_connected(graph)
    )
    assert (rings.find(graph) is not None) == by_definition


@given(MEMBERS, st.floats(0.3, 3.0))
def test_rings_against_each_other_are_told_as_two(members: list[int], ratio: float) -> None:
    weight = dict.fromkeys(cycle(members), 1.0) | dict.fromkeys(cycle(members[::-1]), ratio)
    shape = rings.find_both_ways(graph_of(weight, weight))
    assert shape is not None
    assert shape.ambiguous
    wanted = {frozenset(cycle(members)), frozenset(cycle(members[::-1]))}
    assert {frozenset(channel.edges) for channel in shape.channels} == wanted
    assert set(map(frozenset, shape.in_turn)) == wanted
    for channel in shape.channels:
        assert channel.order is not None
        assert set(cycle(channel.order)) == set(channel.edges)


@pytest.mark.parametrize(
    "edges",
    [
        set(cycle(range(8))),
        both(cycle(range(8))) - {(0, 1)},
        both(path(range(8))),
        both([*cycle(range(4)), *cycle(range(4, 8))]),
        both(cycle(range(8))) | {(3, 3)},
        both([(0, 1)]),
        grid(3, 4),
    ],
    ids=["one way", "one edge missing", "path", "two", "self loop", "pair", "grid"],
)
def test_what_is_no_pair_of_rings(edges: set[Edge]) -> None:
    assert rings.find_both_ways(graph_of(edges)) is None


def test_edges_of_one_ring_carry_as_much() -> None:
    weight = dict.fromkeys(both(cycle(range(6))), 1.0)
    weight[0, 1] = 1.4
    assert rings.find_both_ways(graph_of(weight, weight)) is None
