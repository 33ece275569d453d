"""One job: from its connections to groups, sizes, iterations and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns import invented, timeline
from patterns.beat import Beat
from patterns.claim import claim
from patterns.findings.restart import found_restarts
from patterns.findings.slow_iteration import slow_iterations
from patterns.groups import Found, build, doubt_short, recognise
from patterns.hints import hints
from patterns.layers import split, steady
from patterns.parallelism import Layout, host_sets, parallelism
from patterns.rails import whole_pipelines
from patterns.result import Claim, Collective, EdgeVolume, Group, JobResult, Rank
from patterns.rhythm import CLEAR_RHYTHM, iterations_between, median_period, period_claim
from patterns.servers import is_star, without_servers
from patterns.shape import MISSABLE
from patterns.timeline import Timeline
from patterns.turns import Marks, marks_of
from reconstruct.bins import Progress, Verb
from reconstruct.edges import Flows, measure
from reconstruct.jobs import Candidate
from reconstruct.outflow import outflow
from reconstruct.restarts import restarts
from reconstruct.rounds import unrolled
from reconstruct.steadied import steadied
from reconstruct.volumes import Volumes, window_volumes

FULL: Final = 0.9  # of the path MTU: a data packet, not the few bytes of a marker
FIRM_RHYTHM: Final = 0.5  # split-half reliability from which rails of a job find each other
MARKS_PER_TURN: Final = 800  # samples of a turn that place its end as well as more would
FEW_MARKS: Final = 10  # samples of a group and turn: with fewer, its end is not known by itself
FEWEST_MARKS: Final = 2  # connections of a group, however well one of them is sampled
EVEN: Final = 0.5  # as likely one job as not: no claim is less
UNREAD: Final[tuple[Collective, Claim]] = (
    "unknown",
    claim(0.5, 0, 1.0, "no gradient burst to read"),
)
FEWEST_UNCLEAR: Final = 4  # endpoints of a job that is told by less: two or three may do anything
WHOLE: Final = 0.8  # confidence in a job's endpoints, below which it may have more stages
UNSHAPED: Final = 0.75  # confidence in a job of which no group is told
UNCLEAR: Final = 0.6  # and where its rhythm hardly stands out
EXPLAINED: Final = 0.5  # of a candidate's bytes must lie in groups, or its rhythm is no job


@dataclass(frozen=True, slots=True)
class Study:
    """A job as one window shows it, and what places its iterations in windows to come.

    Parameters
    ----------
    result : JobResult
    cuts_ns : int64[k]
        Ends of iterations in the window.
    beat : Beat
    told : bool
        Whether these ends are told from all other pauses: see `patterns.timeline.Timeline`.
    """

    result: JobResult
    cuts_ns: NDArray[np.int64]
    beat: Beat
    told: bool


def study_job(
    progress: Progress,
    volumes: Volumes,
    candidate: Candidate,
    host_of: Mapping[int, str],
    name: str,
) -> Study | None:
    """One job, or None where the candidate runs no collective and no two-way chain.

    Without groups where too few samples show what is drawn, and all is as a job's but that.

    Parameters
    ----------
    progress : Progress
    volumes : Volumes
        Of all connections over the window.
    candidate : Candidate
    host_of : mapping
        Host of an endpoint id where the inventory knows it.
    name : str
        Id of the job.
    """
    told = unrolled(progress, candidate)
    if told is not progress:
        progress, volumes = told, window_volumes(told)
    flows = measure(progress, candidate)
    found = recognise(flows, split(flows, steady(flows), host_of))
    shaped = is_job(progress, flows, found, host_of)
    if not shaped:
        found = []
        if not keeps_time(progress, candidate, flows):
            return None
    fewer = without_servers(progress, candidate, found)
    if fewer is not candidate:
        candidate, flows, found = _cut_anew(progress, fewer, fewer.turns_ns, host_of)
    candidate, flows, found, placed = _place_iterations(progress, candidate, flows, found, host_of)
    if not shaped or not is_job(progress, flows, found, host_of):
        found = []
        if not keeps_time(progress, candidate, flows):
            return None
    layout = layout_of(progress, candidate, flows, found, host_of)
    found = whole_pipelines(flows, found, layout)
    layout = layout_of(progress, candidate, flows, found, host_of)
    found = doubt_short(found, host_sets(found, layout))
    reducing = (placed.collective, placed.claim) if placed else UNREAD
    groups = build(flows, found, lambda v: progress.endpoints.names[v], reducing)
    volume = flows.together()
    breaks = restarts(progress, candidate.connections)
    flow = outflow(progress, candidate.endpoints)
    window = progress.window_start_ns, progress.window_end_ns
    iterations = iterations_between(candidate.turns_ns, window, volume, breaks)
    period, interval = median_period(iterations)
    samples = int(flows.samples.sum())
    endpoints = tuple(progress.endpoints.names[e] for e in candidate.endpoints)
    hosts = [host_of.get(int(e), progress.endpoints.names[e]) for e in candidate.endpoints]
    known = any(int(e) in host_of for e in candidate.endpoints)
    together = _endpoints_claim(candidate, found, samples, known=known)
    sizes = parallelism(found, layout)
    if sizes.pp == 1 and together.confidence < WHOLE:
        open_ = "whether hosts outside it are stages of it is not told"
        sizes = replace(sizes, pp=None, basis={**sizes.basis, "pp": open_})
    result = JobResult(
        id=name,
        hosts=tuple(sorted(set(hosts))),
        endpoints=endpoints,
        confidence=together.confidence,
        evidence={
            "endpoints": together,
            "period": period_claim(candidate.period, iterations, samples, candidate.known_ns),
        },
        # Sizes of a part would not be the job's.
        parallelism=replace(sizes, confidence=min(sizes.confidence, together.confidence)),
        groups=groups,
        ranks=ranks_of(endpoints, hosts, groups),
        edges=edges_between(progress, steadied(volumes, flows, [f.rows for f in found]), candidate),
        period_s=period,
        period_ci_s=interval,
        iterations=iterations,
        # Times that are not good cannot say that one iteration was long.
        anomalies=(
            *found_restarts(name, breaks),
            *(() if candidate.known_ns else slow_iterations(name, iterations, samples, flow)),
        ),
        hints=hints(
            flows,
            candidate.turns_ns,
            found,
            layout,
            sizes,
            reducing,
            placed.batches if placed else 1,
        ),
    )
    beat = _beat(progress, candidate, flows, found, volume)
    return Study(result, candidate.turns_ns, beat, placed.told if placed else True)


def _beat(
    progress: Progress, candidate: Candidate, flows: Flows, found: list[Found], volume: float
) -> Beat:
    """What places the iterations of this job in other windows."""
    keys = progress.connections.key[flows.connection]
    marking, marks = _marking(found)
    lengths = np.diff(candidate.turns_ns)
    turns = max(len(lengths), 1)
    groups: list[NDArray[np.integer]] = [*_together(flows, found, marking, turns)]
    enough = turns * MARKS_PER_TURN / len(groups)
    # Where connections take turns, none of them stands for the others.
    if marks in ("burst", "bursts"):
        groups = [_most_sampled(flows, rows, enough) for rows in groups]
    every = np.concatenate(groups)
    return Beat(
        connections=keys[every],
        groups=tuple(keys[rows] for rows in groups),
        marks=marks,
        period_s=float(np.median(lengths)) / 1e9,
        volume_bytes=volume,
        known_ns=candidate.known_ns,
        samples_per_turn=int(flows.samples.sum()) // turns,
        marks_per_turn=int(flows.samples[every].sum()) // turns,
    )


def _marking(found: list[Found]) -> tuple[list[Found], Marks]:
    """Groups that mark iterations, and how: those that reduce gradients, or else all.

    Where nothing tells the kind of rings, their bursts end iterations as those that reduce do; and
    so do those of pairs where a job has nothing else.
    """
    if not found:
        return [], "burst"
    reducers = [f for f in found if f.role.kind == "dp"]
    if not reducers:
        unknown = [f for f in found if f.role.kind == "unknown"]
        reducers = [f for f in unknown if f.role.algorithm == "ring"]
        if not reducers and all(len(f.shape.members) == 2 for f in found):
            reducers = unknown if len(unknown) == len(found) else []
    # What two members run is the role's to say.
    shapes = [replace(f.shape, algorithm=f.role.algorithm) for f in reducers]
    return reducers or found, marks_of(shapes)


def _together(
    flows: Flows, found: list[Found], marking: list[Found], turns: int
) -> list[NDArray[np.intp]]:
    """Rows of the groups that mark iterations; those of like groups as one where samples are few.

    Stages of a pipeline end at different moments and stay apart.
    """
    rows = [f.rows for f in marking] or [np.arange(len(flows))]
    if not marking:
        return rows
    few = min(flows.samples[r].sum() for r in rows) < FEW_MARKS * turns
    if not few or any(f.role.kind == "pp" for f in found):
        return rows
    like: dict[tuple[str, int], list[NDArray[np.intp]]] = {}
    for f in marking:
        like.setdefault((f.role.kind, len(f.shape.members)), []).append(f.rows)
    return [np.concatenate(r) for r in like.values()]


def _most_sampled(flows: Flows, rows: NDArray[np.integer], enough: float) -> NDArray[np.integer]:
    """The best sampled of some connections, as many as together have enough samples."""
    rows = rows[np.argsort(-flows.samples[rows], kind="stable")]
    before = np.cumsum(flows.samples[rows]) - flows.samples[rows]
    return np.asarray(rows[(before < enough) | (np.arange(len(rows)) < FEWEST_MARKS)])


def keeps_time(progress: Progress, candidate: Candidate, flows: Flows) -> bool:
    """Whether this is a job although few samples hide what its connections draw.

    All are of NCCL's verbs and keep one rhythm, and none of their ends serves all others.
    """
    recorded = progress.connections.verbs[flows.connection] & Verb.RECORDED
    scarce = bool(flows.written.all()) and np.median(flows.samples) < MISSABLE
    clear = candidate.period.sigmas >= CLEAR_RHYTHM
    open_ = scarce and not np.any(recorded)
    open_ &= clear or len(candidate.endpoints) >= FEWEST_UNCLEAR
    return bool(open_) and not is_star(flows, np.arange(len(flows)))


def is_job(
    progress: Progress, flows: Flows, found: list[Found], host_of: Mapping[int, str]
) -> bool:
    """Whether shapes that only training (or a loop of collectives) draws carry most bytes.

    Two that send to each other may do anything: such pairs alone are a job only where NCCL's verbs
    carry them, or, as flow records tell no verbs, where several join the same two hosts.
    """
    total = float(np.nansum(flows.bytes_per_turn))
    carried = sum(float(np.nansum(flows.bytes_per_turn[f.rows])) for f in found)
    if total <= 0 or carried < EXPLAINED * total:
        return False
    if is_star(flows, np.concatenate([f.rows for f in found])):
        return False
    if any(f.role.algorithm != "unknown" for f in found):
        return True
    written = [f for f in found if flows.written[f.rows].all()]
    verbs = progress.connections.verbs[flows.connection]
    recorded = [f for f in written if np.any(verbs[f.rows] & Verb.RECORDED)]
    if len(recorded) < len(written):
        return True
    joined = [frozenset(host_of.get(v, str(v)) for v in f.shape.members) for f in recorded]
    return len(set(joined)) < len(joined)


def _place_iterations(
    progress: Progress,
    candidate: Candidate,
    flows: Flows,
    found: list[Found],
    host_of: Mapping[int, str],
) -> tuple[Candidate, Flows, list[Found], Timeline | None]:
    """Iterations cut where the gradient burst ends, and all that is measured by them anew.

    With what the burst says; None where there is none to read.
    """
    turns = max(len(candidate.turns_ns) - 1, 1)
    marking, marks = _marking(found)
    rows = [flows.connection[r] for r in _together(flows, found, marking, turns)]
    placed = timeline.place(progress, rows, candidate.turns_ns, marks)
    if placed is None and marks == "begin":
        true = invented.true_ends(progress, candidate.connections, candidate.turns_ns)
        if not true.all():
            return *_cut_anew(progress, candidate, candidate.turns_ns[true], host_of), None
    if placed is None:
        return candidate, flows, found, None
    if placed.parts > 1:
        # That these are no iterations of their own rests on one longer pause.
        period = replace(candidate.period, rival=1.0)
        candidate = replace(candidate, period=period)
    return *_cut_anew(progress, candidate, placed.ends_ns, host_of), placed


def _cut_anew(
    progress: Progress,
    candidate: Candidate,
    turns_ns: NDArray[np.int64],
    host_of: Mapping[int, str],
) -> tuple[Candidate, Flows, list[Found]]:
    """All that is measured by turns, with others."""
    candidate = replace(candidate, turns_ns=turns_ns)
    flows = measure(progress, candidate)
    return candidate, flows, recognise(flows, split(flows, steady(flows), host_of))


def layout_of(
    progress: Progress,
    candidate: Candidate,
    flows: Flows,
    found: list[Found],
    host_of: Mapping[int, str],
) -> Layout:
    """Hosts, samples, and what of the traffic no group explains."""
    names = progress.endpoints.names
    rest = np.ones(len(flows), np.bool_)
    for group in found:
        rest[group.rows] = False
    of = flows.connection
    full = progress.connections.mean_payload[of] >= FULL * progress.connections.unit_bytes[of]
    place = dict.fromkeys(map(int, candidate.endpoints), 0)
    nics: Counter[str] = Counter()
    for endpoint, host in host_of.items():
        if endpoint in place:
            place[endpoint] = nics[host]
        nics[host] += 1
    return Layout(
        rail=place,
        hosts={int(e): host_of.get(int(e), names[e]) for e in candidate.endpoints},
        samples=int(flows.samples.sum()),
        strays=int(flows.samples[rest & full].sum()),
        known=any(int(e) in host_of for e in candidate.endpoints),
    )


def _endpoints_claim(
    candidate: Candidate, found: list[Found], samples: int, *, known: bool
) -> Claim:
    """How sure it is that these endpoints, all of them and no other, are one job.

    `known` says whether the hosts of its endpoints are.
    """
    basis = "endpoints that talk to each other"
    ceiling = 0.98
    if candidate.components > 1:
        basis = f"{candidate.components} parts of one rhythm, likeness {candidate.rhythm:.2f}"
        ceiling = 0.6 + 0.38 * min(1.0, candidate.rhythm / 0.8)
    elif candidate.reliable < FIRM_RHYTHM and not known:
        # Without hosts, only rhythm joins the rails of a job, and this one is too faint for that.
        ceiling = 0.6
        basis += "; too few samples to say whether others keep the same rhythm"
    if candidate.sure < ceiling:
        ceiling = max(candidate.sure, EVEN)
        basis += "; not told for certain from others of nearly this rhythm"
    inside = {v for f in found for v in f.shape.members}
    if not found:
        clear = candidate.period.sigmas >= CLEAR_RHYTHM
        ceiling = min(ceiling, UNSHAPED if clear else UNCLEAR)
        basis += ", by NCCL's verbs and in one rhythm; too few samples to say what they draw"
    elif len(inside) < len(candidate.endpoints):
        ceiling = min(ceiling, 0.8)
        basis += f"; {len(candidate.endpoints) - len(inside)} of them in no group"
    return claim(ceiling, samples, 100.0, basis)


def ranks_of(
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


def edges_between(
    progress: Progress, volumes: Volumes, candidate: Candidate
) -> tuple[EdgeVolume, ...]:
    """Volumes over the window of the edges between a job's endpoints."""
    members = np.isin(np.arange(len(progress.endpoints)), candidate.endpoints)
    connections = progress.connections
    inside = members[connections.src] & members[connections.dst]
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
