"""Trees: NCCL's double binary tree, fitted as a whole; single ones are next door.

The double tree over n nodes is one fixed graph per rule, so finding it is graph isomorphism; the
isomorphism is the node order. Source: NCCL 2.30 src/graph/trees.cc; rule for the second tree as of
2.8.3, and the one before it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import islice
from typing import Final

import networkx as nx

from patterns import single_trees
from patterns.shape import Shape, ShapeChannel, both_ways, mutual

SMALLEST_DOUBLE: Final = 3
LARGEST_DOUBLE: Final = 1024
MOST_ORDERS: Final = 64  # automorphisms looked at; beyond it an order is ambiguous anyway
DOUBLE_SHARE: Final = 1.5  # an edge of both trees carries twice the bytes; the cut lies between


def parents_a(n: int) -> tuple[int, ...]:
    """Parent of each node in the first tree, -1 for the root."""
    out = [-1]
    for r in range(1, n):
        bit = r & -r
        up = (r ^ bit) | (bit << 1)
        out.append(up if up < n else r ^ bit)
    return tuple(out)


def parents_b(n: int, *, shifted: bool) -> tuple[int, ...]:
    """Parent of each node in the second tree: the first one shifted by one node, or mirrored."""
    first = parents_a(n)
    if shifted:
        return tuple(
            -1 if first[(r - 1) % n] < 0 else (first[(r - 1) % n] + 1) % n for r in range(n)
        )
    return tuple(-1 if first[n - 1 - r] < 0 else n - 1 - first[n - 1 - r] for r in range(n))


@lru_cache(maxsize=256)
def _double(n: int, *, shifted: bool) -> nx.Graph[int]:
    """Union of both trees; edge attribute `trees` says how many of the two use it."""
    graph: nx.Graph[int] = nx.empty_graph(n)
    for parents in (parents_a(n), parents_b(n, shifted=shifted)):
        for child, parent in enumerate(parents):
            if parent >= 0:
                used = graph.get_edge_data(child, parent, {"trees": 0})["trees"]
                graph.add_edge(child, parent, trees=used + 1)
    return graph


@lru_cache(maxsize=256)
def orders_alike(n: int, *, shifted: bool) -> int:
    """How many different pairs of trees draw the same double tree over n nodes.

    With four nodes, the root of either tree hangs from the same inner node as a leaf does, so the
    edges do not say which of the two is the root.
    """
    model = _double(n, shifted=shifted)
    matcher = nx.isomorphism.GraphMatcher(
        model, model, edge_match=lambda a, b: a["trees"] == b["trees"]
    )
    trees = (parents_a(n), parents_b(n, shifted=shifted))
    pairs = {
        frozenset(
            frozenset((mapping[c], mapping[p]) for c, p in enumerate(parents) if p >= 0)
            for parents in trees
        )
        for mapping in islice(matcher.isomorphisms_iter(), MOST_ORDERS)
    }
    return len(pairs)


def find(graph: nx.DiGraph[int]) -> Shape | None:
    """The tree or double tree that a graph is."""
    undirected = mutual(graph)
    if undirected is None:
        return single_trees.find_one_way(graph)
    if undirected.number_of_nodes() < SMALLEST_DOUBLE:
        return None
    for u, v in undirected.edges:
        undirected.edges[u, v]["bytes"] = graph.edges[u, v]["bytes"] + graph.edges[v, u]["bytes"]
    return find_double(undirected) or single_trees.find_both_ways(undirected)


def find_double(undirected: nx.Graph[int]) -> Shape | None:
    """The double binary tree that an undirected graph is.

    Parameters
    ----------
    undirected : networkx.Graph
        Edges carry `bytes`, both directions together.

    Returns
    -------
    Shape or None
        `members` in node order, which is known up to the automorphisms of the shape.
    """
    n = undirected.number_of_nodes()
    if not SMALLEST_DOUBLE <= n <= LARGEST_DOUBLE:
        return None
    seen = _with_use(undirected)
    newest_first = (n % 2 == 1, n % 2 == 0)
    for shifted in newest_first:
        model = _double(n, shifted=shifted)
        order = _isomorphism(model, seen)
        if order is not None:
            return _double_shape(order, shifted=shifted, newest=shifted == newest_first[0])
    return None


def _with_use(undirected: nx.Graph[int]) -> nx.Graph[int]:
    """The graph with `trees` 2 on the heavy edges, where there are clearly two weights."""
    weights = [data["bytes"] for _, _, data in undirected.edges(data=True)]
    one, both = min(weights), max(weights)
    cut = math.sqrt(one * both) if both > DOUBLE_SHARE * one else math.inf
    out: nx.Graph[int] = nx.Graph()
    for u, v, data in undirected.edges(data=True):
        out.add_edge(u, v, trees=2 if data["bytes"] > cut else 1)
    return out


def _isomorphism(model: nx.Graph[int], seen: nx.Graph[int]) -> tuple[int, ...] | None:
    """Members of `seen` in the model's node order, or None.

    Colours by neighbourhood (Weisfeiler and Leman 1968) go first: they leave few choices, so the
    search ends quickly also where there is no isomorphism.
    """
    if model.number_of_edges() != seen.number_of_edges():
        return None
    rounds = max(3, model.number_of_nodes().bit_length() + 1)
    colours = [
        nx.weisfeiler_lehman_subgraph_hashes(g, edge_attr="trees", iterations=rounds)
        for g in (model, seen)
    ]
    last = [{v: hashes[-1] for v, hashes in c.items()} for c in colours]
    if sorted(last[0].values()) != sorted(last[1].values()):
        return None
    for g, colour in zip((model, seen), last, strict=True):
        nx.set_node_attributes(g, colour, "colour")
    mapping = nx.vf2pp_isomorphism(model, seen, node_label="colour")
    if mapping is None:
        return None
    if any(
        model.edges[u, v]["trees"] != seen.edges[mapping[u], mapping[v]]["trees"]
        for u, v in model.edges
    ):
        return None
    return tuple(mapping[r] for r in range(model.number_of_nodes()))


def _double_shape(order: tuple[int, ...], *, shifted: bool, newest: bool) -> Shape:
    n = len(order)
    channels = []
    for parents in (parents_a(n), parents_b(n, shifted=shifted)):
        up = {order[c]: order[p] for c, p in enumerate(parents) if p >= 0}
        channels.append(ShapeChannel(None, up, both_ways(list(up.items()))))
    return Shape(
        algorithm="tree",
        variant="double_binary_tree" if newest else "double_binary_tree_before_2.8.3",
        members=order,
        channels=tuple(channels),
        ambiguous="a ring both ways or an exchange of three" if n == SMALLEST_DOUBLE else None,
        orders=orders_alike(n, shifted=shifted),
    )
