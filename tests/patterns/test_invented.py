from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.invented import true_ends
from reconstruct.bins import Progress
from reconstruct.progress import follow
from tests.patterns.test_timeline import PERIOD_S, TURNS, job, steady, without
from tests.reconstruct.made import START_NS, telemetry

PAUSE, BURST = 0.05, 0.8  # phases of the turn of `job`: nothing is sent, half of it is through


def moments(turns: NDArray[np.float64], *places: float) -> NDArray[np.int64]:
    """Times of some places, counted in turns."""
    at = np.interp(places, np.arange(len(turns)), turns)
    return START_NS + np.round(at * 1e9).astype(np.int64)


def kept(progress: Progress, middles: NDArray[np.int64]) -> list[bool]:
    connections = np.arange(len(progress.connections), dtype=np.int32)
    return [bool(true) for true in true_ends(progress, connections, middles)]


def pauses() -> list[float]:
    return [k + PAUSE for k in range(1, TURNS)]


def test_pauses_between_whole_bursts_are_kept() -> None:
    turns = steady()
    assert all(kept(follow(telemetry(job(turns))), moments(turns, *pauses())))


@pytest.mark.parametrize("inside", [(8,), (8, 9), (3, 8, 14), (1, 22)])
def test_an_end_inside_a_burst_is_none(inside: tuple[int, ...]) -> None:
    turns = steady()
    false = {turn + BURST for turn in inside}
    places = sorted({*pauses(), *false})
    found = kept(follow(telemetry(job(turns))), moments(turns, *places))
    assert found == [place not in false for place in places]


def test_a_pause_that_was_not_found_makes_no_other_false() -> None:
    turns = steady()
    places = [place for place in pauses() if not 9 < place < 11]
    assert all(kept(follow(telemetry(job(turns))), moments(turns, *places)))


def test_an_iteration_of_another_volume_stands() -> None:
    """Telemetry lost in the midst of a counter's round leaves a step of any volume."""
    turns = steady()
    missing = float(turns[9]) + 0.3 * PERIOD_S, float(turns[12]) + 0.75 * PERIOD_S
    flows = without(job(turns, per_turn=11_000_000), *missing)
    places = [place for place in pauses() if not 9 < place < 13]
    assert all(kept(follow(telemetry(flows)), moments(turns, *places)))


def test_connections_of_another_run_say_nothing_of_this_one() -> None:
    """A job that starts again has others; as many moments may be without the ones as the others."""
    turns = steady()
    before, after = float(turns[12]) + PAUSE * PERIOD_S, float(turns[13]) + PAUSE * PERIOD_S
    first = without(job(turns), before, float(turns[-1]) + PERIOD_S)
    second = without(job(turns), float(turns[0]) - PERIOD_S, after)
    second.dest_qp[:] += 1000
    progress = follow(telemetry(first, second))
    places = [place for place in pauses() if place != 12 + PAUSE]
    assert all(kept(progress, moments(turns, *places)))


def test_too_few_samples_tell_nothing() -> None:
    turns = steady()
    flows = job(turns)
    few = flows.take(np.random.default_rng(1).random(len(flows)) < 1 / 40)
    places = sorted([*pauses(), 8 + BURST])
    assert all(kept(follow(telemetry(few)), moments(turns, *places)))


def test_without_samples_nothing_is_said() -> None:
    turns = steady()
    progress = follow(telemetry(job(turns)))
    none = true_ends(progress, np.zeros(0, np.int32), moments(turns, *pauses()))
    assert none.all()
