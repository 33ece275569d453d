from __future__ import annotations

from dataclasses import replace
from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.messages import CLASS_NAMES
from patterns.layers import Part, edge_graph, shape_of, split, steady
from patterns.messages import UNKNOWN
from tests.patterns.drawn import (
    both,
    cycle,
    double_tree,
    edges_of,
    graph_of,
    grid,
    nccl_trees,
    path,
)
from tests.patterns.made import MIB, Wire, flows_of, rows

Drawn = set[tuple[str, frozenset[tuple[int, int]]]]


def parts_of(wires: list[Wire]) -> list[Part]:
    flows = flows_of(wires)
    return split(flows, rows(flows), {})


def shapes_of(wires: list[Wire]) -> Drawn:
    """Algorithm and edges of each part that has a shape."""
    return {
        (part.shape.algorithm, frozenset(edges_of(part.shape)))
        for part in parts_of(wires)
        if part.shape is not None
    }


REDUCES, PASSES_ON = Wire(0, 0, 100 * MIB), Wire(0, 0, 20 * MIB)


def ring(members: list[int], like: Wire = REDUCES) -> list[Wire]:
    return [replace(like, src=u, dst=v) for u, v in cycle(members)]


def chain(members: list[int], like: Wire = PASSES_ON) -> list[Wire]:
    return [replace(like, src=u, dst=v) for u, v in both(path(members))]


def tree(members: list[int], volume: float = 60 * MIB) -> list[Wire]:
    drawn = double_tree(*nccl_trees(len(members)))
    return [
        Wire(members[u], members[v], volume * data["bytes"])
        for u, v, data in drawn.edges(data=True)
    ]


def as_ring(members: list[int]) -> tuple[str, frozenset[tuple[int, int]]]:
    return "ring", frozenset(cycle(members))


def as_chain(members: list[int]) -> tuple[str, frozenset[tuple[int, int]]]:
    return "chain", frozenset(both(path(members)))


def test_rings_that_share_nothing_are_parts_of_their_own() -> None:
    assert shapes_of([*ring([0, 1, 2, 3]), *ring([7, 5, 6, 4])]) == {
        as_ring([0, 1, 2, 3]),
        as_ring([7, 5, 6, 4]),
    }


def test_pipelines_are_parted_from_rings_by_volume() -> None:
    # Two stages of four replicas each: a ring in each stage, a chain through each replica.
    wires = [*ring([0, 1, 2, 3]), *ring([4, 5, 6, 7])]
    for i in range(4):
        wires += chain([i, i + 4])
    assert shapes_of(wires) == {
        as_ring([0, 1, 2, 3]),
        as_ring([4, 5, 6, 7]),
        *(as_chain([i, i + 4]) for i in range(4)),
    }


def test_pipelines_of_equal_volume_are_parted_from_rings_by_messages() -> None:
    reduces = replace(REDUCES, lengths={"ring_simple": 3})
    passes_on = replace(REDUCES, lengths={"p2p_128k": 3})
    wires = [*ring([0, 1, 2], reduces), *ring([3, 4, 5], reduces)]
    for i in range(3):
        wires += chain([i, i + 3], passes_on)
    wanted = {as_ring([0, 1, 2]), as_ring([3, 4, 5]), *(as_chain([i, i + 3]) for i in range(3))}
    assert shapes_of(wires) == wanted


def test_a_tree_and_a_ring_over_the_same_members_are_parted() -> None:
    members = [3, 1, 4, 0, 5, 2, 6, 7]
    found = shapes_of([*tree(members), *ring(members, Wire(0, 0, 900 * MIB))])
    assert found == {
        as_ring(members),
        ("tree", frozenset((w.src, w.dst) for w in tree(members))),
    }


def test_a_ring_between_members_that_all_exchange_is_parted() -> None:
    """As Gloo's: one set of connections for the tokens, another one for the gradients."""
    everyone = {(u, v) for u in range(8) for v in range(8) if u != v}
    tokens = [Wire(u, v, 8 * MIB) for u, v in sorted(everyone)]
    around = [0, 3, 5, 1, 7, 2, 6, 4]
    found = {as_ring(around), ("all_to_all", frozenset(everyone))}
    assert shapes_of([*tokens, *ring(around)]) == found


def test_exchanges_of_unlike_volumes_stay_whole() -> None:
    everyone = sorted({(u, v) for u in range(6) for v in range(6) if u != v})
    circle = set(cycle(range(6)))
    heavier = [Wire(u, v, (20 if (u, v) in circle else 4) * MIB) for u, v in everyone]
    split_in_two = [replace(w, bytes=w.bytes * part) for w in heavier for part in (0.3, 0.7)]
    for wires in (heavier, split_in_two):
        assert shapes_of(wires) == {("all_to_all", frozenset(everyone))}


def test_several_queue_pairs_of_an_edge_are_one_edge() -> None:
    wires = [wire for wire in ring([0, 1, 2, 3], Wire(0, 0, 25 * MIB, 30)) for _ in range(4)]
    [part] = parts_of(wires)
    assert part.shape is not None
    assert part.shape.algorithm == "ring"
    assert len(part.flows) == 16
    data = part.graph.edges[0, 1]
    assert (data["bytes"], data["samples"], data["flows"]) == (100 * MIB, 120, 4)


