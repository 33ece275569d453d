from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from collector.inventory import Inventory
from collector.schema import FlowBatch
from patterns.analyse import known_hosts
from patterns.beat import Beat, find_ends
from patterns.job import study_job
from reconstruct.binning import bin_slice
from reconstruct.jobs import discover
from reconstruct.merging import those
from reconstruct.progress import follow, join
from reconstruct.slices import Slice
from reconstruct.traffic import classify
from reconstruct.volumes import window_volumes
from tests.reconstruct.made import START_NS, S, exporters_of, packets, telemetry
from tests.reconstruct.rhythm import cuts, repeated

PERIOD_S, TURNS = 1.1, 60
BURST_BEGIN, BURST_END = 0.7, 0.9  # of a turn of `repeated`
RING = tuple(pairwise([0, 1, 2, 3, 0]))


@pytest.fixture(scope="module")
def turns() -> NDArray[np.float64]:
    return cuts(PERIOD_S, TURNS, 0.01, np.random.default_rng(1))


@pytest.fixture(scope="module")
def flows(turns: NDArray[np.float64]) -> FlowBatch:
    """A ring that sends one burst in every turn."""
    rng = np.random.default_rng(2)
    return FlowBatch.concat([repeated(turns, u, v, rng, micro_batches=0) for u, v in RING])


def part(flows: FlowBatch, start_s: float, end_s: float) -> Slice:
    start, end = START_NS + round(start_s * S), START_NS + round(end_s * S)
    inside = (flows.time_ns >= start) & (flows.time_ns < end)
    return bin_slice(flows.take(inside), exporters_of(packets([0], 0, 1)), start, end - 1)


@pytest.fixture(scope="module")
def beat(flows: FlowBatch) -> Beat:
    """Learned in the first third."""
    early = flows.take(flows.time_ns < START_NS + round(TURNS / 3 * PERIOD_S * S))
    progress = follow(telemetry(early))
    [candidate] = discover(progress, classify(progress, []), known_hosts(progress, Inventory()))
    studied = study_job(progress, window_volumes(progress), candidate, {}, "job")
    assert studied is not None
    return studied.beat


def read(flows: FlowBatch, beat: Beat, start_s: float, end_s: float) -> NDArray[np.float64]:
    progress = join([part(flows, start_s, end_s)], those(beat.connections))
    return np.asarray((find_ends(progress, beat) - START_NS) / S, np.float64)


def true_ends(turns: NDArray[np.float64], start_s: float, end_s: float) -> NDArray[np.float64]:
    ends = turns[:-1] + BURST_END * np.diff(turns)
    return np.asarray(ends[(ends >= start_s) & (ends < end_s)], np.float64)


def test_a_beat_says_how_its_job_marks_iterations(beat: Beat) -> None:
    assert beat.period_s == pytest.approx(PERIOD_S, rel=0.01)
    assert len(beat.groups) == 1
    assert set(beat.groups[0].tolist()) <= set(beat.connections.tolist())
    assert beat.marks == "bursts"
    assert beat.known_ns == 0
    assert beat.samples_per_turn == pytest.approx(4 * 40, rel=0.1)


@pytest.mark.parametrize("since", [25.0, 31.4, 44.75])
@pytest.mark.parametrize("count", [6, 20])
def test_ends_in_a_later_window(
    flows: FlowBatch, turns: NDArray[np.float64], beat: Beat, since: float, count: int
) -> None:
    start, end = since * PERIOD_S, min(since + count, TURNS) * PERIOD_S
    found, true = read(flows, beat, start, end), true_ends(turns, start, end)
    away = np.abs(found[:, None] - true).min(axis=0)
    assert (np.diff(found) > 0.5 * PERIOD_S).all()
    # The first and the last may lie at the window's edge.
    assert away[1:-1].max() < 0.01 * PERIOD_S
    assert len(true) - 2 <= len(found) <= len(true)


def test_ends_are_found_whatever_else_the_window_holds(
    flows: FlowBatch, turns: NDArray[np.float64], beat: Beat
) -> None:
    rng = np.random.default_rng(5)
    others = cuts(0.83, TURNS, 0.01, rng)
    noisy = FlowBatch.concat([flows, repeated(others, 0, 9, rng), repeated(others, 9, 0, rng)])
    alone = read(flows, beat, 30 * PERIOD_S, 50 * PERIOD_S)
    assert read(noisy, beat, 30 * PERIOD_S, 50 * PERIOD_S).tolist() == alone.tolist()


def test_silence_and_strangers_have_no_ends(flows: FlowBatch, beat: Beat) -> None:
    assert len(read(flows, beat, 500.0, 520.0)) == 0
    stranger = replace(beat, connections=np.array([1, 2, 3], np.uint64))
    assert len(read(flows, stranger, 10.0, 30.0)) == 0
    assert len(read(flows, beat, 30 * PERIOD_S, 30.9 * PERIOD_S)) == 0


def test_a_job_whose_reducers_are_not_seen_has_no_ends(flows: FlowBatch, beat: Beat) -> None:
    elsewhere = replace(beat, groups=(np.array([1, 2, 3], np.uint64),))
    assert len(read(flows, elsewhere, 30.0, 50.0)) == 0


def test_a_job_that_reduces_nothing_begins_behind_its_pause(
    flows: FlowBatch, turns: NDArray[np.float64], beat: Beat
) -> None:
    """The burst runs from 0.7 to 0.9 of the turn."""
    found = read(flows, replace(beat, marks="begin"), 25 * PERIOD_S, 45 * PERIOD_S)
    begins = turns[:-1] + BURST_BEGIN * np.diff(turns)
    assert len(found) >= 19
    assert np.abs(found[:, None] - begins).min(axis=1).max() < 0.01 * PERIOD_S
