"""The definition of a job, case by case: what repeats a collective is one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from collector.inventory import Host, Inventory
from collector.records import RecordBatch
from collector.schema import ABSENT_U8, ABSENT_U32, FlowBatch, Transport
from patterns.analyse import analyse_window
from patterns.result import Analysis, JobResult
from tests.patterns.drawn import Edge, both, cycle, double_tree, grid, nccl_trees, path
from tests.patterns.test_servers import analysed
from tests.reconstruct.made import MTU, START_NS, S, address, packets, segments, telemetry
from tests.reconstruct.recorded import roce
from tests.reconstruct.rhythm import PER_TURN, cuts, nanoseconds, repeated

PERIOD_S, TURNS = 1.1, 25


def window(edges: Iterable[Edge], micro_batches: int = 1) -> list[FlowBatch]:
    """All edges repeat the same transfer, together."""
    rng = np.random.default_rng(1)
    turns = cuts(PERIOD_S, TURNS, 0.005, rng)
    return [repeated(turns, src, dst, rng, micro_batches) for src, dst in sorted(edges)]


def said_of(batches: Iterable[FlowBatch]) -> Analysis:
    return analyse_window(telemetry(*batches), Inventory())


def only_job(edges: Iterable[Edge]) -> JobResult:
    [job] = said_of(window(edges)).jobs
    return job


def named(edges: Iterable[Edge]) -> set[tuple[str, str]]:
    return {(address(u), address(v)) for u, v in edges}


RING = cycle([3, 0, 4, 1, 5, 2])
TREES = double_tree(*nccl_trees(12))


def test_a_ring_of_gradients_is_a_job() -> None:
    job = only_job(RING)
    [group] = job.groups
    assert (group.kind, group.algorithm) == ("dp", "ring")
    assert set(group.edges) == named(RING)
    assert job.endpoints == tuple(address(i) for i in range(6))
    assert group.bytes_per_iteration == pytest.approx(PER_TURN * MTU * 6, rel=0.02)


def test_a_double_tree_of_gradients_is_a_job() -> None:
    rng = np.random.default_rng(1)
    turns = cuts(PERIOD_S, TURNS, 0.005, rng)
    batches = [
        repeated(turns, u, v, rng, 1, per_turn=int(trees * PER_TURN))
        for u, v, trees in TREES.edges(data="bytes")
    ]
    [job] = said_of(batches).jobs
    [group] = job.groups
    assert (group.kind, group.algorithm, group.collective) == ("dp", "tree", "all_reduce")
    assert group.algorithms[0].variant == "double_binary_tree"
    assert set(group.edges) == named(TREES.edges)
    assert group.bytes_per_iteration == pytest.approx(4 * 11 * PER_TURN * MTU, rel=0.02)


def test_an_exchange_alone_is_a_job_of_unknown_kind() -> None:
    everyone = {(u, v) for u in range(6) for v in range(6) if u != v}
    [group] = only_job(everyone).groups
    assert (group.kind, group.algorithm) == ("unknown", "all_to_all")
    assert group.collective == "all_to_all"
    assert set(group.edges) == named(everyone)


def test_a_chain_used_both_ways_is_a_job() -> None:
    [group] = only_job(both(path([2, 0, 3, 1]))).groups
    assert group.algorithm == "chain"
    assert list(group.members) in (
        [address(i) for i in (2, 0, 3, 1)],
        [address(i) for i in (1, 3, 0, 2)],
    )


def test_partners_that_take_turns_are_a_recursive_exchange() -> None:
    """The same edges as a grid's, which is none: there, all neighbours send at once."""
    rng = np.random.default_rng(1)
    turns = cuts(PERIOD_S, TURNS, 0.005, rng)
    order = [5, 2, 7, 0, 3, 6, 1, 4]
    edges = [
        (distance, order[rank], order[rank ^ (1 << distance)])
        for distance in range(3)
        for rank in range(8)
    ]
    burst_s = 0.2 * PERIOD_S
    batches = [
        repeated(turns + (distance - 2) * burst_s, src, dst, rng, micro_batches=0)
        for distance, src, dst in edges
    ]
    [job] = said_of(batches).jobs
    [group] = job.groups
    assert (group.kind, group.algorithm) == ("dp", "recursive")
    assert group.algorithms[0].variant == "recursive_doubling"
    assert set(group.edges) == named((src, dst) for _, src, dst in edges)


NO_JOBS: dict[str, Iterable[Edge]] = {
    "grid of neighbours": grid(3, 4),
    "grid that is a cube": grid(4, 4),
    "parameter server": both((0, i) for i in range(1, 9)),
    "readers of one source": [(0, i) for i in range(1, 9)],
    "writers to one sink": [(i, 0) for i in range(1, 9)],
    "one edge": [(0, 1)],
    "short one-way path": path(range(4)),
    "two-way ring": both(cycle(range(6))),
}


@pytest.mark.parametrize("edges", NO_JOBS.values(), ids=NO_JOBS)
def test_what_repeats_without_a_collective_is_no_job(edges: Iterable[Edge]) -> None:
    said = said_of(window(edges))
    assert said.jobs == ()
    ends = {address(v) for edge in edges for v in edge}
    assert set(said.unassigned.endpoints) == ends
    assert said.unassigned.bytes > 0


def some_of(batches: Iterable[FlowBatch], samples: int) -> list[FlowBatch]:
    """So many samples of each connection, in the mean."""
    rng = np.random.default_rng(2)
    return [b.take(rng.random(len(b)) < samples / len(b)) for b in batches]


