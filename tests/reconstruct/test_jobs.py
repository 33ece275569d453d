from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from collector.schema import ABSENT_U32, FlowBatch
from reconstruct.jobs import Candidate, discover, renew
from reconstruct.progress import follow
from reconstruct.traffic import classify
from tests.reconstruct.made import READ_MIDDLE, address, packets, segments, telemetry
from tests.reconstruct.rhythm import cuts, nanoseconds, repeated


def ring(
    members: Sequence[int],
    turns: NDArray[np.float64],
    rng: np.random.Generator,
    micro_batches: int = 4,
) -> list[FlowBatch]:
    edges = pairwise([*members, members[0]])
    return [repeated(turns, src, dst, rng, micro_batches) for src, dst in edges]


def found_in(
    *batches: FlowBatch, hosts: dict[str, str] | None = None
) -> tuple[list[set[str]], list[Candidate]]:
    """Addresses of each candidate, and the candidates."""
    progress = follow(telemetry(*batches))
    names = progress.endpoints.names
    host_of = {i: hosts[name] for i, name in enumerate(names)} if hosts else {}
    jobs = discover(progress, classify(progress, []), host_of)
    return [{names[e] for e in job.endpoints} for job in jobs], jobs


def named(members: Sequence[int]) -> set[str]:
    return {address(member) for member in members}


FIRST, SECOND = (1, 3, 5, 7), (2, 4, 6, 8)


def test_one_ring_is_one_job_with_its_period() -> None:
    rng = np.random.default_rng(1)
    turns = cuts(1.1, 20, 0.005, rng)
    found, jobs = found_in(*ring(FIRST, turns, rng))
    assert found == [named(FIRST)]
    assert jobs[0].connections.tolist() == [0, 1, 2, 3]
    assert jobs[0].period.seconds == pytest.approx(np.mean(np.diff(turns)), rel=0.01)
    assert (jobs[0].components, jobs[0].rhythm) == (1, 1.0)


@pytest.mark.parametrize("second_s", [0.83, 1.15, 2.3])
def test_jobs_of_different_rhythm_stay_apart(second_s: float) -> None:
    rng = np.random.default_rng(2)
    one, two = cuts(1.1, 30, 0.01, rng), cuts(second_s, 30, 0.01, rng)
    found, jobs = found_in(*ring(FIRST, one, rng), *ring(SECOND, two, rng))
    assert found == [named(FIRST), named(SECOND)]
    for job, turns in zip(jobs, (one, two), strict=True):
        assert job.period.seconds == pytest.approx(np.mean(np.diff(turns)), rel=0.01)


def test_jobs_of_equal_period_half_a_turn_apart_stay_apart() -> None:
    rng = np.random.default_rng(3)
    turns = cuts(1.1, 30, 0.0, rng)
    found, _ = found_in(*ring(FIRST, turns, rng), *ring(SECOND, turns + 0.55, rng))
    assert found == [named(FIRST), named(SECOND)]


def test_rails_of_one_rhythm_are_one_job() -> None:
    rng = np.random.default_rng(4)
    turns = cuts(1.1, 30, 0.01, rng)
    rails = [(1, 3, 5, 7), (2, 4, 6, 8), (12, 14, 16, 18)]
    found, jobs = found_in(*(batch for rail in rails for batch in ring(rail, turns, rng)))
    assert found == [named([member for rail in rails for member in rail])]
    assert jobs[0].components == 3
    assert jobs[0].rhythm > 0.8


def test_rails_join_across_hosts_that_the_inventory_tells_apart() -> None:
    # Two pipeline stages: other hosts, the same rhythm.
    rng = np.random.default_rng(5)
    turns = cuts(1.1, 30, 0.01, rng)
    hosts = {address(member): f"host-{member}" for member in (*FIRST, *SECOND)}
    found, _ = found_in(*ring(FIRST, turns, rng), *ring(SECOND, turns, rng), hosts=hosts)
    assert found == [named(FIRST + SECOND)]


