"""Exchanges: everyone with everyone.

Where data leaves a host by each of its NICs (NCCL without PXN), members in one host need no wire.
"""

from __future__ import annotations

from typing import Final

import networkx as nx

from patterns.shape import Shape, ShapeChannel, mutual

SMALLEST: Final = 4  # three members that all talk are also a ring both ways
FEWEST_HOSTS: Final = 3  # where hosts are guessed: two are also servers and as many clients
OF_PAT: Final = 5  # members over which PAT sends as much to everyone
EQUAL: Final = 1.25  # ratio of bytes up to which it does


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The all-to-all that a graph is.

    Nodes may carry `host`; where they do not, members that do not talk are taken for one host's if
    there are as many in each of several hosts.
    """
    undirected = mutual(graph)
    if undirected is None or undirected.number_of_nodes() < SMALLEST:
        return None
    if not _complete(undirected) and not _between_hosts(undirected):
        return None
    volume = [data["bytes"] for _, _, data in graph.edges(data=True)]
    even = len(graph) == OF_PAT and max(volume) <= EQUAL * min(volume)
    return Shape(
        algorithm="all_to_all",
        variant=None,
        members=tuple(sorted(graph.nodes)),
        channels=(ShapeChannel(None, None, tuple(sorted(graph.edges))),),
        ambiguous="PAT over five members" if even else None,
        collective="all_to_all",
    )


def _complete(undirected: nx.Graph[int]) -> bool:
    n = undirected.number_of_nodes()
    return bool(undirected.number_of_edges() == n * (n - 1) // 2)


def _between_hosts(undirected: nx.Graph[int]) -> bool:
    """Whether everyone talks to everyone but those of the own host."""
    apart = {frozenset(undirected.nodes - set(undirected[v])) for v in undirected}
    if sum(map(len, apart)) != len(undirected):
        return False
    host = nx.get_node_attributes(undirected, "host")
    if len(host) == len(undirected):
        of_host = {frozenset(v for v in host if host[v] == name) for name in host.values()}
        return of_host == apart
    return len(apart) >= FEWEST_HOSTS and len(set(map(len, apart))) == 1
