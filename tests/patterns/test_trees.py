from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns import trees
from patterns.shape import Shape
from tests.patterns.drawn import (
    Edge,
    both,
    cycle,
    double_tree,
    edges_of,
    graph_of,
    grid,
    links_of,
    nccl_trees,
    parents_of,
    path,
    renamed,
    second_of,
    up,
)

ROOT = -1
NEWEST, OLD = "double_binary_tree", "double_binary_tree_before_2.8.3"


def found(graph: nx.DiGraph[int]) -> Shape:
    shape = trees.find(graph)
    assert shape is not None
    return shape


def channels_of(shape: Shape) -> set[frozenset[frozenset[int]]]:
    """The links of each tree, without direction."""
    return {links_of(channel.edges) for channel in shape.channels}


@pytest.mark.parametrize(
    ("n", "first", "second"),
    [
        (4, [ROOT, 2, 0, 2], [1, 3, 1, ROOT]),
        (8, [ROOT, 2, 4, 2, 0, 6, 4, 6], [1, 3, 1, 7, 5, 3, 5, ROOT]),
        (
            16,
            [ROOT, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 14, 12, 14],
            [1, 3, 1, 5, 3, 7, 5, 15, 9, 11, 9, 13, 11, 7, 13, ROOT],
        ),
    ],
)
def test_parents_that_nccl_gives(n: int, first: list[int], second: list[int]) -> None:
    assert list(trees.parents_a(n)) == first == parents_of(n)
    mirrored = [ROOT if p == ROOT else n - 1 - p for p in reversed(first)]
    assert list(trees.parents_b(n, shifted=False)) == mirrored
    if n < 16:
        assert mirrored == second
    graph = double_tree(first, mirrored)
    assert found(graph).variant == NEWEST
    assert edges_of(found(graph)) == set(graph.edges)


def test_parents_in_logs_of_other_sizes() -> None:
    # 3 nodes: the root's child is node 2, and in the other tree node 0 hangs from node 1.
    assert trees.parents_a(3)[2] == 0
    assert trees.parents_b(3, shifted=True)[0] == 1
    # 32 nodes, NCCL 2.5.6: node 19 has children on nodes 18 and 20; by today's rule 17 and 21.
    old, new = (trees.parents_b(32, shifted=shifted) for shifted in (True, False))
    assert [r for r in range(32) if old[r] == 19] == [18, 20]
    assert [r for r in range(32) if new[r] == 19] == [17, 21]
    # 64 nodes, NCCL 2.4: pairs printed by its nodes.
    links = links_of(up(trees.parents_a(64)))
    assert {frozenset(p) for p in [(0, 32), (16, 32), (48, 32), (56, 48), (23, 22)]} <= links


@pytest.mark.parametrize("n", [*range(3, 40), 63, 64, 65, 100, 257])
def test_parents_equal_those_found_from_children(n: int) -> None:
    assert list(trees.parents_a(n)) == parents_of(n)
    for shifted in (True, False):
        wanted = second_of(parents_of(n), shifted=shifted)
        assert list(trees.parents_b(n, shifted=shifted)) == wanted


