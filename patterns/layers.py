"""Layers: a job's connections sorted into sets that each draw clean shapes.

Several collectives share a fabric and often an edge. They differ in volume and message length,
so several ways of cutting are tried, and the one that explains most bytes with the fewest sets
wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from patterns import chains, crossed, exchanges, leaps, messages, mixed, recursive, rings, trees
from patterns.shape import Shape
from reconstruct.edges import Flows

VOLUME_RATIOS: Final = (1.05, 1.2, 1.5, 2.0, 2.6)  # gaps in volume at which to cut
FINEST_RATIO: Final = 1.02  # within a part that draws nothing: what a well sampled volume tells
PRICE_OF_A_LAYER: Final = 0.01  # share of bytes that one more set must explain
SMALLEST_SHARE: Final = 0.003  # of the heaviest flow: below it noise, tails, start-up
MANY: Final = 60  # connections: of few, some are seen to send at other times by chance
BLUR: Final = 1.5  # phases: what few samples say of when a connection sends
RECURRING: Final = 0.4  # of the turns that its samples could fill


Finder = Callable[["nx.DiGraph[int]"], Shape | None]
OF_NCCL: Final = (trees.find, mixed.find, leaps.find_pat, rings.find_both_ways)
OF_ANY: Final = (trees.find, mixed.find, leaps.find, recursive.find, rings.find_both_ways)


@dataclass(frozen=True, slots=True)
class Part:
    """One connected part of a layer and the shape it draws, if any.

    Parameters
    ----------
    flows : intp[k]
        Rows of the job's `Flows`.
    graph : networkx.DiGraph
        See `patterns.shape`.
    shape : Shape or None
    message_class : int
        Pooled over the part's layer, see `patterns.messages`.
    """

    flows: NDArray[np.intp]
    graph: nx.DiGraph[int]
    shape: Shape | None
    message_class: int


def steady(flows: Flows) -> NDArray[np.intp]:
    """Rows that carry a share of every iteration, not noise or a start-up broadcast."""
    volume = np.nan_to_num(flows.bytes_per_turn)
    enough = volume >= SMALLEST_SHARE * volume.max(initial=0.0)
    told = np.isfinite(flows.bytes_per_turn) & (flows.bytes_per_turn > 0)
    often = (flows.recurring >= RECURRING) | (flows.samples < 3)
    return np.flatnonzero(told & enough & often)


def split(flows: Flows, rows: NDArray[np.intp], host_of: Mapping[int, str]) -> list[Part]:
    """The parts of the best cut of some connections.

    Parameters
    ----------
    flows : Flows
    rows : intp[k]
        Which of them to explain, see `steady`.
    host_of : mapping
        Host of an endpoint id where the inventory knows it.
    """
    parts = []
    for part in _best(flows, rows, _cuts(flows, rows), host_of):
        if part.shape is None:
            # What no cut of all explains may be two of nearly equal volume, or used in turn.
            cuts = [_finely(flows, part)]
            if len(part.flows) >= MANY:
                cuts.append(_by_phase(flows, part.flows))
            finer = _best(flows, part.flows, cuts, host_of)
        else:
            finer = _beneath(flows, part, host_of)
        parts += finer if finer and _clean(finer, part) else [part]
    return crossed.join(parts, host_of)


def _beneath(flows: Flows, part: Part, host_of: Mapping[int, str]) -> list[Part]:
    """An exchange and what else runs between its members, where connections of their own show it.

    Where everyone sends to everyone, any other edges change nothing of the picture.
    """
    if not _everyone(part) or len(part.flows) == part.graph.number_of_edges():
        return []
    cuts = [cut for cut in _cuts(flows, part.flows) if cut.any()]
    finer = _best(flows, part.flows, cuts, host_of)
    exchanges_left = [one for one in finer if _everyone(one) and len(one.graph) == len(part.graph)]
    return finer if exchanges_left else []


def _everyone(part: Part) -> bool:
    shape = part.shape
    return shape is not None and shape.algorithm == "all_to_all" and shape.variant is None


def _finely(flows: Flows, part: Part) -> NDArray[np.int64]:
    return _by_volume(flows.bytes_per_turn[part.flows], FINEST_RATIO)


def _clean(finer: Sequence[Part], part: Part) -> bool:
    """Whether pieces of a part draw more than chance does where noise parts them.

    By chance some edges are pairs, but not beside a larger shape and so that all have a partner.
    """
    shapes = [piece.shape for piece in finer]
    if any(shape is None or shape.missing for shape in shapes):
        return False
    drawn = [shape.members for shape in shapes if shape is not None]
    pairs = [members for members in drawn if len(members) == 2]
    return not pairs or (len(pairs) < len(drawn) and len(set().union(*pairs)) == len(part.graph))


def _best(
    flows: Flows,
    rows: NDArray[np.intp],
    cuts: Sequence[NDArray[np.int64]],
    host_of: Mapping[int, str],
) -> list[Part]:
    """The parts of the one of some labellings of the rows that explains most."""
    best: list[Part] = []
    best_score = -np.inf
    tried: set[bytes] = set()
    for label in cuts:
        _, canonical = np.unique(label, return_inverse=True)
        if canonical.tobytes() in tried:
            continue
        tried.add(canonical.tobytes())
        parts = [
            part
            for layer in range(canonical.max(initial=-1) + 1)
            for part in parts_of(flows, rows[canonical == layer], host_of)
        ]
        score = _explained(flows, parts) - PRICE_OF_A_LAYER * (canonical.max(initial=-1) + 1)
        if score > best_score:
            best, best_score = parts, score
    return best


def _cuts(flows: Flows, rows: NDArray[np.intp]) -> list[NDArray[np.int64]]:
    """Labellings of the rows to try, the plainest first."""
    by_message = _by_message(flows, rows)
    cuts = [np.zeros(len(rows), np.int64), by_message]
    for ratio in reversed(VOLUME_RATIOS):
        by_volume = _by_volume(flows.bytes_per_turn[rows], ratio)
        cuts.append(by_volume)
        cuts.append(by_message * (by_volume.max(initial=0) + 1) + by_volume)
    return cuts


def _by_volume(volume: NDArray[np.float64], ratio: float) -> NDArray[np.int64]:
    """Labels of clusters parted by gaps of at least `ratio` between neighbours."""
    order = np.argsort(volume)
    jump = np.diff(np.log(volume[order]), prepend=np.log(volume[order[:1]])) > np.log(ratio)
    label = np.empty(len(volume), np.int64)
    label[order] = np.cumsum(jump)
    return label


def _by_phase(flows: Flows, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Labels of two sets that send at different times of the turn, as well as that parts them."""
    from sklearn.cluster import KMeans  # takes a second, and few jobs need it

    when = np.sqrt(gaussian_filter1d(flows.phases[rows], BLUR, mode="wrap"))
    when /= np.maximum(np.linalg.norm(when, axis=1, keepdims=True), 1e-9)
    return np.asarray(KMeans(2, n_init=4, random_state=0).fit_predict(when), np.int64)


