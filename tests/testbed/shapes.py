"""What a program's collectives draw between its ranks, from their algorithms alone.

OpenMPI's rings run from each rank to the next, Gloo's to the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Channel:
    """One ring, chain, tree or exchange over ranks; `edges` point as the data flows."""

    edges: tuple[Pair, ...]
    order: tuple[int, ...] | None = None
    parent: dict[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """One group of ranks that communicate together.

    Parameters
    ----------
    kind, collective, algorithm, variant : as in the schema of results.
    members : ranks; along the edges of a ring, by stage of a chain.
    channels : at least one.
    told : whether the wire tells its kind. Two programs of one picture, one of which reduces, do
        not; nor do pairs that exchange both ways without lengths of messages.
    """

    kind: str
    collective: str
    algorithm: str
    members: tuple[int, ...]
    channels: tuple[Channel, ...]
    variant: str | None = None
    told: bool = True


def ring(
    members: Sequence[int], collective: str = "all_reduce", kind: str = "dp", *, told: bool = True
) -> Drawn:
    """A ring from each member to the next one listed."""
    order = tuple(members)
    return Drawn(kind, collective, "ring", order, (_circle(order),), told=told)


def ring_both_ways(members: Sequence[int], collective: str, kind: str = "dp") -> Drawn:
    """Two rings, one against the other."""
    order = tuple(members)
    channels = (_circle(order), _circle(order[::-1]))
    return Drawn(kind, collective, "ring", order, channels)


def _circle(order: tuple[int, ...]) -> Channel:
    return Channel(tuple(zip(order, order[1:] + order[:1], strict=True)), order=order)


def chain(stages: Sequence[int], collective: str = "send_recv", kind: str = "pp") -> Drawn:
    """Neighbours that send to each other both ways, first stage first."""
    order = tuple(stages)
    links = tuple(pairwise(order))
    edges = links + tuple((b, a) for a, b in links)
    return Drawn(kind, collective, "chain", order, (Channel(edges, order=order),))


def forwarding(stages: Sequence[int]) -> Drawn:
    """A broadcast that each member hands on to the next."""
    order = tuple(stages)
    links = tuple(pairwise(order))
    return Drawn("unknown", "broadcast", "chain", order, (Channel(links, order=order),), "pipeline")


def broadcast(parent: dict[int, int], variant: str) -> Drawn:
    """A broadcast down one tree."""
    edges = tuple((up, down) for down, up in parent.items())
    members = tuple(sorted({*parent, *parent.values()}))
    return Drawn("unknown", "broadcast", "tree", members, (Channel(edges, parent=parent),), variant)


def binomial(ranks: int) -> dict[int, int]:
    """Parents of OpenMPI's binomial broadcast: the highest bit taken away."""
    return {rank: rank ^ (1 << rank.bit_length() - 1) for rank in range(1, ranks)}


def fan_of_chains(ranks: int, chains: int) -> dict[int, int]:
    """Parents of OpenMPI's chain broadcast: the root feeds several chains of equal length."""
    length, parent = -(-(ranks - 1) // chains), {}
    for first in range(1, ranks, length):
        parent[first] = 0
        parent |= {rank: rank - 1 for rank in range(first + 1, min(first + length, ranks))}
    return parent


def double_tree(ranks: int) -> Drawn:
    """NCCL's double binary tree over an even number of ranks (NCCL 2.30 src/graph/trees.cc)."""

    def up(node: int) -> int:
        bit = node & -node
        inner = (node ^ bit) | (bit << 1)
        return inner if inner < ranks else node ^ bit

    first = {node: up(node) for node in range(1, ranks)}
    second = {ranks - 1 - node: ranks - 1 - up(node) for node in range(1, ranks)}
    channels = tuple(
        Channel(tuple(sorted({*tree.items(), *((b, a) for a, b in tree.items())})), parent=tree)
        for tree in (first, second)
    )
    members = tuple(range(ranks))
    return Drawn("dp", "all_reduce", "tree", members, channels, "double_binary_tree")


def hypercube(ranks: int, variant: str) -> Drawn:
    """Partners whose numbers differ in one bit."""
    bits = [1 << k for k in range((ranks - 1).bit_length())]
    edges = tuple((rank, rank ^ bit) for rank in range(ranks) for bit in bits)
    members = tuple(range(ranks))
    return Drawn("dp", "all_reduce", "recursive", members, (Channel(edges),), variant)


def leaps(ranks: int, collective: str) -> Drawn:
    """Bruck's algorithm: everyone sends one, two, four, ... ranks further."""
    steps = [1 << k for k in range((ranks - 1).bit_length())]
    sign = -1 if collective == "all_gather" else 1
    edges = tuple((rank, (rank + sign * step) % ranks) for rank in range(ranks) for step in steps)
    members = tuple(range(ranks))
    algorithm = "all_to_all" if collective == "all_to_all" else "recursive"
    return Drawn("unknown", collective, algorithm, members, (Channel(edges),), "bruck")


def everyone(members: Sequence[int], kind: str = "unknown") -> Drawn:
    """All-to-all."""
    edges = tuple((a, b) for a in members for b in members if a != b)
    channels = (Channel(edges),)
    # Equal volumes to all are what experts exchange, and sequences that are split by heads.
    return Drawn(kind, "all_to_all", "all_to_all", tuple(members), channels, told=kind == "unknown")
