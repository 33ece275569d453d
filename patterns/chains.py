"""Chains: a path whose edges carry data both ways, as pipeline stages do, or one way.

An interleaved schedule closes the path: with v chunks per stage, a link between neighbours carries
v messages where the one from the last stage to the first carries v - 1 (Narayanan et al. 2021).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import networkx as nx

from patterns.shape import MISSABLE, Shape, ShapeChannel, both_ways, mutual

SMALLEST_CLOSED: Final = 3
SMALLEST_ONE_WAY: Final = 5  # a copy that is handed on draws a short one as well
EQUAL: Final = 1.25  # ratio of bytes up to which all edges carry one buffer
ALIKE: Final = 1.5  # ratio of bytes up to which all other links may carry as much
SIGMAS: Final = 2.0  # of the errors of both, by which it is below
LIGHTER: Final = 0.87  # share of a neighbour link's bytes that the closing link stays below


def find_clear(graph: nx.DiGraph[int]) -> Shape | None:
    """As `find`, where the errors of volumes do not hide which link closes a pipeline."""
    return find(graph, SIGMAS)


def find(graph: nx.DiGraph[int], sigmas: float = 0.0) -> Shape | None:
    """The chain that a graph is, from its lower end; which end is stage 0 is for phases to say.

    The link that closes it carries less by `sigmas` errors.
    """
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
        closing = _closing_link(graph, undirected, sigmas)
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


def find_one_way(graph: nx.DiGraph[int]) -> Shape | None:
    """A broadcast that each member hands on to the next, first member first.

    A ring with one edge unseen draws the same, so the others have to be seen often.
    """
    n = graph.number_of_nodes()
    if n < SMALLEST_ONE_WAY or graph.number_of_edges() != n - 1 or not nx.is_branching(graph):
        return None
    order = nx.dag_longest_path(graph, weight=None)
    volume = [data["bytes"] for _, _, data in graph.edges(data=True)]
    samples = min(data["samples"] for _, _, data in graph.edges(data=True))
    if len(order) != n or samples < MISSABLE or max(volume) > EQUAL * min(volume):
        return None
    return Shape(
        algorithm="chain",
        variant="pipeline",
        members=tuple(order),
        channels=(ShapeChannel(tuple(order), None, tuple(pairwise(order))),),
        ambiguous="a ring with an edge that no switch shows",
        collective="broadcast",
    )


def _closing_link(
    graph: nx.DiGraph[int], undirected: nx.Graph[int], sigmas: float
) -> tuple[int, int] | None:
    """The one link of a cycle that carries clearly less than each other, which carry as much.

    None without one, as where two trees over three members share one of three links.
    """
    weight = sorted((*_link(graph, u, v), u, v) for u, v in undirected.edges)
    (lightest, off, u, v), (usual, usual_off, *_) = weight[:2]
    alike = weight[-1][0] <= ALIKE * usual
    # Of a connection that was seen once, the error is infinite.
    clear = not sigmas or usual - lightest > sigmas * math.hypot(off, usual_off)
    return (u, v) if lightest < LIGHTER * usual and alike and clear else None


def _link(graph: nx.DiGraph[int], u: int, v: int) -> tuple[float, float]:
    """Bytes of a link both ways, and how far off they may be."""
    ways = graph.edges[u, v], graph.edges[v, u]
    off = math.hypot(*(way["bytes"] * way["error"] for way in ways))
    return sum(way["bytes"] for way in ways), off