def test_trees_of_real_logs_are_double_trees(shared: Path) -> None:
    logs = json.loads((shared / "nccl_truth.json").read_text())
    compared = 0
    for log in logs.values():
        per_node = log["ranks_per_node"]
        by_channel = [
            [(child // per_node, parent // per_node) for child, parent in pairs]
            for pairs in log["tree_child_parent_across_nodes_by_channel"].values()
        ]
        half = len(by_channel) // 2
        for first, second in zip(by_channel[:half], by_channel[half:], strict=False):
            if len(first) != 3 or len(second) != 3:
                continue  # two nodes, or a log that is cut off
            graph: nx.DiGraph[int] = nx.DiGraph()
            for edge in [e for tree in (first, second) for e in both(tree)]:
                graph.add_edge(*edge, bytes=graph.get_edge_data(*edge, {"bytes": 0.0})["bytes"] + 1)
            shape = found(graph)
            assert (shape.algorithm, shape.variant) == ("tree", NEWEST)
            assert edges_of(shape) == both([*first, *second])
            assert channels_of(shape) == {links_of(first), links_of(second)}
            compared += 1
    assert compared == 3


SIZES = st.integers(3, 48)


@given(SIZES.flatmap(lambda n: st.permutations(range(100, 100 + n))))
def test_a_double_tree_is_found_whatever_its_nodes_are_called(names: list[int]) -> None:
    n = len(names)
    first, second = nccl_trees(n)
    graph = renamed(double_tree(first, second), names)
    shape = found(graph)
    assert (shape.algorithm, shape.variant, shape.missing) == ("tree", NEWEST, 0)
    assert sorted(shape.members) == sorted(names)
    assert edges_of(shape) == set(graph.edges)
    for channel in shape.channels:
        assert channel.parent is not None
        assert both(channel.parent.items()) == set(channel.edges)
        assert len(channel.parent) == n - 1
    if shape.orders == 1:
        wanted = {
            frozenset((names[child], names[parent]) for child, parent in up(tree))
            for tree in (first, second)
        }
        assert {frozenset((c.parent or {}).items()) for c in shape.channels} == wanted


@pytest.mark.parametrize("n", [5, 6, 7, 9, 10, 12, 15, 17, 31, 33, 48, 49])
def test_the_rule_before_2_8_3_is_told_apart(n: int) -> None:
    first = parents_of(n)
    graph = double_tree(first, second_of(first, shifted=n % 2 == 0))
    assert found(graph).variant == OLD
    assert edges_of(found(graph)) == set(graph.edges)


@pytest.mark.parametrize("n", [3, 4, 8, 16, 32])
def test_both_rules_draw_the_same_over_powers_of_two(n: int) -> None:
    first = parents_of(n)
    graph = double_tree(first, second_of(first, shifted=n % 2 == 0))
    assert nx.is_isomorphic(
        graph, double_tree(*nccl_trees(n)), edge_match=lambda a, b: a["bytes"] == b["bytes"]
    )
    assert found(graph).variant == NEWEST
    assert edges_of(found(graph)) == set(graph.edges)


def test_how_many_orders_draw_the_same_edges() -> None:
    """Against every renaming of few nodes, one by one."""
    for n in (3, 4, 5, 6, 7):
        shifted = n % 2 == 1
        pair = [up(tree) for tree in nccl_trees(n)]
        plain = double_tree(*nccl_trees(n))
        drawn = {(u, v): data["bytes"] for u, v, data in plain.edges(data=True)}
        alike = {
            frozenset(frozenset((names[c], names[p]) for c, p in tree) for tree in pair)
            for names in permutations(range(n))
            if all(drawn.get((names[u], names[v])) == w for (u, v), w in drawn.items())
        }
        assert trees.orders_alike(n, shifted=shifted) == len(alike)
        assert found(plain).orders == len(alike)


@given(st.integers(4, 40), st.floats(0.5, 1.9), st.integers(0, 1000))
def test_uneven_volumes_do_not_hide_a_double_tree(n: int, scale: float, seed: int) -> None:
    graph = double_tree(*nccl_trees(n))
    for i, (u, v) in enumerate(graph.edges):
        graph.edges[u, v]["bytes"] *= scale * (1 + 0.05 * ((seed + 7 * i) % 11 - 5) / 5)
    assert found(graph).variant == NEWEST


@pytest.mark.parametrize("n", [5, 8, 12, 16, 32, 33])
def test_a_double_tree_with_an_edge_too_few_or_too_many_is_none(n: int) -> None:
    plain = double_tree(*nccl_trees(n))
    links = sorted(tuple(sorted(link)) for link in links_of(plain.edges))
    for u, v in links:
        less = plain.copy()
        less.remove_edges_from([(u, v), (v, u)])
        assert trees.find(less) is None
        half = plain.copy()
        half.remove_edge(u, v)
        assert trees.find(half) is None
    absent = [(u, v) for u in range(n) for v in range(u) if not plain.has_edge(u, v)]
    for u, v in absent[:40]:
        more = plain.copy()
        more.add_edge(u, v, bytes=1.0)
        more.add_edge(v, u, bytes=1.0)
        assert trees.find(more) is None


def test_an_edge_moved_elsewhere_is_no_double_tree() -> None:
    plain = double_tree(*nccl_trees(12))
    for gone in sorted(tuple(sorted(link)) for link in links_of(plain.edges)):
        moved = plain.copy()
        moved.remove_edges_from([gone, gone[::-1]])
        moved.add_edge(0, 11, bytes=1.0)
        moved.add_edge(11, 0, bytes=1.0)
        assert not plain.has_edge(0, 11)
        shape = trees.find(moved)
        assert shape is None or edges_of(shape) == set(moved.edges)
        assert shape is None or shape.variant == OLD


NO_TREES: dict[str, list[Edge] | set[Edge]] = {
    "star": both((0, i) for i in range(1, 9)),
    "path": both(path(range(8))),
    "ring": cycle(range(8)),
    "two-way ring": both(cycle(range(8))),
    "grid": grid(4, 4),
    "small grid": grid(3, 3),
    "all": both((u, v) for u in range(6) for v in range(u)),
    "one-way tree": up(parents_of(8)),
    "pair": both([(0, 1)]),
    "loops": [(i, i) for i in range(6)],
    "tree and loop": [*both(up(parents_of(8))), (3, 3)],
    "two trees": [*both(up(parents_of(8))), *both((u + 8, v + 8) for u, v in up(parents_of(8)))],
}


@pytest.mark.parametrize("edges", NO_TREES.values(), ids=NO_TREES)
def test_what_is_no_tree(edges: list[Edge]) -> None:
    assert trees.find(graph_of(edges)) is None


def test_two_double_trees_side_by_side_are_none() -> None:
    one = double_tree(*nccl_trees(8))
    assert trees.find(nx.union(one, renamed(one, range(8, 16)))) is None


def test_a_star_beside_a_triangle_is_no_tree() -> None:
    edges = both([*((0, i) for i in range(1, 5)), *cycle([5, 6, 7])])
    assert trees.find(graph_of(edges)) is None


@pytest.mark.parametrize("n", [4, 8, 16])
def test_a_binomial_tree_is_told_by_name(n: int) -> None:
    # Rank r hangs from r without its lowest bit (Thakur et al. 2005).
    edges = both((r, r - (r & -r)) for r in range(1, n))
    if n == 4:
        assert trees.find(graph_of(edges)) is None  # a path of four: a chain
        return
    shape = found(graph_of(edges))
    assert (shape.algorithm, shape.variant) == ("tree", "binomial")
    assert edges_of(shape) == edges


def test_another_tree_is_a_tree_without_a_root() -> None:
    edges = both([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)])
    shape = found(graph_of(edges))
    assert (shape.algorithm, shape.variant) == ("tree", None)
    assert edges_of(shape) == edges
    assert shape.channels[0].parent is None


def test_three_nodes_are_a_double_tree_that_may_be_something_else() -> None:
    assert found(double_tree(*nccl_trees(3))).ambiguous
    assert found(double_tree(*nccl_trees(5))).ambiguous is None
