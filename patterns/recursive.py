"""Recursive exchanges: each member swaps data with partners at distances 1, 2, 4, ..., in turn.

Recursive doubling and halving (Thakur, Rabenseifner and Gropp 2005, sections 4.1 and 4.5) pair
ranks whose numbers differ in one bit, which draws a hypercube.
"""

from __future__ import annotations

import math
from typing import Final

import networkx as nx
import numpy as np

from patterns.shape import Shape, ShapeChannel, mutual

SMALLEST: Final = 4
LARGEST_FLAT: Final = 4  # up to here the edges are those of a ring both ways: volumes say nothing
LARGEST: Final = 1024
EQUAL: Final = 1.15  # ratio of bytes up to which links of one distance, or distances, are alike
TAIL: Final = 0.1  # of the links of one distance, whose bytes may be told wrongly
HALVING: Final = 2.0  # ratio of bytes from one distance to the next where vectors are halved
WITHIN: Final = 0.1  # of that ratio
SIGMAS: Final = 2.0  # of their errors, within which volumes are alike
UNLIKE: Final = 3.0  # and beyond which one of many is not
ERROR_FLOOR: Final = 0.002


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The recursive exchange that a graph is.

    A neighbour exchange on a grid draws the same where sides have two or four members, and with
    borders of unequal length also the same volumes: partners come one after the other, neighbours
    at once.
    """
    if not SMALLEST <= graph.number_of_nodes() <= LARGEST:
        return None
    sets = partners(graph)
    if sets is None:
        return None
    steps = [_step(graph, edges) for edges in sets]
    if any(step is None for step in steps):
        return None
    told = np.array(sorted(step for step in steps if step is not None))
    ratios = told[1:, 0] / told[:-1, 0]
    doubt = SIGMAS * np.hypot(told[1:, 1], told[:-1, 1])
    even = bool(np.all(ratios <= EQUAL + doubt))
    halving = bool(np.all(np.abs(ratios / HALVING - 1) <= WITHIN + doubt))
    if not even and not halving:
        return None
    doubtful = even or len(graph) <= LARGEST_FLAT
    return Shape(
        algorithm="recursive",
        variant=None if even and halving else "recursive_doubling" if even else "rabenseifner",
        members=tuple(sorted(graph.nodes)),
        channels=(ShapeChannel(None, None, tuple(sorted(graph.edges))),),
        ambiguous="a neighbour exchange on a grid" if doubtful else None,
        in_turn=tuple(map(tuple, sets)),
        # Halves may also be gathered or scattered only: times say which.
        collective="all_reduce" if even and not halving else None,
    )


def _step(graph: nx.DiGraph[int], edges: list[tuple[int, int]]) -> tuple[float, float] | None:
    """Bytes of the links of one distance and their relative error; None where they are unlike.

    They are where more than a badly sampled one in ten differs, and their errors do not allow it.
    """
    volume = np.array([graph.edges[edge]["bytes"] for edge in edges])
    error = np.array([graph.edges[edge]["error"] for edge in edges])
    usual = float(np.median(volume))
    ranked, few = np.sort(volume), int(TAIL * len(volume))
    allowed = UNLIKE * np.maximum(error, ERROR_FLOOR) * usual
    if ranked[-1 - few] > EQUAL * ranked[few] and np.sum(np.abs(volume - usual) > allowed) > few:
        return None
    return usual, float(np.median(error)) / math.sqrt(len(volume))


def partners(graph: nx.DiGraph[int]) -> list[list[tuple[int, int]]] | None:
    """Edges of a hypercube by distance (rank bit), None where a graph is none."""
    undirected = mutual(graph)
    if undirected is None:
        return None
    place = _corners(undirected)
    if place is None:
        return None
    bits = graph.number_of_nodes().bit_length() - 1
    sets: list[list[tuple[int, int]]] = [[] for _ in range(bits)]
    for u, v in graph.edges:
        sets[(place[u] ^ place[v]).bit_length() - 1].append((u, v))
    return sets


def _corners(undirected: nx.Graph[int]) -> dict[int, int] | None:
    """A number for each node so that neighbours differ in one bit, None where there are none.

    A node's number has the bits of its neighbours one step nearer to the first node, which are two
    at least from the second step on.
    """
    n = undirected.number_of_nodes()
    bits = n.bit_length() - 1
    if n != 1 << bits or any(degree != bits for _, degree in undirected.degree):
        return None
    first = min(undirected.nodes)
    place = {first: 0}
    place |= {v: 1 << i for i, v in enumerate(sorted(undirected.neighbors(first)))}
    for layer in list(nx.bfs_layers(undirected, first))[2:]:
        for v in layer:
            near = [place[u] for u in undirected.neighbors(v) if u in place]
            place[v] = int(np.bitwise_or.reduce(near)) if near else 0
    if len(set(place.values())) != n:
        return None
    if any((place[u] ^ place[v]).bit_count() != 1 for u, v in undirected.edges):
        return None
    return place
