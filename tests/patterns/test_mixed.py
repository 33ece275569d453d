from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns import mixed
from tests.patterns.drawn import Edge, cycle, double_tree, nccl_trees, renamed


def ring_and_tree(n: int, ring: float, turned: bool = False) -> nx.DiGraph[int]:
    """A double tree whose trees carry a byte each way, and a ring over the same connections."""
    graph = double_tree(*nccl_trees(n))
    for u, v in cycle(range(n)[::-1] if turned else range(n)):
        carried = graph.get_edge_data(u, v, {"bytes": 0.0})["bytes"]
        graph.add_edge(u, v, bytes=carried + ring, samples=9, flows=1)
    return graph


@given(
    st.integers(4, 40).flatmap(lambda n: st.permutations(range(100, 100 + n))),
    st.floats(0.2, 20.0),
    st.booleans(),
)
def test_both_are_told_with_their_shares(names: list[int], ring: float, turned: bool) -> None:
    n = len(names)
    graph = renamed(ring_and_tree(n, ring, turned), names)
    shape = mixed.find(graph)
    assert shape is not None
    share_of_ring = n * ring / (n * ring + 4 * (n - 1))
    assert {part.algorithm: share for share, part in shape.parts} == pytest.approx(
        {"ring": share_of_ring, "tree": 1 - share_of_ring}
    )
    assert shape.algorithm == ("ring" if share_of_ring >= 0.5 else "tree")
    assert set(shape.edges) == set(graph.edges)
    around = names[::-1] if turned else names
    assert set(cycle(shape.members)) == set(cycle(around))


def carried(graph: nx.DiGraph[int], changes: dict[Edge, float]) -> nx.DiGraph[int]:
    for (u, v), more in changes.items():
        graph.add_edge(u, v, bytes=graph.edges[u, v]["bytes"] + more, samples=9, flows=1)
    return graph


TREE_LINK = (2, 4)


@pytest.mark.parametrize(
    "graph",
    [
        double_tree(*nccl_trees(8)),
        nx.DiGraph([(u, v, {"bytes": 4.0, "samples": 9, "flows": 1}) for u, v in cycle(range(8))]),
        carried(ring_and_tree(8, 4.0), {TREE_LINK: 2.5}),
        carried(ring_and_tree(8, 4.0), {(0, 1): 3.0}),
        nx.DiGraph([*ring_and_tree(8, 4.0).edges(data=True), (3, 3, {"bytes": 1.0, "flows": 1})]),
        nx.restricted_view(ring_and_tree(8, 4.0), [], [(2, 4), (4, 2)]).copy(),
    ],
    ids=["tree", "ring", "uneven tree", "uneven ring", "self loop", "link missing"],
)
def test_what_is_not_both(graph: nx.DiGraph[int]) -> None:
    assert mixed.find(graph) is None


def test_connections_of_their_own_are_another_communicator() -> None:
    graph = ring_and_tree(8, 4.0)
    graph.edges[1, 2]["flows"] = 2
    assert mixed.find(graph) is None
