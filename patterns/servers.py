"""Servers: endpoints that only serve a job, where flow records do not tell how they are asked.

Samples show the verbs of RDMA, and `reconstruct.traffic` knows storage by them. Records show who
sends to whom.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.groups import Found
from reconstruct.bins import Progress, Verb
from reconstruct.edges import Flows
from reconstruct.jobs import Candidate

FEWEST_CLIENTS: Final = 3


def is_star(flows: Flows, rows: NDArray[np.intp]) -> bool:
    """Whether all of some connections have one end in common.

    A server and its clients draw that: by volumes that differ a little, now some of them look like
    a group and now others.
    """
    ends = [frozenset(pair) for pair in zip(flows.src[rows], flows.dst[rows], strict=True)]
    hubs = frozenset.intersection(*ends)
    return len(hubs) == 1 and len(set(ends)) >= FEWEST_CLIENTS


def without_servers(progress: Progress, candidate: Candidate, found: list[Found]) -> Candidate:
    """The candidate without recorded endpoints of no group that talk with members of groups only.

    Endpoints whose shape is not recognised talk with each other, as members of one collective do.
    """
    members = np.unique([v for f in found for v in f.shape.members]).astype(np.int64)
    connections = progress.connections
    src, dst = connections.src[candidate.connections], connections.dst[candidate.connections]
    recorded = (connections.verbs[candidate.connections] & Verb.RECORDED) != 0
    to_none = ~(np.isin(src, members) | np.isin(dst, members))
    talking = np.concatenate([members, src[to_none | ~recorded], dst[to_none | ~recorded]])
    kept = np.isin(candidate.endpoints, talking)
    if kept.all() or not len(members):
        return candidate
    endpoints = candidate.endpoints[kept]
    inside = np.isin(src, endpoints) & np.isin(dst, endpoints)
    return replace(candidate, endpoints=endpoints, connections=candidate.connections[inside])