def test_rings_of_nearly_equal_volume_are_parted() -> None:
    """As those of dense layers and of experts may be, beside an exchange that is not equal."""
    dense, experts = Wire(0, 0, 302 * MIB), Wire(0, 0, 315 * MIB)
    wires = [
        *ring(list(range(8)), dense),
        *ring([0, 2, 4, 6], experts),
        *ring([1, 3, 5, 7], experts),
    ]
    assert shapes_of(wires) == {
        as_ring(list(range(8))),
        as_ring([0, 2, 4, 6]),
        as_ring([1, 3, 5, 7]),
    }


def test_pairs_of_nearly_the_volume_of_a_ring_are_parted_where_all_have_a_partner() -> None:
    dense, experts = Wire(0, 0, 302 * MIB), Wire(0, 0, 310 * MIB)
    around = ring([0, 1, 2, 3], dense)
    pairs = [*ring([0, 3], experts), *ring([1, 2], experts)]
    assert len(shapes_of([*around, *pairs])) == 3
    assert as_ring([0, 1, 2, 3]) in shapes_of([*around, *pairs])
    assert shapes_of([*around, *pairs[:2]]) == set()


def test_noise_in_volumes_splits_nothing() -> None:
    rng = np.random.default_rng(1)
    wires = [
        Wire(u, v, 100 * MIB * (1 + 0.02 * rng.standard_normal())) for u, v in cycle(range(12))
    ]
    assert shapes_of(wires) == {as_ring(list(range(12)))}


@given(st.permutations(range(16)), st.randoms(use_true_random=False))
def test_names_and_order_do_not_matter(names: list[int], random: Random) -> None:
    wires = [*tree(names[:8]), *ring(names[8:]), *chain([names[0], names[8]])]
    wanted = {
        as_ring(names[8:]),
        as_chain([names[0], names[8]]),
        ("tree", frozenset((w.src, w.dst) for w in tree(names[:8]))),
    }
    random.shuffle(wires)
    assert shapes_of(wires) == wanted


@pytest.mark.parametrize(
    "edges",
    [
        grid(3, 4),
        both((0, i) for i in range(1, 8)),
        [(i, 0) for i in range(1, 8)],
        path(range(4)),
        [(0, 1), (0, 2), (1, 2), (2, 3), (3, 0)],
    ],
    ids=["grid", "server", "sink", "short one-way path", "irregular"],
)
def test_what_draws_no_shape_is_a_part_without_one(edges: list[tuple[int, int]]) -> None:
    parts = parts_of([Wire(u, v) for u, v in sorted(edges)])
    assert sorted(np.concatenate([part.flows for part in parts])) == list(range(len(edges)))
    assert [part.shape for part in parts] == [None]


def test_no_connections_make_no_parts() -> None:
    assert parts_of([]) == []
    assert steady(flows_of([])).tolist() == []


def test_only_what_recurs_and_weighs_is_steady() -> None:
    wires = [
        Wire(0, 1),
        Wire(0, 2, bytes=0.1 * MIB),  # a thousandth of the heaviest
        Wire(0, 3, recurring=0.05),  # the start-up broadcast
        Wire(0, 4, bytes=float("nan"), samples=1),
        Wire(0, 5, bytes=-5.0),
        Wire(0, 6, bytes=10 * MIB),
        Wire(0, 7, samples=2, recurring=0.2),  # two samples can't show that they recur
    ]
    assert steady(flows_of(wires)).tolist() == [0, 5, 6]


def test_an_edge_graph_adds_up_connections() -> None:
    flows = flows_of([Wire(0, 1, 5.0, 7), Wire(0, 1, 6.0, 8), Wire(1, 0, 7.0, 9)])
    graph = edge_graph(flows, np.array([0, 1, 2]))
    told = {
        edge: (data["bytes"], data["samples"], data["flows"])
        for edge, data in dict(graph.edges).items()
    }
    assert told == {(0, 1): (11.0, 15, 2), (1, 0): (7.0, 9, 1)}
    off = np.hypot(*(flows.error[:2] * [5.0, 6.0])) / 11.0
    assert graph.edges[0, 1]["error"] == pytest.approx(off)
    assert edge_graph(flows, np.array([1])).edges[0, 1]["bytes"] == 6.0


def test_send_and_receive_lengths_prefer_the_exchange() -> None:
    # Four members, each to each; without lengths it is an exchange too, as nothing else fits.
    everyone = graph_of({(u, v) for u in range(4) for v in range(4) if u != v})
    for message_class in (UNKNOWN, CLASS_NAMES.index("p2p_128k")):
        shape = shape_of(everyone, message_class, written=True)
        assert shape is not None
        assert shape.algorithm == "all_to_all"
    pair: nx.DiGraph[int] = graph_of([(0, 1), (1, 0)])
    for message_class in (UNKNOWN, CLASS_NAMES.index("p2p_128k")):
        shape = shape_of(pair, message_class, written=True)
        assert shape is not None
        assert shape.algorithm == "chain"
