"""Rails: pipelines that only all of a job's rails together show whole.

A pipeline carries about one percent of a job's bytes, so where samples are scarce many of its links
are never seen. But stages talk rail by rail, each GPU of a host to the one of its place in the next
host, and all rails take one path from host to host. A link between two hosts that some rails show
stands for all.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.claim import claim
from patterns.groups import Found, recognise
from patterns.layers import as_part, parts_of
from patterns.parallelism import Layout, dense
from patterns.result import Claim
from patterns.shape import MISSABLE, ShapeChannel, both_ways
from patterns.stages import backwards
from reconstruct.edges import Flows

CEILING: Final = 0.95  # for a path that many rails show
RAILS_NEEDED: Final = 1.5  # that show each link: two thirds of the way to that
FEWEST_RAILS: Final = 2  # that show a link, if no whole pipeline does
STRAIGHT: Final = 0.95  # of the samples stay on their rail, and lead to another stage
CLOSING_ERRORS: Final = 4.0  # standard errors, by which the link that closes a circle is lighter

Path = tuple[str, str]
Between = frozenset[frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Link:
    """What joins two hosts: rows of the job's `Flows`, and the rails that they are of."""

    rows: NDArray[np.intp]
    rails: frozenset[int]


def whole_pipelines(flows: Flows, found: Sequence[Found], layout: Layout) -> list[Found]:
    """Groups with the pipelines of all rails, where all rails together show the path of each.

    Parameters
    ----------
    flows : Flows
    found : sequence of Found
    layout : Layout

    Returns
    -------
    list of Found
        As it came where hosts or their NICs are not known, or no path leads through all stages.
        Where links have samples enough, what is not seen is not there.
    """
    stage_of = _stages(found, layout)
    links = _links(flows, found, layout, stage_of) if layout.known and stage_of else {}
    scarce = [flows.samples[link.rows] for link in links.values()]
    if not scarce or np.median(np.concatenate(scarce)) >= MISSABLE:
        return list(found)
    known = {frozenset(f.shape.members): f for f in found if f.role.kind == "pp"}
    nic = {(host, layout.rail[v]): v for v, host in layout.hosts.items()}
    well_shown = _well_shown(links, found, layout, stage_of)
    drawn = _of_all_rails(flows, found, layout, well_shown, stage_of)
    if not drawn:
        return list(found)
    template = max(drawn, key=lambda f: (f.order.confidence, f.samples))
    stages = [stage_of[layout.hosts[v]] for v in template.shape.members]
    paths = [_in_order(each, template, layout, stages, stage_of) for each in drawn]
    left = set(stage_of).difference(*(path for _, path in paths))
    paths += [(template, path) for path in _like_those(links, left, stages)]
    along = [_along(links, path, template) for template, path in paths]
    shown = Counter(rail for on_path in along for rail in _rails(on_path))
    usual = {rail for rail, count in shown.items() if 2 * count >= len(paths)}
    pipelines = []
    for (template, path), on_path in zip(paths, along, strict=True):
        rows = np.unique(np.concatenate([link.rows for link in on_path]))
        for rail in sorted(usual | _rails(on_path)):
            members = tuple(nic[host, rail] for host in path if (host, rail) in nic)
            seen = known.get(frozenset(members))
            if seen is not None and len(members) == len(path):
                pipelines.append(_turned(seen, members, template))
            elif len(members) == len(path):
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


def _stages(found: Sequence[Found], layout: Layout) -> dict[str, frozenset[str]]:
    """The set of hosts that each reduces gradients with; empty where these are no stages' sets."""
    set_of = {host: layout.span(f) for f in dense(found) for host in layout.span(f)}
    sets = set(set_of.values())
    if len(sets) < 2 or sum(map(len, sets)) != len(set_of) or len(set(map(len, sets))) > 1:
        return {}
    return set_of


def _links(
    flows: Flows, found: Sequence[Found], layout: Layout, stage_of: Mapping[str, frozenset[str]]
) -> dict[Path, _Link]:
    """What no other group explains, by the two hosts of unlike stages that it joins.

    Empty where much of it crosses rails, or joins hosts of one stage.
    """
    rest = np.ones(len(flows), np.bool_)
    for f in found:
        rest[f.rows] &= f.role.kind in ("pp", "unknown")
    rows = np.flatnonzero(rest & flows.written & (flows.samples > 0))
    ends = list(zip(flows.src[rows].tolist(), flows.dst[rows].tolist(), strict=True))
    of_pair: dict[Path, list[int]] = defaultdict(list)
    for row, (u, v) in zip(rows.tolist(), ends, strict=True):
        one, other = layout.hosts[u], layout.hosts[v]
        apart = stage_of.get(one) not in (None, stage_of.get(other)) and other in stage_of
        if layout.rail[u] == layout.rail[v] and apart:
            of_pair[_sorted((one, other))].append(row)
    told = flows.samples[[row for some in of_pair.values() for row in some]].sum()
    if told < STRAIGHT * flows.samples[rows].sum():
        return {}
    return {
        pair: _Link(np.array(some), frozenset(layout.rail[int(flows.src[row])] for row in some))
        for pair, some in of_pair.items()
    }


