from __future__ import annotations

from dataclasses import replace
from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns import chains, single_trees
from patterns.shape import Shape
from reconstruct.edges import PHASES
from tests.patterns.drawn import Edge, both, edges_of, graph_of, path, up
from tests.patterns.made import Wire, flows_of, rows


def binomial(n: int) -> list[int]:
    """Parent of each rank, by the rule of who has the data: in step k the first 2^k ranks do."""
    parents = [-1] * n
    holders = 1
    while holders < n:
        for rank in range(holders, min(2 * holders, n)):
            parents[rank] = rank - holders
        holders *= 2
    return parents


def knomial(n: int, radix: int) -> list[int]:
    """Parent of each rank: the number with its last digit that is not zero made zero."""
    parents = [-1] * n
    for rank in range(1, n):
        digits = np.base_repr(rank, radix)
        kept = digits.rstrip("0")
        parents[rank] = int(kept[:-1] + "0" * (len(digits) - len(kept) + 1), radix)
    return parents


def down(parents: list[int], names: list[int]) -> set[Edge]:
    return {(names[parent], names[child]) for child, parent in up(parents)}


def shuffled(n: int, draw: Random) -> list[int]:
    names = [100 + 3 * i for i in range(n)]
    draw.shuffle(names)
    return names


@given(st.integers(5, 40), st.randoms(use_true_random=False))
def test_a_broadcast_is_told_with_its_root(n: int, draw: Random) -> None:
    names = shuffled(n, draw)
    edges = down(binomial(n), names)
    shape = single_trees.find_one_way(graph_of(edges))
    assert shape is not None
    assert (shape.algorithm, shape.variant) == ("tree", "binomial")
    assert shape.collective == "broadcast"
    assert shape.channels[0].parent == {child: parent for parent, child in edges}
    turned = single_trees.find_one_way(graph_of((v, u) for u, v in edges))
    assert turned is not None
    assert turned.channels[0].parent == shape.channels[0].parent
    assert turned.collective == "unknown"  # a reduction, for which there is no word


@pytest.mark.parametrize(("n", "radix"), [(8, 4), (16, 4), (27, 3), (20, 4), (12, 3)])
def test_a_knomial_broadcast_is_told(n: int, radix: int) -> None:
    shape = single_trees.find_one_way(graph_of(down(knomial(n, radix), list(range(n)))))
    assert shape is not None
    assert shape.variant == "knomial"


def test_a_broadcast_by_chains_is_told() -> None:
    edges = [(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6), (0, 7)]
    shape = single_trees.find_one_way(graph_of(edges))
    assert shape is not None
    assert (shape.algorithm, shape.variant, shape.collective) == ("tree", "chain", "broadcast")
    assert edges_of(shape) == set(edges)


BINOMIAL = down(binomial(8), list(range(8)))


@pytest.mark.parametrize(
    "edges",
    [
        [(0, i) for i in range(1, 8)],
        [(i, 0) for i in range(1, 8)],
        path(range(8)),
        BINOMIAL - {(0, 1)},
        BINOMIAL | {(7, 0)},
        both(BINOMIAL),
        down(binomial(4), [0, 1, 2, 3]),
        [(0, 1), (0, 2), (1, 3), (1, 4), (1, 5), (2, 6), (3, 7)],
        [(0, 1), (2, 1), (1, 3), (3, 4), (3, 5)],
    ],
    ids=[
        *("readers", "writers", "handed on", "two parts", "circle", "both ways", "four"),
        *("no form that is known", "two roots"),
    ],
)
def test_what_is_no_broadcast(edges: list[Edge]) -> None:
    assert single_trees.find_one_way(graph_of(edges)) is None


def test_a_broadcast_carries_one_buffer() -> None:
    weight = dict.fromkeys(BINOMIAL, 1.0)
    weight[0, 1] = 1.6
    assert single_trees.find_one_way(graph_of(weight, weight)) is None


def two_way(parents: list[int], names: list[int]) -> Shape:
    links: nx.Graph[int] = nx.Graph((names[c], names[p]) for c, p in up(parents))
    shape = single_trees.find_both_ways(links)
    assert shape is not None
    return shape


@given(st.integers(6, 40), st.randoms(use_true_random=False))
def test_the_root_is_among_those_that_the_form_allows(n: int, draw: Random) -> None:
    names = shuffled(n, draw)
    shape = two_way(binomial(n), names)
    assert shape.variant == "binomial"
    assert names[0] in shape.roots
    if n & (n - 1) == 0:
        assert len(shape.roots) == 2  # either end of the last step's link


@pytest.mark.parametrize("cut", [0.0, 0.4, 0.55])
def test_parents_are_told_by_what_goes_first(cut: float) -> None:
    """Wherever in the traffic turns are cut."""
    parents = binomial(8)
    names = [5, 2, 7, 0, 3, 6, 1, 4]
    wires = []
    for child, parent in up(parents):
        # A child's part goes up when its own children's are there, and comes down the other way.
        early = 0.3 + 0.02 * (3 - child.bit_length())
        sent = (early, early + 0.02), (0.8 - early, 0.82 - early)
        wires.append(Wire(names[child], names[parent], samples=2000, active=sent[0]))
        wires.append(Wire(names[parent], names[child], samples=2000, active=sent[1]))
    flows = flows_of(wires)
    flows = replace(flows, phases=np.roll(flows.phases, -int(cut * PHASES), axis=1))
    shape, sure = single_trees.place_root(flows, rows(flows), two_way(parents, names))
    assert shape.channels[0].parent == {names[c]: names[p] for c, p in up(parents)}
    assert sure.confidence > 0.9
    turned = flows_of([Wire(w.dst, w.src, samples=2000, active=w.active) for w in wires])
    other, _ = single_trees.place_root(turned, rows(turned), two_way(parents, names))
    assert other.channels[0].parent != shape.channels[0].parent


def test_where_both_ways_are_used_at_once_the_root_is_not_told() -> None:
    parents, names = binomial(8), list(range(8))
    flows = flows_of([Wire(u, v) for u, v in both(up(parents))])
    _, sure = single_trees.place_root(flows, rows(flows), two_way(parents, names))
    assert sure.confidence <= 0.6


@pytest.mark.parametrize(
    ("ahead", "is_tree"),
    [((True, None, False), True), ((True, True, True), False), ((None, None, None), False)],
    ids=["both ends first", "one end first", "all at once"],
)
def test_a_tree_of_four_is_told_from_a_pipeline(
    ahead: tuple[bool | None, ...], is_tree: bool
) -> None:
    """`ahead` says of each link whether its lower end sends first."""
    first, later, at_once = (0.3, 0.4), (0.5, 0.6), (0.4, 0.5)
    wires = []
    for low, lower_first in zip(range(3), ahead, strict=True):
        there, back = {True: (first, later), False: (later, first), None: (at_once, at_once)}[
            lower_first
        ]
        wires += [
            Wire(low, low + 1, samples=500, active=there),
            Wire(low + 1, low, samples=500, active=back),
        ]
    flows = flows_of(wires)
    chain = chains.find(graph_of(both(path(range(4)))))
    assert chain is not None
    shape = single_trees.of_four(flows, np.arange(6), chain)
    assert (shape is not None) == is_tree
    if shape is not None:
        assert (shape.variant, shape.roots) == ("binomial", (1, 2))
