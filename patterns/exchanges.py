"""Exchanges: everyone with everyone."""

from __future__ import annotations

from typing import Final

import networkx as nx

from patterns.shape import Shape, ShapeChannel, mutual

SMALLEST: Final = 4  # three members that all talk are also a ring both ways


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The all-to-all that a graph is."""
    undirected = mutual(graph)
    if undirected is None:
        return None
    n, edges = undirected.number_of_nodes(), undirected.number_of_edges()
    if n < SMALLEST or edges != n * (n - 1) // 2:
        return None
    channel = ShapeChannel(None, None, tuple(sorted(graph.edges)))
    return Shape("all_to_all", None, tuple(sorted(graph.nodes)), (channel,))
