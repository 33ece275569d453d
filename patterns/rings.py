"""Rings: one edge in and one out per member, one cycle through all.

Where reduce-scatters run one way and all-gathers the other (Gloo's sharded training), two rings lie
on the same links, one against the other.
"""

from __future__ import annotations

from typing import Final

import networkx as nx

from patterns.shape import Edge, Shape, ShapeChannel, mutual

SMALLEST: Final = 3  # two members draw a pair, which a tree or a pipeline draws as well
EQUAL: Final = 1.15  # ratio of bytes up to which edges of one ring are alike
SMALLEST_OPEN: Final = 5  # a ring with one edge unseen is a one-way path; short ones are no ring


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The ring that a graph is, in the direction of its data; one edge may be missing."""
    n = graph.number_of_nodes()
    if n < SMALLEST or any(d > 1 for _, d in graph.in_degree):
        return None
    if any(d > 1 for _, d in graph.out_degree):
        return None
    missing = n - graph.number_of_edges()
    if missing > 1 or (missing and n < SMALLEST_OPEN):
        return None
    start = min((v for v, d in graph.in_degree if d == 0), default=min(graph.nodes))
    order = [start]
    while (after := next(iter(graph.successors(order[-1])), None)) not in (None, start):
        assert after is not None
        order.append(after)
    if len(order) != n:
        return None
    low = order.index(min(order))
    circle = tuple(order[low:] + order[:low])
    return Shape(
        algorithm="ring",
        variant=None,
        members=circle,
        channels=(ShapeChannel(circle, None, _along(circle)),),
        missing=missing,
        ambiguous="a one-way path" if missing else None,
    )


def find_both_ways(graph: nx.DiGraph[int]) -> Shape | None:
    """Two rings over the same links, one against the other.

    Neighbours of a simulation in one dimension draw the same, and send both ways at once.
    """
    undirected = mutual(graph)
    if undirected is None or undirected.number_of_nodes() < SMALLEST:
        return None
    if any(d != 2 for _, d in undirected.degree) or not nx.is_connected(undirected):
        return None
    first = min(undirected.nodes)
    order = tuple(nx.dfs_preorder_nodes(undirected, first))
    ways = order, order[:1] + order[:0:-1]
    volumes = [[graph.edges[edge]["bytes"] for edge in _along(way)] for way in ways]
    if any(max(volume) > EQUAL * min(volume) for volume in volumes):
        return None
    return Shape(
        algorithm="ring",
        variant=None,
        members=order,
        channels=tuple(ShapeChannel(way, None, _along(way)) for way in ways),
        ambiguous="a neighbour exchange in one dimension",
        in_turn=tuple(map(_along, ways)),
        collective="reduce_scatter+all_gather",
    )


def _along(order: tuple[int, ...]) -> tuple[Edge, ...]:
    return tuple(zip(order, order[1:] + order[:1], strict=True))
