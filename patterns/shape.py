"""A shape: what a set of directed edges looks like, and how well.

Each module next to this one that recognises a shape offers `find(graph) -> Shape | None`. A graph
is a networkx DiGraph over endpoint ids whose edges carry `bytes` (per iteration), the relative
`error` of these, `samples` and `flows` (connections of the edge).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import networkx as nx

from patterns.result import AlgorithmName, Collective

Edge = tuple[int, int]

MISSABLE: Final = 20  # samples of an edge, from which on none like it is missed by chance


@dataclass(frozen=True, slots=True)
class ShapeChannel:
    """One ring, tree or chain; `order` and `parent` over endpoint ids."""

    order: tuple[int, ...] | None
    parent: dict[int, int] | None
    edges: tuple[Edge, ...]


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
    in_turn : tuple of tuples of edges
        Sets of edges that are used one after the other, or it is another shape.
    collective : str or None
        What is run, where the shape alone says so.
    roots : tuple of int
        Members that may be the root of a single tree used both ways; times say which of them is.
    parts : tuple of (float, Shape)
        Share of the bytes and shape of each algorithm, where several use the same connections.
    inferred : str or None
        What its order rests on, where its edges do not show it.
    instead : Shape or None
        What it is where it is not used in turn.
    """

    algorithm: AlgorithmName
    variant: str | None
    members: tuple[int, ...]
    channels: tuple[ShapeChannel, ...]
    missing: int = 0
    ambiguous: str | None = None
    orders: int = 1
    in_turn: tuple[tuple[Edge, ...], ...] = ()
    collective: Collective | None = None
    roots: tuple[int, ...] = ()
    parts: tuple[tuple[float, Shape], ...] = ()
    inferred: str | None = None
    instead: Shape | None = None

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges of all its parts, sorted."""
        shapes = [part for _, part in self.parts] or [self]
        return tuple(sorted({edge for s in shapes for c in s.channels for edge in c.edges}))


def mutual(graph: nx.DiGraph[int]) -> nx.Graph[int] | None:
    """The undirected graph, or None where an edge runs one way only or to itself."""
    if any(u == v or not graph.has_edge(v, u) for u, v in graph.edges):
        return None
    return graph.to_undirected()


def both_ways(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Each edge and its reverse, sorted."""
    one_way = list(edges)
    return tuple(sorted({*one_way, *((v, u) for u, v in one_way)}))
