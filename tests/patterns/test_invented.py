from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.invented import EDGE_WITHIN, WHOLE_WITHIN, _chain, in_one_pause, true_ends
from patterns.missed import pulse
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


BUCKETS = 4


def buckets(changes: float = 1.0) -> tuple[Progress, NDArray[np.float64]]:
    """A job whose gradients pass in buckets, behind a forward pass; and when each bucket begins.

    Steps of the second half take `changes` times as long.
    """
    rng = np.random.default_rng(3)
    lengths = np.tile([3.0, *[1.0] * (BUCKETS - 1)], TURNS) * PERIOD_S / (BUCKETS + 2)
    lengths[len(lengths) // 2 :] *= changes
    begins = np.concatenate([[0.0], np.cumsum(lengths * rng.normal(1, 0.004, len(lengths)))])
    return follow(telemetry(job(begins, per_turn=400_000))), begins


def ends_at(progress: Progress, begins: NDArray[np.float64], burst: list[int]) -> list[float]:
    """For every turn but the outer ones the end of one of its bursts, as `in_one_pause` has it."""
    connections = np.arange(len(progress.connections), dtype=np.int32)
    signal = pulse(progress, connections)
    middles = moments(begins, *(BUCKETS * turn + k + 1 + PAUSE for turn, k in enumerate(burst, 2)))
    ends = signal.time_ns[np.searchsorted(signal.time_ns, middles) - 1]
    found, _ = in_one_pause(progress, connections, signal, ends, middles)
    at = np.interp((found - START_NS) / 1e9, begins, np.arange(len(begins)))
    return [float(place) for place in np.round(at % BUCKETS, 1)]


@pytest.mark.parametrize("changes", [1.0, 1.4])
def test_ends_are_put_into_the_pause_that_most_turns_have(changes: float) -> None:
    progress, begins = buckets(changes)
    last = BUCKETS - 1
    found = ends_at(progress, begins, [last] * 10 + [0] * 4 + [last] * 4)
    # The end between two that are put back a turn is for `missed.fill` to find.
    assert found == [found[0]] * 17


def test_ends_in_one_pause_stay_there() -> None:
    progress, begins = buckets()
    assert len(set(ends_at(progress, begins, [BUCKETS - 1] * 18))) == 1


def test_an_end_at_the_edge_is_kept_as_far_as_its_bytes_are_known() -> None:
    """The first step is 1.3 iterations as few connections tell."""
    known = np.full(6, WHOLE_WITHIN)
    steps = np.array([1.3, 1.0, 1.01, 0.99, 1.0, 1.0])
    assert _chain(steps, known) == [1, 2, 3, 4, 5, 6]
    open_ = known.copy()
    open_[0] = EDGE_WITHIN
    assert _chain(steps, open_) == [0, 1, 2, 3, 4, 5, 6]
    assert _chain(steps[::-1], open_[::-1]) == [0, 1, 2, 3, 4, 5, 6]
    steps[0] = 0.5
    assert _chain(steps, open_) == [1, 2, 3, 4, 5, 6]
