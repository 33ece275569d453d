from __future__ import annotations

import numpy as np
import pytest

from patterns.boundaries import VolumeClock
from patterns.missed import Pulse
from patterns.pauses import Pause
from patterns.standstill import before_stops
from tests.reconstruct.made import S

CONNECTIONS = 4
SPLIT = 0.5  # of a turn's volume: where the pause is that ends an iteration
PAUSE = Pause(SPLIT, 0.1, 1.0)


def stopped(gone: float) -> tuple[Pulse, VolumeClock]:
    """Turns of a second; one stands still from 2.5 to 5.5 s, so much of its volume gone by."""
    time = np.concatenate([np.arange(0, 2.51, 0.01), np.arange(5.5, 8, 0.01)])
    # Counted from a pause at 0.7 of a second: 2.5 s is in the turn behind 1.7 s.
    volume = np.interp(
        time, [0.0, 1.7, 2.5, 5.5, 5.7, 8.0], [-0.7, 1.0, 1 + gone, 1 + gone, 2, 4.3]
    )
    clock = VolumeClock(
        owner=np.arange(len(time)) % CONNECTIONS,
        group=np.zeros(CONNECTIONS, np.intp),
        turn=np.ceil(volume).astype(np.int64),
        volume=volume,
        time_s=time,
        origin_ns=0,
        turns=5,
    )
    return Pulse(np.round(time * 1e9).astype(np.int64), np.ones(len(time))), clock


@pytest.mark.parametrize(
    ("ends_s", "wanted_s"),
    [
        ([0.6, 1.6, 5.51, 6.0], [0.6, 1.6, 2.5, 6.0]),  # behind a stop from 2.5 to 5.5
        ([0.6, 1.6, 5.4, 6.0], [0.6, 1.6, 2.5, 6.0]),  # or a usual pause before what follows it
        ([0.6, 1.6, 5.3, 6.0], [0.6, 1.6, 5.3, 6.0]),
        ([0.6, 1.6, 5.6, 6.0], [0.6, 1.6, 5.6, 6.0]),  # in the turn that follows it
        ([1.0, 2.4, 5.51, 6.0], [1.0, 2.4, 5.51, 6.0]),  # there is one before it
        ([1.0, 3.5, 4.5, 5.51], [1.0, 3.5, 4.5, 5.51]),  # telemetry was missing: turns went on
        ([5.51], [2.5]),
    ],
)
def test_an_iteration_has_ended_before_a_stop(ends_s: list[float], wanted_s: list[float]) -> None:
    """A checkpoint is written between an optimiser's step and the gathering of parameters."""
    signal, clock = stopped(gone=SPLIT)
    ends = np.round(np.array(ends_s) * 1e9).astype(np.int64)
    moved = before_stops(signal, clock, PAUSE, ends, S)
    assert (moved / 1e9).tolist() == pytest.approx(wanted_s, abs=1e-6)
    going_on = Pulse(signal.time_ns[:9], signal.weight[:9])
    assert before_stops(going_on, clock, PAUSE, ends, S) is ends


@pytest.mark.parametrize(("gone", "ended"), [(0.05, False), (0.3, False), (0.45, True)])
def test_a_rank_that_stops_in_the_burst_ends_no_iteration(gone: float, ended: bool) -> None:
    """Ranks that wait for a stopped one have begun to send, and go on when it does."""
    signal, clock = stopped(gone)
    ends = np.array([600_000_000, 1_600_000_000, 5_510_000_000])
    moved = before_stops(signal, clock, PAUSE, ends, S)
    assert moved[-1] == (2_500_000_000 if ended else ends[-1])


def test_a_stop_before_any_sample_of_the_clock_moves_nothing() -> None:
    signal, clock = stopped(gone=SPLIT)
    late = clock.time_s > 6
    rows = {name: getattr(clock, name)[late] for name in ("owner", "turn", "volume", "time_s")}
    empty = VolumeClock(**rows, group=clock.group, origin_ns=0, turns=5)
    ends = np.array([5_510_000_000])
    assert before_stops(signal, empty, PAUSE, ends, S).tolist() == ends.tolist()
