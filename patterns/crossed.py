"""Crossed rails: rings that enter a host by one NIC and leave it by another.

NCCL does so where one NIC for both ways is slower: channel c enters by NIC c and leaves by NIC
c + 1. Followed from edge to edge, the wire then shows circles that come to a host several times,
by another NIC each time, where each channel comes to each host once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import networkx as nx
import numpy as np

from patterns import rings
from patterns.shape import Shape, ShapeChannel

if TYPE_CHECKING:
    from patterns.layers import Part

INFERRED: Final = "each ring comes to each host by one NIC; by which it leaves is not seen"


def join(parts: Sequence[Part], host_of: Mapping[int, str]) -> list[Part]:
    """The parts, rings over the same hosts that cross their rails taken as one.

    Parameters
    ----------
    parts : sequence of Part
    host_of : mapping
        Host of an endpoint id where the inventory knows it; NICs of a host in their order there.
    """
    over: dict[frozenset[str], list[Part]] = {}
    out = []
    for part in parts:
        whole = part.shape is not None and part.shape.algorithm == "ring"
        whole = whole and len(part.graph.edges) == len(part.graph)
        if whole and all(v in host_of for v in part.graph):
            over.setdefault(frozenset(host_of[v] for v in part.graph), []).append(part)
        else:
            out.append(part)
    for alike in over.values():
        graph = nx.compose_all([part.graph for part in alike])
        shape = _crossed(graph, host_of)
        if shape is None:
            out += alike
        else:
            rows = np.concatenate([part.flows for part in alike])
            out.append(replace(alike[0], flows=np.sort(rows), graph=graph, shape=shape))
    return out


def _crossed(graph: nx.DiGraph[int], host_of: Mapping[int, str]) -> Shape | None:
    """One ring per NIC by which hosts are entered, if edges cross rails alike between all hosts."""
    nics: dict[str, list[int]] = {}
    for v in host_of:
        if v in graph:
            nics.setdefault(host_of[v], []).append(v)
    rail = {v: place for own in nics.values() for place, v in enumerate(own)}
    if len({len(own) for own in nics.values()}) != 1 or any(d != 1 for _, d in graph.in_degree):
        return None
    between = nx.DiGraph([(host_of[u], host_of[v]) for u, v in graph.edges])
    swaps = {(rail[u], rail[v]) for u, v in graph.edges}
    if len(swaps) != len(set(rail.values())) or all(a == b for a, b in swaps):
        return None
    around = rings.find(nx.relabel_nodes(between, {host: min(own) for host, own in nics.items()}))
    if around is None or around.missing:
        return None
    hosts = [host_of[v] for v in around.members]
    orders = [tuple(nics[host][place] for host in hosts) for place in range(len(nics[hosts[0]]))]
    return Shape(
        algorithm="ring",
        variant=None,
        members=tuple(chain.from_iterable(orders)),
        channels=tuple(
            ShapeChannel(order, None, tuple((u, v) for v in order for u in graph.predecessors(v)))
            for order in orders
        ),
        inferred=INFERRED,
    )
