"""Graphs drawn by rule, and what tells one from another; nothing here is the code under test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import networkx as nx

from patterns.shape import Shape

Edge = tuple[int, int]


def graph_of(edges: Iterable[Edge], weight: Mapping[Edge, float] | None = None) -> nx.DiGraph[int]:
    """A graph as the shape finders take it; edges carry 1 byte unless `weight` says otherwise."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for edge in edges:
        carried = 1.0 if weight is None else weight[edge]
        graph.add_edge(*edge, bytes=carried, error=0.0, samples=9, flows=1)
    return graph


def both(edges: Iterable[Edge]) -> set[Edge]:
    """Edges and their reverse."""
    pairs = list(edges)
    return {*pairs, *((v, u) for u, v in pairs)}


def cycle(members: Sequence[int]) -> list[Edge]:
    return list(pairwise([*members, members[0]]))


def path(members: Sequence[int]) -> list[Edge]:
    return list(pairwise(members))


def grid(rows: int, columns: int) -> set[Edge]:
    """A periodic neighbour exchange, both ways."""
    return both(
        edge
        for r in range(rows)
        for c in range(columns)
        for edge in (
            (r * columns + c, r * columns + (c + 1) % columns),
            (r * columns + c, (r + 1) % rows * columns + c),
        )
    )


def children_of(n: int) -> dict[int, list[int]]:
    """NCCL's binary tree over nodes 0 to n - 1, by its children instead of its parents.

    A node whose lowest set bit is b has its children b / 2 below and b / 2 above it, the upper one
    nearer where that lies beyond the last node; node 0 has the largest power of two below n.
    """
    out: dict[int, list[int]] = {0: [1 << (n - 1).bit_length() - 1] if n > 1 else []}
    for node in range(1, n):
        bit = node & -node
        out[node] = [node - bit // 2] if bit > 1 else []
        step = bit // 2
        while step and node + step >= n:
            step //= 2
        if step:
            out[node].append(node + step)
    return out


def parents_of(n: int) -> list[int]:
    """The same by parents, -1 for the root."""
    parents = [-1] * n
    for parent, children in children_of(n).items():
        for child in children:
            assert parents[child] == -1
            parents[child] = parent
    return parents


def second_of(first: Sequence[int], *, shifted: bool) -> list[int]:
    """The tree beside `first`: every node renamed to the next one, or to its mirror image."""
    n = len(first)
    name = [(r + 1) % n if shifted else n - 1 - r for r in range(n)]
    out = [-1] * n
    for child, parent in enumerate(first):
        out[name[child]] = -1 if parent < 0 else name[parent]
    return out


def up(parents: Sequence[int]) -> list[Edge]:
    """Child and parent of each node but the root."""
    return [(child, parent) for child, parent in enumerate(parents) if parent >= 0]


def double_tree(first: Sequence[int], second: Sequence[int]) -> nx.DiGraph[int]:
    """Both trees' traffic: each moves a byte up and a byte down every edge of its own."""
    weight: dict[Edge, float] = {}
    for parents in (first, second):
        for edge in both(up(parents)):
            weight[edge] = weight.get(edge, 0.0) + 1.0
    return graph_of(weight, weight)


def nccl_trees(n: int) -> tuple[list[int], list[int]]:
    """Both trees of NCCL 2.8.3 and later: the second is shifted for odd n, else mirrored."""
    first = parents_of(n)
    return first, second_of(first, shifted=n % 2 == 1)


def renamed(graph: nx.DiGraph[int], names: Sequence[int]) -> nx.DiGraph[int]:
    """The graph with node i called `names[i]`, its edges added in the order of the new names."""
    out: nx.DiGraph[int] = nx.DiGraph()
    for (u, v), data in sorted(((names[u], names[v]), d) for u, v, d in graph.edges(data=True)):
        out.add_edge(u, v, **data)
    return out


def edges_of(shape: Shape) -> set[Edge]:
    """All edges of a shape's channels."""
    return {edge for channel in shape.channels for edge in channel.edges}


def links_of(edges: Iterable[Edge]) -> frozenset[frozenset[int]]:
    """Edges without direction."""
    return frozenset(frozenset(edge) for edge in edges)
