"""Whole windows: labelled captures, and what may not change what is said of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from collector.ingest import ingest
from collector.inventory import Inventory, read_inventory
from collector.schema import COLUMNS, Telemetry
from patterns.analyse import analyse_window
from patterns.result import Analysis, Group, JobResult

if TYPE_CHECKING:
    from bench.captures import Capture

# What a level shows is the benchmark's to say; these are captures that show everything.
CAPTURES = (
    ("dp_ring", "rich"),
    ("every_hop", "rich"),
    ("dp_tree", "normal"),
    ("dp_zero1", "normal"),
    ("two_jobs", "normal"),
    ("tp8_pp4_dp8", "rich"),
    ("no_timestamps", "rich"),
)
SURE = 0.9

Drawn = tuple[str, str, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class Window:
    telemetry: Telemetry
    inventory: Inventory
    truth: dict[str, Any]
    analysis: Analysis

    @property
    def jobs(self) -> list[tuple[dict[str, Any], JobResult]]:
        """True jobs with what was said of the same endpoints."""
        said = {frozenset(job.endpoints): job for job in self.analysis.jobs}
        return [(job, said[frozenset(job["endpoints"])]) for job in self.truth["jobs"]]


@pytest.fixture(scope="session")
def window(capture: Callable[..., Capture]) -> Callable[[str, str], Window]:
    """Reads and analyses a capture of seed 1, once in a session."""
    read: dict[tuple[str, str], Window] = {}

    def make(scenario: str, level: str) -> Window:
        if (scenario, level) not in read:
            made = capture(scenario, 1, level)
            telemetry, inventory = ingest([made.pcap]), read_inventory(made.inventory)
            truth = json.loads(made.truth.read_text())
            analysis = analyse_window(telemetry, inventory)
            read[scenario, level] = Window(telemetry, inventory, truth, analysis)
        return read[scenario, level]

    return make


@pytest.fixture(params=CAPTURES, ids=["-".join(names) for names in CAPTURES])
def labelled(request: pytest.FixtureRequest, window: Callable[[str, str], Window]) -> Window:
    return window(*request.param)


def endpoint_sets(analysis: Analysis) -> set[frozenset[str]]:
    return {frozenset(job.endpoints) for job in analysis.jobs}


def drawn(group: Group) -> Drawn:
    return group.kind, group.algorithm, frozenset(group.edges)


def true_groups(job: dict[str, Any]) -> set[Drawn]:
    return {
        (group["kind"], group["algorithm"], frozenset(map(tuple, group["edges"])))
        for group in job["groups"]
    }


def turned(order: list[str]) -> list[str]:
    """A ring from its lowest member on."""
    at = order.index(min(order))
    return order[at:] + order[:at]


def seconds(text: str, origin: str) -> float:
    """From one RFC 3339 time to another; nanoseconds count."""
    whole = datetime.fromisoformat(text[:19]) - datetime.fromisoformat(origin[:19])
    return whole.total_seconds() + (int(text[20:29]) - int(origin[20:29])) / 1e9


def test_jobs_are_exactly_the_true_ones(labelled: Window) -> None:
    assert endpoint_sets(labelled.analysis) == {
        frozenset(job["endpoints"]) for job in labelled.truth["jobs"]
    }
    for true, said in labelled.jobs:
        assert set(said.hosts) == set(true["hosts"])


def test_groups_have_the_true_edges_and_direction(labelled: Window) -> None:
    for true, said in labelled.jobs:
        assert {drawn(group) for group in said.groups} == true_groups(true)
        assert len(said.groups) == len(true["groups"])


def test_members_are_in_the_order_of_the_data(labelled: Window) -> None:
    for true, said in labelled.jobs:
        by_edges = {frozenset(map(tuple, g["edges"])): g for g in true["groups"]}
        for group in said.groups:
            members = by_edges[frozenset(group.edges)]["members"]
            if group.algorithm == "ring":
                assert turned(list(group.members)) == turned(members)
            elif group.algorithm == "chain":
                assert list(group.members) == members
            else:
                assert set(group.members) == set(members)


def test_periods_and_iterations_are_the_true_ones(labelled: Window) -> None:
    origin = labelled.truth["window"]["start"]
    start_ns = int(datetime.fromisoformat(origin[:19] + "+00:00").timestamp()) * 10**9
    start_ns += int(origin[20:29])
    for true, said in labelled.jobs:
        assert said.period_s is not None
        assert said.period_ci_s is not None
        assert said.period_s == pytest.approx(true["period_s"], rel=0.005)
        assert said.period_ci_s[0] <= said.period_s <= said.period_ci_s[1]
        ends = [seconds(i["end"], origin) for i in true["iterations"] if i["complete"]]
        found = np.array([(i.end_ns - start_ns) / 1e9 for i in said.iterations if i.complete])
        nearest = np.array([found[np.abs(found - end).argmin()] for end in ends])
        late = float(np.median(nearest - ends))
        # Without stamps a sample may wait up to a second for its datagram.
        stamped = labelled.truth["export"]["timestamps"]
        assert abs(late) < (0.03 * said.period_s if stamped else 1.0)
        assert np.abs(nearest - ends - late).max() < 0.02 * said.period_s
        assert abs(len(found) - len(ends)) <= 1


def test_iterations_follow_each_other(labelled: Window) -> None:
    for job in labelled.analysis.jobs:
        assert [i.index for i in job.iterations] == list(range(len(job.iterations)))
        for one, after in zip(job.iterations, job.iterations[1:], strict=False):
            assert one.start_ns < one.end_ns == after.start_ns
        assert all(i.complete for i in job.iterations[1:-1])


def test_bytes_are_the_true_ones(labelled: Window) -> None:
    for true, said in labelled.jobs:
        by_edges = {frozenset(map(tuple, g["edges"])): g for g in true["groups"]}
        for group in said.groups:
            wanted = by_edges[frozenset(group.edges)]["bytes_per_iteration"]
            assert group.bytes_per_iteration == pytest.approx(wanted, rel=0.03)


def test_sizes_are_right_or_among_the_candidates(labelled: Window) -> None:
    for true, said in labelled.jobs:
        wanted, found = true["parallelism"], said.parallelism
        for kind in ("dp", "tp", "pp", "cp", "ep"):
            assert getattr(found, kind) in (None, wanted[kind])
            assert found.basis[kind]
        sizes = {kind: wanted[kind] for kind in ("tp", "dp", "pp")}
        offered = [{**c, "pp": c.get("pp", found.pp)} for c in found.candidates]
        assert any(sizes.items() <= candidate.items() for candidate in offered)


@pytest.mark.parametrize("level", ["normal", "starved"])
@pytest.mark.parametrize("scenario", ["dp_tree", "two_jobs"])
def test_groups_said_with_confidence_are_true(
    scenario: str, level: str, window: Callable[[str, str], Window]
) -> None:
    seen = window(scenario, level)
    true = {group for job in seen.truth["jobs"] for group in true_groups(job)}
    sure = [g for job in seen.analysis.jobs for g in job.groups if g.confidence >= SURE]
    assert {drawn(group) for group in sure} <= true
    assert level == "starved" or sure


def test_storage_alone_is_no_job(window: Callable[[str, str], Window]) -> None:
    seen = window("storage_only", "normal")
    assert seen.analysis.jobs == ()
    by_class = seen.analysis.unassigned.by_class
    wanted = seen.truth["unassigned"]["by_class"]["storage"]
    assert by_class["storage"] == pytest.approx(wanted, rel=0.05)
    assert seen.analysis.unassigned.bytes == pytest.approx(sum(by_class.values()))


def shuffled(inventory: Inventory, seed: int) -> Inventory:
    """The same inventory, written down in another order."""
    rng = np.random.default_rng(seed)
    return replace(
        inventory,
        hosts=tuple(inventory.hosts[i] for i in rng.permutation(len(inventory.hosts))),
        switches=tuple(inventory.switches[i] for i in rng.permutation(len(inventory.switches))),
    )


@pytest.mark.parametrize("scenario", ["two_jobs", "dp_tree"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_the_inventory_changes_nothing(
    scenario: str, seed: int, window: Callable[[str, str], Window]
) -> None:
    seen = window(scenario, "normal")
    assert analyse_window(seen.telemetry, shuffled(seen.inventory, seed)) == seen.analysis


@pytest.mark.parametrize(
    ("scenario", "level"), [("dp_ring", "rich"), ("two_jobs", "normal"), ("tp8_pp4_dp8", "rich")]
)
def test_jobs_are_found_without_an_inventory(
    scenario: str, level: str, window: Callable[[str, str], Window]
) -> None:
    seen = window(scenario, level)
    bare = analyse_window(seen.telemetry, Inventory())
    assert endpoint_sets(bare) == endpoint_sets(seen.analysis)
    for true, said in replace(seen, analysis=bare).jobs:
        assert {drawn(group) for group in said.groups} == true_groups(true)
        assert said.hosts == tuple(sorted(said.endpoints))


def renumbered(telemetry: Telemetry, seed: int) -> tuple[Telemetry, dict[str, str]]:
    """Every address another one's, and what each is called now."""
    from collector.addresses import to_text

    flows = telemetry.flows
    old = np.unique(np.concatenate([flows.src_lo, flows.dst_lo]))
    new = np.random.default_rng(seed).permutation(old)
    columns = {name: getattr(flows, name) for name in COLUMNS}
    for name in ("src_lo", "dst_lo"):
        columns[name] = new[np.searchsorted(old, columns[name])]
    names = {to_text(0, int(a)): to_text(0, int(b)) for a, b in zip(old, new, strict=True)}
    return replace(telemetry, flows=type(flows)(**columns)), names


