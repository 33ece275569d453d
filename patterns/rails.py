"""Rails: pipelines that only some of a job's rails show whole.

A pipeline carries about one percent of a job's bytes, so where samples are scarce many of its links
are never seen. But stages talk rail by rail, each GPU of a host to the one of its place in the next
host, and all rails take one path from host to host. A link between two hosts that some rails show
stands for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.claim import claim
from patterns.groups import Found
from patterns.parallelism import Layout, dense
from patterns.result import Claim
from patterns.shape import ShapeChannel, both_ways
from reconstruct.edges import Flows

CEILING: Final = 0.95  # for a path that many rails show
RAILS_NEEDED: Final = 1.5  # that show each link: two thirds of the way to that
FEWEST_RAILS: Final = 2  # that show a link, if no whole pipeline does
STRAIGHT: Final = 0.95  # of the samples between hosts stay on their rail

Path = tuple[str, ...]
Stages = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class _Link:
    """What joins two hosts: rows of the job's `Flows`, and the rails that they are of."""

    rows: NDArray[np.intp]
    rails: frozenset[int]


def whole_pipelines(flows: Flows, found: Sequence[Found], layout: Layout) -> list[Found]:
    """Groups with the pipelines of all rails, where some rails show the path of each.

    Parameters
    ----------
    flows : Flows
    found : sequence of Found
    layout : Layout

    Returns
    -------
    list of Found
        As it came where hosts or their NICs are not known, no pipeline is seen whole, or the path
        from some host on is not told.
    """
    as_it_is = list(found)
    stages = _stages(found, layout)
    if not layout.known or stages is None:
        return as_it_is
    whole = [f for f in found if f.role.kind == "pp" and len(f.shape.members) == len(stages)]
    links = _links(flows, found, layout)
    paths = _paths(links, whole, layout, stages)
    if paths is None:
        return as_it_is
    template = max(whole, key=lambda f: (f.order.confidence, f.samples))
    known = {frozenset(f.shape.members): f for f in whole}
    used = frozenset(rail for link in links.values() for rail in link.rails)
    nic = {(host, layout.rail[v]): v for v, host in layout.hosts.items()}
    pipelines = []
    for path in paths:
        for rail in sorted(used):
            members = tuple(nic[host, rail] for host in path if (host, rail) in nic)
            if len(members) < len(path):
                return as_it_is
            seen = known.get(frozenset(members))
            pipelines.append(seen or _inferred(flows, members, path, links, template))
    taken = {row for f in pipelines for row in f.rows.tolist()}
    others = [
        f
        for f in found
        if f.role.kind != "pp"
        and not (f.role.kind == "unknown" and taken.issuperset(f.rows.tolist()))
    ]
    return others + pipelines


def _stages(found: Sequence[Found], layout: Layout) -> Stages | None:
    """The sets of hosts that reduce gradients apart, in the order of stages.

    None where no pipeline leads through all of them.
    """
    set_of = {host: layout.span(f) for f in dense(found) for host in layout.span(f)}
    sets = set(set_of.values())
    if len(sets) < 2 or sum(map(len, sets)) != len(set_of) or len(set(map(len, sets))) > 1:
        return None
    sure: dict[Stages, float] = defaultdict(float)
    for f in (f for f in found if f.role.kind == "pp"):
        sequence = tuple(set_of.get(layout.hosts[v], frozenset()) for v in f.shape.members)
        if len(sequence) == len(sets) and set(sequence) == sets:
            sure[sequence] += f.order.confidence
    return max(sure, key=lambda sequence: sure[sequence], default=None)


def _links(flows: Flows, found: Sequence[Found], layout: Layout) -> dict[Path, _Link]:
    """What no other group explains, by the two hosts it joins; empty where rails are crossed."""
    rest = np.ones(len(flows), np.bool_)
    for f in found:
        rest[f.rows] &= f.role.kind in ("pp", "unknown")
    rows = np.flatnonzero(rest & flows.written & (flows.samples > 0))
    ends = list(zip(flows.src[rows].tolist(), flows.dst[rows].tolist(), strict=True))
    straight = np.array([layout.rail[u] == layout.rail[v] for u, v in ends], np.bool_)
    if flows.samples[rows[straight]].sum() < STRAIGHT * flows.samples[rows].sum():
        return {}
    of_pair: dict[Path, list[int]] = defaultdict(list)
    for row, (u, v), along in zip(rows.tolist(), ends, straight.tolist(), strict=True):
        if along:
            of_pair[_pair(layout, u, v)].append(row)
    return {
        pair: _Link(np.array(some), frozenset(layout.rail[int(flows.src[row])] for row in some))
        for pair, some in of_pair.items()
    }


def _pair(layout: Layout, u: int, v: int) -> Path:
    return tuple(sorted((layout.hosts[u], layout.hosts[v])))


def _paths(
    links: Mapping[Path, _Link], whole: Sequence[Found], layout: Layout, stages: Stages
) -> list[Path] | None:
    """The path of hosts that begins at each host of the first stage.

    None where one is not told: every host lies on one path, and is joined to no other host of the
    stage after its own.
    """
    shown = {_pair(layout, u, v) for f in whole for u, v in pairwise(f.shape.members)}
    paths = []
    for host in sorted(stages[0]):
        path = [host]
        for stage in stages[1:]:
            after = [
                other
                for other in stage
                if (pair := tuple(sorted((path[-1], other)))) in links
                and (pair in shown or len(links[pair].rails) >= FEWEST_RAILS)
            ]
            if len(after) != 1:
                return None
            path += after
        paths.append(tuple(path))
    every = [host for path in paths for host in path]
    together = len(set(every)) == len(every) and set(every) == set(layout.hosts.values())
    return paths if together else None


def _inferred(
    flows: Flows,
    members: tuple[int, ...],
    path: Path,
    links: Mapping[Path, _Link],
    template: Found,
) -> Found:
    """A pipeline of one rail, as others show it."""
    shape = template.shape
    edges = list(both_ways(list(pairwise(members))))
    if shape.variant is not None:
        edges += both_ways([(members[-1], members[0])])
    on_path = [links[tuple(sorted(pair))] for pair in pairwise(path)]
    around = [*on_path, *filter(None, [links.get(tuple(sorted((path[0], path[-1]))))])]
    rows = np.unique(np.concatenate([link.rows for link in around]))
    ends = zip(flows.src[rows].tolist(), flows.dst[rows].tolist(), strict=True)
    own = np.array([edge in set(edges) for edge in ends], np.bool_)
    seen = set(zip(flows.src[rows[own]].tolist(), flows.dst[rows[own]].tolist(), strict=True))
    votes = min(len(link.rails) for link in on_path)
    basis = (
        f"{len(edges) - len(seen)} of {len(edges)} edges not seen: as {votes} rails or more show"
    )

    def as_others(told: Claim) -> Claim:
        rails = claim(min(CEILING, told.confidence), votes, RAILS_NEEDED, f"{told.basis}; {basis}")
        return replace(rails, samples=told.samples)

    return Found(
        rows=rows[own],
        shape=replace(
            shape,
            members=members,
            channels=(ShapeChannel(members, None, tuple(edges)),),
            missing=len(edges) - len(seen),
            inferred=basis,
        ),
        role=replace(
            template.role,
            kind_claim=as_others(template.role.kind_claim),
            algorithm_claim=as_others(template.role.algorithm_claim),
        ),
        samples=votes,
        order=as_others(template.order),
    )