def _well_shown(
    links: Mapping[Path, _Link],
    found: Sequence[Found],
    layout: Layout,
    stage_of: Mapping[str, frozenset[str]],
) -> dict[Path, _Link]:
    """Links that several rails show, or one of them as part of a whole pipeline."""
    stages = set(stage_of.values())
    whole = [f for f in found if f.role.kind == "pp" and len(f.shape.members) == len(stages)]
    paths = [[layout.hosts[v] for v in f.shape.members] for f in whole]
    on_one = {_sorted(pair) for path in paths for pair in pairwise(path)}
    return {
        pair: link
        for pair, link in links.items()
        if len(link.rails) >= FEWEST_RAILS or pair in on_one
    }


def _in_order(
    drawn: Found,
    template: Found,
    layout: Layout,
    stages: Sequence[frozenset[str]],
    stage_of: Mapping[str, frozenset[str]],
) -> tuple[Found, list[str]]:
    """A pipeline and its path, in the order in which the surest of them passes the stages."""
    path = [layout.hosts[v] for v in drawn.shape.members]
    if stage_of[path[0]] == stages[0]:
        return drawn, path
    turned = replace(drawn, shape=backwards(drawn.shape), order=template.order)
    return turned, path[::-1]


def _turned(seen: Found, members: tuple[int, ...], template: Found) -> Found:
    """A pipeline that its rail shows whole, in the surer of both orders."""
    if seen.shape.members != members[::-1] or seen.order.confidence >= template.order.confidence:
        return seen
    return replace(seen, shape=backwards(seen.shape), order=template.order)


def _like_those(
    links: Mapping[Path, _Link],
    left: Set[str],
    stages: Sequence[frozenset[str]],
) -> list[list[str]]:
    """Paths of the hosts that are left through the same stages, where no link can be another.

    Then a link needs to be seen once, and one way, to be told.
    """
    joined: dict[str, set[str]] = defaultdict(set)
    for one, other in links:
        if {one, other} <= left:
            joined[one].add(other)
            joined[other].add(one)
    out = []
    for host in sorted(left & stages[0]):
        path = [host]
        for behind, ahead in pairwise(stages):
            after = joined[path[-1]] & ahead
            if len(after) != 1 or joined[min(after)] & behind != {path[-1]}:
                break
            path += after
        if len(path) == len(stages):
            out.append(path)
    return out


def _of_all_rails(
    flows: Flows,
    found: Sequence[Found],
    layout: Layout,
    links: Mapping[Path, _Link],
    stage_of: Mapping[str, frozenset[str]],
) -> list[Found]:
    """Pipelines through all stages, drawn by the samples of all rails as if they were of one."""
    stages = set(stage_of.values())
    # The gradient groups of a rail say which way its pipelines run.
    reducing = Counter(layout.rail[v] for f in dense(found) for v in f.shape.members)
    [(rail, _)] = reducing.most_common(1)
    one_of = {host: v for v, host in layout.hosts.items() if layout.rail[v] == rail}
    if not links or any(host not in one_of for pair in links for host in pair):
        return []
    ends = np.array([flows.src, flows.dst])
    volume = flows.bytes_per_turn.copy()
    # All paths carry as much between two stages: what one link shows by chance is no measure.
    carried: dict[Between, list[int]] = defaultdict(list)
    for pair, link in links.items():
        carried[_between(pair, stage_of)].append(int(flows.samples[link.rows].sum()))
    totals = sorted(map(sum, carried.values()))
    if len(totals) == len(stages) > 2 and (
        totals[1] - totals[0] < CLOSING_ERRORS * math.sqrt(totals[0] + totals[1])
    ):
        return []  # by which link a circle is closed, its samples do not tell
    for pair, link in links.items():
        volume[link.rows] = float(np.mean(carried[_between(pair, stage_of)])) / len(link.rows)
        for end in ends:
            end[link.rows] = [one_of[layout.hosts[v]] for v in end[link.rows].tolist()]
    pooled = replace(flows, src=ends[0], dst=ends[1], bytes_per_turn=volume)
    others = [f for f in found if f.role.kind not in ("pp", "unknown")]
    parts = [as_part(flows, f.rows, f.shape) for f in others]
    rows = np.concatenate([link.rows for link in links.values()])
    parts += parts_of(pooled, rows)
    return [
        f
        for f in recognise(pooled, parts)
        if f.role.kind == "pp"
        and np.isin(f.rows, rows).all()
        and len(f.shape.members) == len(stages)
        and {stage_of[layout.hosts[v]] for v in f.shape.members} == stages
    ]


def _along(links: Mapping[Path, _Link], path: Sequence[str], template: Found) -> list[_Link]:
    """The links of a path; with the one that closes it, where that was seen."""
    found = [links[_sorted(pair)] for pair in pairwise(path)]
    closing = links.get(_sorted((path[0], path[-1])))
    closed = template.shape.variant is not None and len(path) > 2
    return [*found, closing] if closed and closing else found


def _between(pair: Path, stage_of: Mapping[str, frozenset[str]]) -> Between:
    one, other = pair
    return frozenset((stage_of[one], stage_of[other]))


def _rails(on_path: Sequence[_Link]) -> set[int]:
    """The rails that any link of a path shows."""
    return {rail for link in on_path for rail in link.rails}


def _sorted(pair: tuple[str, str]) -> Path:
    one, other = sorted(pair)
    return one, other


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
