"""Results made by hand, as `patterns` would give them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from collector.schema import (
    ABSENT_U8,
    ABSENT_U32,
    CounterBatch,
    DecodeError,
    ExporterHealth,
    FlowBatch,
    Telemetry,
    TimeBasis,
)
from patterns.result import (
    Algorithm,
    Analysis,
    Anomaly,
    Channel,
    Claim,
    Edge,
    EdgeVolume,
    Group,
    Hint,
    Iteration,
    JobResult,
    Parallelism,
    Rank,
    Subject,
    Unassigned,
)

START_NS: Final = 1_796_041_140_449_747_801
SECOND_NS: Final = 1_000_000_000
RAILS: Final = 2
HOSTS: Final = ("gpu-001", "gpu-002", "gpu-003", "gpu-004")
SURE: Final = Claim(0.97, "by shape", 1200)


def address(host: int, rail: int) -> str:
    return f"10.0.{rail}.{host + 1}"


def ring_group(hosts: Sequence[int], rail: int, name: str = "dp") -> Group:
    members = tuple(address(host, rail) for host in hosts)
    edges: tuple[Edge, ...] = tuple(zip(members, members[1:] + members[:1], strict=True))
    return Group(
        id=f"{name}-{rail}",
        kind="dp",
        members=members,
        edges=edges,
        bytes_per_iteration=1.234e9,
        collective="all_reduce",
        algorithm="ring",
        algorithms=(
            Algorithm("ring", "ring", "all_reduce", 1.0, (Channel(members, None, edges),)),
        ),
        confidence=0.97,
        evidence={"members": SURE, "kind": SURE, "order": SURE},
    )


def chain_group(hosts: Sequence[int], rail: int) -> Group:
    members = tuple(address(host, rail) for host in hosts)
    down = tuple(pairwise(members))
    edges: tuple[Edge, ...] = down + tuple((dst, src) for src, dst in down)
    return Group(
        id=f"pp-{rail}-{hosts[0]}",
        kind="pp",
        members=members,
        edges=edges,
        bytes_per_iteration=3.2e7,
        collective="send_recv",
        algorithm="chain",
        algorithms=(Algorithm("chain", None, "send_recv", 1.0, (Channel(members, None, edges),)),),
        confidence=0.93,
        evidence={"members": SURE},
    )


def tree_group(parents: Sequence[dict[str, str]], members: tuple[str, ...]) -> Group:
    channels = []
    for parent in parents:
        up: tuple[Edge, ...] = tuple(sorted(parent.items()))
        channels.append(Channel(None, parent, up + tuple((dst, src) for src, dst in up)))
    return Group(
        id="dp-tree",
        kind="dp",
        members=members,
        edges=tuple(sorted({edge for channel in channels for edge in channel.edges})),
        bytes_per_iteration=None,
        collective="all_reduce",
        algorithm="tree",
        algorithms=(Algorithm("tree", "double_binary_tree", "all_reduce", 1.0, tuple(channels)),),
        confidence=0.9,
        evidence={},
    )


def iterations(durations_s: Sequence[float], *, cut_first: bool = True) -> tuple[Iteration, ...]:
    made = []
    start = START_NS
    for index, duration in enumerate(durations_s):
        end = start + round(duration * SECOND_NS)
        complete = not (cut_first and index == 0)
        made.append(Iteration(index, start, end, 5e9 if complete else None, complete, True))
        start = end
    return tuple(made)


def job(**changes: object) -> JobResult:
    """Four hosts with two NICs each: two dp rings of four, whose sizes stay open."""
    steps = iterations([0.4, 1.0, 1.01, 0.99, 1.0, 1.55, 1.0])
    endpoints = tuple(address(h, rail) for rail in range(RAILS) for h in range(len(HOSTS)))
    values: dict[str, object] = {
        "id": "job-1",
        "name": None,
        "user": None,
        "source": "inferred",
        "status": "training",
        "hosts": HOSTS,
        "endpoints": endpoints,
        "started_at_ns": START_NS,
        "ended_at_ns": None,
        "confidence": 0.96,
        "evidence": {"endpoints": SURE, "period": SURE},
        "parallelism": Parallelism(
            dp=None,
            tp=None,
            pp=1,
            cp=1,
            ep=1,
            candidates=({"dp": 4, "tp": 2}, {"dp": 8}),
            basis={"dp": "tp inside the hosts draws the same rings", "tp": "never on the wire"},
            confidence=0.9,
        ),
        "groups": tuple(ring_group([0, 2, 1, 3], rail) for rail in range(RAILS)),
        "ranks": tuple(
            Rank(address(h, rail), HOSTS[h], {"dp": h}, 0.001, {"dp": 0.5})
            for rail in range(RAILS)
            for h in range(len(HOSTS))
        ),
        "edges": (EdgeVolume(address(0, 0), address(2, 0), 6.1e9, 6.3e9, 6.2e9, 410, 2),),
        "hints": {
            "gradient_bytes": Hint(1.5e9, 1e9, 2e9, Claim(0.75, "rings move them twice", 1200)),
            "micro_batches": Hint(8, 8, 8, Claim(0.7, "8 bursts in 6 of 6 links", 300)),
        },
        "period_s": 1.0,
        "period_ci_s": (0.998, 1.002),
        "iterations": steps,
        "anomalies": (
            Anomaly(
                id="slow-5",
                kind="slow_iteration",
                severity="warning",
                start_ns=steps[5].start_ns,
                end_ns=steps[5].end_ns,
                verdict="undecided",
                subjects=(Subject("job", "job-1"),),
                summary="iteration 5 took 1.55 s, 55 % longer than usual",
                evidence={"ratio": 1.55, "samples": 900},
                confidence=0.95,
            ),
        ),
    }
    return JobResult(**{**values, **changes})  # type: ignore[arg-type]


def analysis(*jobs: JobResult) -> Analysis:
    return Analysis(
        window_start_ns=START_NS,
        window_end_ns=START_NS + 8 * SECOND_NS,
        jobs=jobs,
        unassigned=Unassigned(1.5e6, ("10.9.0.1",), {"storage": 1.4e6, "unknown": 1e5}),
    )


def telemetry(errors: tuple[DecodeError, ...] = ()) -> Telemetry:
    flows = FlowBatch.empty(4)
    flows.opcode[:] = [0x06, 0x06, 0x0A, ABSENT_U8]
    flows.dest_qp[:] = [7, 7, 9, ABSENT_U32]
    flows.dst_lo[:] = [1, 2, 2, 3]
    counters = CounterBatch(
        *(
            np.zeros(0, kind)
            for kind in (
                "i8",
                "i4",
                "u4",
                "u8",
                "u4",
                "u8",
                "u4",
                "u4",
                "u4",
                "u8",
                "u4",
                "u4",
                "u4",
            )
        )
    )
    return Telemetry(
        flows=flows,
        counters=counters,
        exporters=(
            ExporterHealth(
                "10.255.0.1", 100000, "sflow5", 3, 4, 2, 1, 0, (1000,), TimeBasis.EXPORTER, "ok"
            ),
        ),
        errors=errors,
        datagrams=3,
        flow_samples=4,
        counter_samples=2,
        lost_datagrams=1,
        decode_errors=sum(error.count for error in errors),
    )
