"""Chains: a path whose edges carry data both ways, as pipeline stages do.

An interleaved schedule closes the path: with v chunks per stage, a link between neighbours carries
v messages where the one from the last stage to the first carries v - 1 (Narayanan et al. 2021).
"""

from __future__ import annotations

from typing import Final

import networkx as nx

from patterns.shape import Shape, ShapeChannel, both_ways, mutual

SMALLEST_CLOSED: Final = 3
LIGHTER: Final = 0.87  # share of a neighbour link's bytes that the closing link stays below


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The chain that a graph is, from its lower end; which end is stage 0 is for phases to say."""
    undirected = mutual(graph)
    if undirected is None:
        return None
    n, links = undirected.number_of_nodes(), undirected.number_of_edges()
    degrees = [d for _, d in undirected.degree]
    if max(degrees) > 2 or not nx.is_connected(undirected):
        return None
    variant = None
    path = undirected
    if links == n and n >= SMALLEST_CLOSED:
        closing = _closing_link(graph, undirected)
        if closing is None:
            return None
        variant = "interleaved"
        path = nx.Graph(undirected)
        path.remove_edge(*closing)
    elif links != n - 1:
        return None
    end = min(v for v, d in path.degree if d == 1)
    order = tuple(nx.dfs_preorder_nodes(path, end))
    return Shape(
        algorithm="chain",
        variant=variant,
        members=order,
        channels=(ShapeChannel(order, None, both_ways(list(undirected.edges))),),
        ambiguous="a ring or a tree of two" if n == 2 else None,
    )


def _closing_link(graph: nx.DiGraph[int], undirected: nx.Graph[int]) -> tuple[int, int] | None:
    """The one link of a cycle that carries clearly less than each other, None without one."""
    weight = sorted(
        (graph.edges[u, v]["bytes"] + graph.edges[v, u]["bytes"], u, v) for u, v in undirected.edges
    )
    lightest, u, v = weight[0]
    return (u, v) if lightest < LIGHTER * weight[1][0] else None
