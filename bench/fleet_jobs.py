"""The jobs of a fleet: which connections each opens, and how much every one carries per iteration.

Tensor parallel groups stay inside a host, so a rail is a communicator: its ring or its double
binary tree runs over the hosts of a pipeline stage, and a chain joins the stages. Left out are
clear-to-send writes, acknowledgements and small all-reduces, some two packets in a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from bench.fleet_places import RAILS, Place
from fixtures.trace import WireGroup
from fixtures.workload.connections import ConnectionTable
from fixtures.workload.nccl import (
    P2P_SIMPLE,
    RING_SIMPLE,
    ROOT,
    TREE_SIMPLE,
    ring_edges,
    tree_a,
    tree_b,
)
from fixtures.workload.rates import dp_share, line_rate_bps

MTU_BYTES: Final = 4096
NIC_GBPS: Final = 400
PERIOD_S: Final = (1.5, 6.0)
BURST_SHARE: Final = (0.15, 0.35)  # of the period, in which gradients are on the wire
BURST_SHARE_STAGED: Final = (0.08, 0.2)  # a stage holds a part of the model only
OPTIMISER_SHARE: Final = (0.01, 0.05)
PIPELINE_LIKELY: Final = 0.8  # of the jobs whose hosts make two stages of two
TREE_LIKELY: Final = 0.25  # of the others with at least three hosts
CHANNELS: Final = 2  # connections of an edge; of a tree one for each half
CHAIN_VOLUME: Final = (0.06, 0.12)  # of a NIC's gradients, one way, in all micro-batches
MICRO_BATCHES: Final = 8


@dataclass(frozen=True, slots=True)
class Flow:
    """What one connection does in every iteration.

    Attributes
    ----------
    connection, group
        Numbers in the fleet's tables.
    packets
        Of one transfer: of the gradient burst, or of one micro-batch.
    message_packets
        Of one message; divides `packets`.
    step
        0 for gradients; s + 1 from stage s to the next one, -(s + 1) back to stage s.
    """

    connection: int
    group: int
    packets: int
    message_packets: int
    step: int

    @property
    def times(self) -> int:
        """Transfers in one iteration."""
        return MICRO_BATCHES if self.step else 1


@dataclass(frozen=True, slots=True)
class Job:
    """A job as drawn; times in seconds.

    Attributes
    ----------
    name, place
        Who and where.
    stages
        Of its pipeline; 1 without one.
    period_s, burst_s, optimiser_s
        A nominal iteration: computing, then the gradients for `burst_s`, then the optimiser.
    flows
        Its connections.
    """

    name: str
    place: Place
    stages: int
    period_s: float
    burst_s: float
    optimiser_s: float
    flows: tuple[Flow, ...]

    @property
    def packets(self) -> int:
        """Of all its connections, in one iteration."""
        return sum(flow.packets * flow.times for flow in self.flows)


def draw_job(
    number: int,
    place: Place,
    table: ConnectionTable,
    groups: list[WireGroup],
    rng: np.random.Generator,
) -> Job:
    """Draw one job and open its connections.

    Parameters
    ----------
    number, place
        Which job, and where it runs.
    table, groups
        Receive the connections and the groups; endpoints are numbered host by host.
    """
    hosts = len(place.hosts)
    stages = 1
    if hosts % 2 == 0 and hosts >= 4 and rng.random() < PIPELINE_LIKELY:
        stages = 4 if hosts >= 16 else 2
    tree = stages == 1 and hosts >= 3 and bool(rng.random() < TREE_LIKELY)
    period_s = float(rng.uniform(*PERIOD_S))
    burst_s = period_s * float(rng.uniform(*(BURST_SHARE_STAGED if stages > 1 else BURST_SHARE)))
    nic_bytes = burst_s * dp_share(stages) * line_rate_bps(NIC_GBPS)
    ends = np.array(place.hosts)[:, None] * RAILS + np.array(place.rails)
    flows: list[Flow] = []
    for stage, nodes in enumerate(np.split(ends, stages)):
        for rail, members in enumerate(nodes.T.tolist()):
            communicator = 2 * (stage * RAILS + rail)
            channels = _trees(members) if tree else [ring_edges(hosts // stages)] * CHANNELS
            protocol = TREE_SIMPLE if tree else RING_SIMPLE
            busiest = max(np.bincount([a for edges in channels for a, _ in edges]))
            message = protocol.message_bytes // MTU_BYTES
            packets = max(int(nic_bytes / busiest / protocol.message_bytes), 1) * message
            group = len(groups)
            groups.append(_gradient_group(number, members, channels, tree=tree))
            for channel, edges in enumerate(channels):
                for a, b in edges:
                    made = table.nccl(communicator, members[a], members[b], channel, 0)
                    flows.append(Flow(made, group, packets, message, 0))
    message = P2P_SIMPLE.message_bytes // MTU_BYTES
    chained = float(rng.uniform(*CHAIN_VOLUME)) * nic_bytes / MICRO_BATCHES
    packets = max(int(chained / P2P_SIMPLE.message_bytes), 1) * message
    lines = np.array(np.split(ends, stages)).reshape(stages, -1).T if stages > 1 else ()
    for index, line in enumerate(lines):
        group = len(groups)
        groups.append(_chain_group(number, line.tolist()))
        for stage, (a, b) in enumerate(pairwise(line.tolist())):
            for src, dst, step in ((a, b, stage + 1), (b, a, -stage - 1)):
                made = table.nccl(2 * index + 1, src, dst, 0, 1)
                flows.append(Flow(made, group, packets, message, step))
    return Job(
        f"job-{number:02d}",
        place,
        stages,
        period_s,
        burst_s,
        period_s * float(rng.uniform(*OPTIMISER_SHARE)),
        tuple(flows),
    )


def _trees(members: list[int]) -> list[list[tuple[int, int]]]:
    """Edges of NCCL's two trees over the members, by place, data flowing up and down."""
    both = []
    for parents in (tree_a(len(members)), tree_b(len(members))):
        up = [(node, parent) for node, parent in enumerate(parents) if parent != ROOT]
        both.append(up + [(parent, node) for node, parent in up])
    return both


def _gradient_group(
    job: int, members: list[int], channels: list[list[tuple[int, int]]], *, tree: bool
) -> WireGroup:
    drawn: list[dict[str, object]] = []
    every: dict[tuple[int, int], None] = {}
    for places in channels if tree else channels[:1]:
        edges = [(members[a], members[b]) for a, b in places]
        every |= dict.fromkeys(edges)
        up = dict(edges[: len(edges) // 2]) if tree else None
        drawn.append({"order": None if tree else members, "parent": up, "edges": edges})
    return WireGroup(
        job,
        "dp",
        "tree" if tree else "ring",
        "double_binary_tree" if tree else None,
        "all_reduce",
        tuple(members),
        tuple(every),
        tuple(drawn),
    )


def _chain_group(job: int, line: list[int]) -> WireGroup:
    edges = tuple(edge for a, b in pairwise(line) for edge in ((a, b), (b, a)))
    chain: dict[str, object] = {"order": line, "parent": None, "edges": edges}
    return WireGroup(job, "pp", "chain", None, "send_recv", tuple(line), edges, (chain,))
