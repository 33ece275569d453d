from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from collector.schema import FlowBatch
from patterns.boundaries import reached, read_clock
from reconstruct.bins import Progress
from reconstruct.progress import follow
from tests.patterns.placing import placed
from tests.reconstruct.made import START_NS, S, telemetry
from tests.reconstruct.rhythm import PER_TURN, cuts, repeated

PERIOD_S, TURNS = 1.1, 24
BURST_END = 0.9  # of a turn of `repeated`
ROUND = (1 << 24) / PER_TURN  # turns in which a counter goes round
RING = tuple(pairwise([0, 1, 2, 3, 4, 5, 0]))


def job(turns: NDArray[np.float64], seed: int = 1, per_turn: int = PER_TURN) -> FlowBatch:
    """A ring whose connections all send one burst in every turn."""
    rng = np.random.default_rng(seed)
    batches = [
        repeated(turns, src, dst, rng, micro_batches=0, per_turn=per_turn) for src, dst in RING
    ]
    return FlowBatch.concat(batches)


def steady(seed: int = 1) -> NDArray[np.float64]:
    return cuts(PERIOD_S, TURNS, 0.005, np.random.default_rng(seed))


def without(flows: FlowBatch, start_s: float, end_s: float) -> FlowBatch:
    time = (flows.time_ns - START_NS) / 1e9
    return flows.take((time < start_s) | (time >= end_s))


def seen(flows: FlowBatch) -> Progress:
    return follow(telemetry(flows))


def ends_s(progress: Progress) -> NDArray[np.float64]:
    return np.asarray((placed(progress, PERIOD_S).ends_ns - START_NS) / 1e9, np.float64)