def sparse_rails() -> list[FlowBatch]:
    """A rail that is well seen and one, sampled more coarsely, with three samples of an edge."""
    rng = np.random.default_rng(6)
    turns = cuts(1.1, 30, 0.01, rng)
    few = []
    for batch in ring(SECOND, turns, rng):
        kept = batch.take(np.sort(rng.choice(len(batch), 3, replace=False)))
        few.append(kept.but(sampling_rate=kept.sampling_rate * np.uint32(len(batch) // 3)))
    return [*ring(FIRST, turns, rng), *few]


SAME_HOSTS = {address(m): f"host-{(m + 1) // 2}" for m in (*FIRST, *SECOND)}


def test_a_rail_with_few_samples_joins_the_rail_of_the_same_hosts() -> None:
    found, jobs = found_in(*sparse_rails(), hosts=SAME_HOSTS)
    assert found == [named(FIRST + SECOND)]
    assert jobs[0].components == 2


def test_parts_joined_by_their_hosts_alone_show_no_likeness() -> None:
    _, jobs = found_in(*sparse_rails(), hosts=SAME_HOSTS)
    assert jobs[0].rhythm < 0.9


def test_a_rail_with_few_samples_joins_nothing_by_rhythm() -> None:
    others = {address(m): f"host-{m}" for m in (*FIRST, *SECOND)}
    for hosts in (others, None):
        found, _ = found_in(*sparse_rails(), hosts=hosts)
        assert found[0] == named(FIRST)


def start_up(src: int, dst: int, rng: np.random.Generator) -> FlowBatch:
    """The model, sent once in the first two seconds."""
    time = np.sort(rng.uniform(0, 2, 100))
    seq = (time * 1e6).astype(np.int64) % (1 << 24)
    return packets(nanoseconds(time), src, dst, seq=seq, dest_qp=77)


def test_a_start_up_broadcast_joins_nothing() -> None:
    rng = np.random.default_rng(7)
    one, two = cuts(1.1, 30, 0.01, rng), cuts(0.83, 40, 0.01, rng)
    found, _ = found_in(
        *ring(FIRST, one, rng), *ring(SECOND, two, rng), start_up(1, 2, rng), start_up(1, 99, rng)
    )
    assert found == [named(FIRST), named(SECOND)]


@pytest.mark.parametrize("kind", ["storage", "control", "tcp"])
def test_what_trains_nothing_joins_nothing(kind: str) -> None:
    rng = np.random.default_rng(8)
    one, two = cuts(1.1, 30, 0.01, rng), cuts(0.83, 40, 0.01, rng)
    between = repeated(one, 1, 2, rng)
    if kind == "storage":
        between.opcode[:] = READ_MIDDLE
    elif kind == "control":
        between.payload_bytes[:] = 64
    else:
        between = segments(between.time_ns - between.time_ns[0], 1, 2, seq=between.seq)
    found, _ = found_in(*ring(FIRST, one, rng), *ring(SECOND, two, rng), between)
    assert found == [named(FIRST), named(SECOND)]


def tcp(batch: FlowBatch) -> FlowBatch:
    """The same transfer by TCP."""
    out = batch.take(slice(None))
    like = segments(0, 1, 2)
    for name in ("transport", "protocol", "opcode", "payload_bytes", "frame_bytes", "tcp_flags"):
        getattr(out, name)[:] = getattr(like, name)
    out.dest_qp[:] = ABSENT_U32
    out.src_port[:], out.dst_port[:] = 50_000, 50_001
    return out


def test_hosts_without_rdma_train_by_tcp() -> None:
    rng = np.random.default_rng(9)
    turns = cuts(1.1, 20, 0.005, rng)
    found, _ = found_in(*(tcp(batch) for batch in ring(FIRST, turns, rng)))
    assert found == [named(FIRST)]


def test_a_few_stray_segments_join_nothing() -> None:
    rng = np.random.default_rng(10)
    one, two = cuts(1.1, 30, 0.01, rng), cuts(0.83, 40, 0.01, rng)
    stray = segments(np.array([3, 11, 19, 27]) * 1_000_000_000, 1, 2, seq=np.arange(4) * 9000)
    batches = [tcp(batch) for batch in (*ring(FIRST, one, rng), *ring(SECOND, two, rng))]
    assert found_in(*batches, stray)[0] == [named(FIRST), named(SECOND)]


def test_fewer_than_five_turns_are_no_cycle() -> None:
    rng = np.random.default_rng(11)
    assert found_in(*ring(FIRST, cuts(1.1, 4, 0.005, rng), rng, micro_batches=1))[0] == []
    assert found_in(*ring(FIRST, cuts(1.1, 9, 0.005, rng), rng, micro_batches=1))[0] != []


def test_steady_and_random_traffic_is_no_job() -> None:
    rng = np.random.default_rng(12)
    steady, random = np.linspace(0, 30, 3000), np.sort(rng.uniform(0, 30, 3000))
    batches = [
        packets(nanoseconds(time), src, dst, seq=(time * 1e5).astype(np.int64), dest_qp=src)
        for time, members in ((steady, FIRST), (random, SECOND))
        for src, dst in pairwise([*members, members[0]])
    ]
    assert found_in(*batches)[0] == []


@pytest.mark.parametrize("seed", range(4))
def test_numbering_the_endpoints_otherwise_changes_no_job(seed: int) -> None:
    rng = np.random.default_rng(13)
    one, two = cuts(1.1, 30, 0.01, rng), cuts(0.83, 40, 0.01, rng)
    batches = [*ring(FIRST, one, rng), *ring(SECOND, one, rng), *ring((9, 10, 11, 12), two, rng)]
    shuffled = np.random.default_rng(seed).permutation(40)
    for batch in batches:
        for column in (batch.src_lo, batch.dst_lo):
            column[:] = (column >> np.uint64(8) << np.uint64(8)) + shuffled[
                (column & np.uint64(255)).astype(np.int64)
            ].astype(np.uint64)
    order = np.random.default_rng(seed).permutation(len(batches))
    found, _ = found_in(*(batches[i] for i in order))
    wanted = [named(shuffled[list(m)].tolist()) for m in (FIRST + SECOND, (9, 10, 11, 12))]
    assert sorted(map(sorted, found)) == sorted(map(sorted, wanted))


def again(known: Candidate, *batches: FlowBatch, members: Sequence[int]) -> Candidate | None:
    """`renew` over the window of these samples."""
    progress = follow(telemetry(*batches))
    wanted = [i for i, name in enumerate(progress.endpoints.names) if name in named(members)]
    traffic = classify(progress, [])
    return renew(progress, traffic, np.array(wanted, np.int32), known)


def test_a_job_found_before_is_the_same_among_others() -> None:
    rng = np.random.default_rng(7)
    one = ring(FIRST, cuts(1.1, 30, 0.01, rng), rng)
    two = ring(SECOND, cuts(0.8, 40, 0.01, rng), rng)
    _, [known] = found_in(*one)
    joined = replace(known, rhythm=0.7, components=3, reliable=0.6)
    found, jobs = found_in(*one, *two)
    place = found.index(named(FIRST))
    renewed = again(joined, *one, *two, members=FIRST)
    assert renewed is not None
    assert renewed.endpoints.tolist() == jobs[place].endpoints.tolist()
    assert renewed.connections.tolist() == jobs[place].connections.tolist()
    assert renewed.turns_ns.tolist() == jobs[place].turns_ns.tolist()
    assert renewed.period == jobs[place].period
    # How its parts came together was found out elsewhere.
    assert (renewed.rhythm, renewed.components, renewed.reliable) == (0.7, 3, 0.6)


def test_a_job_found_before_has_the_period_of_the_window_now() -> None:
    rng = np.random.default_rng(8)
    _, [known] = found_in(*ring(FIRST, cuts(1.1, 20, 0.005, rng), rng))
    renewed = again(known, *ring(FIRST, cuts(1.6, 20, 0.005, rng), rng), members=FIRST)
    assert renewed is not None
    assert renewed.period.seconds == pytest.approx(1.6, rel=0.02)


def test_a_job_found_before_holds_nothing_that_leads_out_of_it() -> None:
    rng = np.random.default_rng(9)
    turns = cuts(1.1, 20, 0.005, rng)
    inner, outer = ring(FIRST, turns, rng), ring((7, 9, 11), turns, rng)
    _, [known] = found_in(*inner)
    renewed = again(known, *inner, *outer, members=FIRST)
    assert renewed is not None
    assert len(renewed.connections) == len(FIRST)
    assert len(renewed.endpoints) == len(FIRST)


def test_a_job_found_before_that_keeps_no_cycle_now_is_not_there() -> None:
    rng = np.random.default_rng(10)
    _, [known] = found_in(*ring(FIRST, cuts(1.1, 20, 0.005, rng), rng))
    other = ring(SECOND, cuts(0.8, 20, 0.005, rng), rng)
    assert again(known, *other, members=FIRST) is None
    steady = np.sort(rng.random(400) * 30)
    noise = packets(nanoseconds(steady), 1, 3, seq=np.arange(400) * 1000)
    assert again(known, *other, noise, members=FIRST) is None
