"""Rings: one edge in and one out per member, one cycle through all."""

from __future__ import annotations

from typing import Final

import networkx as nx

from patterns.shape import Shape, ShapeChannel

SMALLEST: Final = 3  # two members draw a pair, which a tree or a pipeline draws as well
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
    order = order[low:] + order[:low]
    edges = tuple(zip(order, order[1:] + order[:1], strict=True))
    return Shape(
        algorithm="ring",
        variant=None,
        members=tuple(order),
        channels=(ShapeChannel(tuple(order), None, edges),),
        missing=missing,
        ambiguous="a one-way path" if missing else None,
    )
