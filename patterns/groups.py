"""Groups: parts with a shape become groups with members, role, algorithm and evidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns import messages, stages
from patterns.claim import AMBIGUOUS_CEILING, INFERRED_CEILING, SHAPE_CEILING, claim, weakest
from patterns.equality import equal_volume
from patterns.families import Drawn
from patterns.kinds import verdicts
from patterns.layers import Part
from patterns.result import Algorithm, Channel, Claim, Collective, Group
from patterns.roles import Role, collectives_seen, least_on_rings, role_of
from patterns.shape import MISSABLE, Shape
from patterns.stages import Chain, Lag
from patterns.telling import tell
from reconstruct.edges import Flows

UNLIKELY: Final = 0.3  # confidence in a pipeline that lacks stages
SHORT: Final = "fewer stages than the job has: a link was not seen"
SEEN_ENOUGH: Final = 3  # samples of a connection, and such connections, that tell a volume
WELL_TOLD: Final = 0.1  # relative error of it
NO_LAG: Final = Lag(0.0, 0.0)
KIND_ORDER: Final = ("dp", "pp", "cp", "ep", "tp", "unknown")


@dataclass(frozen=True, slots=True)
class Found:
    """A part of a job with its shape and role, before it has names.

    Parameters
    ----------
    rows : intp[k]
        Its rows in the job's `Flows`.
    shape : Shape
    role : Role
    samples : int
        Samples of its weakest edge.
    order : Claim
        How sure the order of its members (a ring's, a chain's, a tree's parents) is.
    alike : Claim or None
        How sure its members are, where they are taken from groups like it.
    short : bool
        Whether it is a pipeline with fewer stages than its like, so that a link was not seen.
    """

    rows: NDArray[np.intp]
    shape: Shape
    role: Role
    samples: int
    order: Claim
    short: bool = False
    alike: Claim | None = None


def recognise(flows: Flows, parts: Sequence[Part]) -> list[Found]:
    """The parts that have a shape, with their roles; stages of pipelines put in order."""
    drawn = []
    for part, (shape, order) in zip(parts, tell(flows, parts), strict=True):
        if shape is not None:
            drawn.append((part, shape, order))
    chains = [
        stages.read_chain(flows, part.flows, shape)
        for part, shape, _ in drawn
        if shape.algorithm == "chain"
    ]
    lag_of = dict(zip((id(c.shape) for c in chains), stages.lags(chains), strict=True))
    items = []
    for part, shape, _ in drawn:
        samples = min(data["samples"] for _, _, data in part.graph.edges(data=True))
        items.append(Drawn(part, shape, samples, lag_of.get(id(shape), NO_LAG)))
    found, seen = [], collectives_seen(items)
    told = verdicts(flows, items, _loose(flows, parts, items))
    reducing = [
        item
        for item, verdict in zip(items, told, strict=True)
        if verdict.kind == "dp" and not messages.is_point_to_point(item.part.message_class)
    ]
    on_rings = least_on_rings(flows, reducing)
    for item, verdict, (*_, order) in zip(items, told, drawn, strict=True):
        role = role_of(flows, item, verdict, seen, on_rings)
        sure = order or _order_claim(item.shape, item.samples)
        found.append(Found(item.part.flows, item.shape, role, item.samples, sure))
    return _in_stage_order(found, {id(c.shape): c for c in chains})


def _loose(flows: Flows, parts: Sequence[Part], drawn: Sequence[Drawn]) -> float:
    """Share of the bytes in parts of which nothing is drawn."""
    total, inside = (
        sum(float(np.nansum(flows.bytes_per_turn[part.flows])) for part in some)
        for some in (parts, [item.part for item in drawn])
    )
    return 1 - inside / total if total > 0 else 0.0


def _in_stage_order(found: list[Found], chain_of: dict[int, Chain]) -> list[Found]:
    """Pipelines turned so that stage 0 comes first; of reductions down a path the root does."""
    reducing = [(i, item.shape) for i, item in enumerate(found) if item.role.kind == "dp"]
    # An endpoint counts to its largest group, not to that of replicas of an expert.
    reducing.sort(key=lambda group: len(group[1].members))
    group_of = {v: i for i, shape in reducing for v in shape.members}
    # What is handed on one way has the direction of its data.
    pipelines = [
        i
        for i, item in enumerate(found)
        if item.role.algorithm == "chain" and item.shape.collective is None
    ]
    turned = stages.orient([chain_of[id(found[i].shape)] for i in pipelines], group_of)
    out = list(found)
    for i, (shape, order) in zip(pipelines, turned, strict=True):
        # Where links may be unseen, an interleaved pipeline shows as a path from another stage on.
        whole = claim(SHAPE_CEILING, found[i].samples, 1.5, order.basis).confidence
        order = replace(order, confidence=min(order.confidence, whole))
        if found[i].role.kind == "dp":
            shape = stages.backwards(shape)  # what leads is the reduction, to the root
        out[i] = replace(found[i], shape=shape, order=order)
    return out


def doubt_short(found: Sequence[Found], host_sets: int) -> list[Found]:
    """Pipelines with fewer stages than their like, or than host sets, are put in doubt.

    Parameters
    ----------
    found : sequence of Found
    host_sets : int
        Sets of hosts that reduce gradients apart: one per stage.
    """
    lengths = [len(item.shape.members) for item in found if item.role.kind == "pp"]
    stages = max([host_sets, *lengths])
    out = []
    for item in found:
        if item.role.kind == "pp" and len(item.shape.members) < stages:
            order = replace(item.order, confidence=UNLIKELY, basis=SHORT)
            out.append(replace(item, order=order, short=True))
        else:
            out.append(item)
    return out


def build(
    flows: Flows,
    found: Sequence[Found],
    name_of: Callable[[int], str],
    reducing: tuple[Collective, Claim],
) -> tuple[Group, ...]:
    """Groups with names and evidence, those of one kind numbered by their lowest member.

    Parameters
    ----------
    flows : Flows
    found : sequence of Found
    name_of : callable
        Address text of an endpoint id.
    reducing : (collective, Claim)
        What the job's gradient rings do, see `patterns.timeline`.
    """
    ordered = sorted(
        found, key=lambda f: (KIND_ORDER.index(f.role.kind), min(f.shape.members), -len(f.rows))
    )
    counted: dict[str, int] = {}
    groups = []
    for item, volume in zip(ordered, bytes_together(flows, ordered), strict=True):
        kind = item.role.kind
        counted[kind] = counted.get(kind, -1) + 1
        groups.append(_group(item, volume, f"{kind}-{counted[kind]}", name_of, reducing))
    return tuple(groups)


def bytes_together(flows: Flows, found: Sequence[Found]) -> list[float | None]:
    """Bytes per iteration of each group; None where nothing tells.

    Connections of one collective carry equal volumes, and so do those of like groups of a job.
    Where all agree within their errors, their weighted mean stands for each of them, as it is
    better known than their plain sum; else where those of one group do, theirs. Where members are
    taken from groups like it, the samples of all tell, see `_of_scarce`.
    """
    like: dict[tuple[str, str, int], list[Found]] = {}
    for item in found:
        like.setdefault(_likeness(item), []).append(item)
    mean_of = {
        key: equal_volume(flows, np.concatenate([item.rows for item in items]))
        for key, items in like.items()
    }
    counted = {
        key: _of_scarce(flows, items)
        for key, items in like.items()
        if any(item.alike is not None for item in items)
    }
    out: list[float | None] = []
    for item in found:
        key = _likeness(item)
        if key in counted and flows.samples[item.rows].sum() < MISSABLE * len(item.shape.edges):
            out.append(counted[key] if counted[key] > 0 else None)
            continue
        connections = float(flows.share[item.rows].sum())
        mean = mean_of[key]
        if mean is None:
            mean = equal_volume(flows, item.rows)
        else:
            connections = max(connections, _usual_connections(flows, like[key]))
        out.append(flows.together(item.rows) if mean is None else mean * connections)
    return out


def _of_scarce(flows: Flows, items: Sequence[Found]) -> float:
    """Bytes per iteration of each of some like groups, of which few connections are seen.

    What a connection carries is known from those that were seen more than once; how many of them
    an edge has, by what the samples of all stand for.
    """
    rows = np.concatenate([item.rows for item in items])
    counted = _by_count(flows, rows) / len(items)
    told = rows[(flows.samples[rows] >= SEEN_ENOUGH) & (flows.error[rows] <= WELL_TOLD)]
    if len(told) < SEEN_ENOUGH:
        return counted
    of_edges = float(np.mean(flows.bytes_per_turn[told])) * len(items[0].shape.edges)
    if of_edges <= 0 or counted <= 0:
        return counted
    # NCCL gives two ranks that send to each other a power of two of channels.
    return of_edges * 2.0 ** max(0, round(math.log2(counted / of_edges)))


def _by_count(flows: Flows, rows: NDArray[np.intp]) -> float:
    """Bytes per iteration of some connections by their samples; 0 where nothing says how many.

    What a sample stands for is read from the connections whose progress is well known.
    """
    known = (flows.samples >= MISSABLE) & (flows.bytes_per_turn > 0)
    if not known.any():
        return 0.0
    moved = flows.bytes_per_turn[known] * flows.share[known]
    each = float(np.median(moved / flows.samples[known]))
    return each * int(flows.samples[rows].sum())


def _likeness(item: Found) -> tuple[str, str, int]:
    return item.role.kind, item.role.algorithm, len(item.shape.members)


def _usual_connections(flows: Flows, like: Sequence[Found]) -> int:
    """Connections that like groups have, 0 where there is no telling.

    Where connections have few samples, one of a group may have none and still carry its share.
    """
    samples = float(np.median(np.concatenate([flows.samples[item.rows] for item in like])))
    counts = Counter(round(float(flows.share[item.rows].sum())) for item in like)
    usual, groups = counts.most_common(1)[0]
    return usual if samples < MISSABLE and groups > len(like) / 2 else 0


def _group(
    item: Found,
    volume: float | None,
    name: str,
    name_of: Callable[[int], str],
    reducing: tuple[Collective, Claim],
) -> Group:
    shape, role = item.shape, item.role
    collective, collective_claim = _collective(item, reducing)
    edges = shape.edges
    evidence = {
        "members": _members_claim(item, len(edges)),
        "kind": role.kind_claim,
        "algorithm": role.algorithm_claim,
        "order": item.order,
        "collective": collective_claim,
    }
    said = [c for key, c in evidence.items() if key in ("members", "order")]
    if role.kind != "unknown":
        said.append(role.kind_claim)
    if role.algorithm != "unknown":
        said.append(role.algorithm_claim)
    return Group(
        id=name,
        kind=role.kind,
        members=tuple(name_of(v) for v in shape.members),
        edges=tuple((name_of(u), name_of(v)) for u, v in edges),
        bytes_per_iteration=volume,
        collective=collective,
        algorithm=role.algorithm,
        algorithms=_algorithms(item, collective, name_of),
        confidence=weakest(said),
        evidence=evidence,
    )


def _algorithms(
    item: Found, collective: Collective, name_of: Callable[[int], str]
) -> tuple[Algorithm, ...]:
    """What a group runs; a pair's algorithm is the role's to say."""
    parts = item.shape.parts or ((1.0, replace(item.shape, algorithm=item.role.algorithm)),)
    return tuple(
        Algorithm(
            shape.algorithm,
            shape.variant,
            collective,
            share,
            tuple(
                Channel(
                    order=None if c.order is None else tuple(map(name_of, c.order)),
                    parent=None
                    if c.parent is None
                    else {name_of(child): name_of(up) for child, up in c.parent.items()},
                    edges=tuple((name_of(u), name_of(v)) for u, v in c.edges),
                )
                for c in shape.channels
            ),
        )
        for share, shape in parts
    )


def _collective(item: Found, reducing: tuple[Collective, Claim]) -> tuple[Collective, Claim]:
    role = item.role
    if item.shape.collective is not None and role.algorithm == item.shape.algorithm:
        return item.shape.collective, role.algorithm_claim
    if role.algorithm == "all_to_all":
        return "all_to_all", role.algorithm_claim
    if role.algorithm == "chain" and role.kind == "dp":
        return "all_reduce", role.kind_claim
    if role.algorithm == "chain" or (role.kind == "cp" and role.sent):
        return "send_recv", role.kind_claim
    if role.kind != "dp":
        unread = "what passes many times a turn is not read: all-reduces, or their halves"
        return "unknown", claim(0.5, 0, 1.0, unread)
    if role.algorithm == "tree":
        return "all_reduce", claim(
            min(0.97, role.algorithm_claim.confidence),
            item.samples,
            2.0,
            "NCCL runs only all-reduce over trees both ways",
        )
    return reducing


def _members_claim(item: Found, edges: int) -> Claim:
    if item.short:
        return Claim(UNLIKELY, SHORT, item.samples)
    if item.alike is not None:
        return item.alike
    if item.shape.missing:
        return claim(INFERRED_CEILING, item.samples, 2.0, f"{item.shape.missing} edge not seen")
    return claim(SHAPE_CEILING, item.samples, 1.5, f"{edges} edges and none left over")


def _order_claim(shape: Shape, samples: int) -> Claim:
    """Of a ring's order or a tree's parents; a chain's is read from its phases."""
    if shape.missing:
        return claim(INFERRED_CEILING, samples, 2.0, "order with one edge taken as closing it")
    if shape.inferred:
        return claim(INFERRED_CEILING, samples, 2.0, shape.inferred)
    if shape.orders > 1:
        same = f"{shape.orders} pairs of trees draw these edges; one of them is given"
        return claim(max(0.5, 1 / shape.orders), samples, 1.5, same)
    ceiling = AMBIGUOUS_CEILING if shape.ambiguous else SHAPE_CEILING
    return claim(ceiling, samples, 1.5, "followed edge by edge, as the data flows")
