"""Jobs without a rhythm: endpoints that talk, where telemetry hides when or shows too little.

A record that lasts for several iterations says how much, not when; so does a switch that keeps
samples back, without a stamp, for as long as a turn takes. Then only who talks with whom, on which
hosts, and how much, say which endpoints belong together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from collector.schema import ABSENT_U32, I32, Transport
from reconstruct.activity import PROMPT_NS
from reconstruct.bins import Progress, Verb
from reconstruct.jobs import Candidate, recurs
from reconstruct.records import hidden_ns
from reconstruct.traffic import Traffic, written
from reconstruct.volumes import Volumes

# A pause that a record hides is no longer than the record. Where every turn shows a pause that is
# longer than records are, none like it lies inside one, and the turn is a whole one.
CLEAR_TURNS: Final = 2.0  # records' lengths: a turn that is shorter shows no such pause
SHOWN: Final = 0.7  # of the turns, and
MOST: Final = 0.5  # of the samples are of connections that show so many
ALIKE: Final = 0.02  # rails of a job differ in bytes per endpoint by less than this share
SIGMAS: Final = 4.0  # and by what few samples leave
MOST_SAMPLES: Final = 1_000  # in good time, in which a training job's rhythm may yet be hidden
UNSEEN: Final = 0.01  # chance that one of all connections has no sample


Place = Literal["hosts", "tenant", "size"]


@dataclass(frozen=True, slots=True)
class Untimed:
    """Endpoints that belong together by all but their rhythm.

    Parameters
    ----------
    endpoints : int32[e]
        Ids, ascending.
    connections : int32[c]
        Ids of the data connections among them, ascending.
    hidden_ns : int
        How long a pause may hide in the records of most of their traffic, or how well the times of
        its samples are known.
    parts : int
        How many sets of endpoints were joined, because they send alike from the same place.
    place : str
        What these parts have in common beside: hosts, a tenant, or, where neither is known, no
        more than their number of endpoints.
    by_rhythm : bool
        Whether some of them were joined because they pause and burst together.
    sampled : bool
        Whether samples tell of them, not records.
    """

    endpoints: I32
    connections: I32
    hidden_ns: int
    parts: int
    place: Place
    by_rhythm: bool
    sampled: bool = False


def is_recorded(progress: Progress, candidate: Candidate) -> bool:
    """Whether flow records tell of the candidate."""
    return bool(np.any(progress.connections.verbs[candidate.connections] & Verb.RECORDED))


def hides_turns(progress: Progress, candidate: Candidate) -> bool:
    """Whether the candidate's period may be another one, for what records hide of it."""
    connections, bins = candidate.connections, progress.bins
    if not is_recorded(progress, candidate):
        return False
    hidden = hidden_ns(bins, connections)
    if not hidden:
        return False
    if candidate.period.seconds * 1e9 < CLEAR_TURNS * hidden:
        return True
    rows = np.flatnonzero(np.isin(bins.connection, connections))
    same = bins.connection[rows[1:]] == bins.connection[rows[:-1]]
    pause = bins.first_ns[rows[1:]] - bins.last_ns[rows[:-1]]
    long = same & (pause > hidden)
    count = len(progress.connections)
    shown = np.bincount(bins.connection[rows[1:]][long], minlength=count)
    told = shown >= SHOWN * (len(candidate.turns_ns) - 1)
    carried = np.bincount(bins.connection[rows], bins.samples[rows], count)
    return bool(carried[told].sum() < MOST * carried.sum())


def find_untimed(
    progress: Progress,
    traffic: NDArray[np.uint8],
    volumes: Volumes,
    host_of: Mapping[int, str],
    timed: Sequence[Candidate],
    untold: Sequence[Candidate],
) -> list[Untimed]:
    """What flow records, or samples that show no rhythm, tell of beside jobs with one.

    It is sorted by lowest endpoint. Samples tell of RDMA writes only, which are no accident, and
    where hosts show that no part of a job is taken for one; of many samples in good time that show
    no rhythm, none is of training.

    Parameters
    ----------
    progress : Progress
    traffic : uint8[c]
        As `reconstruct.traffic.classify` gives it.
    volumes : Volumes
        Of all connections over the window.
    host_of : mapping
        Host of an endpoint id where the inventory knows it.
    timed : sequence of Candidate
        Their endpoints are left out.
    untold : sequence of Candidate
        The endpoints of each belong together, see `hides_turns`.
    """
    usable = _usable(progress, traffic, volumes, timed)
    count = len(progress.endpoints)
    chains = [np.stack([c.endpoints[:-1], c.endpoints[1:]]) for c in untold]
    talk = np.stack([progress.connections.src[usable], progress.connections.dst[usable]])
    src, dst = np.concatenate([talk, *chains], axis=1)
    graph = coo_array((np.ones(len(src)), (src, dst)), shape=(count, count))
    _, label = connected_components(graph, directed=False)
    active = np.zeros(count, np.bool_)
    active[src] = active[dst] = True
    label = np.where(active, label, -1)
    joined = _by_places(progress, volumes, usable, label, host_of)
    rhythmic = {int(e) for c in untold if c.components > 1 for e in c.endpoints}
    sampled = usable & ((progress.connections.verbs & Verb.RECORDED) == 0)
    taken = {host_of.get(int(e), "") for c in timed for e in c.endpoints}
    hosts_of = [{host_of.get(e, "") for e in _members(label, labels)} for _, labels in joined]
    out = []
    for (place, labels), hosts in zip(joined, hosts_of, strict=True):
        endpoints = np.array(_members(label, labels), np.int32)
        member = np.isin(progress.connections.src, endpoints)
        connections = np.flatnonzero(usable & member).astype(np.int32)
        by_rhythm = bool(rhythmic & set(endpoints.tolist()))
        hidden = hidden_ns(progress.bins, connections)
        by_samples = bool(sampled[connections].any())
        elsewhere = taken.union(*(other for other in hosts_of if other is not hosts))
        apart = "" not in hosts and hosts.isdisjoint(elsewhere)
        if by_samples and hidden <= PROMPT_NS and volumes.samples[connections].sum() > MOST_SAMPLES:
            continue
        if not by_samples or (apart and _all_seen(volumes, connections)):
            parts = len(labels)
            out.append(Untimed(endpoints, connections, hidden, parts, place, by_rhythm, by_samples))
    return sorted(out, key=lambda one: int(one.endpoints[0]))


