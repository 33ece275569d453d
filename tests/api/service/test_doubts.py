from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from api.results.connections import sqlite_url
from api.results.database import Results
from api.service.doubts import NO_DOUBTS, Doubts, doubts_of
from api.service.sliding import Sliding
from api.settings.values import LogLevel
from collector.inventory import Host, Inventory
from collector.schema import FlowBatch
from patterns.live import LiveJob
from reconstruct.bins import Progress
from reconstruct.jobs import Candidate, discover
from reconstruct.progress import follow
from reconstruct.slicing import Slicer
from reconstruct.traffic import Traffic, classify
from reconstruct.window import Window
from tests.reconstruct.made import address, exporters_of, packets, telemetry
from tests.reconstruct.rhythm import cuts
from tests.reconstruct.test_jobs import ring

NOWHERE = Inventory()
SECOND_NS = 1_000_000_000


def rings(*members: tuple[int, ...]) -> Progress:
    rng = np.random.default_rng(3)
    turns = cuts(1.1, 20, 0.005, rng)
    return follow(telemetry(*(part for ends in members for part in ring(ends, turns, rng))))


def burst(src: int, dst: int, samples: int) -> FlowBatch:
    """Samples of one connection, a second apart."""
    return packets(
        np.arange(samples) * SECOND_NS + SECOND_NS,
        np.full(samples, src),
        np.full(samples, dst),
        seq=np.arange(samples) * 1000,
    )


def known(progress: Progress, found: Candidate, **changes: object) -> LiveJob:
    names = progress.endpoints.names
    job = LiveJob(
        id="",
        endpoints=frozenset(names[e] for e in found.endpoints),
        keys=progress.endpoints.key[found.endpoints],
        found=found,
        sightings=2,
        first_seen_ns=0,
        last_seen_ns=0,
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def doubts(progress: Progress, *jobs: LiveJob, inventory: Inventory = NOWHERE) -> Doubts:
    return doubts_of(progress, classify(progress, ()), jobs, inventory)


def test_silence_gives_none() -> None:
    progress = follow(telemetry(packets([], [], [])))
    assert replace(doubts(progress), looked_s=0.0) == NO_DOUBTS


def test_what_repeats_and_has_no_name_waits() -> None:
    progress = rings((1, 3, 5, 7))
    (found,) = discover(progress, classify(progress, ()), {})
    seen = doubts(progress, known(progress, found))
    samples = int(progress.bins.samples.sum())
    assert (seen.samples, seen.doubted) == (samples, samples)
    assert (seen.endpoints, seen.connections, seen.components) == (4, 4, 1)
    assert seen.doubted_s == pytest.approx(22, abs=2)
    (pending,) = seen.pending
    assert (pending.endpoints, pending.connections, pending.first) == (4, 4, address(1))
    assert pending.period_s == pytest.approx(1.1, rel=0.02)
    assert pending.turns == len(found.turns_ns) - 1
    assert pending.samples_per_turn == samples / pending.turns
    assert (pending.sightings, pending.studied, pending.shaped) == (2, False, False)


def test_what_is_told_of_is_no_doubt() -> None:
    progress = rings((1, 3, 5, 7), (2, 4, 6))
    found = discover(progress, classify(progress, ()), {})
    (first,) = (job for job in found if len(job.endpoints) >= 4)
    seen = doubts(progress, known(progress, first, id="job-1"))
    assert seen.endpoints == len(progress.endpoints) - len(first.endpoints)
    assert seen.pending == ()


def test_classes_are_counted_apart() -> None:
    progress = follow(telemetry(burst(1, 2, 30), burst(3, 4, 20), burst(5, 6, 10), burst(7, 8, 5)))
    traffic = np.array(
        [Traffic.CANDIDATE, Traffic.STORAGE, Traffic.MANAGEMENT, Traffic.CONTROL], np.uint8
    )
    seen = doubts_of(progress, traffic, (), NOWHERE)
    assert (seen.doubted, seen.storage, seen.management, seen.control) == (30, 20, 10, 5)
    assert (seen.endpoints, seen.connections) == (2, 1)
    assert seen.doubted_s == 29.0


def test_an_endpoint_that_was_never_seen_to_send() -> None:
    progress = follow(telemetry(burst(1, 2, 30), burst(1, 3, 30), burst(3, 1, 1), burst(1, 4, 3)))
    # 2 got much and sent nothing; 3 sent once; 4 got so little that its silence says nothing.
    assert doubts(progress).only_receiving == 1


def test_endpoints_that_the_inventory_does_not_name() -> None:
    progress = rings((1, 3, 5, 7))
    inventory = Inventory(hosts=(Host("gpu-001", (address(1), address(3))),))
    assert doubts(progress, inventory=inventory).unnamed == 2


class Silent:
    """A log that nothing may be said to."""

    def say(self, level: LogLevel, event: str, **fields: object) -> None:
        raise AssertionError(f"{level}: {event} {fields}")


def test_the_running_analysis_tells_of_a_job_to_come(tmp_path: Path) -> None:
    """Fifteen seconds of a job are not enough for it to be told of, and all of it is in doubt."""
    rng = np.random.default_rng(4)
    flows = FlowBatch.concat(ring((1, 3, 5, 7), cuts(1.1, 14, 0.005, rng), rng))
    slicer = Slicer(500_000_000, 0)
    slicer.add(flows, exporters_of(flows), int(flows.time_ns.max()))
    results = Results(sqlite_url(tmp_path / "results.sqlite"))
    window = Window(600 * SECOND_NS, 1_000_000)
    clock = count(0.0, 10.0)  # so slow a machine that all there is to do has its time
    sliding = Sliding(window, NOWHERE, results, lambda _: {}, Silent(), lambda: next(clock))
    assert sliding.doubts == NO_DOUBTS
    for part in slicer.drain():
        sliding.tick([part])
    assert results.jobs() == []
    assert sliding.doubts.endpoints == 4
    assert sliding.doubts.samples == sliding.doubts.doubted > 0
    (pending,) = sliding.doubts.pending
    assert pending.endpoints == 4
    results.close()
