"""Sizes from groups: which are said, which are left open, and what is offered instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from patterns.claim import claim
from patterns.groups import Found
from patterns.parallelism import Layout, dense, host_sets, parallelism
from patterns.result import Kind, Parallelism
from patterns.roles import Role
from patterns.shape import Shape, ShapeChannel

SURE = claim(0.95, 1000, 1.0, "drawn")


def group(kind: Kind, members: Sequence[int], samples: int = 1000) -> Found:
    channel = ShapeChannel(tuple(members), None, ())
    shape = Shape("chain" if kind == "pp" else "ring", None, tuple(members), (channel,))
    role = Role(kind, shape.algorithm, SURE, SURE, sent=False)
    return Found(np.zeros(0, np.intp), shape, role, samples, SURE)


def layout(hosts: int, rails: int, samples: int = 10_000, strays: int = 0) -> Layout:
    """Endpoint v is NIC v % rails of host v // rails."""
    ends = range(hosts * rails)
    at = {v: f"h{v // rails}" for v in ends}
    return Layout(at, {v: v % rails for v in ends}, samples, strays, known=True)


def test_stages_that_no_rail_shows_whole_are_told_all_the_same() -> None:
    stages = [replace(f, alike=SURE, samples=0) for f in on_rails("pp", strides(6, 3), 2)]
    rings = on_rails("dp", blocks(6, 3), 2)
    sizes = parallelism([*stages, *rings], layout(6, 2))
    assert sizes.pp == 2
    assert "0 of them seen whole" in sizes.basis["pp"]
    assert sizes.confidence <= 0.5


def unknown_hosts(endpoints: int, samples: int = 10_000, strays: int = 0) -> Layout:
    ends = range(endpoints)
    return Layout({v: str(v) for v in ends}, dict.fromkeys(ends, 0), samples, strays, known=False)


def on_rails(kind: Kind, groups: Iterable[Sequence[int]], rails: int) -> list[Found]:
    """Groups of hosts, one on each rail."""
    return [
        group(kind, [host * rails + rail for host in hosts])
        for hosts, rail in product(list(groups), range(rails))
    ]


def blocks(hosts: int, size: int) -> list[range]:
    return [range(at, at + size) for at in range(0, hosts, size)]


def strides(hosts: int, size: int) -> list[range]:
    return [range(at, hosts, size) for at in range(size)]


def stated(sizes: Parallelism) -> dict[str, int]:
    named = {kind: getattr(sizes, kind) for kind in ("dp", "tp", "pp", "cp", "ep")}
    return {kind: size for kind, size in named.items() if size is not None}


def offered(sizes: Parallelism, kind: str, gpus: int) -> set[int]:
    """Sizes of a kind among candidates for hosts of so many GPUs that fill 12 hosts."""
    return {
        c[kind]
        for c in sizes.candidates
        if c["tp"] * c["dp"] * c["cp"] * c.get("pp", 1) == 12 * gpus
    }


def test_rails_alone_leave_all_but_the_pipeline_open() -> None:
    sizes = parallelism(on_rails("dp", [range(12)], 4), layout(12, 4))
    assert stated(sizes) == {"pp": 1}
    assert {(c["tp"], c["dp"]) for c in sizes.candidates if c["tp"] * c["dp"] == 96} == {
        *((8, 12), (4, 24), (2, 48), (1, 96))
    }
    assert all((c["cp"], c["ep"], c["pp"]) == (1, 1, 1) for c in sizes.candidates)
    assert "not visible" in sizes.basis["dp"]


def test_tensor_parallel_groups_fill_their_hosts() -> None:
    found = on_rails("dp", strides(12, 2), 4) + on_rails("tp", blocks(12, 2), 4)
    sizes = parallelism(found, layout(12, 4))
    assert stated(sizes) == {"dp": 6, "pp": 1, "cp": 1}
    assert {c["tp"] for c in sizes.candidates} == {8, 16, 32}
    assert sizes.confidence == pytest.approx(0.95, abs=0.01)


def test_context_inside_a_gradient_group_divides_its_replicas() -> None:
    found = on_rails("dp", [range(12)], 4) + on_rails("cp", blocks(12, 3), 4)
    sizes = parallelism(found, layout(12, 4))
    assert stated(sizes) == {"dp": 4, "cp": 3, "pp": 1}
    assert {c["tp"] for c in sizes.candidates} == {4, 8, 16}


def test_context_on_half_the_rails_leaves_two_ranks_of_a_group_on_a_host() -> None:
    found = on_rails("dp", [range(12)], 4)
    found += [g for g in on_rails("cp", blocks(12, 3), 4) if g.shape.members[0] % 4 < 2]
    sizes = parallelism(found, layout(12, 4))
    assert stated(sizes) == {"dp": 4, "cp": 6, "pp": 1}
    assert {c["tp"] for c in sizes.candidates} == {2, 4, 8}