def true_ends(turns: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(turns[:-1] + BURST_END * np.diff(turns), np.float64)


def test_ends_are_those_of_the_bursts() -> None:
    turns = steady()
    found = ends_s(seen(job(turns)))
    assert len(found) == TURNS
    assert np.abs(found - true_ends(turns)).max() < 0.01 * PERIOD_S


# Phases of the turn at which telemetry stops: in the pause, in the burst, near its end.
@pytest.mark.parametrize("phase", [0.05, 0.3, 0.65, 0.75, 0.8, 0.85, 0.95])
@pytest.mark.parametrize("lasts", [1.0, 3.0, 3.4])
@pytest.mark.parametrize("rounds", [ROUND, 2.76])
def test_missing_telemetry_hides_no_iteration(phase: float, lasts: float, rounds: float) -> None:
    """Nor where the counters go round meanwhile: 2.76 turns are less than what is missing."""
    turns = steady()
    start = float(np.interp(12 + phase, np.arange(TURNS + 1), turns))
    flows = job(turns, per_turn=int((1 << 24) / rounds))
    found = ends_s(seen(without(flows, start, start + lasts * PERIOD_S)))
    true = true_ends(turns)
    assert len(found) == TURNS
    near = np.abs(found - true) / PERIOD_S
    hidden = (true >= start) & (true < start + (lasts + 0.3) * PERIOD_S)
    assert near[~hidden].max() < 0.02
    assert near.max() < 0.2


@pytest.mark.parametrize("rounds", [3.5, 4.0, 4.5, 4.8, 5.2])
def test_what_lies_before_missing_telemetry_does_not_blur_what_follows(rounds: float) -> None:
    """Where the counters go round in about as many turns as are missing."""
    turns = steady()
    flows = without(job(turns, per_turn=int((1 << 24) / rounds)), turns[18], turns[-1] + 1)
    progress = seen(without(without(flows, turns[7], turns[11] + 0.7), 0.0, turns[6]))
    true = true_ends(turns)[11:18]
    pauses_ns = START_NS + ((true + 0.05) * S).astype(np.int64)
    clock = read_clock(progress, [np.arange(len(RING), dtype=np.int32)], pauses_ns)
    ends_ns = reached(clock, 1.0, pauses_ns)
    assert np.abs((ends_ns - START_NS) / S - true).max() < 0.01 * PERIOD_S


def stalled_job(
    stalled_s: float, per_turn: int = PER_TURN
) -> tuple[FlowBatch, NDArray[np.float64]]:
    """A job that stands still before the burst of its turn 12, and the ends of all turns."""
    turns = steady()
    flows = job(turns, per_turn=per_turn)
    stands = turns[12] + 0.5 * (turns[13] - turns[12])
    late = flows.time_ns >= START_NS + round(stands * S)
    moved = flows.time_ns + np.where(late, round(stalled_s * S), 0)
    ends = true_ends(turns)
    ends[12:] += stalled_s
    return replace(flows, time_ns=moved, time_min_ns=moved), ends


@pytest.mark.parametrize("rounds", [ROUND, 2.76])
@pytest.mark.parametrize("stalled", [1.7, 3.0, 4.2])
def test_an_iteration_that_took_long_is_one(stalled: float, rounds: float) -> None:
    """The job was silent as long as missing telemetry is, but one iteration's bytes went by."""
    flows, true = stalled_job(stalled * PERIOD_S, int((1 << 24) / rounds))
    found = ends_s(seen(flows))
    assert len(found) == TURNS
    assert np.abs(found - true).max() < 0.02 * PERIOD_S


@pytest.mark.parametrize("phase", [0.72, 0.76, 0.8, 0.84])
def test_a_burst_beyond_the_last_pause_moves_no_end(phase: float) -> None:
    """The pause before it may lie too near the window's end to be found."""
    turns = steady()
    true = true_ends(turns)[:10]
    stop = float(np.interp(10 + phase, np.arange(TURNS + 1), turns))
    progress = seen(without(job(turns), stop, 1e9))
    connections = np.arange(len(progress.connections), dtype=np.int32)
    pauses_ns = START_NS + np.round((true[:9] + 0.4 * PERIOD_S) * S).astype(np.int64)
    clock = read_clock(progress, [connections], pauses_ns)
    found = reached(clock, 1.0, START_NS + np.round(true * S).astype(np.int64))
    assert np.abs((found - START_NS) / 1e9 - true).max() < 0.02 * PERIOD_S


@pytest.mark.parametrize("left", [0.02, 0.05, 0.1])
def test_an_iteration_under_way_that_takes_long_has_not_ended(left: float) -> None:
    """The window ends in the burst that the job stood still before."""
    flows, true = stalled_job(3.0 * PERIOD_S)
    found = ends_s(seen(without(flows, true[12] - left * PERIOD_S, 1e9)))
    assert len(found) == 12
    assert np.abs(found - true[:12]).max() < 0.02 * PERIOD_S


@pytest.mark.parametrize("phase", [0.3, 0.72, 0.8, 0.86])
def test_a_job_that_stops_ends_no_iteration_after_that(phase: float) -> None:
    """The window goes on, and so does the cycle, but nothing was sent any more."""
    turns = steady()
    stop = float(np.interp(15 + phase, np.arange(TURNS + 1), turns))
    progress = seen(without(job(turns), stop, 1e9))
    progress = replace(progress, window_end_ns=progress.window_end_ns + round(5 * PERIOD_S * 1e9))
    found = ends_s(progress)
    assert len(found) in ((15,) if phase < 0.85 else (15, 16))
    assert found.max() < stop + 0.1 * PERIOD_S
    assert np.abs(found[:15] - true_ends(turns)[:15]).max() < 0.02 * PERIOD_S


@pytest.mark.parametrize("phase", [0.05, 0.3, 0.8, 0.95])
def test_telemetry_that_is_back_for_a_moment_moves_no_end(phase: float) -> None:
    """What came before is read as if what came after were not there, until there is an end."""
    turns = steady()
    start = float(np.interp(12 + phase, np.arange(TURNS + 1), turns))
    back = without(job(turns), start, start + 3.0 * PERIOD_S)
    found = ends_s(seen(without(back, start + 3.1 * PERIOD_S, 1e9)))
    true = true_ends(turns)
    for end in found:
        assert np.abs(true - end).min() < 0.15 * PERIOD_S
    before = true[true < start]
    assert np.abs(found[: len(before)] - before).max() < 0.02 * PERIOD_S
    assert np.diff(found).max() < 1.3 * PERIOD_S


def test_moments_are_whole_nanoseconds_in_order() -> None:
    found = placed(seen(job(steady(3))), PERIOD_S).ends_ns
    assert found.dtype == np.int64
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("phase", [0.81, 0.83, 0.85])
def test_a_burst_that_comes_to_a_stand_has_no_end(phase: float) -> None:
    """Though it would have, had it gone on at its pace."""
    turns = steady()
    stop = float(np.interp(20 + phase, np.arange(TURNS + 1), turns))
    progress = seen(without(job(turns), stop, float(turns[-1]) + PERIOD_S))
    waited = replace(progress, window_end_ns=progress.window_end_ns + int(PERIOD_S * S))
    assert len(placed(waited, PERIOD_S).ends_ns) == 20


def test_a_burst_that_ended_has_an_end_in_the_silence_behind_it() -> None:
    turns = steady()
    progress = seen(job(turns))
    waited = replace(progress, window_end_ns=progress.window_end_ns + int(PERIOD_S * S))
    assert len(placed(waited, PERIOD_S).ends_ns) == TURNS


@pytest.mark.parametrize(
    ("pauses", "collective"),
    [
        # A forward pass without gradients, then buckets behind parts of the backward pass.
        ([6.0, *[1.0] * 6], "all_reduce"),
        # Units of a model, gathered before they are used, also in the forward pass.
        ([1.5, *[1.0] * 8], "reduce_scatter+all_gather"),
    ],
)
def test_gradients_alone_leave_time_for_a_forward_pass(
    pauses: list[float], collective: str
) -> None:
    rng = np.random.default_rng(1)
    period_s = 2.2
    lengths = np.tile(pauses, TURNS) * period_s / sum(pauses)
    bursts = np.concatenate([[0.0], np.cumsum(lengths * rng.normal(1, 0.004, len(lengths)))])
    found = placed(seen(job(bursts, per_turn=PER_TURN // 4)), period_s, "bursts")
    assert found.collective == collective
    assert abs(len(found.ends_ns) - TURNS) <= 1


def test_where_steps_become_longer_pauses_are_read_from_one_sort_of_them() -> None:
    """Six buckets, of which none parts gradients from parameters."""
    rng = np.random.default_rng(1)
    lengths = np.tile([6.0, *[1.0] * 5], TURNS) * PERIOD_S / 11
    lengths[len(lengths) // 2 :] *= 1.25
    bursts = np.concatenate([[0.0], np.cumsum(lengths * rng.normal(1, 0.004, len(lengths)))])
    found = placed(seen(job(bursts, per_turn=PER_TURN // 4)), PERIOD_S, "bursts")
    assert found.collective == "all_reduce"
    assert abs(len(found.ends_ns) - TURNS) <= 1
    places = np.interp((found.ends_ns - START_NS) / 1e9, bursts, np.arange(len(bursts))) % 6
    assert np.ptp(places) < 0.1


@pytest.mark.parametrize("gathered", [5, 0])
def test_equal_buckets_end_where_half_of_the_bytes_follow_at_once(gathered: int) -> None:
    """Five buckets of gradients, and as many bytes of parameters behind a short optimiser step."""
    rng = np.random.default_rng(1)
    period_s, sent = 4.4, 5 + gathered
    pauses = [4.0, *[1.0] * 4, *[0.04] * gathered]
    lengths = np.tile(pauses, TURNS) * period_s / sum(pauses)
    bursts = np.concatenate([[0.0], np.cumsum(lengths * rng.normal(1, 0.004, len(lengths)))])
    found = placed(seen(job(bursts, per_turn=PER_TURN // 4)), period_s, "bursts")
    assert found.collective == ("reduce_scatter+all_gather" if gathered else "all_reduce")
    places = np.interp((found.ends_ns - START_NS) / 1e9, bursts, np.arange(len(bursts))) % sent
    assert places == pytest.approx(np.full(len(places), 4 + BURST_END), abs=0.1)


@pytest.mark.parametrize("optimiser", [1.4, 0.55])
def test_an_optimiser_s_pause_lies_between_two_trains_of_bursts(optimiser: float) -> None:
    """Six buckets of gradients behind parts of a backward pass, six of parameters before those of a
    forward pass; a pause after two thirds of the bytes is like those around it."""
    rng = np.random.default_rng(1)
    period_s = 4.4
    pauses = [4.0, *[2.0] * 5, optimiser, *[0.7] * 5]
    lengths = np.tile(pauses, TURNS) * period_s / sum(pauses)
    bursts = np.concatenate([[0.0], np.cumsum(lengths * rng.normal(1, 0.004, len(lengths)))])
    found = placed(seen(job(bursts, per_turn=PER_TURN // 4)), period_s, "bursts")
    assert found.collective == "reduce_scatter+all_gather"
    places = np.interp((found.ends_ns - START_NS) / 1e9, bursts, np.arange(len(bursts))) % 12
    assert places == pytest.approx(np.full(len(places), 5 + BURST_END), abs=0.1)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("short_first", [True, False])
def test_a_step_of_two_bursts_ends_with_the_second(short_first: bool, seed: int) -> None:
    """Also where the pause inside a step is the longer one, as a batch takes so long on both."""
    turns = two_bursts(0.03 * np.random.default_rng(seed).standard_normal(TURNS), short_first)
    progress = seen(job(turns))
    found = ends_s(progress)
    true = true_ends(turns)[1::2]
    assert len(found) == TURNS
    assert np.abs(found - true).max() < 0.02 * PERIOD_S


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slower", [np.linspace(0, 0.15, TURNS), 0.1 * (np.arange(TURNS) > 12)])
def test_steps_that_become_longer_tell_nothing(slower: NDArray[np.float64], seed: int) -> None:
    turns = two_bursts(slower, short_first=False)
    found = ends_s(seen(job(turns, seed)))
    true = true_ends(turns)[1::2]
    assert np.median(np.abs(found[:, None] - true).min(axis=1)) < 0.02 * PERIOD_S


def two_bursts(batches: NDArray[np.float64], short_first: bool) -> NDArray[np.float64]:
    """Cuts of steps with two turns of `repeated` each; both are longer by so much, a logarithm."""
    halves = np.outer(np.exp(batches), [0.7, 1.0] if short_first else [1.0, 0.7])
    return np.concatenate([[0.0], np.cumsum(halves * PERIOD_S / 1.7)])
