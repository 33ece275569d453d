"""One job whose rhythm telemetry hides: groups by shape and volume, and nothing about steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from patterns.claim import claim
from patterns.groups import Found, build, doubt_short, recognise
from patterns.job import edges_between, is_job, layout_of, ranks_of
from patterns.layers import split, steady
from patterns.parallelism import host_sets, parallelism
from patterns.result import Claim, JobResult
from patterns.servers import without_servers
from reconstruct.activity import PROMPT_NS
from reconstruct.bins import Progress
from reconstruct.edges import Flows, measure
from reconstruct.jobs import Candidate
from reconstruct.period import Period
from reconstruct.untimed import CLEAR_TURNS, Place, Untimed
from reconstruct.volumes import Volumes

ALONE: Final = 0.85  # confidence that endpoints that all talk to each other are a job
# And where parts send as much, and have this in common beside.
BY_PLACE: Final[Mapping[Place, tuple[float, str]]] = {
    "hosts": (0.8, "on the same hosts"),
    "tenant": (0.7, "of as many endpoints of one tenant"),
    "size": (0.5, "of as many endpoints, on hosts that nobody knows,"),
}
TELLING: Final = 0.5  # of the bytes lie in shapes that nothing but a collective draws
NOTABLE: Final = 0.1  # of the bytes, however much passes between pairs of their members,
OFTEN: Final = 8  # or so many such shapes, as on the rails of a job
NEIGHBOURS: Final = "neighbour exchange"  # what else may draw a shape, where it is no collective
RAILS: Final = 2  # pairs of NICs that join the same two hosts
FEWEST_MEMBERS: Final = 3  # of such a shape: two that send to each other may do anything


def study_untimed(
    progress: Progress,
    volumes: Volumes,
    untimed: Untimed,
    host_of: Mapping[int, str],
    name: str,
) -> JobResult | None:
    """One job, or None where its shapes are not those of a collective.

    Parameters
    ----------
    progress : Progress
    volumes : Volumes
        Of all connections over the window.
    untimed : Untimed
    host_of : mapping
        Host of an endpoint id where the inventory knows it.
    name : str
        Id of the job.
    """
    candidate = _whole_window(progress, untimed)
    flows = _flows(progress, volumes, candidate)
    found = recognise(flows, split(flows, steady(flows), host_of))
    if not is_job(progress, flows, found, host_of):
        return None
    if not _telling(flows, found) and not _rails_of_two(found, host_of):
        return None
    fewer = without_servers(progress, candidate, found)
    if fewer is not candidate:
        candidate = fewer
        flows = _flows(progress, volumes, candidate)
        found = recognise(flows, split(flows, steady(flows), host_of))
    layout = layout_of(progress, candidate, flows, found, host_of)
    found = doubt_short(found, host_sets(found, layout))
    unknown = claim(0.5, 0, 1.0, _hidden(untimed))
    groups = tuple(
        replace(group, bytes_per_iteration=None)
        for group in build(
            flows, found, lambda v: progress.endpoints.names[v], ("unknown", unknown)
        )
    )
    samples = int(flows.samples.sum())
    endpoints = tuple(progress.endpoints.names[e] for e in candidate.endpoints)
    hosts = [host_of.get(int(e), progress.endpoints.names[e]) for e in candidate.endpoints]
    together = _together(
        untimed,
        len(candidate.endpoints),
        found,
        samples,
        known=any(int(e) in host_of for e in candidate.endpoints),
    )
    sizes = parallelism(found, layout)
    return JobResult(
        id=name,
        hosts=tuple(sorted(set(hosts))),
        endpoints=endpoints,
        confidence=together.confidence,
        evidence={"endpoints": together, "period": unknown},
        parallelism=replace(sizes, confidence=min(sizes.confidence, together.confidence)),
        groups=groups,
        ranks=ranks_of(endpoints, hosts, groups),
        edges=edges_between(progress, volumes, candidate),
    )


def _hidden(untimed: Untimed) -> str:
    """Why nothing is known of steps."""
    hidden = untimed.hidden_ns / 1e9
    if untimed.hidden_ns <= PROMPT_NS:
        return f"unknown: its {'few samples' if untimed.sampled else 'records'} show no rhythm"
    if untimed.sampled:
        return f"unknown: times of samples are known to {hidden:.3g} s only, and show no rhythm"
    return (
        f"unknown: flow records last up to {hidden:.3g} s, which hides steps shorter than "
        f"{CLEAR_TURNS * hidden:.3g} s"
    )


def _whole_window(progress: Progress, untimed: Untimed) -> Candidate:
    """The window as one turn."""
    start, end = progress.window_start_ns - 1, progress.window_end_ns + 1
    return Candidate(
        endpoints=untimed.endpoints,
        connections=untimed.connections,
        period=Period((end - start) / 1e9, 0.0, 0.0, 0.0),
        turns_ns=np.array([start, end], np.int64),
        known_ns=untimed.hidden_ns,
    )


def _flows(progress: Progress, volumes: Volumes, window: Candidate) -> Flows:
    """Connections with what they carried in the window, and no phases."""
    flows = measure(progress, window)
    return replace(
        flows,
        bytes_per_turn=volumes.bytes[window.connections],
        error=1 / np.sqrt(np.maximum(flows.samples, 1)),
        recurring=np.ones(len(flows)),
        phases=np.zeros_like(flows.phases),
    )


def _telling(flows: Flows, found: list[Found]) -> bool:
    """Whether most bytes lie in shapes that a grid's neighbours, or two endpoints, do not draw.

    What two members of such shapes send to each other besides says nothing either way.
    """
    sure = [
        f
        for f in found
        if len(f.shape.members) >= FEWEST_MEMBERS
        and NEIGHBOURS not in (f.shape.ambiguous or "")
        and f.role.algorithm != "unknown"
        # Between the ends of a line of neighbours nothing passes, or as much as between others.
        and (f.role.algorithm != "chain" or f.shape.variant == "interleaved")
    ]
    members = {v for f in sure for v in f.shape.members}
    pairs = [
        f
        for f in found
        if len(f.shape.members) < FEWEST_MEMBERS and members.issuperset(f.shape.members)
    ]
    total = float(np.nansum(flows.bytes_per_turn))
    carried, beside = (
        sum(float(np.nansum(flows.bytes_per_turn[f.rows])) for f in some) for some in (sure, pairs)
    )
    notable = carried >= NOTABLE * total or len(sure) >= OFTEN
    return notable and carried >= TELLING * (total - beside)


def _rails_of_two(found: list[Found], host_of: Mapping[int, str]) -> bool:
    """Whether all that is drawn are pairs, several for each two hosts: rails of one job."""
    joined = Counter(frozenset(host_of.get(v, "") for v in f.shape.members) for f in found)
    pairs = all(len(f.shape.members) == 2 for f in found)
    return pairs and all(
        "" not in hosts and len(hosts) == 2 and often >= RAILS for hosts, often in joined.items()
    )


def _together(
    untimed: Untimed, endpoints: int, found: list[Found], samples: int, *, known: bool
) -> Claim:
    """How sure it is that these endpoints, all of them and no other, are one job."""
    basis, ceiling = "endpoints that talk to each other", ALONE
    if untimed.parts > 1:
        ceiling, where = BY_PLACE[untimed.place]
        basis = f"{untimed.parts} parts {where} with as many bytes"
    elif untimed.by_rhythm:
        basis = "parts that begin and pause together, as far as records tell"
    elif not known:
        ceiling = 0.6
        basis += "; without an inventory nothing says which others share their hosts"
    inside = {v for f in found for v in f.shape.members}
    if len(inside) < endpoints:
        ceiling = min(ceiling, 0.7)
        basis += f"; {endpoints - len(inside)} of them in no group"
    return claim(ceiling, samples, 100.0, basis)
