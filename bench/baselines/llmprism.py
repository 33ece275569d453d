"""LLMPrism's jobs, kinds of pairs and timelines, from flow records.

Jiang et al., "LLMPrism: Black-box Performance Diagnosis for Production LLM Training Platforms",
DSN 2025 (arXiv:2505.00342). Only the abstract and the first half of Algorithm 1 (union-find, then
the servers of each cluster) were at hand when this was written. Which clusters of servers are
merged, how flows are divided into steps and how sizes tell kinds apart follow what is known of the
paper and were not checked against its text. Where something was open, it was chosen in the method's
favour; each such choice is named where it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.baselines.change_points import change_points
from bench.baselines.flow_records import F64, I64, Ends, FlowRecords

SHORTEST_S: Final = 1e-3  # pauses below this count as this: they tell of the network, not of steps
FEWEST: Final = 5  # steps in a capture
WHOLE: Final = 0.95  # of the usual bytes make a whole step
ALIKE: Final = 1.15  # pauses of one kind have neighbours within this factor


@dataclass(frozen=True, slots=True)
class Job:
    """Endpoints (numbers of `Ends`), and when its steps end, in seconds, ascending.

    The last flows of the records end a step only where they carry what a step does: else the
    window cut it.
    """

    endpoints: I64
    step_ends_s: F64


def jobs(records: FlowRecords, ends: Ends) -> list[Job]:
    """All jobs of the records, each with its timeline."""
    known = records.take(
        records.roce & (ends.server[records.src] >= 0) & (ends.server[records.dst] >= 0)
    )
    found = []
    for members in recognise(known, ends.server):
        mine = known.take(np.isin(known.src, members))
        found.append(Job(members, step_ends(mine)))
    return found


def recognise(records: FlowRecords, server: I64) -> list[I64]:
    """Which endpoints are one job: those that communicate, then clusters on the same servers.

    Returns
    -------
    The endpoints of each job, int64, ascending.

    Notes
    -----
    Algorithm 1 of the paper: union-find over the flows between GPUs, then clusters are merged by
    their servers, since tensor parallelism inside a server joins them unseen. Here those whose
    servers are equal.
    """
    edges = np.unique(np.stack([records.src, records.dst], axis=1), axis=0)
    root = unite(edges, len(server))
    used = np.unique(edges)
    by_servers: dict[tuple[int, ...], list[I64]] = {}
    for cluster in np.unique(root[used]):
        members = used[root[used] == cluster]
        by_servers.setdefault(tuple(np.unique(server[members]).tolist()), []).append(members)
    return [np.sort(np.concatenate(clusters)) for clusters in by_servers.values()]


def unite(edges: I64, count: int) -> I64:
    """The set each of `count` elements is in after the union of both ends of every edge."""
    parent = np.arange(count)

    def find(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = int(parent[x])
        return x

    for a, b in edges.tolist():
        parent[find(a)] = find(b)
    return np.array([find(x) for x in range(count)], np.int64)


def step_ends(records: FlowRecords) -> F64:
    """When the steps of one job end, from the change points between its flows.

    Notes
    -----
    A pair's flows fall into steps at the change points of the time between them; a pair is data
    parallel where a step holds flows of several sizes, and so is a pair between two that data
    parallel pairs connect; a rank's step ends with its last data parallel flow.
    """
    pair, place = np.unique(
        np.stack([records.src, records.dst], axis=1), axis=0, return_inverse=True
    )
    order = np.lexsort((records.start_s, place))
    bounds = np.flatnonzero(np.diff(place[order], prepend=-1))
    flows = np.split(order, bounds[1:])
    steps = divide(records, flows)
    parallel = data_parallel(records, pair, flows, steps)
    counts = np.array([len(s) for s in steps])
    # The method tells one timeline per rank. The job's is that of the pairs that agree on how many
    # steps there were, by their bytes (a few pairs hold only what small collectives send), each
    # step ending with the last of them.
    volume = np.array([records.size[rows].sum() for rows in flows])
    usual = int(np.argmax(np.bincount(counts[parallel], volume[parallel])))
    agreeing = [k for k in np.flatnonzero(parallel) if counts[k] == usual]
    parts = [[flows[k][part] for part in steps[k]] for k in agreeing]
    last = np.array([[records.end_s[rows].max() for rows in of] for of in parts], np.float64)
    moved = np.array([[records.size[rows].sum() for rows in of] for of in parts]).sum(axis=0)
    reached: F64 = last.max(axis=0)
    return reached if moved[-1] >= WHOLE * np.median(moved) else reached[:-1]


def divide(records: FlowRecords, flows: list[I64]) -> list[list[slice]]:
    """The steps of each pair, as slices of its flows."""
    intervals = []
    for rows in flows:
        reached = np.maximum.accumulate(records.end_s[rows])
        pause = records.start_s[rows][1:] - reached[:-1]
        intervals.append(np.log(np.maximum(pause, SHORTEST_S)))
    divided = []
    for rows, pause, begins in zip(flows, intervals, change_points(intervals), strict=True):
        cuts = longest_pauses(pause, begins) + 1
        edges = [0, *cuts.tolist(), len(rows)]
        divided.append([slice(a, b) for a, b in pairwise(edges)])
    return divided


def longest_pauses(pause: F64, begins: NDArray[np.bool_]) -> I64:
    """Change points that divide steps: those to longer pauses, of the longest usual kind.

    A change point to shorter pauses is the way back. Of several kinds of pause (between
    micro-batches, buckets, steps) one must be chosen: here the longest of
    which there are `FEWEST`, and whatever is longer still.
    """
    rising = np.flatnonzero(begins[1:] & (np.diff(pause) > 0)) + 1
    if len(rising) < FEWEST:
        return rising
    ranked = np.sort(pause[rising])[::-1]
    other = np.flatnonzero(-np.diff(ranked[FEWEST - 1 :]) > np.log(ALIKE))
    shortest = ranked[FEWEST - 1 + other[0]] if len(other) else ranked[-1]
    return np.asarray(rising[pause[rising] >= shortest], np.int64)


def data_parallel(
    records: FlowRecords, pair: I64, flows: list[I64], steps: list[list[slice]]
) -> NDArray[np.bool_]:
    """Which pairs reduce gradients; all of them where none is told apart.

    By the sizes of flows in a step: several where gradients go, one where activations go. The mode
    over the steps decides; then every pair within a set that such pairs connect is one too.
    """
    several = np.array(
        [
            _mode(np.array([len(np.unique(records.size[rows[part]])) for part in parts])) > 1
            for rows, parts in zip(flows, steps, strict=True)
        ],
        np.bool_,
    )
    if not several.any():
        return np.ones(len(pair), np.bool_)
    root = unite(pair[several], int(pair.max()) + 1)
    return np.asarray(root[pair[:, 0]] == root[pair[:, 1]], np.bool_)


def _mode(values: NDArray[np.int64]) -> int:
    found, count = np.unique(values, return_counts=True)
    return int(found[np.argmax(count)])
