"""Joining: which components are one job.

Rails of a job never talk to each other, yet all pause and burst together. Components are joined
where their rhythms are as alike as their samples let them be, and where they keep step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from collector.schema import ABSENT_U32
from reconstruct.bins import Progress
from reconstruct.drift import drift
from reconstruct.likeness import Likeness, likeness, moments
from reconstruct.volumes import window_volumes

SAME: Final = 0.6  # less alike is no rail, even one that a fault makes slow for half of the window
SAME_APART: Final = 0.8  # for components that share no host
ALIKE: Final = 0.9  # rails are alike by 1, jobs in phase for 8 turns by up to 0.95
ERRORS: Final = 3.0  # standard errors by which likeness may fall short
DRIFTED: Final = 3.0  # sigmas of drift; within a job below 2.7 in all simulated fabrics
DRIFTED_UNLIKE: Final = 2.2  # where likeness, too, falls short of 1 by more than its error
NEARLY: Final = 1.3  # times so many sigmas the jobs may yet be one
MOST_LINKS: Final = 256  # of a component to others behind it
RELIABLE: Final = 0.1  # below this split-half reliability a rhythm says nothing
FIRM: Final = 0.5  # below this it does not decide between two others
FEW_MORE: Final = 2  # NICs of a host that a job has, for each one that no rhythm tells to be its
AS_MUCH: Final = 0.1  # of their bytes, by which rails of a job may differ beside
UNTOLD: Final = 0.3  # chance that what was told apart, or excused, on slight grounds is not so
FEWEST_OTHERS: Final = 10  # jobs that might be in phase by chance, however few were seen
SERIES: Final = 5.0  # jobs come in series of one model: so much oftener are periods near


@dataclass(frozen=True, slots=True)
class Joined:
    """Components as jobs.

    Parameters
    ----------
    label : int32[n]
        Job of each component.
    likeness : float64[jobs]
        Lowest likeness that joined two of its components; 1 where there is one.
    parts : intp[jobs]
        Components of each job.
    reliable : float64[jobs]
        Lowest reliability of a component's rhythm.
    sure : float64[jobs]
        1 less the chance that a part is another job's, or that a part of this one is left out.
    """

    label: NDArray[np.int32]
    likeness: NDArray[np.float64]
    parts: NDArray[np.intp]
    reliable: NDArray[np.float64]
    sure: NDArray[np.float64]


def join(
    progress: Progress,
    usable: NDArray[np.bool_],
    component: NDArray[np.int32],
    host_of: Mapping[int, str],
) -> Joined:
    """Join components by rhythm.

    Parameters
    ----------
    progress : Progress
    usable : bool[c]
        Connections that count.
    component : int32[e]
        Component of each endpoint, -1 for none.
    host_of : mapping
        Host of an endpoint id where it is known.

    Notes
    -----
    Components too sparse to have a rhythm of their own are joined where they carry as much and have
    the same hosts, or one of them all hosts of the other, or as many endpoints of one tenant whose
    hosts are not known; or with the one job of which they are few more rails on some of its hosts.
    """
    count = int(component.max()) + 1
    seen = moments(progress, usable, component, count)
    found = likeness(seen)
    shared, same = _hosts(component, host_of, count)
    known = np.diagonal(shared) > 0
    apart = np.outer(known, known) & (shared == 0)
    told = np.minimum.outer(found.reliable, found.reliable) >= RELIABLE
    may = told & (found.like >= np.where(apart, SAME_APART, SAME))
    tenant = _tenants(progress, component, known, count)
    # Rails of the same hosts that carry as much are alike unless more than chance says otherwise.
    size = np.diagonal(shared)
    nested = (shared > 0) & (shared == np.minimum.outer(size, size))
    places = _as_much(progress, usable, component, nested | tenant)
    one, other = np.nonzero((same | tenant) & places & told & ~may)
    may[one, other] = found.like[one, other] >= SAME - ERRORS * found.error(one, other)
    one, other = np.nonzero(np.triu(may, 1))
    # All parts of a job are alike, so that each one's next neighbours hold it together.
    near = np.arange(len(one)) - np.searchsorted(one, one) < MOST_LINKS
    one, other = one[near], other[near]
    moved = drift(seen, one, other)
    like, error = found.like[one, other], found.error(one, other)
    alike = like >= ALIKE - ERRORS * error
    limit = np.where(like >= 1 - ERRORS * error, DRIFTED, DRIFTED_UNLIKE)
    step = moved.sigmas < limit
    # Components of the same hosts are rails of one job, if one link may have become slow.
    rails = same[one, other]
    excused = rails & (moved.at_once < limit)
    by_place = places & ~told
    linked = by_place.copy()
    linked[one, other] = linked[other, one] = (alike & step) | excused
    np.fill_diagonal(linked, False)
    _decide(linked, found)
    _, label = connected_components(linked, directed=False)
    beside = _beside(component, host_of, label, found.reliable >= RELIABLE)
    for part, of_job in beside.items():
        linked[part, of_job] = linked[of_job, part] = True
    jobs, label = connected_components(linked, directed=False)
    # Two jobs that differ in period by a share of d drift by d times the turns, evenly: a root mean
    # square of 1 / sqrt(12) of that.
    unseen = 2 * math.sqrt(12) * DRIFTED * moved.noise / np.maximum(moved.turns, 1)
    others = np.where(rails, 1, max(jobs - 1, FEWEST_OTHERS))
    chance = np.minimum(SERIES * (1 - ALIKE) * others * unseen, 1.0)
    chance = np.maximum(chance, np.where(alike & step, 0, UNTOLD))
    joined = linked[one, other]
    sure = 1 - _worst(count, jobs, label, one[joined], other[joined], chance[joined])
    nearly = (label[one] != label[other]) & (moved.sigmas < np.where(alike, NEARLY, 1) * limit)
    for end in (one, other):
        np.minimum.at(sure, label[end[nearly]], 1 - UNTOLD)
    np.minimum.at(sure, label[list(beside)], 1 - UNTOLD)
    np.minimum.at(sure, label[np.flatnonzero((by_place & ~same & linked).any(axis=1))], 1 - UNTOLD)
    lowest = np.ones(jobs)
    one, other = np.nonzero(linked)
    # What is joined by its hosts alone shows no likeness at all.
    shown = np.where(told[one, other], np.maximum(0.0, found.like[one, other]), 0.0)
    np.minimum.at(lowest, label[one], shown)
    weakest = np.ones(jobs)
    np.minimum.at(weakest, label, found.reliable)
    parts = np.bincount(label, minlength=jobs)
    return Joined(label.astype(np.int32), lowest, parts, weakest, sure)


def _tenants(
    progress: Progress,
    component: NDArray[np.int32],
    known: NDArray[np.bool_],
    count: int,
) -> NDArray[np.bool_]:
    """Components of one tenant that have as many endpoints, on hosts that nobody knows; bool[n, n].

    A tenant's rails are likelier than jobs of one size that share its network.
    """
    inside = np.flatnonzero(component >= 0)
    vni = np.zeros(count, np.int64)
    vni[component[inside]] = progress.endpoints.vni[inside]
    size = np.bincount(component[inside], minlength=count)
    tenant = np.where(known | (vni == 0) | (vni == ABSENT_U32), -1 - np.arange(count), vni)
    return np.asarray((tenant[:, None] == tenant) & (size[:, None] == size))


def _as_much(
    progress: Progress,
    usable: NDArray[np.bool_],
    component: NDArray[np.int32],
    pairs: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Those pairs of components that carry as much an endpoint, as far as samples tell; bool[n, n].

    By sequence progress or by count: lost samples belie the one, and few of them the other.
    """
    one, other = np.nonzero(np.triu(pairs, 1))
    out = np.zeros_like(pairs)
    if not len(one):
        return out
    count = len(pairs)
    volumes = window_volumes(progress)
    rows = np.flatnonzero(usable & (component[progress.connections.src] >= 0))
    owner = component[progress.connections.src[rows]]
    size = np.maximum(np.bincount(component[component >= 0], minlength=count), 1)
    variance = 1 / np.maximum(np.bincount(owner, volumes.samples[rows], count), 1)
    room = AS_MUCH + ERRORS * np.sqrt(variance[one] + variance[other])
    for carried in (volumes.bytes, volumes.bytes_by_count):
        each = np.bincount(owner, carried[rows], count) / size
        even = np.abs(each[one] - each[other]) <= room * np.maximum(each[one], each[other])
        out[one[even], other[even]] = out[other[even], one[even]] = True
    return out