def test_a_rhythm_of_nccls_writes_is_a_job_also_where_few_samples_draw_nothing() -> None:
    rng = np.random.default_rng(7)
    tangle = {(u, int(v)) for u in range(16) for v in rng.permutation(16)[:5] if u != v}
    batches = window(tangle)
    [job] = said_of(some_of(batches, 12)).jobs
    assert (job.groups, job.parallelism.dp) == ((), None)
    assert len(job.endpoints) == 16
    assert job.confidence <= 0.75
    assert "too few samples" in job.evidence["endpoints"].basis
    assert set(job.parallelism.basis.values()) == {"no group is told"}
    assert job.period_s == pytest.approx(PERIOD_S, rel=0.01)
    assert len(job.iterations) == pytest.approx(TURNS, abs=1)
    # What many samples draw is no collective, and one end that serves all others is a server.
    assert said_of(batches).jobs == ()
    star = both([(0, v) for v in range(1, 16)])
    assert said_of(some_of(window(star), 12)).jobs == ()


def test_steady_transfers_around_a_ring_are_no_job() -> None:
    rng = np.random.default_rng(5)
    batches = []
    for u, v in RING:
        time = np.sort(rng.uniform(0, 25, 2000))
        batches.append(packets(nanoseconds(time), u, v, seq=(time * 5e4).astype(int), dest_qp=u))
    assert said_of(batches).jobs == ()


def test_four_turns_are_no_job() -> None:
    rng = np.random.default_rng(2)
    turns = cuts(PERIOD_S, 4, 0.005, rng)
    assert said_of([repeated(turns, u, v, rng, 1) for u, v in RING]).jobs == ()


def test_a_loop_over_tcp_is_a_job() -> None:
    batches = window(RING)
    like = segments(0, 1, 2)
    for batch in batches:
        for name in ("transport", "protocol", "opcode", "payload_bytes", "frame_bytes"):
            getattr(batch, name)[:] = getattr(like, name)
        batch.dest_qp[:] = ABSENT_U32
        batch.seq[:] *= np.uint32(200)  # bytes now
    [job] = said_of(batches).jobs
    assert set(job.groups[0].edges) == named(RING)
    assert int(like.transport[0]) == Transport.TCP
    assert int(like.opcode[0]) == ABSENT_U8


def test_a_copy_between_two_jobs_belongs_to_neither() -> None:
    rng = np.random.default_rng(3)
    one, two = cuts(1.1, 25, 0.005, rng), cuts(0.83, 33, 0.005, rng)
    other = [(u + 10, v + 10) for u, v in RING]
    time = np.sort(rng.uniform(4, 9, 400))
    seq = (time * 1e5).astype(np.int64)
    copy = packets(nanoseconds(time), 3, 13, seq=seq, dest_qp=99, sampling_rate=1250)
    said = said_of(
        [
            *(repeated(one, u, v, rng, 1) for u, v in RING),
            *(repeated(two, u, v, rng, 1) for u, v in other),
            copy,
        ]
    )
    assert [set(job.groups[0].edges) for job in said.jobs] == [named(RING), named(other)]
    assert said.unassigned.bytes == pytest.approx(5e5 * MTU, rel=0.1)


UNSTEADY = pytest.mark.xfail(
    reason="where one turn is very long, cuts jump between pauses",
    strict=True,
)


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_equal_steps_are_equal_iterations(micro_batches: int) -> None:
    rng = np.random.default_rng(1)
    turns = cuts(PERIOD_S, TURNS, 0.0, rng)
    [job] = said_of([repeated(turns, u, v, rng, micro_batches) for u, v in RING]).jobs
    durations = [i.duration_s for i in job.iterations if i.complete]
    assert len(durations) in (TURNS - 2, TURNS - 1, TURNS)
    assert durations == pytest.approx([PERIOD_S] * len(durations), rel=0.05)
    assert job.anomalies == ()


@pytest.mark.parametrize("factor", [1.4, 1.6, 2.0, pytest.param(3.0, marks=UNSTEADY)])
def test_one_long_step_is_one_slow_iteration(factor: float) -> None:
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        lengths = PERIOD_S * (1 + 0.01 * rng.standard_normal(TURNS))
        lengths[12] *= factor
        turns = np.concatenate([[0.0], np.cumsum(lengths)])
        [job] = said_of([repeated(turns, u, v, rng, 1) for u, v in RING]).jobs
        [found] = job.anomalies
        assert found.kind == "slow_iteration"
        # A cut at any one phase puts most of the step into one iteration.
        assert float(found.evidence["duration_s"]) > PERIOD_S * (1 + 0.75 * (factor - 1))
        middle_ns = int((turns[12] + turns[13]) / 2 * S) + START_NS
        assert found.end_ns is not None
        assert found.start_ns < middle_ns < found.end_ns


def test_pairs_in_records_are_a_job_only_where_several_join_the_same_hosts() -> None:
    # Records tell no verbs: neighbours of a grid exchange halos as two hosts reduce gradients.
    def pairs(count: int) -> RecordBatch:
        return roce(
            [
                (*ends, turn * 1000, turn * 1000 + 200, 50_000)
                for nic in range(count)
                for one, other in [(f"10.0.{nic}.1", f"10.0.{nic}.2")]
                for ends in [(one, other), (other, one)]
                for turn in range(30)
            ]
        )

    def found(count: int) -> int:
        hosts = tuple(Host(f"h{n}", tuple(f"10.0.{nic}.{n}" for nic in range(2))) for n in (1, 2))
        return sum(len(job.groups) for job in analysed(Inventory(hosts), pairs(count)))

    assert (found(1), found(2)) == (0, 2)
