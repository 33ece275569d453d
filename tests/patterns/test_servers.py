"""Endpoints that only serve a job, in flow records without verbs."""

from __future__ import annotations

import numpy as np
import pytest

from collector.inventory import Inventory
from collector.records import RecordBatch
from collector.schema import CounterBatch, FlowBatch, Telemetry
from patterns.analyse import analyse_window
from patterns.groups import Found, recognise
from patterns.layers import split
from patterns.result import JobResult
from patterns.servers import is_star
from reconstruct.edges import Flows
from tests.patterns.made import MIB, Wire, flows_of, rows
from tests.reconstruct.recorded import EXPORTER, joined, roce

MEMBERS = [f"10.0.0.{n}" for n in range(1, 7)]
SERVER, OTHER = "10.9.0.1", "10.9.0.2"
TURN_MS, TURNS = 1000, 30


def ring(burst_ms: float = 200) -> RecordBatch:
    """Six endpoints that pass on as much once a turn."""
    edges = zip(MEMBERS, [*MEMBERS[1:], MEMBERS[0]], strict=True)
    return roce(
        [
            (src, dst, turn * TURN_MS, turn * TURN_MS + burst_ms, 50_000)
            for src, dst in edges
            for turn in range(TURNS)
        ]
    )


def reads(server: str, packets: int = 3_000) -> RecordBatch:
    """What a server sends to each member, now and then."""
    rng = np.random.default_rng(3)
    moments = [(member, rng.uniform(0, TURNS * TURN_MS)) for member in MEMBERS for _ in range(9)]
    return roce([(server, member, at, at + 30, packets) for member, at in moments])


def analysed(inventory: Inventory, *records: RecordBatch) -> tuple[JobResult, ...]:
    whole = joined(records)
    telemetry = Telemetry(
        flows=FlowBatch.empty(),
        counters=CounterBatch.empty(),
        exporters=(EXPORTER,),
        errors=(),
        datagrams=1,
        flow_samples=0,
        counter_samples=0,
        lost_datagrams=0,
        decode_errors=0,
        records=whole,
        flow_records=len(whole),
    )
    return analyse_window(telemetry, inventory).jobs


@pytest.mark.parametrize("burst_ms", [200, 999])  # with a rhythm, and without one
def test_a_server_is_no_member(burst_ms: float) -> None:
    (job,) = analysed(Inventory(), ring(burst_ms), reads(SERVER), reads(OTHER))
    assert set(job.endpoints) == set(MEMBERS)
    assert {edge.src for edge in job.edges} == set(MEMBERS)


def test_endpoints_of_no_group_that_talk_with_each_other_stay() -> None:
    between = roce(
        [(SERVER, OTHER, turn * TURN_MS, turn * TURN_MS + 30, 900) for turn in range(TURNS)]
    )
    (job,) = analysed(Inventory(), ring(), reads(SERVER), reads(OTHER), between)
    assert {SERVER, OTHER} <= set(job.endpoints)


def test_a_server_that_carries_most_is_no_job() -> None:
    assert analysed(Inventory(), ring(), reads(SERVER, packets=900_000)) == ()


def drawn(*pairs: tuple[int, int, float]) -> tuple[Flows, list[Found]]:
    """What is recognised of links that are used both ways."""
    flows = flows_of([Wire(*ends, volume) for u, v, volume in pairs for ends in ((u, v), (v, u))])
    return flows, recognise(flows, split(flows, rows(flows), {}))


def test_clients_of_one_server_that_look_like_two_groups_are_no_job() -> None:
    flows, found = drawn((0, 1, 200 * MIB), (0, 2, 60 * MIB), (0, 3, 60 * MIB))
    assert len(found) == 2
    assert is_star(flows, rows(flows))


def test_a_path_and_what_lies_across_it_is_no_star() -> None:
    flows, _ = drawn((1, 0, 60 * MIB), (0, 2, 60 * MIB))
    assert not is_star(flows, rows(flows))
    flows, found = drawn((0, 1, 200 * MIB), (2, 3, 200 * MIB), (0, 2, 60 * MIB), (1, 3, 60 * MIB))
    assert len(found) > 1
    assert not is_star(flows, rows(flows))
