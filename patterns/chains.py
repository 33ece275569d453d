"""Chains: a path whose edges carry data both ways, as pipeline stages do."""

from __future__ import annotations

import networkx as nx

from patterns.shape import Shape, ShapeChannel, both_ways, mutual


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The chain that a graph is, from its lower end; which end is stage 0 is for phases to say."""
    undirected = mutual(graph)
    if undirected is None:
        return None
    n = undirected.number_of_nodes()
    degrees = dict(undirected.degree)
    ends = sorted(v for v, d in degrees.items() if d == 1)
    if undirected.number_of_edges() != n - 1 or len(ends) != 2 or max(degrees.values()) > 2:
        return None
    order = tuple(nx.dfs_preorder_nodes(undirected, ends[0]))
    edges = both_ways(list(zip(order, order[1:], strict=False)))
    return Shape(
        algorithm="chain",
        variant=None,
        members=order,
        channels=(ShapeChannel(order, None, edges),),
        ambiguous="a ring or a tree of two" if n == 2 else None,
    )
