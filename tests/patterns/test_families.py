from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from patterns.equality import equal_volume
from patterns.families import Drawn, Family, families, lie
from patterns.layers import split
from patterns.stages import Lag
from reconstruct.edges import Flows
from tests.patterns.drawn import cycle
from tests.patterns.made import MIB, Wire, flows_of, rows

LIKE = Wire(0, 0, 100 * MIB, lengths={"ring_simple": 1})


def ring(members: Sequence[int], like: Wire = LIKE) -> list[Wire]:
    return [replace(like, src=u, dst=v) for u, v in cycle(members)]


def drawn_of(flows: Flows) -> list[Drawn]:
    return [
        Drawn(part, part.shape, 9, Lag(0.0, 0.0))
        for part in split(flows, rows(flows), {})
        if part.shape is not None
    ]


def families_of(wires: Sequence[Wire]) -> list[Family]:
    flows = flows_of(wires)
    return families(flows, drawn_of(flows))


def groups_of(family: Family) -> set[frozenset[int]]:
    return {frozenset(item.shape.members) for item in family.items}


def test_groups_that_share_no_endpoint_are_one_family_whatever_they_carry() -> None:
    heavy = replace(LIKE, bytes=150 * MIB)
    [family] = families_of([*ring(range(4)), *ring(range(4, 8), heavy)])
    assert groups_of(family) == {frozenset(range(4)), frozenset(range(4, 8))}
    assert (family.size, family.algorithm, family.messages) == (4, "ring", "collective")
    assert sorted(family.rows) == list(range(8))
    assert family.profile.sum() == pytest.approx(800)


def test_groups_of_unlike_size_are_of_unlike_families() -> None:
    found = families_of([*ring(range(4)), *ring(range(4, 9))])
    assert {family.size for family in found} == {4, 5}


def test_groups_of_the_same_endpoints_are_parted_by_volume() -> None:
    wires = ring([0, 1, 2, 3]) + ring([0, 2, 1, 3], replace(LIKE, bytes=900 * MIB))
    found = families_of(wires)
    assert [groups_of(family) for family in found] == [{frozenset(range(4))}] * 2


@pytest.mark.parametrize(
    ("lengths", "read"),
    [({"p2p_128k": 1}, "point_to_point"), ({"tree_simple": 1}, "collective"), ({}, None)],
)
def test_lengths_of_messages_name_a_sort(lengths: dict[str, int], read: str | None) -> None:
    [family] = families_of(ring(range(5), replace(LIKE, lengths=lengths)))
    assert family.messages == read


def rings(*groups: Sequence[int]) -> Family:
    [family] = families_of([wire for members in groups for wire in ring(members)])
    return family


@pytest.mark.parametrize(
    ("groups", "way"),
    [
        ([[0, 1, 2], [3, 4, 5]], "inside"),
        ([[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]], "same"),
        ([[0, 6, 12], [1, 7, 13]], "across"),
        ([[0, 1, 6], [2, 3, 7]], None),
        ([[0, 1, 20], [2, 3, 21]], None),
    ],
    ids=["inside", "same", "across", "neither", "outside"],
)
def test_how_groups_lie_to_others(groups: list[list[int]], way: str | None) -> None:
    others = [rings(range(6), range(6, 12)), rings(range(12, 17))]
    assert lie(rings(*groups), others) == way


def test_an_exchange_that_joins_rails_is_inside_a_group_of_each() -> None:
    # Host h has NICs 2 h and 2 h + 1, each with a ring of its own.
    rails = rings(range(0, 12, 2), range(1, 12, 2))
    everyone = [replace(LIKE, src=u, dst=v) for u in range(4) for v in range(4) if u != v]
    [exchange] = families_of(everyone)
    assert exchange.algorithm == "all_to_all"
    assert lie(exchange, [rails]) == "inside"
    assert lie(rings(range(4)), [rails]) is None


def test_most_groups_decide() -> None:
    others = [rings(range(12))]
    nearly = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 20], [12, 13, 11]]
    assert (
        lie(rings([0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [20, 21, 22]), others) == "inside"
    )
    assert lie(rings(*nearly), others) is None


def test_nothing_lies_to_no_groups() -> None:
    assert lie(rings(range(4)), []) is None


def test_pairs_are_apart_where_most_of_them_are() -> None:
    flows = flows_of([w for i in range(3) for w in ring([i, i + 10])])
    for lags, apart in (
        ([Lag(0.1, 9.0)] * 3, True),
        ([Lag(0.1, 9.0), Lag(0.1, 9.0), Lag(0.0, 0.0)], True),
        ([Lag(0.1, 9.0), Lag(0.01, 9.0), Lag(0.1, 1.0)], False),
    ):
        items = [replace(d, lag=lag) for d, lag in zip(drawn_of(flows), lags, strict=True)]
        [family] = families(flows, items)
        assert (family.algorithm, family.apart) == ("pair", apart)


def test_volumes_are_equal_within_their_errors() -> None:
    near = [Wire(0, i, 100 * MIB * (1 + 0.001 * i), 400) for i in range(1, 5)]
    far = [*near, Wire(0, 5, 110 * MIB, 400)]
    poor = [*near, Wire(0, 5, 110 * MIB, 1)]
    for wires, mean in ((near, 100.25 * MIB), (far, None), ([], None)):
        flows = flows_of(wires)
        found = equal_volume(flows, rows(flows))
        assert found is None if mean is None else found == pytest.approx(mean, rel=0.002)
    flows = flows_of(poor)
    blurred = replace(flows, error=np.where(np.arange(5) == 4, 0.2, flows.error))
    assert equal_volume(blurred, rows(flows)) == pytest.approx(100.25 * MIB, rel=0.005)