def _beside(
    component: NDArray[np.int32],
    host_of: Mapping[int, str],
    label: NDArray[np.int32],
    told: NDArray[np.bool_],
) -> dict[int, int]:
    """Components without a rhythm, and one of the job on whose hosts they are but a few more NICs.

    `label` is the job of each component so far, `told` which components have a rhythm.
    """
    nics: dict[int, Counter[str]] = {}
    for endpoint, host in host_of.items():
        if component[endpoint] >= 0:
            nics.setdefault(int(component[endpoint]), Counter())[host] += 1
    faint = {part: on for part, on in nics.items() if not told[label == label[part]].any()}
    jobs: dict[int, Counter[str]] = {}
    for part in sorted(nics.keys() - faint.keys()):
        jobs.setdefault(int(label[part]), Counter()).update(nics[part])
    unclear = sum(faint.values(), Counter[str]())
    out = {}
    for part, on in faint.items():
        around = [job for job, held in jobs.items() if on.keys() & held.keys()]
        if len(around) == 1 and on.keys() <= jobs[around[0]].keys():
            held = jobs[around[0]]
            if all(FEW_MORE * unclear[host] <= held[host] for host in on):
                out[part] = int(np.flatnonzero((label == around[0]) & told)[0])
    return out


def _decide(linked: NDArray[np.bool_], found: Likeness) -> None:
    """Leave each faint component one of its links to clear ones: that to the likest.

    A faint rhythm is like any other within its error, so it would make one job of two.
    """
    firm = found.reliable >= FIRM
    torn = np.flatnonzero(~firm & (linked & firm).any(axis=1))
    likest = np.where(linked[torn] & firm, found.like[torn], -np.inf).argmax(axis=1)
    linked[np.ix_(torn, torn)] = False
    linked[np.ix_(torn, firm)] = linked[np.ix_(firm, torn)] = False
    linked[torn, likest] = linked[likest, torn] = True


def _worst(
    count: int,
    jobs: int,
    label: NDArray[np.int32],
    one: NDArray[np.intp],
    other: NDArray[np.intp],
    chance: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Largest chance among the links that each job needs, the most certain ones that hold it."""
    # A link of weight 0 is none to a sparse graph.
    graph = coo_array((np.maximum(chance, 1e-9), (one, other)), shape=(count, count))
    needed = minimum_spanning_tree(graph.tocsr()).tocoo()
    worst = np.zeros(jobs)
    np.maximum.at(worst, label[needed.row], needed.data)
    return worst


def _hosts(
    component: NDArray[np.int32], host_of: Mapping[int, str], count: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Hosts that components share, int64[n, n], and whether they have just the same ones."""
    held = [(component[e], name) for e, name in host_of.items() if component[e] >= 0]
    names = {name: i for i, name in enumerate(sorted({name for _, name in held}))}
    incidence = np.zeros((count, len(names)), np.float32)
    for owner, name in held:
        incidence[owner, names[name]] = 1
    shared = (incidence @ incidence.T).astype(np.int64)
    size = np.diagonal(shared)
    same = (shared == size[:, None]) & (shared == size[None, :]) & (shared > 0)
    return shared, np.asarray(same)
