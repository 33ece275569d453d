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


def between(hosts: list[list[int]]) -> set[Edge]:
    """Every NIC to every NIC of another host."""
    return {
        (u, v) for one in hosts for other in hosts if one is not other for u in one for v in other
    }


HOSTS = [[0, 7], [3, 4], [1, 9], [5, 2]]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_members_of_one_host_need_no_wire(count: int) -> None:
    graph = graph_of(between(HOSTS[:count]))
    for name, nics in enumerate(HOSTS[:count]):
        for nic in nics:
            graph.nodes[nic]["host"] = f"host-{name}"
    shape = exchanges.find(graph)
    assert shape is not None
    assert (shape.algorithm, shape.collective) == ("all_to_all", "all_to_all")
    assert edges_of(shape) == between(HOSTS[:count])
    for nic in HOSTS[0]:
        graph.nodes[nic]["host"] = f"host-of-{nic}"
    assert exchanges.find(graph) is None


def test_without_hosts_two_sides_may_be_servers_and_clients() -> None:
    assert exchanges.find(graph_of(between(HOSTS[:2]))) is None
    assert exchanges.find(graph_of(between(HOSTS[:3]))) is not None
    assert exchanges.find(graph_of(between([*HOSTS[:3], [6]]))) is None


def test_five_that_send_as_much_to_everyone_may_be_another_algorithm() -> None:
    shape = exchanges.find(graph_of(FIVE))
    assert shape is not None
    assert shape.ambiguous
