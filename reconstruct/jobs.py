"""`discover`: which endpoints repeat one cycle together.

Endpoints that talk are one component; components that keep the same rhythm are one job (rails
never talk to each other, yet all of a job's rails pause and burst together). What comes out are
candidates: `patterns` keeps those that run a collective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from collector.schema import Transport
from reconstruct.activity import activity, timed
from reconstruct.bins import BIN_NS, Progress
from reconstruct.hashing import mix
from reconstruct.iterations import follow_cycle
from reconstruct.period import CYCLES, Period, find_period
from reconstruct.traffic import Traffic

RHYTHM_BIN_NS: Final = 50_000_000
SAME_RHYTHM: Final = 0.6  # between rails of a job 0.8 and up, between jobs at most 0.03
SAME_RHYTHM_APART: Final = 0.8  # for components that share no host
RELIABLE: Final = 0.1  # below this split-half reliability a rhythm says nothing
RECURRING: Final = 0.4  # of the slots that as many samples would fill if spread evenly
SLOTS: Final = 8
FEWEST_SAMPLES: Final = 5  # of a TCP edge; an RDMA write is no accident, one is enough


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
    """

    endpoints: NDArray[np.int32]
    connections: NDArray[np.int32]
    period: Period
    turns_ns: NDArray[np.int64]
    rhythm: float
    components: int


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
    merged, likeness, parts = _same_rhythm(progress, usable, component, host_of)
    found = []
    for job in range(merged.max() + 1):
        members = np.flatnonzero(np.isin(component, np.flatnonzero(merged == job)))
        inside = np.isin(progress.connections.src, members) & usable
        candidate = _cycle(
            progress, members, np.flatnonzero(inside), float(likeness[job]), int(parts[job])
        )
        if candidate is not None:
            found.append(candidate)
    return sorted(found, key=lambda c: int(c.endpoints[0]))


def _usable(progress: Progress, traffic: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Connections that may join endpoints into a job; bool[c]."""
    connections, bins = progress.connections, progress.bins
    count = len(connections)
    roce = connections.transport == Transport.ROCEV2
    samples = np.bincount(bins.connection, bins.samples, count)
    usable = (traffic == Traffic.CANDIDATE) & (roce | (samples >= FEWEST_SAMPLES))
    usable &= _recurs(progress)
    # A library that writes by RDMA sends no gradients by TCP: what its hosts send by TCP is else.
    on_roce = np.zeros(len(progress.endpoints), np.bool_)
    on_roce[connections.src[usable & roce]] = True
    on_roce[connections.dst[usable & roce]] = True
    return np.asarray(usable & (roce | ~(on_roce[connections.src] | on_roce[connections.dst])))


def _recurs(progress: Progress) -> NDArray[np.bool_]:
    """Connections whose samples are spread over the window as a repeated transfer's are.

    The start-up broadcast of a job fills one or two of `SLOTS`; a transfer of every iteration
    fills nearly all that its number of samples can fill.
    """
    bins, count = progress.bins, len(progress.connections)
    length = max(1, progress.window_end_ns - progress.window_start_ns)
    slot = np.clip((bins.first_ns - progress.window_start_ns) * SLOTS // length, 0, SLOTS - 1)
    filled = np.zeros((count, SLOTS), np.bool_)
    filled[bins.connection, slot] = True
    samples = np.bincount(bins.connection, bins.samples, count)
    expected = SLOTS * (1 - (1 - 1 / SLOTS) ** samples)
    return np.asarray(filled.sum(axis=1) >= RECURRING * expected)


def _components(progress: Progress, usable: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Component of each endpoint by usable connections, -1 for those without one; int32[e]."""
    count = len(progress.endpoints)
    src, dst = progress.connections.src[usable], progress.connections.dst[usable]
    graph = coo_array((np.ones(len(src)), (src, dst)), shape=(count, count))
    _, label = connected_components(graph, directed=False)
    talks = np.zeros(count, np.bool_)
    talks[src] = True
    talks[dst] = True
    out = np.full(count, -1, np.int32)
    _, out[talks] = np.unique(label[talks], return_inverse=True)
    return out


def _same_rhythm(
    progress: Progress,
    usable: NDArray[np.bool_],
    component: NDArray[np.int32],
    host_of: Mapping[int, str],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.intp]]:
    """Job of each component, and per job the lowest likeness that joined it and its parts.

    The correlation of two components' activity is divided by the root of their reliabilities
    (Spearman 1904): few samples weaken it, a different rhythm removes it.
    """
    count = int(component.max()) + 1
    like, reliable = _likeness(progress, usable, component, count)
    hosts: list[set[str]] = [set() for _ in range(count)]
    for endpoint, name in host_of.items():
        if component[endpoint] >= 0:
            hosts[component[endpoint]].add(name)
    joined = np.zeros((count, count), np.bool_)
    for i in range(count):
        for j in range(i):
            if reliable[i] < RELIABLE or reliable[j] < RELIABLE:
                joined[i, j] = bool(hosts[i]) and hosts[i] == hosts[j]
            else:
                apart = hosts[i] and hosts[j] and not hosts[i] & hosts[j]
                joined[i, j] = like[i, j] >= (SAME_RHYTHM_APART if apart else SAME_RHYTHM)
    jobs, label = connected_components(joined, directed=False)
    lowest = np.ones(jobs)
    for i, j in zip(*np.nonzero(joined), strict=True):
        lowest[label[i]] = min(lowest[label[i]], max(0.0, like[i, j]))
    return label.astype(np.int32), lowest, np.bincount(label, minlength=jobs)


