"""`analyse_window`: from one window's telemetry to all that is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.inventory import Inventory
from collector.schema import Telemetry
from patterns import timeline
from patterns.claim import claim
from patterns.findings.slow_iteration import slow_iterations
from patterns.groups import Found, build, recognise
from patterns.layers import split, steady
from patterns.parallelism import Layout, parallelism
from patterns.result import (
    Analysis,
    Claim,
    Collective,
    EdgeVolume,
    Group,
    Iteration,
    JobResult,
    Rank,
    Unassigned,
)
from reconstruct.bins import Progress
from reconstruct.edges import Flows, measure
from reconstruct.jobs import Candidate, discover
from reconstruct.progress import follow
from reconstruct.traffic import Traffic, classify
from reconstruct.volumes import window_volumes

FULL: Final = 0.9  # of the path MTU: a data packet, not the few bytes of a marker
EXPLAINED: Final = 0.5  # of a candidate's bytes must lie in groups, or its rhythm is no job


def analyse_window(telemetry: Telemetry, inventory: Inventory) -> Analysis:
    """Jobs, groups, iterations and findings of one window.

    Parameters
    ----------
    telemetry : Telemetry
        As `collector.ingest` read it.
    inventory : Inventory
        May be empty; then each endpoint counts as a host of its own.
    """
    progress = follow(telemetry)
    host_of = _hosts(progress, inventory)
    traffic = classify(progress, inventory.storage)
    jobs: list[JobResult] = []
    for candidate in discover(progress, traffic, host_of):
        job = _analyse_job(progress, candidate, host_of, f"job-{len(jobs)}")
        if job is not None:
            jobs.append(job)
    return Analysis(
        window_start_ns=progress.window_start_ns,
        window_end_ns=progress.window_end_ns,
        jobs=tuple(jobs),
        unassigned=_unassigned(progress, traffic, jobs),
    )


def _hosts(progress: Progress, inventory: Inventory) -> dict[int, str]:
    """Host name of each endpoint id that the inventory knows."""
    by_address = {nic: host.name for host in inventory.hosts for nic in host.nics}
    names = enumerate(progress.endpoints.names)
    return {i: by_address[name] for i, name in names if name in by_address}


def _analyse_job(
    progress: Progress, candidate: Candidate, host_of: Mapping[int, str], name: str
) -> JobResult | None:
    """One job, or None where the candidate runs no collective and no two-way chain."""
    flows = measure(progress, candidate)
    found = recognise(flows, split(flows, steady(flows)))
    if not _is_job(flows, found):
        return None
    candidate, flows, found, reducing = _place_iterations(progress, candidate, flows, found)
    groups = build(flows, found, lambda v: progress.endpoints.names[v], reducing)
    iterations = _iterations(progress, candidate, flows)
    period, interval = _period(iterations)
    samples = int(flows.samples.sum())
    endpoints = tuple(progress.endpoints.names[e] for e in candidate.endpoints)
    hosts = [host_of.get(int(e), progress.endpoints.names[e]) for e in candidate.endpoints]
    together = _endpoints_claim(candidate, found, samples)
    return JobResult(
        id=name,
        name=None,
        user=None,
        source="inferred",
        status="training",
        hosts=tuple(sorted(set(hosts))),
        endpoints=endpoints,
        started_at_ns=None,
        ended_at_ns=None,
        confidence=together.confidence,
        evidence={"endpoints": together, "period": _period_claim(candidate, iterations, samples)},
        parallelism=parallelism(found, _layout(progress, candidate, flows, found, host_of)),
        groups=groups,
        ranks=_ranks(endpoints, hosts, groups),
        edges=_edges(progress, candidate),
        period_s=period,
        period_ci_s=interval,
        iterations=iterations,
        anomalies=tuple(slow_iterations(name, iterations)),
    )


def _is_job(flows: Flows, found: list[Found]) -> bool:
    """Whether shapes that only training (or a loop of collectives) draws carry most bytes."""
    total = float(np.nansum(flows.bytes_per_turn))
    carried = sum(float(np.nansum(flows.bytes_per_turn[f.rows])) for f in found)
    return bool(found) and total > 0 and carried >= EXPLAINED * total


def _place_iterations(
    progress: Progress, candidate: Candidate, flows: Flows, found: list[Found]
) -> tuple[Candidate, Flows, list[Found], tuple[Collective, Claim]]:
    """Iterations cut where the gradient burst ends, and all that is measured by them anew."""
    reducers = [f for f in found if f.role.kind == "dp"]
    unknown: tuple[Collective, Claim] = "unknown", claim(0.5, 0, 1.0, "no gradient burst to read")
    if not reducers:
        return candidate, flows, found, unknown
    placed = timeline.place(
        progress,
        [flows.connection[f.rows] for f in reducers],
        candidate.turns_ns,
        may_shard=any(f.role.algorithm == "ring" for f in reducers),
    )
    if placed is None:
        return candidate, flows, found, unknown
    candidate = replace(candidate, turns_ns=placed.ends_ns)
    flows = measure(progress, candidate)
    found = recognise(flows, split(flows, steady(flows)))
    return candidate, flows, found, (placed.collective, placed.claim)


def _layout(
    progress: Progress,
    candidate: Candidate,
    flows: Flows,
    found: list[Found],
    host_of: Mapping[int, str],
) -> Layout:
    """Hosts, samples, and what of the traffic no group explains."""
    names = progress.endpoints.names
    rest = np.ones(len(flows), np.bool_)
    rest[np.concatenate([f.rows for f in found])] = False
    of = flows.connection
    full = progress.connections.mean_payload[of] >= FULL * progress.connections.unit_bytes[of]
    return Layout(
        hosts={int(e): host_of.get(int(e), names[e]) for e in candidate.endpoints},
        samples=int(flows.samples.sum()),
        strays=int(flows.samples[rest & full].sum()),
    )


def _iterations(progress: Progress, candidate: Candidate, flows: Flows) -> tuple[Iteration, ...]:
    """Iterations between the cuts, and the two that the window cuts off."""
    volume = float(np.nansum(flows.bytes_per_turn))
    cuts = [int(t) for t in candidate.turns_ns]
    out = []
    if progress.window_start_ns < cuts[0]:
        out.append(Iteration(0, progress.window_start_ns, cuts[0], None, False, True))
    for start, end in pairwise(cuts):
        out.append(Iteration(len(out), start, end, volume, True, True))
    if cuts[-1] < progress.window_end_ns:
        out.append(Iteration(len(out), cuts[-1], progress.window_end_ns, None, False, False))
    return tuple(out)


def _period(iterations: tuple[Iteration, ...]) -> tuple[float | None, tuple[float, float] | None]:
    """Median duration of the complete iterations and the 95 % interval of that median.

    The interval is by order statistics (binomial), free of any distribution.
    """
    durations = np.sort([i.duration_s for i in iterations if i.complete])
    n = len(durations)
    if not n:
        return None, None
    reach = 1.96 * np.sqrt(n) / 2
    low = durations[max(0, int(np.floor(n / 2 - reach)))]
    high = durations[min(n - 1, int(np.ceil(n / 2 + reach)))]
    return float(np.median(durations)), (float(low), float(high))


def _period_claim(candidate: Candidate, iterations: tuple[Iteration, ...], samples: int) -> Claim:
    turns = sum(i.complete for i in iterations)
    ceiling = 0.6 + 0.39 * min(1.0, candidate.period.sigmas / 15)
    return claim(
        ceiling,
        samples,
        50.0,
        f"signal repeats {turns} times, {candidate.period.sigmas:.0f} sigma above noise",
    )


def _endpoints_claim(candidate: Candidate, found: list[Found], samples: int) -> Claim:
    basis = "endpoints that talk to each other"
    ceiling = 0.98
    if candidate.components > 1:
        basis = f"{candidate.components} parts of one rhythm, likeness {candidate.rhythm:.2f}"
        ceiling = 0.6 + 0.38 * min(1.0, candidate.rhythm / 0.8)
    inside = {v for f in found for v in f.shape.members}
    if len(inside) < len(candidate.endpoints):
        ceiling = min(ceiling, 0.8)
        basis += f"; {len(candidate.endpoints) - len(inside)} of them in no group"
    return claim(ceiling, samples, 100.0, basis)


def _ranks(
    endpoints: tuple[str, ...], hosts: list[str], groups: tuple[Group, ...]
) -> tuple[Rank, ...]:
    """Coordinates of each endpoint: its place in the groups that it belongs to."""
    place: dict[str, dict[str, int]] = {endpoint: {} for endpoint in endpoints}
    for group in groups:
        if group.kind != "unknown":
            for i, member in enumerate(group.members):
                place[member].setdefault(group.kind, i)
    return tuple(
        Rank(endpoint, host, place[endpoint], None, {})
        for endpoint, host in zip(endpoints, hosts, strict=True)
    )


def _edges(progress: Progress, candidate: Candidate) -> tuple[EdgeVolume, ...]:
    """Volumes over the window of the edges between a job's endpoints."""
    members = np.isin(np.arange(len(progress.endpoints)), candidate.endpoints)
    connections = progress.connections
    inside = members[connections.src] & members[connections.dst]
    volumes = window_volumes(progress)
    names = progress.endpoints.names
    out = []
    edge = connections.src.astype(np.int64) << 32 | connections.dst
    for key in np.unique(edge[inside]):
        rows = np.flatnonzero(edge == key)
        out.append(
            EdgeVolume(
                src=names[key >> 32],
                dst=names[key & 0xFFFF_FFFF],
                bytes=float(volumes.bytes[rows].sum()),
                wire_bytes=float(volumes.wire_bytes[rows].sum()),
                bytes_by_count=float(volumes.bytes_by_count[rows].sum()),
                samples=int(volumes.samples[rows].sum()),
                retransmitted_samples=int(volumes.retransmitted[rows].sum()),
            )
        )
    return tuple(out)


def _unassigned(
    progress: Progress, traffic: NDArray[np.uint8], jobs: list[JobResult]
) -> Unassigned:
    """Bytes of the connections that no job holds, by class."""
    of_job = {name for job in jobs for name in job.endpoints}
    names = progress.endpoints.names
    member = np.array([name in of_job for name in names], np.bool_)
    connections = progress.connections
    plain = (traffic == Traffic.CANDIDATE) | (traffic == Traffic.CONTROL)
    held = plain & member[connections.src] & member[connections.dst]
    volume = window_volumes(progress).bytes
    label = np.where(
        traffic == Traffic.STORAGE,
        "storage",
        np.where(traffic == Traffic.MANAGEMENT, "management", "unknown"),
    )
    by_class = {
        name: float(volume[(label == name) & ~held].sum())
        for name in ("storage", "management", "unknown")
    }
    outside = sorted(
        {names[e] for e in np.unique(connections.src[~held])}
        | {names[e] for e in np.unique(connections.dst[~held])}
    )
    return Unassigned(
        bytes=float(volume[~held].sum()),
        endpoints=tuple(n for n in outside if n not in of_job),
        by_class={name: value for name, value in by_class.items() if value > 0},
    )
