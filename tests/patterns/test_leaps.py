from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns import leaps
from tests.patterns.drawn import Edge, both, cycle, edges_of, graph_of, grid

Sent = dict[Edge, float]
ORDERS = st.integers(4, 40).flatmap(lambda n: st.permutations(range(100, 100 + n)))


def add(sent: Sent, order: list[int], places: int, blocks: float) -> None:
    """Every member sends so many blocks so many places on."""
    n = len(order)
    for i in range(n):
        edge = order[i], order[(i + places) % n]
        sent[edge] = sent.get(edge, 0.0) + blocks


def bruck_exchange(order: list[int]) -> Sent:
    """Block for block: one that has d places to go takes the leaps that add up to d."""
    sent: Sent = {}
    for distance in range(1, len(order)):
        for bit in range(distance.bit_length()):
            if distance >> bit & 1:
                add(sent, order, 1 << bit, 1.0)
    return sent


def bruck_gather(order: list[int]) -> Sent:
    """Each member passes on all that it has, as far as others still lack it."""
    sent: Sent = {}
    held = 1
    while held < len(order):
        add(sent, order, -held, min(held, len(order) - held))
        held += min(held, len(order) - held)
    return sent


def pat(order: list[int]) -> Sent:
    """A gathering one way and, as its mirror image, a scattering the other way."""
    sent = bruck_gather(order)
    for (u, v), blocks in bruck_gather(order).items():
        sent[v, u] = sent.get((v, u), 0.0) + blocks
    return sent


@given(ORDERS)
def test_an_exchange_in_leaps_is_told(order: list[int]) -> None:
    sent = bruck_exchange(order)
    shape = leaps.find(graph_of(sent, sent))
    assert shape is not None
    said = shape.algorithm, shape.variant, shape.collective
    assert said == ("all_to_all", "bruck", "all_to_all")
    assert edges_of(shape) == set(sent)
    assert sorted(shape.members) == sorted(order)


@given(ORDERS)
def test_a_gathering_in_leaps_is_told(order: list[int]) -> None:
    sent = bruck_gather(order)
    shape = leaps.find(graph_of(sent, sent))
    assert shape is not None
    said = shape.algorithm, shape.variant, shape.collective
    assert said == ("recursive", "bruck", "all_gather")
    assert edges_of(shape) == set(sent)


@given(ORDERS.filter(lambda order: len(order) != 5), st.floats(0.9, 1.1))
def test_pat_is_told_whatever_its_members_are_called(order: list[int], noise: float) -> None:
    sent = pat(order)
    sent[min(sent)] *= noise
    shape = leaps.find(graph_of(sent, sent))
    assert shape is not None
    said = shape.algorithm, shape.variant, shape.collective
    assert said == ("recursive", "pat", "reduce_scatter+all_gather")
    assert edges_of(shape) == set(sent)


def test_over_five_members_pat_is_everyone_with_everyone() -> None:
    sent = pat([3, 0, 4, 1, 2])
    assert len(sent) == 20
    assert len(set(sent.values())) == 1
    assert leaps.find(graph_of(sent, sent)) is None


EIGHT = list(range(8))
LEAPS = set(bruck_exchange(EIGHT))


@pytest.mark.parametrize(
    "edges",
    [
        LEAPS - {(0, 1)},
        LEAPS | {(0, 3)},
        LEAPS - {(0, 1), (2, 3)} | {(0, 3), (2, 1)},
        LEAPS | {(2, 2)},
        set(cycle(EIGHT)),
        both(cycle(EIGHT)),
        grid(4, 4),
        {(u, v) for u in EIGHT for v in EIGHT if u != v},
        {(r, r ^ bit) for r in EIGHT for bit in (1, 2, 4)},
        set(bruck_exchange(EIGHT[:3])),
        {(i, (i + d) % 8) for i in EIGHT for d in (1, 3, 4)},
    ],
    ids=[
        *("one missing", "one too many", "crossed", "self loop", "ring", "ring both ways"),
        *("grid", "everyone", "cube", "three", "other leaps"),
    ],
)
def test_what_is_no_algorithm_of_leaps(edges: set[Edge]) -> None:
    graph = graph_of(edges)
    nx.set_edge_attributes(graph, 50, "samples")
    assert leaps.find(graph) is None


@pytest.mark.parametrize("factor", [0.6, 1.6])
def test_leaps_that_carry_something_else_are_none(factor: float) -> None:
    sent = bruck_exchange(list(range(9)))
    sent[4, 5] *= factor
    assert leaps.find(graph_of(sent, sent)) is None


@pytest.mark.parametrize("gone", [[7], [7, 41], list(range(20))])
def test_a_few_edges_of_few_samples_may_be_unseen(gone: list[int]) -> None:
    sent = bruck_exchange(list(range(16)))
    kept = [edge for i, edge in enumerate(sent) if i not in gone]
    graph = graph_of(kept, sent)
    shape = leaps.find(graph)
    assert (shape is not None) == (len(gone) <= 2)
    if shape is not None:
        assert (shape.variant, shape.missing) == ("bruck", len(gone))
    # Of connections that are sampled often, none goes unseen.
    nx.set_edge_attributes(graph, 50, "samples")
    assert leaps.find(graph) is None