def _by_message(flows: Flows, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Labels by message class: point-to-point against the rest, pooled by equal volume.

    Ring, tree and LL128 lengths may all occur in one collective's life (the tuner picks by size),
    so only send/recv is parted from collectives here.
    """
    pools = _by_volume(flows.bytes_per_turn[rows], VOLUME_RATIOS[0])
    label = np.zeros(len(rows), np.int64)
    for pool in range(pools.max(initial=-1) + 1):
        members = np.flatnonzero(pools == pool)
        label[members] = messages.sent_by_each(flows, rows[members])
    return label


def parts_of(
    flows: Flows, rows: NDArray[np.intp], host_of: Mapping[int, str] | None = None
) -> list[Part]:
    """The connected parts of some connections, as one layer."""
    graph = edge_graph(flows, rows)
    if host_of:
        nx.set_node_attributes(graph, {v: host_of[v] for v in graph if v in host_of}, "host")
    message_class = _message_class(flows, rows)
    written = bool(flows.written[rows].all())
    parts = []
    for nodes in nx.weakly_connected_components(graph):
        inside = rows[np.isin(flows.src[rows], list(nodes))]
        sub = nx.DiGraph(graph.subgraph(nodes))
        parts.append(
            Part(inside, sub, shape_of(sub, message_class, written=written), message_class)
        )
    return parts


def as_part(flows: Flows, rows: NDArray[np.intp], shape: Shape) -> Part:
    """Some connections whose shape is known."""
    return Part(rows, edge_graph(flows, rows), shape, _message_class(flows, rows))


def _message_class(flows: Flows, rows: NDArray[np.intp]) -> int:
    """Of a layer; lengths of messages are NCCL's only where its verbs carry them."""
    written = bool(flows.written[rows].all())
    return messages.pooled_class(flows, rows) if written else messages.UNKNOWN


def edge_graph(flows: Flows, rows: NDArray[np.intp]) -> nx.DiGraph[int]:
    """Directed graph of some connections, those of one edge added up."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for row in rows:
        u, v = int(flows.src[row]), int(flows.dst[row])
        data = graph.get_edge_data(u, v, {"bytes": 0.0, "error": 0.0, "samples": 0, "flows": 0})
        carried = float(flows.bytes_per_turn[row])
        off = data["error"] * data["bytes"], float(flows.error[row]) * carried
        total = data["bytes"] + carried
        graph.add_edge(
            u,
            v,
            bytes=total,
            error=math.hypot(*off) / total if total > 0 else 0.0,
            samples=data["samples"] + int(flows.samples[row]),
            flows=data["flows"] + 1,
        )
    return graph


def shape_of(graph: nx.DiGraph[int], message_class: int, *, written: bool) -> Shape | None:
    """The shape of a connected graph; where two fit, lengths of messages say which is likelier.

    Those of send/recv prefer an exchange; where one of NCCL's was read, what only other libraries
    run is left out. Where NCCL's verbs (`written`) carry all, a pipeline is likelier than what only
    other libraries run.
    """
    if messages.is_point_to_point(message_class):
        exchange = exchanges.find(graph)
        if exchange is not None:
            return replace(exchange, ambiguous=None)
        return _first(graph, (chains.find, rings.find, *OF_NCCL))
    if message_class != messages.UNKNOWN:
        return _first(graph, (rings.find, chains.find, *OF_NCCL, exchanges.find))
    chain = chains.find if written else chains.find_clear
    return _first(graph, (chains.find_one_way, rings.find, chain, *OF_ANY, exchanges.find))


def _first(graph: nx.DiGraph[int], finders: Sequence[Finder]) -> Shape | None:
    """What the first of some finders sees, beside it what others do if times may contradict it."""
    for place, find in enumerate(finders):
        shape = find(graph)
        if shape is not None and shape.in_turn:
            return replace(shape, instead=_first(graph, finders[place + 1 :]))
        if shape is not None:
            return shape
    return None


def _explained(flows: Flows, parts: list[Part]) -> float:
    """Share of the bytes that lie in parts with a whole, unambiguous shape; half for the others."""
    total = sum(float(flows.bytes_per_turn[p.flows].sum()) for p in parts)
    good = 0.0
    for part in parts:
        if part.shape is None:
            continue
        sure = part.shape.missing == 0 and part.shape.ambiguous is None
        good += (1.0 if sure else 0.5) * float(flows.bytes_per_turn[part.flows].sum())
    return good / total if total > 0 else 0.0
