"""Jobs whose steps telemetry hides, by what their endpoints draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from collector.inventory import Host, Inventory
from patterns.analyse import analyse_progress
from patterns.result import JobResult
from reconstruct.progress import join
from reconstruct.records import bins_of_records
from tests.patterns.drawn import Edge, cycle, grid
from tests.reconstruct.made import S, Stream, progress_of
from tests.reconstruct.made import address as endpoint
from tests.reconstruct.recorded import EXPORTER, MS, joined, roce

LENGTH_MS = 990.0  # of records, by an active timeout of a second
SECONDS = 40
Volumes = Mapping[tuple[int, int], int]  # packets a second

RINGS = {
    (a, b): 5000
    for ring in ((0, 1, 2, 3), (4, 5, 6, 7))
    for a, b in zip(ring, ring[1:] + ring[:1], strict=True)
}
PAIRS = {edge: 7000 for a in range(4) for edge in ((a, a + 4), (a + 4, a))}


def address(host: int) -> str:
    return f"10.0.0.{host + 1}"


def jobs(volumes: Volumes, *, known: Iterable[int] | None = None) -> tuple[JobResult, ...]:
    """Jobs of connections that send on and on; all hosts are `known`, unless some are named."""
    rng = np.random.default_rng(3)
    batches = []
    for port, ((src, dst), packets) in enumerate(volumes.items()):
        starts = 1000.0 * np.arange(SECONDS) + rng.uniform(0, 900)
        counts = rng.normal(packets, packets / 50, SECONDS).astype(int)
        rows = [
            (address(src), address(dst), start, start + LENGTH_MS, count)
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
        ]
        batches.append(roce(rows, port=50_000 + port))
    built = bins_of_records(joined(batches), (EXPORTER,), 0, (SECONDS + 2) * 1000 * MS)
    hosts = sorted({host for edge in volumes for host in edge} if known is None else known)
    inventory = Inventory(hosts=tuple(Host(f"n{h}", (address(h),)) for h in hosts))
    return analyse_progress(join([built]), inventory).jobs


def test_pairs_between_rings_may_carry_more_than_they() -> None:
    """A pipeline of two stages under data parallelism, as on the testbed."""
    (job,) = jobs(RINGS | PAIRS)
    assert job.endpoints == tuple(address(host) for host in range(8))
    kinds = sorted((group.kind, group.algorithm, len(group.members)) for group in job.groups)
    assert kinds == [("dp", "ring", 4)] * 2 + [("unknown", "unknown", 2)] * 4
    assert job.period_s is None
    assert job.evidence["period"].basis.startswith("unknown: flow records last up to 0.99 s")


@pytest.mark.parametrize(
    "left", [dict(list(RINGS.items())[:4]) | PAIRS, PAIRS], ids=["one ring", "no ring"]
)
def test_pairs_alone_may_do_anything(left: Volumes) -> None:
    assert jobs(left) == ()


def test_rails_of_hosts_that_nobody_knows_are_one_job_if_they_are_alike() -> None:
    (job,) = jobs(RINGS, known=())
    assert job.endpoints == tuple(address(host) for host in range(8))
    assert job.confidence <= 0.5
    assert "on hosts that nobody knows" in job.evidence["endpoints"].basis


def test_rings_that_differ_are_jobs_of_their_own() -> None:
    more = {edge: count * (11 if edge[0] > 3 else 10) // 10 for edge, count in RINGS.items()}
    larger = dict.fromkeys(zip(range(4, 9), [*range(5, 9), 4], strict=True), 5000)
    for volumes in (more, {**dict(list(RINGS.items())[:4]), **larger}):
        assert len(jobs(volumes, known=())) == 2
    # Other hosts than those of the one ring.
    assert len(jobs(RINGS, known=range(4))) == 2
    assert len(jobs(RINGS)) == 2


def thin(edges: Iterable[Edge], samples: int = 40, slack_s: float = 0.6) -> list[Stream]:
    """RDMA writes on and on, sampled now and then at times that are known to `slack_s`."""
    rng = np.random.default_rng(5)
    streams = []
    for src, dst in sorted(edges):
        seen = np.sort(rng.choice(100 * samples, samples, replace=False))
        time = seen * (30 * S // (100 * samples))
        streams.append(Stream(src, dst, time, seen, {"slack_ns": int(slack_s * S)}))
    return streams


def told(streams: list[Stream], *, hosts: bool = True) -> tuple[JobResult, ...]:
    ends = sorted({v for one in streams for v in (one.src, one.dst)})
    named = tuple(Host(f"n{v}", (endpoint(v),)) for v in ends) if hosts else ()
    return analyse_progress(progress_of(*streams), Inventory(hosts=named)).jobs


def test_samples_whose_times_hide_the_steps_tell_who_reduces_with_whom() -> None:
    (job,) = told(thin(cycle(range(8))))
    assert len(job.endpoints) == 8
    [group] = job.groups
    assert (group.kind, group.algorithm) == ("dp", "ring")
    assert group.members == tuple(endpoint(v) for v in range(8))
    assert group.bytes_per_iteration is None
    assert job.period_s is None
    assert not job.iterations
    assert job.evidence["period"].basis.startswith("unknown: times of samples are known to 0.6 s")
    assert {edge.samples for edge in job.edges} == {40}


def test_few_samples_in_good_time_may_hide_a_rhythm() -> None:
    (job,) = told(thin(cycle(range(8)), slack_s=0.0))
    assert len(job.endpoints) == 8
    assert job.period_s is None
    assert job.evidence["period"].basis == "unknown: its few samples show no rhythm"


def test_many_samples_in_good_time_that_show_no_rhythm_are_of_no_job() -> None:
    assert told(thin(cycle(range(8)), samples=200, slack_s=0.0)) == ()


def test_parts_of_what_may_be_one_job_are_none_by_themselves() -> None:
    rings = [*cycle(range(8)), *cycle(range(8, 14))]
    assert len(told(thin(rings))) == 2
    # Hosts of two NICs, where two of the second rail are not seen.
    shared = [Host(f"n{v}", (endpoint(v), endpoint(v + 8))) for v in range(8)]
    found = analyse_progress(progress_of(*thin(rings)), Inventory(hosts=tuple(shared)))
    assert found.jobs == ()
    assert told(thin(rings), hosts=False) == ()


def test_edges_that_may_be_missed_for_few_samples_tell_nothing() -> None:
    assert told(thin(cycle(range(8)), samples=6)) == ()
    assert len(told(thin(cycle(range(8)), samples=8))) == 1


def test_neighbours_on_a_grid_reduce_nothing() -> None:
    assert told(thin(grid(4, 4))) == ()
