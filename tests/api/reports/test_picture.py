from __future__ import annotations

from dataclasses import replace

from api.reports.picture import (
    blocks_of,
    host_edges_of,
    host_rows_of,
    natural,
    sizes_line,
    steps_of,
    unknowns_of,
)
from patterns.result import Claim, Rank
from tests.api import made


def test_equal_rails_fold_into_one_drawing() -> None:
    (block,) = blocks_of(made.job())
    (shape,) = block.shapes
    assert shape.nodes == ("gpu-001", "gpu-003", "gpu-002", "gpu-004")
    assert [group.id for group in shape.groups] == ["dp-0", "dp-1"]
    assert (block.kind, block.algorithm, block.size) == ("dp", "ring", 4)
    assert block.bytes_per_iteration == 1.234e9


def test_rotated_ring_folds_and_reversed_ring_does_not() -> None:
    rotated = made.job(groups=(made.ring_group([0, 2, 1, 3], 0), made.ring_group([1, 3, 0, 2], 1)))
    assert len(blocks_of(rotated)[0].shapes) == 1
    turned = made.job(groups=(made.ring_group([0, 2, 1, 3], 0), made.ring_group([3, 1, 2, 0], 1)))
    assert len(blocks_of(turned)[0].shapes) == 2


def test_group_alone_on_one_of_many_rails_is_drawn_by_address() -> None:
    (block,) = blocks_of(made.job(groups=(made.ring_group([0, 1], 1),)))
    assert block.shapes[0].nodes == ("10.0.1.1", "10.0.1.2")


def test_group_that_visits_a_host_twice_is_drawn_by_address() -> None:
    members = ("10.0.0.1", "10.0.1.1", "10.0.0.2")
    ring = replace(made.ring_group([0, 1, 2], 0), members=members)
    assert blocks_of(made.job(groups=(ring,)))[0].shapes[0].nodes == members


def test_kinds_come_in_order() -> None:
    groups = (made.chain_group([0, 1], 0), made.ring_group([0, 2, 1, 3], 0))
    assert [block.kind for block in blocks_of(made.job(groups=groups))] == ["dp", "pp"]


def test_rows_are_disjoint_and_hold_every_host_once() -> None:
    groups = (
        made.ring_group([0, 1], 0),
        made.ring_group([2, 3], 0),
        made.chain_group([0, 2], 0),
    )
    rows = host_rows_of(made.job(groups=groups))
    assert rows == [("gpu-001", "gpu-002"), ("gpu-003", "gpu-004")]


def test_rows_follow_the_stages_of_chains() -> None:
    groups = (
        made.ring_group([0, 1], 0),
        made.ring_group([2, 3], 0),
        made.chain_group([2, 0], 0),
        made.chain_group([3, 1], 0),
    )
    rows = host_rows_of(made.job(groups=groups))
    assert rows == [("gpu-003", "gpu-004"), ("gpu-001", "gpu-002")]


def test_hosts_of_no_group_are_the_last_row() -> None:
    rows = host_rows_of(made.job(groups=(made.ring_group([1, 2], 0),)))
    assert rows == [("gpu-002", "gpu-003"), ("gpu-001", "gpu-004")]


def test_host_edges_keep_direction_and_kind() -> None:
    edges = host_edges_of(made.job(groups=(made.ring_group([0, 1, 2], 0),)))
    assert edges == {"dp": {("gpu-001", "gpu-002"), ("gpu-002", "gpu-003"), ("gpu-003", "gpu-001")}}


def test_steps_are_relative_to_the_complete_ones() -> None:
    steps = steps_of(made.job())
    assert [step.slow for step in steps] == [False] * 5 + [True, False]
    assert steps[0].relative is None
    assert steps[5].relative is not None
    assert abs(steps[5].relative - 1.55) < 1e-9


def test_unknowns_carry_their_reason_and_share_it() -> None:
    unknown = replace(
        made.ring_group([0, 1], 0), kind="unknown", evidence={"kind": Claim(0.4, "few samples", 3)}
    )
    job = made.job(
        period_s=None,
        evidence={"period": Claim(0.1, "no rhythm", 9)},
        groups=(unknown,),
        parallelism=replace(made.job().parallelism, ep=None, basis={"dp": "alike", "tp": "alike"}),
    )
    assert unknowns_of(job) == (
        ("period", "no rhythm"),
        ("dp, tp", "alike"),
        ("ep", "no reason given"),
        ("kind of 1 group", "few samples"),
    )


def test_candidates_leave_out_sizes_of_one() -> None:
    sizes = [{"dp": 4, "tp": 2, "pp": 1}, {"dp": 8}, {"dp": 16}]
    assert sizes_line(sizes, 9) == "dp 4 tp 2, dp 8 or dp 16"
    assert sizes_line(sizes, 1) == "dp 4 tp 2 or 2 more"
    assert sizes_line(sizes[1:2], 1) == "dp 8"


def test_natural_order_counts() -> None:
    names = ["10.0.0.10", "10.0.0.9", "gpu-2", "gpu-10"]
    assert sorted(names, key=natural) == ["10.0.0.9", "10.0.0.10", "gpu-2", "gpu-10"]


def test_a_chain_seen_in_part_does_not_move_its_hosts() -> None:
    ranks = tuple(
        Rank(made.address(h, rail), f"h{h}", {}, None, {}) for h in range(12) for rail in range(2)
    )
    groups = (
        *(made.ring_group([*range(first, first + 4)], 0) for first in (8, 4, 0)),
        *(made.chain_group([h, h + 4, h + 8], 0) for h in range(4)),
        made.chain_group([5, 9], 1),
    )
    hosts = tuple(f"h{h}" for h in range(12))
    rows = host_rows_of(made.job(hosts=hosts, ranks=ranks, groups=groups))
    assert rows == [
        ("h0", "h1", "h2", "h3"),
        ("h4", "h5", "h6", "h7"),
        ("h8", "h9", "h10", "h11"),
    ]
