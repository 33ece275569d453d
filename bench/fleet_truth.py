"""The truth of a fleet: what it is, known before the first datagram leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from bench.compare import Document
from bench.fleet_jobs import MTU_BYTES, Job
from fixtures.fabric import Fabric
from fixtures.trace import WireGroup
from fixtures.truth import time_text
from fixtures.workload.ranks import Sizes, same_edges


@dataclass(frozen=True, slots=True)
class TrueJob:
    """What is true of one job.

    Attributes
    ----------
    name, hosts, endpoints
        Who it is and where; names of hosts and addresses of NICs.
    groups
        As the result schema writes them: kind, algorithm, members, edges, rings in order, trees,
        chains by stage, and bytes per iteration.
    edges
        (source, destination, bytes per iteration), all groups together.
    sizes
        Of its parallel dimensions.
    ends_ns
        int64 (n,), ends of its iterations, ns since the fleet's start: the first at or before 0,
        the last at or after the fleet's end. An iteration runs from one to the next.
    """

    name: str
    hosts: tuple[str, ...]
    endpoints: tuple[str, ...]
    groups: tuple[Document, ...]
    edges: tuple[tuple[str, str, float], ...]
    sizes: Sizes
    ends_ns: NDArray[np.int64]

    def period_s(self, end_ns: int) -> float | None:
        """Median duration of the iterations that are whole between 0 and `end_ns`."""
        whole = self.ends_ns[(self.ends_ns >= 0) & (self.ends_ns <= end_ns)]
        return median(np.diff(whole).tolist()) / 1e9 if len(whole) > 1 else None


def true_job(
    job: Job,
    groups: Sequence[WireGroup],
    connections: NDArray[np.void],
    fabric: Fabric,
    ends_s: NDArray[np.float64],
) -> TrueJob:
    """The truth of one job; `groups` and `connections` are the fleet's."""
    names = [e.address for e in fabric.endpoints]
    rails = len(job.place.rails)
    nics = len(fabric.endpoints) // len({e.host for e in fabric.endpoints})
    ends = [host * nics + rail for host in job.place.hosts for rail in job.place.rails]
    edges: dict[tuple[str, str], float] = {}
    volume: dict[int, float] = {}
    for flow in job.flows:
        row = connections[flow.connection]
        sent = float(flow.packets * flow.times * MTU_BYTES)
        edge = names[row["src"]], names[row["dst"]]
        edges[edge] = edges.get(edge, 0.0) + sent
        volume[flow.group] = volume.get(flow.group, 0.0) + sent
    counts: dict[str, int] = {}
    documents = []
    for number, sent in volume.items():
        kind = groups[number].kind
        counts[kind] = counts.get(kind, -1) + 1
        documents.append(_group(groups[number], f"{kind}-{counts[kind]}", sent, names))
    return TrueJob(
        job.name,
        tuple(fabric.endpoints[host * nics].host for host in job.place.hosts),
        tuple(names[e] for e in ends),
        tuple(documents),
        tuple((src, dst, sent) for (src, dst), sent in edges.items()),
        # A tensor parallel group for each host of a job: a rail carries one of its ranks.
        Sizes(tp=rails, pp=job.stages, dp=len(job.place.hosts) // job.stages),
        np.rint(ends_s * 1e9).astype(np.int64),
    )


def document(jobs: Sequence[TrueJob], seed: int, start_ns: int, end_ns: int) -> Document:
    """The truth of the time between two moments, by the result schema.

    Parameters
    ----------
    start_ns
        When the fleet started, ns since the epoch.
    end_ns
        When its last sample was taken at the latest, ns since the fleet's start.
    """
    return {
        "schema_version": 1,
        "scenario": "fleet",
        "seed": seed,
        "window": {"start": time_text(start_ns), "end": time_text(start_ns + end_ns)},
        "jobs": [_job(job, start_ns, end_ns) for job in jobs],
        "unassigned": {"bytes": 0, "endpoints": [], "by_class": {}},
    }


def _job(job: TrueJob, start_ns: int, end_ns: int) -> Document:
    sizes = {"dp": job.sizes.dp, "tp": job.sizes.tp, "pp": job.sizes.pp, "cp": 1, "ep": 1}
    # An iteration that the window cuts is told from its first moment to its last.
    cuts = np.clip(job.ends_ns, 0, end_ns)
    last = int(np.searchsorted(job.ends_ns, end_ns))
    total = sum(sent for _, _, sent in job.edges)
    iterations = []
    for index, (low, high) in enumerate(
        zip(cuts[:last].tolist(), cuts[1 : last + 1].tolist(), strict=True)
    ):
        complete = bool(job.ends_ns[index] >= 0 and job.ends_ns[index + 1] <= end_ns)
        iterations.append(
            {
                "index": index,
                "start": time_text(start_ns + low),
                "end": time_text(start_ns + high),
                "duration_s": (high - low) / 1e9,
                "bytes": total if complete else None,
                "complete": complete,
            }
        )
    return {
        "id": job.name,
        "name": job.name,
        "status": "training",
        "hosts": list(job.hosts),
        "endpoints": list(job.endpoints),
        "parallelism": {**sizes, "candidates": list(same_edges(job.sizes, job.sizes.tp))},
        "groups": list(job.groups),
        "edges": [
            {"src": src, "dst": dst, "bytes_per_iteration": sent} for src, dst, sent in job.edges
        ],
        "period_s": job.period_s(end_ns),
        "iterations": iterations,
    }


def _group(group: WireGroup, name: str, volume: float, names: Sequence[str]) -> Document:
    return {
        "id": name,
        "kind": group.kind,
        "members": [names[e] for e in group.members],
        "edges": [[names[a], names[b]] for a, b in group.edges],
        "bytes_per_iteration": volume,
        "collective": group.collective,
        "algorithm": group.algorithm,
        "algorithms": [
            {
                "algorithm": group.algorithm,
                "variant": group.variant,
                "collective": group.collective,
                "share": 1.0,
                "channels": [_channel(channel, names) for channel in group.channels],
            }
        ],
    }


def _channel(channel: Document, names: Sequence[str]) -> Document:
    order, parent = channel["order"], channel["parent"]
    return {
        "order": [names[e] for e in order] if order else None,
        "parent": {names[a]: names[b] for a, b in parent.items()} if parent else None,
        "edges": [[names[a], names[b]] for a, b in channel["edges"]],
    }
