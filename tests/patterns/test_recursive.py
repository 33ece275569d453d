from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns import recursive
from tests.patterns.drawn import Edge, both, cycle, edges_of, graph_of, grid


def by_distance(members: list[int]) -> list[set[Edge]]:
    """Partners of recursive doubling: ranks whose numbers differ in one bit, bit by bit."""
    bits = (len(members) - 1).bit_length()
    return [
        {(members[r], members[r ^ (1 << bit)]) for r in range(len(members))} for bit in range(bits)
    ]


def cube(members: list[int]) -> set[Edge]:
    return set().union(*by_distance(members))


@given(st.integers(2, 6), st.randoms(use_true_random=False))
def test_equal_volumes_are_recursive_doubling(bits: int, draw: object) -> None:
    members = _shuffled(1 << bits, draw)
    shape = recursive.find(graph_of(cube(members)))
    assert shape is not None
    assert (shape.algorithm, shape.variant) == ("recursive", "recursive_doubling")
    assert shape.ambiguous == "a neighbour exchange on a grid"
    assert edges_of(shape) == cube(members)
    assert set(map(frozenset, shape.in_turn)) == set(map(frozenset, by_distance(members)))


@given(st.integers(3, 6), st.randoms(use_true_random=False))
def test_halved_volumes_are_rabenseifner(bits: int, draw: object) -> None:
    members = _shuffled(1 << bits, draw)
    weight = {
        edge: 8.0 / 2**distance
        for distance, edges in enumerate(by_distance(members))
        for edge in edges
    }
    shape = recursive.find(graph_of(weight, weight))
    assert shape is not None
    assert (shape.variant, shape.ambiguous) == ("rabenseifner", None)


def _shuffled(n: int, draw: object) -> list[int]:
    members = [100 + 3 * i for i in range(n)]
    draw.shuffle(members)  # type: ignore[attr-defined]
    return members


def test_partners_stand_together_by_distance() -> None:
    members = [7, 1, 30, 4, 9, 2, 11, 5]
    found = recursive.partners(graph_of(cube(members)))
    assert found is not None
    assert {frozenset(edges) for edges in found} == set(map(frozenset, by_distance(members)))


EIGHT = list(range(8))


@pytest.mark.parametrize(
    "edges",
    [
        cube(EIGHT) - {(0, 1)},
        cube(EIGHT) - {(0, 1), (1, 0)},
        cube(EIGHT) | {(0, 7), (7, 0)},
        cube(EIGHT) | {(2, 2)},
        cube(EIGHT) - both([(0, 1), (2, 3)]) | both([(0, 3), (1, 2)]),
        both(cycle(EIGHT)),
        grid(3, 3),
        {(u, v) for u in EIGHT for v in EIGHT if u != v},
        cube(EIGHT) | {(u + 8, v + 8) for u, v in cube(EIGHT)},
    ],
    ids=[
        *("one way missing", "link missing", "link too many", "self loop", "links crossed"),
        *("ring both ways", "torus", "everyone", "two"),
    ],
)
def test_what_is_no_recursive_exchange(edges: set[Edge]) -> None:
    assert recursive.find(graph_of(edges)) is None


@pytest.mark.parametrize("factor", [0.5, 0.7, 1.4, 3.0])
def test_volumes_of_one_distance_are_alike(factor: float) -> None:
    weight = dict.fromkeys(cube(EIGHT), 1.0)
    weight[0, 1] *= factor
    assert recursive.find(graph_of(weight, weight)) is None


def test_one_link_of_many_may_be_told_wrongly() -> None:
    weight = dict.fromkeys(cube(list(range(16))), 1.0)
    ways = [dict(weight), dict(weight)]
    ways[0][0, 1] = 0.5
    shape = recursive.find(graph_of(*ways))
    assert shape is not None
    assert len(shape.members) == 16


@pytest.mark.parametrize("step", [1.4, 3.0, 4.0])
def test_volumes_that_no_halving_gives_are_none(step: float) -> None:
    weight = {e: step**d for d, edges in enumerate(by_distance(EIGHT)) for e in edges}
    assert recursive.find(graph_of(weight, weight)) is None
