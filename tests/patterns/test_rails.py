"""Pipelines whose links only some rails show."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from patterns.groups import Found, recognise
from patterns.layers import split
from patterns.parallelism import Layout
from patterns.rails import whole_pipelines
from tests.patterns.made import Wire, flows_of, rows

STAGES, REPLICAS, RAILS = 3, 3, 6
HOSTS = STAGES * REPLICAS
Seen = Callable[[int, int, int], bool]

# Which host is stage s of replica r: nothing about their numbers tells.
PLACE = {
    (s, r): (5 * (s * REPLICAS + r) + 2) % HOSTS for s in range(STAGES) for r in range(REPLICAS)
}
PATHS = {tuple(PLACE[s, r] for s in range(STAGES)) for r in range(REPLICAS)}


def nic(host: int, rail: int) -> int:
    return host * RAILS + rail


def layout() -> Layout:
    ends = range(HOSTS * RAILS)
    hosts = {v: f"h{v // RAILS}" for v in ends}
    return Layout(hosts, {v: v % RAILS for v in ends}, samples=10_000, strays=0, known=True)


def sent(u: int, v: int, begin: float, samples: int) -> Wire:
    active = (begin, begin + 0.6)
    return Wire(u, v, bytes=2e7, samples=samples, active=active, lengths={"p2p_128k": 1})


def recognised(
    seen: Seen, strays: list[Wire] | None = None, samples: int = 12
) -> tuple[list[Found], list[Found]]:
    """Groups as they are drawn, and with whole pipelines.

    `seen(replica, stage, rail)` says whether the link to the next stage was sampled, both ways.
    """
    wires = list(strays or ())
    for rail in range(RAILS):
        for stage in range(STAGES):
            ring = [nic(PLACE[stage, r], rail) for r in range(REPLICAS)]
            wires += [
                Wire(u, v, bytes=3e9, samples=500, active=(0.8, 0.95), lengths={"ring_simple": 3})
                for u, v in pairwise([*ring, ring[0]])
            ]
        for replica in range(REPLICAS):
            for stage in range(STAGES - 1):
                if not seen(replica, stage, rail):
                    continue
                u, v = (nic(PLACE[s, replica], rail) for s in (stage, stage + 1))
                wires += [sent(u, v, 0.0, samples), sent(v, u, 0.2, samples)]
    flows = flows_of(wires)
    found = recognise(flows, split(flows, rows(flows), {}))
    return found, whole_pipelines(flows, found, layout())


def paths(found: list[Found]) -> list[tuple[int, ...]]:
    """Hosts of the pipelines, by stage."""
    return [tuple(v // RAILS for v in f.shape.members) for f in found if f.role.kind == "pp"]


def test_all_rails_follow_what_some_show() -> None:
    # Of each replica rail 0 is seen whole, and of the others a link here and there.
    def seen(replica: int, stage: int, rail: int) -> bool:
        return rail == 0 or (rail == 1 and stage == 0) or (rail > 1 + replica % 2 and stage == 1)

    drawn, whole = recognised(seen)
    assert len(paths(drawn)) < REPLICAS * RAILS
    assert len(paths(whole)) == REPLICAS * RAILS
    assert set(paths(whole)) == PATHS
    for f in (f for f in whole if f.role.kind == "pp"):
        assert len({v % RAILS for v in f.shape.members}) == 1
        assert len(f.shape.edges) == 2 * (STAGES - 1)
        if f.shape.missing:
            assert f.role.kind_claim.confidence < 0.95
            assert "not seen" in f.role.kind_claim.basis
    # What else there is stays as it was.
    rings = [[id(f) for f in some if f.role.kind == "dp"] for some in (drawn, whole)]
    assert rings[0] == rings[1]


def test_what_enough_samples_do_not_show_is_not_there() -> None:
    # Two replicas send by one NIC each, the third by two: that is seen, however odd.
    def seen(replica: int, _: int, rail: int) -> bool:
        return rail == replica or (replica, rail) == (2, 3)

    drawn, whole = recognised(seen, samples=200)
    assert sorted(paths(whole)) == sorted(paths(drawn))
    assert len(paths(whole)) == REPLICAS + 1


def test_what_every_rail_shows_is_left_alone() -> None:
    drawn, whole = recognised(lambda *_: True)
    assert sorted(paths(whole)) == sorted(paths(drawn))
    assert all(not f.shape.missing for f in whole)


def pieces(found: list[Found]) -> set[tuple[int, ...]]:
    """Endpoints of the pipelines that lack a stage."""
    short = [f.shape.members for f in found if f.role.kind == "pp"]
    return {members for members in short if len(members) < STAGES}


@pytest.mark.parametrize("hidden", [0, 1])
def test_a_path_that_no_rail_shows_stays_open(hidden: int) -> None:
    drawn, whole = recognised(lambda r, s, _: (r, s) != (2, hidden))
    told = {path for path in PATHS if path[0] != PLACE[0, 2]}
    assert {path for path in paths(whole) if len(path) == STAGES} == told
    assert pieces(whole) == pieces(drawn)
    assert len(pieces(whole)) == RAILS


def test_no_rail_needs_to_show_a_path_whole() -> None:
    drawn, whole = recognised(lambda r, s, rail: (r + s + rail) % 2 == 0)
    assert {len(path) for path in paths(drawn)} == {2}
    assert set(paths(whole)) == PATHS
    assert len(paths(whole)) == REPLICAS * RAILS


def test_where_others_show_the_stages_one_rail_is_enough() -> None:
    drawn, whole = recognised(lambda r, s, rail: r != 2 or (rail == 0) == (s == 0))
    assert len(pieces(drawn)) == RAILS
    assert set(paths(whole)) == PATHS


def test_a_link_that_one_rail_alone_shows_is_not_enough() -> None:
    drawn, whole = recognised(lambda _, s, rail: (rail == 0) == (s == 0))
    assert [*map(id, whole)] == [*map(id, drawn)]


def test_a_link_that_leads_elsewhere_as_well_leaves_its_paths_open() -> None:
    elsewhere = [
        wire
        for rail in (1, 2)
        for u, v in [(nic(PLACE[0, 0], rail), nic(PLACE[1, 1], rail))]
        for wire in (sent(u, v, 0.0, 12), sent(v, u, 0.2, 12))
    ]
    _, whole = recognised(lambda r, s, rail: (r + s + rail) % 2 == 0, elsewhere)
    assert {path for path in PATHS if path[0] == PLACE[0, 2]} == PATHS.intersection(paths(whole))


def test_a_stray_sample_inside_a_stage_changes_nothing() -> None:
    stray = [Wire(nic(PLACE[0, 0], 1), nic(PLACE[0, 1], 1), bytes=2e7, samples=1)]
    _, whole = recognised(lambda r, s, rail: (r + s + rail) % 2 == 0, stray)
    assert set(paths(whole)) == PATHS


@pytest.mark.parametrize(("closing", "told"), [(6, True), (10, False)])
def test_where_a_circle_closes_is_told_only_by_samples_enough(closing: int, told: bool) -> None:
    """As an interleaved pipeline's does, between its last stage and its first."""
    circle = []
    for rail in range(STAGES - 1, RAILS, STAGES):
        for replica in range(REPLICAS):
            u, v = (nic(PLACE[stage, replica], rail) for stage in (STAGES - 1, 0))
            circle += [sent(u, v, 0.0, closing), sent(v, u, 0.2, closing)]
    _, whole = recognised(lambda _, s, rail: rail % STAGES == s, circle)
    assert {path for path in paths(whole) if len(path) == STAGES} == (PATHS if told else set())


def test_rails_that_cross_tell_nothing_of_each_other() -> None:
    crossing = [
        Wire(nic(PLACE[0, r], 0), nic(PLACE[1, r], 3), bytes=2e7, samples=30) for r in range(2)
    ]
    drawn, whole = recognised(lambda r, s, rail: rail < 1 or (rail, s) == (1, 0), crossing)
    assert [*map(id, whole)] == [*map(id, drawn)]