@pytest.mark.parametrize(
    ("scenario", "level"), [("every_hop", "rich"), ("dp_tree", "normal"), ("two_jobs", "normal")]
)
def test_other_addresses_change_only_names(
    scenario: str, level: str, window: Callable[[str, str], Window]
) -> None:
    seen = window(scenario, level)
    telemetry, names = renumbered(seen.telemetry, 3)
    said = analyse_window(telemetry, Inventory())
    plain = analyse_window(seen.telemetry, Inventory())
    assert endpoint_sets(said) == {
        frozenset(names[e] for e in endpoints) for endpoints in endpoint_sets(plain)
    }
    renamed = {
        (kind, algorithm, frozenset((names[u], names[v]) for u, v in edges))
        for job in plain.jobs
        for kind, algorithm, edges in map(drawn, job.groups)
    }
    assert {drawn(group) for job in said.jobs for group in job.groups} == renamed


def test_the_order_of_samples_changes_nothing(window: Callable[[str, str], Window]) -> None:
    seen = window("dp_tree", "normal")
    flows = seen.telemetry.flows
    mixed = flows.take(np.random.default_rng(4).permutation(len(flows)))
    said = analyse_window(replace(seen.telemetry, flows=mixed), seen.inventory)
    assert said.jobs[0].groups == seen.analysis.jobs[0].groups
    assert said.jobs[0].iterations == seen.analysis.jobs[0].iterations


def test_another_time_changes_only_times(window: Callable[[str, str], Window]) -> None:
    seen = window("dp_tree", "normal")
    flows, later = seen.telemetry.flows, 86_400 * 10**9
    moved = replace(flows, time_ns=flows.time_ns + later, time_min_ns=flows.time_min_ns + later)
    said = analyse_window(replace(seen.telemetry, flows=moved), seen.inventory)
    for one, other in zip(seen.analysis.jobs, said.jobs, strict=True):
        assert [drawn(group) for group in other.groups] == [drawn(group) for group in one.groups]
        assert other.period_s == pytest.approx(one.period_s, rel=1e-4)
        shift = [b.end_ns - a.end_ns for a, b in zip(one.iterations, other.iterations, strict=True)]
        assert np.abs(np.array(shift) - later).max() < 10**6


def test_no_telemetry_is_no_job() -> None:
    from tests.reconstruct.made import telemetry

    said = analyse_window(telemetry(), Inventory())
    assert said.jobs == ()
    assert (said.unassigned.bytes, said.unassigned.endpoints) == (0.0, ())
