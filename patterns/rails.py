"""Rails: pipelines that only some of a job's rails show whole.

A pipeline carries about one percent of a job's bytes, so where samples are scarce many of its links
are never seen. But stages talk rail by rail, each GPU of a host to the one of its place in the next
host, and all rails take one path from host to host. A link between two hosts that some rails show
stands for all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.claim import claim
from patterns.groups import MISSABLE, Found
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
        from some host on is not told. Where links have samples enough, what is not seen is not
        there.
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
    nic = {(host, layout.rail[v]): v for v, host in layout.hosts.items()}
    closed = template.shape.variant is not None
    along = [_along(links, path, closed=closed) for path in paths]
    shown = Counter(rail for on_path in along for rail in _rails(on_path))
    usual = {rail for rail, count in shown.items() if 2 * count >= len(paths)}
    pipelines = []
    for path, on_path in zip(paths, along, strict=True):
        rows = np.unique(np.concatenate([link.rows for link in on_path]))
        scarce = float(np.median(flows.samples[rows])) < MISSABLE
        for rail in sorted(usual | _rails(on_path)):
            members = tuple(nic[host, rail] for host in path if (host, rail) in nic)
            seen = known.get(frozenset(members))
            if seen is not None:
                pipelines.append(seen)
            elif scarce and len(members) == len(path):
                votes = min(len(link.rails) for link in on_path)
                pipelines.append(_inferred(flows, members, rows, votes, template))
    # What stays are pieces of pipelines that no rail shows whole.
    taken = {row for f in pipelines for row in f.rows.tolist()}
    rest = [
        f
        for f in found
        if f.role.kind not in ("pp", "unknown") or not taken.issuperset(f.rows.tolist())
    ]
    return rest + pipelines


def _along(links: Mapping[Path, _Link], path: Path, *, closed: bool) -> list[_Link]:
    """The links of a path; with the one that closes it, where that was seen."""
    found = [links[_sorted(pair)] for pair in pairwise(path)]
    closing = links.get(_sorted((path[0], path[-1])))
    return [*found, closing] if closed and len(path) > 2 and closing else found


def _rails(on_path: Sequence[_Link]) -> set[int]:
    """The rails that any link of a path shows."""
    return {rail for link in on_path for rail in link.rails}


def _sorted(pair: tuple[str, str]) -> Path:
    return tuple(sorted(pair))


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
    return _sorted((layout.hosts[u], layout.hosts[v]))


def _paths(
    links: Mapping[Path, _Link], whole: Sequence[Found], layout: Layout, stages: Stages
) -> list[Path] | None:
    """The path of hosts that begins at each host of the first stage.

    None where one is not told: every host lies on one path, and is joined to no other host of the
    stage after its own.
    """
    shown = {_pair(layout, u, v) for f in whole for u, v in pairwise(f.shape.members)}
    stage_of = {host: n for n, stage in enumerate(stages) for host in stage}
    after: dict[str, list[str]] = defaultdict(list)
    for (one, other), link in links.items():
        first, second = stage_of.get(one), stage_of.get(other)
        if first is None or second is None:
            return None
        if (one, other) not in shown and len(link.rails) < FEWEST_RAILS:
            continue
        if second == first + 1:
            after[one].append(other)
        elif first == second + 1:
            after[other].append(one)
    paths = []
    for host in sorted(stages[0]):
        path = [host]
        while len(path) < len(stages):
            if len(after[path[-1]]) != 1:
                return None
            path += after[path[-1]]
        paths.append(tuple(path))
    every = [host for path in paths for host in path]
    together = len(set(every)) == len(every) and set(every) == set(layout.hosts.values())
    return paths if together else None


def _inferred(
    flows: Flows,
    members: tuple[int, ...],
    rows: NDArray[np.intp],
    votes: int,
    template: Found,
) -> Found:
    """A pipeline of one rail, as others show it; `rows` are those of all rails of its hosts."""
    edges = set(both_ways(pairwise(members)))
    if template.shape.variant is not None:
        edges.update(both_ways([(members[-1], members[0])]))
    ends = list(zip(flows.src[rows].tolist(), flows.dst[rows].tolist(), strict=True))
    own = np.array([edge in edges for edge in ends], np.bool_)
    samples = int(flows.samples[rows[own]].sum())
    unseen = len(edges - set(ends))
    basis = f"{unseen} of {len(edges)} edges not seen: as {votes} rails or more show"

    def as_others(told: Claim) -> Claim:
        rails = claim(min(CEILING, told.confidence), votes, RAILS_NEEDED, f"{told.basis}; {basis}")
        return replace(rails, samples=samples)

    alike = Claim(CEILING, "stages of one pipeline", samples)
    return Found(
        rows=rows[own],
        shape=replace(
            template.shape,
            members=members,
            channels=(ShapeChannel(members, None, tuple(sorted(edges))),),
            missing=unseen,
            inferred=basis,
        ),
        role=replace(
            template.role,
            kind_claim=as_others(template.role.kind_claim),
            algorithm_claim=as_others(template.role.algorithm_claim),
        ),
        samples=samples,
        order=as_others(template.order),
        alike=as_others(alike),
    )
