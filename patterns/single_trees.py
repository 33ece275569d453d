"""Single trees: a reduction up and a broadcast down, or one of the two alone.

Binomial and k-nomial trees hang each rank from the one without its lowest digit in base k, some
binomial ones without its highest bit (Thakur, Rabenseifner and Gropp 2005, section 4.4; OpenMPI,
coll/base/coll_base_topo.c); a broadcast by chains hangs some chains from the root (same source).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from patterns import phases
from patterns.claim import SHAPE_CEILING
from patterns.result import Claim
from patterns.shape import Shape, ShapeChannel, both_ways
from reconstruct.edges import Flows

SMALLEST_ONE_WAY: Final = 5  # fewer edges than that a copy handed on draws as well
EQUAL: Final = 1.25  # ratio of bytes up to which all edges carry one buffer
RADICES: Final = range(3, 9)
LARGEST: Final = 512
FOUR: Final = 4  # a binomial tree of four is a path
INWARD_SIGMAS: Final = 3.0  # by which both ends of a path must lead to be leaves of one tree
NOT_TOLD: Final = 0.5
QUIET: Final = 0.02  # of the busiest phase: less is no traffic

Form = tuple["Form", ...]


def find_both_ways(undirected: nx.Graph[int]) -> Shape | None:
    """The tree that a graph of links used both ways is; no path, which is a chain.

    A star is a server and its clients, no tree that a collective draws.
    """
    n = undirected.number_of_nodes()
    degrees = [d for _, d in undirected.degree]
    if not nx.is_tree(undirected) or max(degrees) < 3 or max(degrees) == n - 1:
        return None
    variant, roots = _named(undirected)
    return Shape(
        algorithm="tree",
        variant=variant,
        members=tuple(sorted(undirected.nodes)),
        channels=(ShapeChannel(None, None, both_ways(undirected.edges)),),
        roots=roots or tuple(sorted(undirected.nodes)),
        collective="all_reduce",
    )


def find_one_way(graph: nx.DiGraph[int]) -> Shape | None:
    """A broadcast down one tree, or a reduction up one, of a form that libraries know."""
    n = graph.number_of_nodes()
    if not SMALLEST_ONE_WAY <= n <= LARGEST or graph.number_of_edges() != n - 1:
        return None
    down = max(d for _, d in graph.in_degree) == 1
    tree = graph if down else graph.reverse(copy=False)
    if not nx.is_arborescence(tree):
        return None
    volume = [data["bytes"] for _, _, data in graph.edges(data=True)]
    children = dict(tree.out_degree)
    [root] = [v for v, d in tree.in_degree if d == 0]
    if max(volume) > EQUAL * min(volume) or children[root] in (1, n - 1):
        return None
    variant, roots = _named(tree.to_undirected())
    if root not in roots:
        fan = all(count <= 1 for v, count in children.items() if v != root)
        if not fan:
            return None
        variant = "chain"
    parent = {child: up for up, child in tree.edges}
    return Shape(
        algorithm="tree",
        variant=variant,
        members=tuple(sorted(graph.nodes)),
        channels=(ShapeChannel(None, parent, tuple(sorted(graph.edges))),),
        collective="broadcast" if down else "unknown",
    )


def place_root(flows: Flows, rows: NDArray[np.intp], shape: Shape) -> tuple[Shape, Claim]:
    """The shape with its parents, and how sure they are: what goes up goes before what comes down.

    Parameters
    ----------
    flows : Flows
    rows : intp[k]
        Its connections.
    shape : Shape
        A tree used both ways, whose `roots` are told apart here.
    """
    flows = _from_rest(flows, rows)
    links: nx.Graph[int] = nx.Graph(shape.channels[0].edges)
    ahead: dict[tuple[int, int], float] = {}
    for u, v in links.edges:
        lead = phases.lead(flows, rows, u, v)
        sigmas = lead.share / lead.error if np.isfinite(lead.error) else 0.0
        ahead[u, v], ahead[v, u] = sigmas, -sigmas
    score = {r: sum(ahead[c, p] for p, c in nx.bfs_edges(links, r)) for r in shape.roots}
    root = max(score, key=score.__getitem__)
    sure = SHAPE_CEILING
    for other in shape.roots:
        if other != root:
            # Only the links between the two point another way.
            between = nx.shortest_path_length(links, root, other)
            sigmas = (score[root] - score[other]) / 2 / np.sqrt(between)
            sure = min(sure, float(norm.cdf(sigmas)))
    parent = {child: up for up, child in nx.bfs_edges(links, root)}
    basis = f"{len(shape.roots)} member(s) may be the root; what goes up it goes first"
    channel = replace(shape.channels[0], parent=parent)
    samples = int(flows.samples[rows].sum())
    told = Claim(round(max(NOT_TOLD, sure), 4), basis, samples)
    return replace(shape, channels=(channel,)), told


def of_four(flows: Flows, rows: NDArray[np.intp], chain: Shape) -> Shape | None:
    """The binomial tree of four that a chain is whose both ends send first; None where they do not.

    In a pipeline one end sends first and the other one last.
    """
    if len(chain.members) != FOUR or chain.variant is not None:
        return None
    flows = _from_rest(flows, rows)
    first, left, right, last = chain.members
    for leaf, inner in ((first, left), (last, right)):
        lead = phases.lead(flows, rows, leaf, inner)
        if not lead.share >= INWARD_SIGMAS * lead.error:
            return None
    return Shape(
        algorithm="tree",
        variant="binomial",
        members=tuple(sorted(chain.members)),
        channels=(replace(chain.channels[0], order=None),),
        roots=(left, right),
        collective="all_reduce",
    )


def _from_rest(flows: Flows, rows: NDArray[np.intp]) -> Flows:
    """The flows, phases counted from where some connections rest longest.

    A turn that is cut inside their traffic would put its first part behind its last one.
    """
    busy = flows.phases[rows].sum(axis=0)
    ends = np.flatnonzero(busy > QUIET * busy.max(initial=0.0))
    if not len(ends):
        return flows
    rest = np.diff(ends, append=ends[0] + len(busy))
    begin = int(ends[(int(rest.argmax()) + 1) % len(ends)])
    return replace(flows, phases=np.roll(flows.phases, -begin, axis=1))


def _named(tree: nx.Graph[int]) -> tuple[str | None, tuple[int, ...]]:
    """Name of the form of a tree, and which of its nodes may then be the root."""
    n = tree.number_of_nodes()
    if n > LARGEST:
        return None, ()
    for variant, degree, wanted in _models(n):
        likely = [v for v, d in tree.degree if d == degree]
        roots = tuple(sorted(v for v in likely if _form(tree, v) == wanted))
        if roots:
            return variant, roots
    return None, ()


@lru_cache(maxsize=64)
def _models(n: int) -> tuple[tuple[str, int, Form], ...]:
    """Name, children of the root and form of each tree of n ranks that libraries know."""
    trees = [("binomial", _without_lowest(n, 2)), ("binomial", _without_highest(n))]
    trees += [("knomial", _without_lowest(n, radix)) for radix in RADICES]
    found = []
    for variant, parents in trees:
        tree: nx.Graph[int] = nx.Graph(list(parents.items()))
        if tree.degree[0] < n - 1:
            found.append((variant, int(tree.degree[0]), _form(tree, 0)))
    return tuple(found)


def _without_lowest(n: int, radix: int) -> Mapping[int, int]:
    """Parent of each rank but 0: itself with its lowest digit that is not zero taken away."""
    parent = {}
    for rank in range(1, n):
        unit = 1
        while rank // unit % radix == 0:
            unit *= radix
        parent[rank] = rank - rank // unit % radix * unit
    return parent


def _without_highest(n: int) -> Mapping[int, int]:
    """Parent of each rank but 0: itself without its highest bit."""
    return {rank: rank - (1 << rank.bit_length() - 1) for rank in range(1, n)}


def _form(tree: nx.Graph[int], root: int) -> Form:
    """What a rooted tree looks like whatever its nodes are called (Aho, Hopcroft, Ullman 1974)."""
    parent = {child: up for up, child in nx.bfs_edges(tree, root)}
    below: dict[int, list[Form]] = {v: [] for v in tree.nodes}
    order: Sequence[int] = [root, *parent]
    for v in reversed(order[1:]):
        below[parent[v]].append(tuple(sorted(below[v])))
    return tuple(sorted(below[root]))
