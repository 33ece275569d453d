"""Leaps: each member sends one, two, four, ... places on around a circle.

Bruck's algorithm does so in one direction (Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005,
sections 4.1 and 4.3). PAT reduces and scatters in one direction and gathers in the other (NVIDIA
NCCL 2.23). How much each leap carries tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, TypeVar

import networkx as nx

from patterns.result import AlgorithmName, Collective
from patterns.shape import MISSABLE, Edge, Shape, ShapeChannel

SMALLEST: Final = 4  # three members have one leap each way: a ring both ways, or an exchange
LARGEST: Final = 1024
EQUAL: Final = 1.25  # ratio of bytes up to which an edge carries what its leap should
SIGMAS: Final = 2.0  # of its error, that it may be off beside
TRIES: Final = 100  # of each member's place, before a graph counts as nothing that leaps
ERROR_FLOOR: Final = 0.05  # of a volume: what is not counting
CLEARLY: Final = 9.0  # of chi-square, by which one algorithm fits better than any other
MISSED: Final = 0.06  # of the edges, that may have gone unseen

Leaps = Mapping[int, float]
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class _Kind:
    """What one algorithm sends: share of all that a member sends, by places on."""

    algorithm: AlgorithmName
    variant: str
    collective: Collective
    leaps: Leaps


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The algorithm of leaps that a graph is.

    Where everyone sends as much to everyone, as PAT does over five members, it is none.
    """
    return _of_kinds(graph, ("pat", "bruck"))


def find_pat(graph: nx.DiGraph[int]) -> Shape | None:
    """PAT, which is the one that NCCL has."""
    return _of_kinds(graph, ("pat",))


def _of_kinds(graph: nx.DiGraph[int], variants: tuple[str, ...]) -> Shape | None:
    n = graph.number_of_nodes()
    if not SMALLEST <= n <= LARGEST or any(u == v for u, v in graph.edges):
        return None
    fitting = []
    for kind in _kinds(n):
        order = _around(graph, kind.leaps) if kind.variant in variants else None
        if order is not None:
            fitting.append((_misfit(graph, order, kind.leaps), kind, order))
    if not fitting:
        return None
    fitting.sort(key=lambda one: one[0])
    # Volumes of few samples may be those of several.
    if len(fitting) > 1 and fitting[1][0] - fitting[0][0] < CLEARLY:
        return None
    _, kind, order = fitting[0]
    return _shape(order, kind, n * len(kind.leaps) - graph.number_of_edges())


def _misfit(graph: nx.DiGraph[int], order: tuple[int, ...], leaps: Leaps) -> float:
    """Chi-square of what edges carry against the shares of their leaps."""
    n = len(order)
    place = {v: i for i, v in enumerate(order)}
    total = sum(carried for _, _, carried in graph.edges(data="bytes"))
    misfit = 0.0
    for u, v, data in graph.edges(data=True):
        wanted = leaps.get((place[v] - place[u]) % n, 0.0) / n
        off = max(data["error"], ERROR_FLOOR) * max(data["bytes"] / total, wanted)
        misfit += ((data["bytes"] / total - wanted) / off) ** 2
    return misfit


def _missable(graph: nx.DiGraph[int]) -> int:
    """How many edges may have gone unseen: a few, where such as were seen have few samples."""
    fewest = min(samples for _, _, samples in graph.edges(data="samples"))
    return max(1, int(MISSED * graph.number_of_edges())) if fewest < MISSABLE else 0


@lru_cache(maxsize=256)
def _kinds(n: int) -> tuple[_Kind, ...]:
    """All algorithms over n members that an exchange does not draw as well."""
    steps = [1 << k for k in range((n - 1).bit_length())]
    # In step k of an exchange go all blocks whose distance has bit k.
    passed = {d: sum(bool(block & d) for block in range(n)) for d in steps}
    gathered = {d: min(d, n - d) for d in steps}
    both_ways: dict[int, int] = {}
    for d, blocks in gathered.items():
        for places in (d, n - d):
            both_ways[places] = both_ways.get(places, 0) + blocks
    kinds = (
        _Kind("recursive", "pat", "reduce_scatter+all_gather", _shares(both_ways)),
        _Kind("all_to_all", "bruck", "all_to_all", _shares(passed)),
        _Kind("recursive", "bruck", "all_gather", _shares(gathered)),
    )
    return tuple(k for k in kinds if len(k.leaps) < n - 1 or len(set(k.leaps.values())) > 1)


def _shares(amount: Mapping[K, float]) -> dict[K, float]:
    whole = sum(amount.values())
    return {key: one / whole for key, one in amount.items()}


def _around(graph: nx.DiGraph[int], leaps: Leaps) -> tuple[int, ...] | None:
    """Members in an order in which each edge leaps by its share, None where there is none.

    Every member is like every other, so any of them may be the first one.
    """
    n = graph.number_of_nodes()
    missing = n * len(leaps) - graph.number_of_edges()
    if not 0 <= missing <= _missable(graph):
        return None
    if any(d > len(leaps) for _, d in (*graph.out_degree, *graph.in_degree)):
        return None
    told = _shares({(u, v): data["bytes"] for u, v, data in graph.edges(data=True)})
    seen = {(u, v): (told[u, v], error) for u, v, error in graph.edges(data="error")}
    order = [min(graph.nodes)]
    unseen = [0]  # leaps up to each of them that no edge shows
    choices = [_next(graph, order[0], missing)]
    tries = 0
    while choices and len(order) < n:
        for v in choices[-1]:
            tries += 1
            if tries > TRIES * n:
                return None
            more = None if v in order else _unseen(seen, leaps, order, v, n)
            if more is not None and unseen[-1] + more <= missing:
                order.append(v)
                unseen.append(unseen[-1] + more)
                choices.append(_next(graph, v, missing))
                break
        else:
            choices.pop()
            order.pop()
            unseen.pop()
    return tuple(order) if order else None


def _next(graph: nx.DiGraph[int], v: int, missing: int) -> Iterator[int]:
    """Members that may follow one: those it sends to, then any where edges may be unseen."""
    yield from sorted(graph.successors(v))
    if missing:
        yield from sorted(set(graph.nodes) - set(graph.successors(v)))


def _unseen(
    seen: Mapping[Edge, tuple[float, float]], leaps: Leaps, order: list[int], v: int, n: int
) -> int | None:
    """How many leaps between a member and those in order no edge shows.

    None where it may not follow them, as an edge carries something else than its leap.
    """
    place = len(order)
    unseen = 0
    for places, share in leaps.items():
        ends = []
        if place >= places:
            ends.append((order[place - places], v))
        if n <= place + places < n + place:
            ends.append((v, order[place + places - n]))
        for edge in ends:
            if edge not in seen:
                unseen += 1
                continue
            said, error = seen[edge]
            most = max(said * n, share)
            if abs(said * n - share) > (1 - 1 / EQUAL + SIGMAS * error) * most:
                return None
    return unseen


def _shape(order: tuple[int, ...], kind: _Kind, missing: int) -> Shape:
    n = len(order)
    sets = tuple(tuple((order[i], order[(i + d) % n]) for i in range(n)) for d in kind.leaps)
    one_way = kind.variant == "bruck"
    return Shape(
        algorithm=kind.algorithm,
        variant=kind.variant,
        members=order,
        channels=(ShapeChannel(None, None, tuple(sorted(chain.from_iterable(sets)))),),
        missing=missing,
        ambiguous="a ring and pairs" if one_way and n == SMALLEST else None,
        in_turn=sets if one_way else (),
        collective=kind.collective,
    )
