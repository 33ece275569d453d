"""What the service says of a replay is what `analyze` says of its capture.

Real processes, real datagrams, real time: eight services, each fed by a replay of its own, all at
once, as most of that is waiting.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from api.cli.times import time_ns
from api.contract import to_contract
from api.offline import analyze
from collector.schema import I64, U64, FlowBatch
from collector.store import read
from fixtures.scenarios import SCENARIOS
from tests.api.serving import Served, replaying, serving, wait_until

if TYPE_CHECKING:
    from bench.captures import Capture

Document = dict[str, Any]

# Captures of 40 to 90 seconds, in which the turn's end shows from the first study on. Where it does
# not (as in dp_zero1 with seed 102), the service counts from the pause that it saw first until two
# studies agree upon another, and goes on from there: its ends are then those of another moment.
SEEDS: Final = {
    "dp_ring": 135,
    "dp_tree": 139,
    "dp_zero1": 1,
    "tp8_pp4_dp8": 102,
    "two_jobs": 350,
    "storage_only": 102,
    "every_hop": 114,  # sharded jobs may be counted from another pause at first
    "no_timestamps": 104,
}
SILENT_NS: Final = 15_000_000_000  # a job is idle, and was studied a last time
# Of the period. `analyze` reads all ends with all that it knows at last; the service reads each as
# it comes, with what the last study knew. Most agree to a thousandth, single ones to a hundredth.
NEAR: Final = 0.01
FURTHEST: Final = 0.02
# A machine that is busy sends late and listens late: what it samples now may come in 10 seconds.
PATIENT: Final = {"ANALYSIS__LATENESS_S": "10"}


def test_a_replay_is_told_of_as_its_capture(
    capture: Callable[..., Capture], tmp_path: Path
) -> None:
    assert list(SEEDS) == list(SCENARIOS)[:8]
    captures = {name: capture(name, seed, "normal") for name, seed in SEEDS.items()}
    analysed, sampled = {}, {}
    for name, labelled in captures.items():
        analysis, telemetry = analyze([labelled.pcap], labelled.inventory)
        analysed[name], sampled[name] = to_contract(analysis, telemetry), telemetry.flows
    with ExitStack() as stack:
        served, replays = {}, {}
        # The longest first: while it is on its way the others may start.
        for name in sorted(SEEDS, key=lambda name: -length_ns(analysed[name])):
            inventory = captures[name].inventory
            starting = serving(tmp_path / name, "--inventory", inventory, **PATIENT)
            served[name] = stack.enter_context(starting)
            replays[name] = stack.enter_context(replaying(captures[name].pcap, served[name].to))
        wait_until(lambda: all(replay.poll() is not None for replay in replays.values()))
        for name, replay in replays.items():
            assert replay.returncode == 0, name
        wrong = {name: wait_for(served[name], analysed[name], sampled[name]) for name in SEEDS}
        lost = {name: lost_by(service) for name, service in served.items()}
        assert wrong == {name: [] for name in SEEDS}, lost
        assert {each.end(signal.SIGTERM) for each in served.values()} == {0}


def wait_for(service: Served, analysed: Document, sampled: FlowBatch) -> list[str]:
    """What is different when the service has nothing more to say."""
    moved_ns = moved(sampled, read(service.store).flows)
    wait_until(lambda: is_over(service, analysed, moved_ns))
    return differences(jobs_of(service), analysed, moved_ns)


def lost_by(service: Served) -> dict[str, int]:
    """Whether something was lost on the way, for who looks into what is different."""
    account = service.ask("/exporters")["service"]
    return {name: account[name] for name in ("kernel_drops", "backlog_drops", "late_samples")}


def length_ns(analysed: Document) -> int:
    return time_ns(analysed["window"]["end"]) - time_ns(analysed["window"]["start"])


def jobs_of(service: Served) -> list[Document]:
    return [service.ask(f"/jobs/{job['id']}") for job in service.ask("/jobs")["jobs"]]


def is_over(service: Served, analysed: Document, moved_ns: int) -> bool:
    """Whether all jobs have been silent for long, and nothing that is missing may still come."""
    end_ns = time_ns(analysed["window"]["end"]) + moved_ns
    window = service.ask("/exporters")["service"]["window"]
    jobs = jobs_of(service)
    states = {job["status"] for job in jobs}
    if "training" in states or window is None or time_ns(window["end"]) < end_ns + SILENT_NS:
        return False
    return states == {"ended"} or not differences(jobs, analysed, moved_ns)


def differences(said: list[Document], analysed: Document, moved_ns: int) -> list[str]:
    """What the service says and `analyze` does not, or the other way round."""
    ours = {frozenset(job["endpoints"]): job for job in said}
    theirs = {frozenset(job["endpoints"]): job for job in analysed["jobs"]}
    if ours.keys() != theirs.keys() or len(said) != len(ours):
        return [f"{len(said)} jobs of {[sorted(one) for one in ours]}"]
    return [
        f"{ours[one]['id']}: {what}"
        for one in ours
        for what in differences_of(ours[one], theirs[one], moved_ns)
    ]


def differences_of(ours: Document, theirs: Document, moved_ns: int) -> list[str]:
    found = [
        f"{name}: {ours[name]}, not {theirs[name]}"
        for name in ("hosts", "source")
        if ours[name] != theirs[name]
    ]
    if ours["parallelism"]["candidates"] != theirs["parallelism"]["candidates"]:
        found.append(f"candidates {ours['parallelism']}, not {theirs['parallelism']}")
    groups = Counter(map(group, ours["groups"])), Counter(map(group, theirs["groups"]))
    if groups[0] != groups[1]:
        found.append(f"groups {groups[0] - groups[1]}, not {groups[1] - groups[0]}")
    # Bins lie a little differently: a pause that hardly shows may show to one of them only.
    named = {group(one): one["collective"] for one in theirs["groups"]}
    for one in ours["groups"]:
        both = {one["collective"], named.get(group(one), "unknown")}
        if len(both - {"unknown"}) > 1:
            found.append(f"{one['id']} runs one of {sorted(both)}")
    if abs(ours["period_s"] / theirs["period_s"] - 1) > NEAR:
        found.append(f"period {ours['period_s']}, not {theirs['period_s']}")
    told = [turn for turn in ours["iterations"] if turn["final"]]
    if [turn["index"] for turn in told] != list(range(len(told))):
        found.append(f"numbered {[turn['index'] for turn in told]}")
    ends, wanted = ends_ns(told), ends_ns(theirs["iterations"]) + moved_ns
    # What the capture cuts off, a service that has seen silence may tell: one at either end of it.
    if not len(wanted) <= len(ends) <= len(wanted) + 1:
        return [*found, f"{len(ends)} complete iterations, not {len(wanted)}"]
    late = min(
        (
            (part - wanted) / (theirs["period_s"] * 1e9)
            for part in (ends[: len(wanted)], ends[-len(wanted) :])
        ),
        key=lambda each: float(np.abs(each).max()),
    )
    if np.median(np.abs(late)) > NEAR or np.abs(late).max() > FURTHEST:
        found.append(f"ends are {np.round(late, 3).tolist()} of a period late")
    return found


def group(document: Document) -> Hashable:
    """What a group is: who, how, and in which order around a ring or along a chain."""
    orders = [
        around(channel["order"], turning=document["algorithm"] == "ring")
        for part in document["algorithms"]
        for channel in part["channels"]
        if channel["order"]
    ]
    return (
        *(document[name] for name in ("kind", "algorithm")),
        frozenset(document["members"]),
        frozenset(map(tuple, document["edges"])),
        tuple(sorted(orders)),
    )


def around(order: list[str], *, turning: bool) -> tuple[str, ...]:
    """A ring begins anywhere: here with its lowest address."""
    start = order.index(min(order)) if turning else 0
    return tuple(order[start:] + order[:start])


def ends_ns(iterations: list[Document]) -> I64:
    return np.array([time_ns(turn["end"]) for turn in iterations if turn["complete"]], np.int64)


def moved(before: FlowBatch, after: FlowBatch) -> int:
    """By how much a replay moved the times of samples, ns: of those that are like no other."""
    one, other = signature(before), signature(after)
    (first, at), (second, there) = (np.unique(each, return_index=True) for each in (one, other))
    _, at_first, at_second = np.intersect1d(first, second, return_indices=True)
    return int(np.median(after.time_ns[there[at_second]] - before.time_ns[at[at_first]]))


def signature(flows: FlowBatch) -> U64:
    columns = (flows.src_lo, flows.dst_lo, flows.dest_qp, flows.src_port, flows.opcode, flows.seq)
    mixed = np.zeros(len(flows), np.uint64)
    for column in columns:
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)
    return mixed
