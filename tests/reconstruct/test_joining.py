from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from collector.schema import FlowBatch
from reconstruct.joining import Joined, join
from reconstruct.progress import follow
from tests.reconstruct.made import address, packets, telemetry
from tests.reconstruct.rhythm import cuts, nanoseconds, thinned

Turns = NDArray[np.float64]


def rail(number: int, time_s: NDArray[np.float64]) -> FlowBatch:
    """Samples of one rail: an edge from endpoint 2 n to 2 n + 1."""
    seq = (time_s * 1e4).astype(np.int64)
    return packets(nanoseconds(time_s), 2 * number, 2 * number + 1, seq=seq, dest_qp=number + 1)


def joined(
    rails: Sequence[NDArray[np.float64]],
    hosts: Sequence[str | None] | None = None,
    parts: Sequence[int] | None = None,
) -> Joined:
    """What becomes of rails with these samples.

    `hosts` names the host of each rail's sources, `parts` the component, where some share one.
    """
    batches = [rail(number, time_s) for number, time_s in enumerate(rails)]
    progress = follow(telemetry(*batches))
    number = {address(i): i for i in range(2 * len(rails))}
    ends = [number[name] for name in progress.endpoints.names]
    host_of = {
        i: f"{hosts[end // 2]}-{end % 2}" for i, end in enumerate(ends) if hosts and hosts[end // 2]
    }
    usable = np.ones(len(progress.connections), np.bool_)
    part_of = range(len(rails)) if parts is None else parts
    component = np.array([part_of[end // 2] for end in ends], np.int32)
    return join(progress, usable, component, host_of)


def groups(found: Joined) -> set[frozenset[int]]:
    """Rails of each job."""
    return {
        frozenset(np.flatnonzero(found.label == job).tolist()) for job in range(len(found.parts))
    }


def sets(*of: Sequence[int]) -> set[frozenset[int]]:
    return {frozenset(one) for one in of}


def in_phase(seed: int) -> tuple[Turns, Turns, np.random.Generator]:
    """Two jobs whose periods differ by 0.8 %, in phase for all of their 14 turns."""
    rng = np.random.default_rng(seed)
    one, two = cuts(2.1, 14, 0.004, rng), cuts(2.1 * 1.008, 14, 0.004, rng)
    return one, two + np.median(one - two), rng


@pytest.mark.parametrize("hosts", [None, ["a", "a", "b", "b"], ["a", "a", "a", "b"]])
@pytest.mark.parametrize("seed", range(5))
def test_jobs_in_phase_by_chance_stay_apart(seed: int, hosts: list[str] | None) -> None:
    one, two, rng = in_phase(seed)
    found = joined([thinned(turns, rng, 300) for turns in (one, one, two, two)], hosts)
    assert groups(found) == sets([0, 1], [2, 3])


@pytest.mark.parametrize("seed", range(5))
def test_jobs_that_cannot_be_told_apart_are_not_joined_for_certain(seed: int) -> None:
    one, two, rng = in_phase(seed)
    found = joined([thinned(turns, rng, 12) for turns in (one, one, two, two)])
    mixed = [job for job in groups(found) if job & {0, 1} and job & {2, 3}]
    assert mixed  # or this test would show nothing
    assert found.sure[found.label[0]] <= 0.9


@pytest.mark.parametrize("samples", [15, 60, 400])
@pytest.mark.parametrize("hosts", [None, ["a"] * 6, list("abcdef")])
def test_rails_of_one_job_are_joined(samples: int, hosts: list[str] | None) -> None:
    rng = np.random.default_rng(samples)
    turns = cuts(1.7, 40, 0.01, rng)
    found = joined([thinned(turns, rng, samples) for _ in range(6)], hosts)
    assert groups(found) == sets(range(6))
    assert found.likeness[0] > 0.7
    assert found.sure[0] > 0.8


@pytest.mark.parametrize("samples", [2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_faint_rails_of_the_same_hosts_are_one_job(samples: int, seed: int) -> None:
    """Their likeness comes out anywhere, so it is no reason to part them."""
    rng = np.random.default_rng(seed)
    turns = cuts(4.0, 60, 0.02, rng)
    found = joined([thinned(turns, rng, samples) for _ in range(2)], ["a"] * 2)
    assert groups(found) == sets([0, 1])


@pytest.mark.parametrize(("more", "jobs"), [(1, 1), (2, 2)])
def test_a_faint_rail_on_some_hosts_of_a_job_is_one_of_its_rails(more: int, jobs: int) -> None:
    """But not as many as it has: jobs may share hosts. Its pipelines join rails of both hosts."""
    rng = np.random.default_rng(3)
    turns = cuts(4.0, 60, 0.02, rng)
    clear = [thinned(turns, rng, 60) for _ in range(6)]
    other = turns if jobs == 1 else cuts(5.3, 45, 0.02, rng)
    faint = [thinned(other, rng, 2) for _ in range(more)]
    hosts = ["a", "b"] * 3 + ["a"] * more
    found = joined([*clear, *faint], hosts, [0, 0, 1, 1, 2, 2, *range(3, 3 + more)])
    assert len(groups(found)) == jobs
    assert jobs > 1 or found.sure[0] < 0.8


def test_what_stays_in_step_for_longer_is_surer() -> None:
    sure = []
    for cycles in (6, 20, 80):
        rng = np.random.default_rng(1)
        turns = cuts(1.7, cycles, 0.01, rng)
        others = [thinned(cuts(1.0 + i / 9, cycles, 0.01, rng), rng, 60) for i in range(6)]
        sure.append(joined([*(thinned(turns, rng, 60) for _ in range(2)), *others]).sure[0])
    assert sure[0] < 0.9 < sure[2]
    assert sure == sorted(sure)


def test_the_same_hosts_are_a_reason_to_believe() -> None:
    rng = np.random.default_rng(2)
    turns = cuts(1.7, 8, 0.01, rng)
    times = [thinned(turns, rng, 60) for _ in range(2)]
    times += [thinned(cuts(1.0 + i / 9, 9, 0.01, rng), rng, 60) for i in range(6)]
    with_hosts = joined(times, ["a", "a", *"bcdefg"])
    assert with_hosts.sure[0] > joined(times).sure[0]


def test_a_rail_that_becomes_slow_stays_with_those_of_its_hosts() -> None:
    rng = np.random.default_rng(3)
    turns = cuts(1.7, 40, 0.01, rng)
    late = np.concatenate([turns[:21], turns[21:] + 0.1])
    slow = [thinned(turns[:21], rng, 200), thinned(late[21:], rng, 200)]
    rails = [*(thinned(turns, rng, 200) for _ in range(3)), np.sort(np.concatenate(slow))]
    assert groups(joined(rails, ["a"] * 4)) == sets(range(4))
    # Where hosts are not known it may be another job, and nobody is sure.
    found = joined(rails)
    assert groups(found) == sets(range(3), [3])


def test_one_part_alone_is_sure_of_itself() -> None:
    rng = np.random.default_rng(4)
    found = joined([thinned(cuts(1.7, 20, 0.01, rng), rng, 60)])
    assert (found.label.tolist(), found.likeness.tolist()) == ([0], [1.0])
    assert (found.parts.tolist(), found.sure.tolist()) == ([1], [1.0])


def test_a_faint_rail_does_not_make_one_job_of_two() -> None:
    both = []
    for seed in range(6):
        one, two, rng = in_phase(seed)
        clear = [thinned(turns, rng, 300) for turns in (one, one, two, two)]
        found = joined([*clear, thinned(one, rng, 5)])
        assert found.reliable[found.label[4]] < 0.5
        both.append(found.label[0] == found.label[2])
    assert not any(both)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_components_changes_nothing(seed: int) -> None:
    one, two, rng = in_phase(7)
    times = [thinned(turns, rng, 300) for turns in (one, two, one, two, one)]
    shuffled = np.random.default_rng(seed).permutation(5)
    found = joined([times[i] for i in shuffled])
    assert {frozenset(shuffled[list(job)].tolist()) for job in groups(found)} == sets(
        [0, 2, 4], [1, 3]
    )


@pytest.mark.parametrize("more", [1.0, 1.8])
def test_faint_rails_of_the_same_hosts_that_carry_unlike_are_two_jobs(more: float) -> None:
    """As where two jobs share hosts: `more` times as much an endpoint in the one, or one job."""
    rng = np.random.default_rng(5)
    one, other = cuts(4.0, 150, 0.02, rng), cuts(5.3, 113, 0.02, rng)
    rails = [thinned(one, rng, 2) for _ in range(2)]
    rails += [
        thinned(one if more == 1.0 else other, rng, round(2 * more * 150 / 113)) for _ in range(2)
    ]
    found = joined(rails, ["a"] * 4)
    assert groups(found) == (sets(range(4)) if more == 1.0 else sets([0, 1], [2, 3]))


def test_faint_stages_are_one_job_where_a_rail_lies_on_hosts_of_both() -> None:
    rng = np.random.default_rng(6)
    turns = cuts(4.0, 100, 0.02, rng)
    rails = [thinned(turns, rng, 2) for _ in range(6)]
    hosts = ["a", "b", "a", "b", "c", "d"]
    # Rails of stage a, of stage b, and one that shows both stages; c and d are others.
    found = joined(rails, hosts, [0, 1, 2, 2, 3, 4])
    assert sets([0, 1, 2]) <= groups(found)
    assert found.sure[found.label[0]] < 0.8


@pytest.mark.parametrize("vnis", [(7, 7, 7), (7, 7, 8), (None, None, None)])
def test_faint_rails_of_one_tenant_without_known_hosts_are_one_job(
    vnis: tuple[int | None, ...],
) -> None:
    rng = np.random.default_rng(7)
    turns = cuts(4.0, 60, 0.02, rng)
    batches = []
    for number, vni in enumerate(vnis):
        batch = rail(number, thinned(turns, rng, 2))
        if vni is not None:
            batch = batch.but(vni=np.full(len(batch), vni, np.uint32))
        batches.append(batch)
    progress = follow(telemetry(*batches))
    place = {address(i): i for i in range(6)}
    component = np.array(
        [place[name.partition("%")[0]] // 2 for name in progress.endpoints.names], np.int32
    )
    usable = np.ones(len(progress.connections), np.bool_)
    found = join(progress, usable, component, {})
    of = {7: {i for i, vni in enumerate(vnis) if vni == 7}}
    together = frozenset(of[7]) in groups(found) if of[7] else len(groups(found)) == 3
    assert together
    assert not of[7] or found.sure[found.label[0]] <= 0.7
