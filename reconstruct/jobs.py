"""`discover`: which endpoints repeat one cycle together.

Endpoints that talk are one component; components that keep the same rhythm are one job (rails
never talk to each other, yet all of a job's rails pause and burst together). What comes out are
candidates: `patterns` keeps those that run a collective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from reconstruct.activity import activity, timed
from reconstruct.bins import BIN_NS, Progress
from reconstruct.dwells import find_cycle
from reconstruct.iterations import follow_cycle, follow_tempo
from reconstruct.joining import join
from reconstruct.lockstep import find_walks
from reconstruct.merging import group_rows
from reconstruct.period import Period
from reconstruct.prediction import foretold
from reconstruct.stops import CYCLES, find_stops
from reconstruct.tempo import find_tempo
from reconstruct.traffic import Traffic, written

MOST_BINS: Final = 1 << 18  # of a signal; a longer window gets wider bins
MOST_COMPONENTS: Final = 4096  # with most samples; likeness is a matter of pairs
RECURRING: Final = 0.4  # of the slots that as many samples would fill if spread evenly
SLOTS: Final = 8
FEWEST_OF_A_CYCLE: Final = 2 * CYCLES  # samples in which a cycle can show
BEAT_STEP: Final = 0.01  # of a beat: how finely samples are foretold
CLEARLY_MORE: Final = 1.15  # times what a beat foretells, that a whole cycle does
FEWEST_SAMPLES: Final = 5  # of a connection; an RDMA write is no accident, one is enough


@dataclass(frozen=True, slots=True)
class Candidate:
    """Endpoints with a common cycle.

    Parameters
    ----------
    endpoints : int32[e]
        Ids, ascending.
    connections : int32[c]
        Ids of the data connections among them, ascending.
    period : Period
    turns_ns : int64[k]
        Provisional starts of its iterations.
    rhythm : float
        Lowest likeness by which its components were joined; 1 where there was one component.
    components : int
        How many components were joined by rhythm.
    reliable : float
        Lowest split-half reliability of a component's rhythm: near 0 it could join none.
    sure : float
        How surely, by rhythm, its components are one job and no other component belongs to it.
    known_ns : int
        How well the samples' times are known; 0 where they are good.
    """

    endpoints: NDArray[np.int32]
    connections: NDArray[np.int32]
    period: Period
    turns_ns: NDArray[np.int64]
    known_ns: int
    rhythm: float = 1.0
    components: int = 1
    reliable: float = 1.0
    sure: float = 1.0


def discover(
    progress: Progress, traffic: NDArray[np.uint8], host_of: Mapping[int, str]
) -> list[Candidate]:
    """Candidates for jobs in the window, by lowest endpoint.

    Parameters
    ----------
    progress : Progress
    traffic : uint8[c]
        As `reconstruct.traffic.classify` gives it.
    host_of : mapping
        Host of an endpoint id where the inventory knows it.
    """
    usable = _usable(progress, traffic)
    component = _components(progress, usable)
    if component.max(initial=-1) < 0:
        return []
    joined = join(progress, usable, component, host_of)
    jobs = len(joined.parts)
    job_of = np.where(component >= 0, joined.label[np.maximum(component, 0)], jobs).astype(np.int32)
    owner = np.where(usable, job_of[progress.connections.src], jobs).astype(np.int32)
    row_owner = owner[progress.bins.connection]
    rows = group_rows(row_owner, jobs + 1)
    edges = np.searchsorted(row_owner[rows], np.arange(jobs + 1))
    src, dst = progress.connections.src, progress.connections.dst
    sender = np.where(job_of[src] != job_of[dst], job_of[src], jobs)[progress.bins.connection]
    written = group_rows(sender, jobs + 1)
    ends = np.searchsorted(sender[written], np.arange(jobs + 1))
    found = []
    for job in range(jobs):
        candidate = _cycle(
            progress,
            np.flatnonzero(job_of == job),
            np.flatnonzero(owner == job),
            rows[edges[job] : edges[job + 1]],
            written[ends[job] : ends[job + 1]],
        )
        if candidate is not None:
            found.append(
                replace(
                    candidate,
                    rhythm=float(joined.likeness[job]),
                    components=int(joined.parts[job]),
                    reliable=float(joined.reliable[job]),
                    sure=float(joined.sure[job]),
                )
            )
    return sorted(found, key=lambda c: int(c.endpoints[0]))


def renew(
    progress: Progress, traffic: NDArray[np.uint8], endpoints: NDArray[np.int32], known: Candidate
) -> Candidate | None:
    """A job found before, in another window: its connections and its cycle anew.

    Parameters
    ----------
    progress : Progress
    traffic : uint8[c]
        As `reconstruct.traffic.classify` gives it.
    endpoints : int32[e]
        Ids of the job's endpoints in this window, ascending.
    known : Candidate
        As it was found: how its parts came together is taken over.

    Returns
    -------
    Candidate or None
        None where it keeps no cycle here.
    """
    member = np.zeros(len(progress.endpoints), np.bool_)
    member[endpoints] = True
    inside = member[progress.connections.src] & member[progress.connections.dst]
    wanted = inside & _usable(progress, traffic)
    rows = np.flatnonzero(wanted[progress.bins.connection])
    to_others = member[progress.connections.src] & ~member[progress.connections.dst]
    written = np.flatnonzero(to_others[progress.bins.connection])
    candidate = _cycle(progress, endpoints, np.flatnonzero(wanted), rows, written)
    if candidate is None:
        return None
    return replace(
        candidate,
        rhythm=known.rhythm,
        components=known.components,
        reliable=known.reliable,
        sure=known.sure,
    )


def _usable(progress: Progress, traffic: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Connections that may join endpoints into a job; bool[c]."""
    connections, bins = progress.connections, progress.bins
    count = len(connections)
    samples = np.bincount(bins.connection, bins.samples, count)
    by_write = written(connections)
    usable = (traffic == Traffic.CANDIDATE) & (by_write | (samples >= FEWEST_SAMPLES))
    usable &= recurs(progress)
    # A library that writes by RDMA sends no gradients otherwise: what else its hosts send is none.
    writes = np.zeros(len(progress.endpoints), np.bool_)
    writes[connections.src[usable & by_write]] = True
    writes[connections.dst[usable & by_write]] = True
    return np.asarray(usable & (by_write | ~(writes[connections.src] | writes[connections.dst])))


