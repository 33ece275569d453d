"""A shape: what a set of directed edges looks like, and how well.

Each module next to this one that recognises a shape offers `find(graph) -> Shape | None`. A graph
is a networkx DiGraph over endpoint ids whose edges carry `bytes` (per iteration), `samples` and
`flows` (connections of the edge).
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from patterns.result import AlgorithmName


@dataclass(frozen=True, slots=True)
class ShapeChannel:
    """One ring, tree or chain; `order` and `parent` over endpoint ids."""

    order: tuple[int, ...] | None
    parent: dict[int, int] | None
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A recognised shape over endpoint ids.

    Parameters
    ----------
    algorithm : str
    variant : str or None
    members : tuple of int
        Along the edges of a ring, by stage of a chain, in node order of a tree.
    channels : tuple of ShapeChannel
    missing : int
        Edges that the shape needs and that were not seen.
    ambiguous : str or None
        What else would draw the same picture.
    orders : int
        Different orders (rings, parents of trees) that draw the same edges; 1 where it is known.
    """

    algorithm: AlgorithmName
    variant: str | None
    members: tuple[int, ...]
    channels: tuple[ShapeChannel, ...]
    missing: int = 0
    ambiguous: str | None = None
    orders: int = 1


def mutual(graph: nx.DiGraph[int]) -> nx.Graph[int] | None:
    """The undirected graph, or None where an edge runs one way only or to itself."""
    if any(u == v or not graph.has_edge(v, u) for u, v in graph.edges):
        return None
    return graph.to_undirected()


def both_ways(edges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Each edge and its reverse, sorted."""
    return tuple(sorted({(u, v) for u, v in edges} | {(v, u) for u, v in edges}))