def _likeness(
    progress: Progress,
    usable: NDArray[np.bool_],
    component: NDArray[np.int32],
    count: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Disattenuated correlation between components, float64[n, n], and reliabilities float64[n]."""
    bins = progress.bins
    rows, time, known_ns = timed(bins, np.flatnonzero(usable[bins.connection]))
    owner = component[progress.connections.src[bins.connection[rows]]]
    start, end = progress.window_start_ns - known_ns, progress.window_end_ns + 1
    width = max(RHYTHM_BIN_NS, 2 * known_ns, (end - start) // 20_000)
    halves = np.zeros((2, count, max(1, -(-(end - start) // width))))
    for i in range(count):
        mine = owner == i
        # Samples of one datagram share its time: only whole datagrams are thinnings of a signal.
        # Drawn by hash, as taking every other one would make the halves alike by itself.
        drawn = mix(time[mine].astype(np.uint64)) >> np.uint64(63)
        for half in (0, 1):
            chosen = np.flatnonzero(mine)[drawn == half]
            weight = bins.samples[rows[chosen]].astype(np.float64)
            halves[half, i] = activity(time[chosen], weight, start, end, width)
    first, second = _standard(halves[0]), _standard(halves[1])
    split = (first * second).mean(axis=1)
    reliable = np.clip(2 * split / (1 + split), 0, 1)
    whole = _standard(halves[0] + halves[1])
    raw = whole @ whole.T / whole.shape[1]
    scale = np.sqrt(np.maximum(np.outer(reliable, reliable), 1e-9))
    return np.minimum(raw / scale, 1.0), reliable


def _standard(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows with mean 0 and variance 1; a constant row is all zero."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0))


def _cycle(
    progress: Progress,
    members: NDArray[np.intp],
    connections: NDArray[np.intp],
    rhythm: float,
    components: int,
) -> Candidate | None:
    """The common cycle of some connections, or None where there is none of `CYCLES` turns."""
    bins = progress.bins
    rows, time, _ = timed(bins, np.flatnonzero(np.isin(bins.connection, connections)))
    if len(rows) < 2 * CYCLES:
        return None
    order = np.argsort(time, kind="stable")
    rows, time = rows[order], time[order]
    weight = bins.samples[rows].astype(np.float64)
    signal = activity(time, weight, int(time[0]), int(time[-1]) + 1, BIN_NS)
    period = find_period(signal, BIN_NS / 1e9)
    if period is None:
        return None
    turns = follow_cycle(time, weight, period.seconds)
    if len(turns) < CYCLES + 1:
        return None
    return Candidate(
        endpoints=members.astype(np.int32),
        connections=connections.astype(np.int32),
        period=period,
        turns_ns=turns,
        rhythm=rhythm,
        components=components,
    )
