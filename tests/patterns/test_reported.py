"""What people reported of tools that watch RDMA in hosts, or take queue pairs for edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from collector.inventory import Inventory
from collector.schema import CounterBatch, FlowBatch, Telemetry
from patterns.analyse import analyse_window
from patterns.result import Group
from tests.reconstruct.made import START_NS, S, address, telemetry
from tests.reconstruct.rhythm import PER_TURN, cuts, repeated

MEMBERS = (1, 3, 5, 7)
TURNS = 20


def ring(queue_pairs: int) -> Telemetry:
    """Four hosts in a ring, each connection spread over so many queue pairs."""
    rng = np.random.default_rng(5)
    turns = cuts(1.1, TURNS, 0.005, rng)
    found: list[FlowBatch] = []
    for src, dst in pairwise([*MEMBERS, MEMBERS[0]]):
        for number in range(queue_pairs):
            batch = repeated(turns, src, dst, rng, per_turn=PER_TURN // queue_pairs)
            qp = np.full(len(batch), src * 1000 + number, np.uint32)
            port = np.full(len(batch), 49_152 + number, np.uint16)
            found.append(replace(batch, dest_qp=qp, src_port=port))
    return telemetry(*found)


def groups(seen: Telemetry) -> Sequence[Group]:
    (job,) = analyse_window(seen, Inventory()).jobs
    assert set(job.endpoints) == {address(member) for member in MEMBERS}
    return job.groups


def test_four_queue_pairs_between_two_hosts_are_one_edge() -> None:
    # Mellanox/nccl-rdma-sharp-plugins#76, NVIDIA/nccl#2150: NCCL_IB_QPS_PER_CONNECTION spreads one
    # connection over several queue pairs and UDP ports. The ring is no longer for that.
    (one,) = groups(ring(1))
    (four,) = groups(ring(4))
    edges = [(address(src), address(dst)) for src, dst in pairwise([*MEMBERS, MEMBERS[0]])]
    for group in (one, four):
        assert (group.algorithm, sorted(group.edges)) == ("ring", sorted(edges))
    assert four.bytes_per_iteration == pytest.approx(one.bytes_per_iteration, rel=0.01)


def test_a_host_that_counts_nothing_is_not_idle() -> None:
    # Mellanox/libvma#1036, the-tcpdump-group/libpcap#585, wentbackward/nv-monitor#41: RDMA passes
    # by the kernel of a host, whose counters stand still while its card sends at full speed.
    seen = ring(1)
    still = CounterBatch.empty(len(MEMBERS) * TURNS)
    still.time_ns[:] = START_NS + np.repeat(np.arange(TURNS), len(MEMBERS)) * S
    still.exporter[:] = np.tile(np.arange(1, 1 + len(MEMBERS)), TURNS)
    still.ifindex[:] = 2
    assert groups(replace(seen, counters=still)) == groups(seen)