def test_context_by_the_only_nic_leaves_its_size_open() -> None:
    found = on_rails("dp", [range(12)], 1) + on_rails("cp", blocks(12, 3), 1)
    sizes = parallelism(found, layout(12, 1))
    assert stated(sizes) == {"dp": 4, "pp": 1}
    assert offered(sizes, "cp", 8) == {3, 6, 12, 24}


def test_experts_span_hosts_beside_the_dense_grid() -> None:
    found = on_rails("dp", [range(12)], 4) + on_rails("dp", strides(12, 3), 4)
    found += on_rails("ep", blocks(12, 3), 4)
    assert len(dense(found)) == 4
    sizes = parallelism(found, layout(12, 4))
    assert stated(sizes) == {"pp": 1}
    assert offered(sizes, "ep", 8) == {24}
    assert offered(sizes, "dp", 8) == {12, 24, 48, 96}


def test_stages_reduce_apart() -> None:
    found = on_rails("dp", blocks(12, 4), 2) + on_rails("pp", strides(12, 4), 2)
    assert host_sets(found, layout(12, 2)) == 3
    sizes = parallelism(found, layout(12, 2))
    assert stated(sizes) == {"pp": 3}
    assert offered(sizes, "tp", 8) == {1, 2, 4, 8}
    assert sizes.confidence > 0.9


def test_hosts_that_share_layers_are_of_one_stage() -> None:
    # Two stages of six hosts: layers over two hosts, three replicas.
    tensor = blocks(12, 2)
    gradients = [range(first, first + 6, 2) for first in (0, 1, 6, 7)]
    found = on_rails("dp", gradients, 2) + on_rails("tp", tensor, 2)
    assert host_sets(found, layout(12, 2)) == 2
    unseen = parallelism(found, layout(12, 2))
    assert unseen.pp is None
    assert "2 sets of hosts" in unseen.basis["pp"]
    chains = on_rails("pp", [(i, i + 6) for i in range(6)], 2)
    assert stated(parallelism(found + chains, layout(12, 2))) == {"dp": 3, "pp": 2, "cp": 1}


@pytest.mark.parametrize("changes", [{"strays": 3}, {"samples": 399}, {}])
def test_hosts_that_all_reduce_one_gradient_are_no_stages(changes: Mapping[str, int]) -> None:
    found = on_rails("dp", [range(12)], 4) + on_rails("unknown", blocks(12, 2), 4)
    sizes = parallelism(found, layout(12, 4, **changes))
    assert sizes.pp == 1
    assert "one gradient" in sizes.basis["pp"]


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"strays": 3}, "dp", "outside all groups"),
        ({"samples": 399}, "dp", "could miss one"),
        ({}, "unknown", "unknown kind"),
    ],
)
def test_a_pipeline_that_may_be_missed_is_not_said_to_be_absent(
    changes: Mapping[str, int], kind: Kind, reason: str
) -> None:
    # Where hosts are not known, sets that reduce apart may be rails or stages.
    found = on_rails("dp", [range(12)], 3) + on_rails(kind, [range(12)], 1)
    sizes = parallelism(found, unknown_hosts(36, **changes))
    assert sizes.pp is None
    assert reason in sizes.basis["pp"]
    assert {c["pp"] for c in sizes.candidates} == {1}


def test_sets_without_a_pipeline_between_them_are_rails() -> None:
    sizes = parallelism(on_rails("dp", [range(12)], 4), unknown_hosts(48))
    assert sizes.pp == 1
    assert 0.85 < sizes.confidence <= 0.9
    assert host_sets(on_rails("dp", [range(12)], 4), unknown_hosts(48)) == 0


def test_chains_shorter_than_there_are_stages_tell_no_size() -> None:
    found = on_rails("dp", blocks(12, 4), 2) + on_rails("pp", [(i, i + 4) for i in range(4)], 2)
    sizes = parallelism(found, layout(12, 2))
    assert sizes.pp is None
    assert {c["pp"] for c in sizes.candidates} == {3}


def test_one_odd_group_changes_no_size() -> None:
    found = on_rails("dp", strides(12, 2), 4) + on_rails("tp", blocks(12, 2), 4)
    odd = [group("tp", [0, 4, 8]), *found[1:]]
    assert stated(parallelism(odd, layout(12, 4)))["dp"] == 6


def test_gradient_groups_that_differ_tell_no_size() -> None:
    sizes = parallelism(on_rails("dp", [range(5), range(5, 12)], 4), layout(12, 4))
    assert stated(sizes) == {}
    assert sizes.candidates == ()
    assert sizes.basis["dp"] == "no gradient groups of one size"


def test_without_gradients_nothing_is_offered() -> None:
    sizes = parallelism([group("unknown", range(6))], layout(6, 1))
    assert (stated(sizes), sizes.candidates) == ({}, ())