def _members(label: NDArray[np.integer], labels: Sequence[int]) -> list[int]:
    return np.flatnonzero(np.isin(label, labels)).tolist()


def _all_seen(volumes: Volumes, connections: I32) -> bool:
    """Whether samples are so many that a connection like these without any is improbable."""
    count = len(connections)
    return bool(volumes.samples[connections].mean() >= np.log(count / UNSEEN))


def _usable(
    progress: Progress,
    traffic: NDArray[np.uint8],
    volumes: Volumes,
    timed: Sequence[Candidate],
) -> NDArray[np.bool_]:
    """Connections without a rhythm that may join endpoints into a job; bool[c]."""
    connections = progress.connections
    usable = (connections.verbs & Verb.RECORDED) != 0
    usable |= written(connections) & recurs(progress)
    usable &= (traffic == Traffic.CANDIDATE) & (volumes.bytes > 0)
    taken = np.zeros(len(progress.endpoints), np.bool_)
    for candidate in timed:
        taken[candidate.endpoints] = True
    usable &= ~(taken[connections.src] | taken[connections.dst])
    # A library that writes by RDMA sends no gradients by TCP: what its hosts send by TCP is else.
    roce = connections.transport == Transport.ROCEV2
    on_roce = np.zeros(len(progress.endpoints), np.bool_)
    on_roce[connections.src[usable & roce]] = True
    on_roce[connections.dst[usable & roce]] = True
    return np.asarray(usable & (roce | ~(on_roce[connections.src] | on_roce[connections.dst])))


def _by_places(
    progress: Progress,
    volumes: Volumes,
    usable: NDArray[np.bool_],
    label: NDArray[np.integer],
    host_of: Mapping[int, str],
) -> list[tuple[Place, list[int]]]:
    """Components as lists of labels: those in just the same place that send alike are one.

    Where hosts do not say that they belong together, few samples do not excuse what differs.
    """
    of_connection = label[progress.connections.src]
    found: list[tuple[Hashable, float, float, tuple[Place, list[int]]]] = []
    for number in np.unique(label[label >= 0]).tolist():
        members = np.flatnonzero(label == number)
        mine = np.flatnonzero(usable & (of_connection == number))
        each = float(volumes.bytes[mine].sum()) / len(members)
        error = 1 / np.sqrt(max(int(volumes.samples[mine].sum()), 1))
        kind, place = _place(progress, members, host_of)
        for known, other, other_error, (_, labels) in found:
            errors = SIGMAS * float(np.hypot(error, other_error))
            room = ALIKE + (errors if kind == "hosts" else min(errors, ALIKE))
            if place == known and abs(each - other) <= room * max(each, other):
                labels.append(number)
                break
        else:
            found.append((place, each, float(error), (kind, [number])))
    return [part for _, _, _, part in found]


def _place(
    progress: Progress, members: NDArray[np.intp], host_of: Mapping[int, str]
) -> tuple[Place, Hashable]:
    """Where a component is, by the best that is known: rails of one job share it.

    Rails have as many endpoints, and a tenant has more rails of a job than jobs of one size. Where
    only some hosts are known, no other component is in the same place.
    """
    hosts = frozenset(host_of.get(int(e), "") for e in members)
    vni = progress.endpoints.vni[members]
    if "" not in hosts:
        return "hosts", hosts
    if len(hosts) > 1:
        return "hosts", int(members[0])  # a place of its own
    if (vni == vni[0]).all() and vni[0] not in (0, ABSENT_U32):
        return "tenant", ("tenant", int(vni[0]), len(members))
    return "size", ("size", len(members))
