"""Doubts: candidate traffic that the last discovery saw and that is in no job, and why it is not.

`examine` in `doctor.py` makes advice of it; the analysis itself does not read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from patterns.rhythm import LONGER
from reconstruct.jobs import FEWEST_OF_A_CYCLE
from reconstruct.traffic import Traffic

if TYPE_CHECKING:
    from collector.inventory import Inventory
    from patterns.live import LiveJob
    from reconstruct.bins import Progress

MOST_PENDING: Final = 20  # with most samples
HEARD: Final = 20  # samples to an endpoint: had it sent as much, it would have been seen sending


@dataclass(frozen=True, slots=True)
class Pending:
    """Endpoints that repeat a cycle together and are not told of as a job.

    Parameters
    ----------
    endpoints, connections : int
    first : str
        The lowest of its endpoints.
    period_s : float
    turns : int
        How often the cycle was seen.
    samples_per_turn : float
    sightings : int
        Discoveries in a row that found these endpoints.
    studied, shaped : bool
        Whether its structure was looked for, and whether a collective was found.
    longer : bool
        Whether a longer cycle is likely, that has not been seen often enough.
    """

    endpoints: int
    connections: int
    first: str
    period_s: float
    turns: int
    samples_per_turn: float
    sightings: int
    studied: bool
    shaped: bool
    longer: bool


@dataclass(frozen=True, slots=True)
class Doubts:
    """What the last discovery saw; all 0 before the first.

    Parameters
    ----------
    looked_s : float
        Length of the window that was looked at.
    samples : int
        Of data in it, of any class; that of jobs long known is left out.
    storage, management, control : int
        Samples of these classes among them.
    endpoints, connections, doubted : int
        Of candidate traffic in no job; `doubted` counts its samples.
    doubted_s : float
        From the first to the last of those samples.
    only_receiving : int
        Of the endpoints: got many samples, and were never seen to send.
    unnamed : int
        Of the endpoints: the inventory does not know them.
    components : int
        Sets of endpoints that talk, with samples enough to show a cycle at all.
    pending : tuple of Pending
        Those with most samples first.
    """

    looked_s: float
    samples: int
    storage: int
    management: int
    control: int
    endpoints: int
    connections: int
    doubted: int
    doubted_s: float
    only_receiving: int
    unnamed: int
    components: int
    pending: tuple[Pending, ...]


NO_DOUBTS: Final = Doubts(0.0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, ())


def doubts_of(
    progress: Progress,
    traffic: NDArray[np.uint8],
    jobs: Iterable[LiveJob],
    inventory: Inventory,
) -> Doubts:
    """The doubts of a discovery that has just been taken over.

    Parameters
    ----------
    progress : Progress
        What it looked at.
    traffic : uint8[c]
        As `reconstruct.traffic.classify` gives it.
    jobs : iterable of LiveJob
        All that are known; of those without a name, `found` is of this discovery.
    inventory : Inventory
        May be empty.
    """
    jobs = list(jobs)
    connections, bins = progress.connections, progress.bins
    samples = np.bincount(bins.connection, bins.samples, len(connections)).astype(np.int64)
    doubted = (traffic == Traffic.CANDIDATE) & ~_told(progress, jobs)
    doubted &= samples > 0
    src, dst = connections.src[doubted], connections.dst[doubted]
    members = np.union1d(src, dst)
    times = bins.first_ns[doubted[bins.connection]], bins.last_ns[doubted[bins.connection]]
    known = {nic for host in inventory.hosts for nic in host.nics}
    return Doubts(
        looked_s=(progress.window_end_ns - progress.window_start_ns) / 1e9,
        samples=int(samples.sum()),
        storage=int(samples[traffic == Traffic.STORAGE].sum()),
        management=int(samples[traffic == Traffic.MANAGEMENT].sum()),
        control=int(samples[traffic == Traffic.CONTROL].sum()),
        endpoints=len(members),
        connections=int(doubted.sum()),
        doubted=int(samples[doubted].sum()),
        doubted_s=float(times[1].max() - times[0].min()) / 1e9 if len(times[0]) else 0.0,
        only_receiving=_only_receiving(progress, samples, members, doubted),
        unnamed=sum(progress.endpoints.names[member] not in known for member in members),
        components=_components(src, dst, samples[doubted], len(progress.endpoints)),
        pending=_pending(progress, samples, jobs),
    )


def _told(progress: Progress, jobs: Iterable[LiveJob]) -> NDArray[np.bool_]:
    """Connections inside a job that has a name; bool[c]."""
    told = np.zeros(len(progress.connections), np.bool_)
    for job in jobs:
        if job.id:
            member = np.isin(progress.endpoints.key, job.keys)
            told |= member[progress.connections.src] & member[progress.connections.dst]
    return told


def _only_receiving(
    progress: Progress,
    samples: NDArray[np.int64],
    members: NDArray[np.int32],
    doubted: NDArray[np.bool_],
) -> int:
    connections, count = progress.connections, len(progress.endpoints)
    got = np.bincount(connections.dst[doubted], samples[doubted], count)
    # Whatever it sends, as clear-to-send, shows that its side is sampled.
    sent = np.bincount(connections.src, samples, count)
    return int(((got[members] >= HEARD) & (sent[members] == 0)).sum())


def _components(
    src: NDArray[np.int32], dst: NDArray[np.int32], samples: NDArray[np.int64], count: int
) -> int:
    if not len(src):
        return 0
    graph = coo_array((np.ones(len(src)), (src, dst)), shape=(count, count))
    _, label = connected_components(graph, directed=False)
    return int((np.bincount(label[src], samples) >= FEWEST_OF_A_CYCLE).sum())


def _pending(
    progress: Progress, samples: NDArray[np.int64], jobs: Iterable[LiveJob]
) -> tuple[Pending, ...]:
    found = []
    for job in jobs:
        if job.id:
            continue
        turns = max(len(job.found.turns_ns) - 1, 1)
        found.append(
            Pending(
                endpoints=len(job.found.endpoints),
                connections=len(job.found.connections),
                first=progress.endpoints.names[int(job.found.endpoints[0])],
                period_s=job.found.period.seconds,
                turns=turns,
                samples_per_turn=float(samples[job.found.connections].sum()) / turns,
                sightings=job.sightings,
                studied=job.studied_ns > 0,
                shaped=job.result is not None,
                longer=job.found.period.longer > LONGER,
            )
        )
    found.sort(key=lambda pending: -pending.samples_per_turn * pending.turns)
    return tuple(found[:MOST_PENDING])
