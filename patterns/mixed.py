"""Mixed: a ring and a double tree over the same connections.

NCCL takes a ring for large buffers and a tree for small ones, and between one pair on one channel
both use one connection (NVIDIA/nccl issue 1344). A tree carries as much up a link as down it, so
what a link carries more one way than the other is the ring's. Where some of the ring's edges have
connections of their own for the tree, the two are not of one communicator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import networkx as nx

from patterns import rings, trees
from patterns.shape import Shape

CLEAR: Final = 0.5  # of the largest difference between a link's ways: the ring's are above
EQUAL: Final = 1.25  # ratio up to which differences are one ring's
NOISE: Final = 0.15  # of the ring's bytes: differences of the other links stay below


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The ring with a tree beside it that a graph is; the one with more bytes names it."""
    if any(u == v for u, v in graph.edges):
        return None
    more: dict[tuple[int, int], float] = {}
    tree: nx.Graph[int] = nx.Graph()
    for u, v, data in graph.edges(data=True):
        back = graph.get_edge_data(v, u, {"bytes": 0.0})["bytes"]
        if data["bytes"] > back:
            more[u, v] = data["bytes"] - back
        if back > 0:
            tree.add_edge(u, v, bytes=2 * min(data["bytes"], back))
    if tree.number_of_nodes() != graph.number_of_nodes() or not more:
        return None
    clear = {edge: most for edge, most in more.items() if most >= CLEAR * max(more.values())}
    if len(clear) != graph.number_of_nodes() or max(clear.values()) > EQUAL * min(clear.values()):
        return None
    if any(most > NOISE * min(clear.values()) for edge, most in more.items() if edge not in clear):
        return None
    if len({graph.edges[edge]["flows"] for edge in clear}) > 1:
        return None
    circle: nx.DiGraph[int] = nx.DiGraph(list(clear))
    around, down = rings.find(circle), trees.find_double(tree)
    if around is None or around.missing or down is None:
        return None
    of_ring = sum(clear.values())
    share = of_ring / (of_ring + sum(data["bytes"] for _, _, data in tree.edges(data=True)))
    parts = sorted(((share, around), (1 - share, down)), key=lambda part: -part[0])
    return replace(
        parts[0][1],
        members=around.members,
        orders=1,
        collective="all_reduce",
        parts=tuple(parts),
    )