def recurs(progress: Progress) -> NDArray[np.bool_]:
    """Connections whose samples are spread over the window as a repeated transfer's are.

    The start-up broadcast of a job fills one or two of `SLOTS`; a transfer of every iteration
    fills nearly all that its number of samples can fill.
    """
    bins, count = progress.bins, len(progress.connections)
    if not len(bins):
        return np.zeros(count, np.bool_)
    # Slots hold equally many rows, so that a stretch without any telemetry costs none of them.
    edges = np.quantile(bins.first_ns, np.arange(1, SLOTS) / SLOTS)
    slot = np.searchsorted(edges, bins.first_ns, "right")
    filled = np.zeros((count, SLOTS), np.bool_)
    filled[bins.connection, slot] = True
    samples = np.bincount(bins.connection, bins.samples, count)
    expected = SLOTS * (1 - (1 - 1 / SLOTS) ** samples)
    return np.asarray(filled.sum(axis=1) >= RECURRING * expected)


def _components(progress: Progress, usable: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Component of each endpoint by usable connections; int32[e].

    -1 for endpoints without one, and in one with too few samples to have a rhythm at all.
    """
    count = len(progress.endpoints)
    src, dst = progress.connections.src[usable], progress.connections.dst[usable]
    graph = coo_array((np.ones(len(src)), (src, dst)), shape=(count, count))
    _, label = connected_components(graph, directed=False)
    bins = progress.bins
    used = usable[bins.connection]
    owner = label[progress.connections.src[bins.connection[used]]]
    samples = np.bincount(owner, bins.samples[used], int(label.max(initial=-1)) + 1)
    kept = np.flatnonzero(samples >= FEWEST_OF_A_CYCLE)
    kept = kept[np.argsort(-samples[kept], kind="stable")[:MOST_COMPONENTS]]
    number = np.full(len(samples), -1, np.int32)
    number[np.sort(kept)] = np.arange(len(kept), dtype=np.int32)
    return number[label] if count else np.zeros(0, np.int32)


def _cycle(
    progress: Progress,
    members: NDArray[np.integer],
    connections: NDArray[np.intp],
    rows: NDArray[np.intp],
    written: NDArray[np.intp],
) -> Candidate | None:
    """The common cycle of some connections; None without `CYCLES` turns.

    `rows` are those of the connections, `written` those of what members send to others.
    """
    bins = progress.bins
    rows, time, known_ns = timed(bins, rows)
    if len(rows) < FEWEST_OF_A_CYCLE:
        return None
    order = np.argsort(time, kind="stable")
    rows, time = rows[order], time[order]
    weight = bins.samples[rows].astype(np.float64)
    start, end = int(time[0]), int(time[-1]) + 1
    width = max(BIN_NS, (end - start) // MOST_BINS)
    told = bins.last_ns[written], bins.scaled_bytes[written].astype(np.float64)
    signals = activity(time, weight, start, end, width), activity(*told, start, end, width)
    tempo = find_tempo(signals[0], width / 1e9, signals[1])
    period, turns = None, np.zeros(0, np.int64)
    if tempo:
        turns = follow_tempo(
            time,
            weight,
            [(start + part.end * width, part.period.seconds) for part in tempo],
        )
        period = max(tempo, key=lambda part: part.end - part.start).period
        if len(tempo) == 1:
            period, turns = _whole_cycle(time, weight, period, turns)
    if not known_ns:
        walks = find_walks(progress, rows, time, start + find_stops(*signals) * width)
        cycle = find_cycle(walks, turns if len(turns) > 1 else None)
        if cycle is not None:
            period, turns = cycle.period, cycle.turns_ns
    if period is None or len(turns) < CYCLES + 1:
        return None
    return Candidate(
        endpoints=members.astype(np.int32),
        connections=connections.astype(np.int32),
        period=period,
        turns_ns=turns,
        known_ns=known_ns,
    )


def _whole_cycle(
    time_ns: NDArray[np.int64],
    weight: NDArray[np.float64],
    period: Period,
    turns_ns: NDArray[np.int64],
) -> tuple[Period, NDArray[np.int64]]:
    """The period and the turns of the cycle that foretells the samples best."""
    width_ns = max(BEAT_STEP * period.seconds * 1e9, BIN_NS)
    best = found = foretold(time_ns, weight, turns_ns, width_ns)
    whole = period, turns_ns
    for seconds in period.cycles_s:
        other = follow_cycle(time_ns, weight, seconds)
        gain = foretold(time_ns, weight, other, width_ns)
        if len(other) > CYCLES and gain > max(best, CLEARLY_MORE * found):
            best = gain
            usual_s = float(np.median(np.diff(other))) / 1e9
            whole = (
                replace(period, seconds=usual_s, rival=max(found / gain, 0.0), longer=0.0),
                other,
            )
    return whole
