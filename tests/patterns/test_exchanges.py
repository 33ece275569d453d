from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns import exchanges
from tests.patterns.drawn import Edge, both, cycle, edges_of, graph_of, grid


def everyone(members: list[int]) -> set[Edge]:
    return {(u, v) for u in members for v in members if u != v}


@given(st.lists(st.integers(0, 10_000), min_size=4, max_size=16, unique=True))
def test_everyone_with_everyone_is_an_exchange(members: list[int]) -> None:
    # Experts are not equally popular: volumes say nothing.
    weight = {edge: 1.0 + (7 * edge[0] + edge[1]) % 5 for edge in everyone(members)}
    shape = exchanges.find(graph_of(weight, weight))
    assert shape is not None
    assert shape.algorithm == "all_to_all"
    assert shape.members == tuple(sorted(members))
    assert edges_of(shape) == everyone(members)


FIVE = everyone(list(range(5)))


@pytest.mark.parametrize(
    "edges",
    [
        FIVE - {(0, 1)},
        FIVE - {(0, 1), (1, 0)},
        FIVE | {(0, 5), (5, 0)},
        FIVE | everyone(list(range(5, 10))),
        FIVE | {(2, 2)},
        everyone([0, 1, 2]),
        both(cycle(range(4))),
        grid(4, 4),
        both((0, i) for i in range(1, 6)),
    ],
    ids=[
        *("one way missing", "link missing", "guest", "two", "self loop", "three", "ring"),
        *("grid", "star"),
    ],
)
def test_what_is_no_exchange(edges: set[Edge]) -> None:
    assert exchanges.find(graph_of(edges)) is None


def test_a_loop_does_not_stand_in_for_a_missing_link() -> None:
    assert exchanges.find(graph_of(FIVE - {(0, 1), (1, 0)} | {(2, 2)})) is None
