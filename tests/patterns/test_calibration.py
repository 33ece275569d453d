from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.boundaries import VolumeClock
from patterns.calibration import FINE, calibrated

CONNECTIONS, TURNS = 60, 20
PAUSE = 0.3, 0.5  # of a burst's time: nothing moves; half of the volume lies before
BURST_S = 2.0


def moved(phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the volume that has passed at a phase of the burst."""
    return np.asarray(np.interp(phase, [0.0, PAUSE[0], PAUSE[1], 1.0], [0.0, 0.5, 0.5, 1.0]))


def wrong_clock(per_turn: float, spread: float) -> tuple[VolumeClock, NDArray[np.int64]]:
    """A clock whose connections are each off by a line of their own, and its turns' ends."""
    rng = np.random.default_rng(1)
    rows = int(CONNECTIONS * TURNS * per_turn)
    owner, turn = rng.integers(0, CONNECTIONS, rows), rng.integers(0, TURNS, rows)
    share = rng.random(rows)
    phase = np.interp(share, [0.0, 0.5, 0.5, 1.0], [0.0, *PAUSE, 1.0])
    ends_s = 5.0 * np.arange(TURNS) + rng.normal(0, 0.005, TURNS)
    slope = 1 + rng.normal(0, spread / 10, CONNECTIONS)
    offset = rng.normal(0, spread, CONNECTIONS)
    time_s = ends_s[turn] - BURST_S * (1 - phase)
    volume = offset[owner] + slope[owner] * (turn - 1 + share)
    order = np.lexsort((time_s, owner))
    clock = VolumeClock(
        owner=owner[order],
        group=np.zeros(CONNECTIONS, np.intp),
        turn=turn[order],
        volume=volume[order],
        time_s=time_s[order],
        origin_ns=0,
        turns=TURNS,
    )
    return clock, np.round(ends_s * 1e9).astype(np.int64)


def errors(clock: VolumeClock, ends_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    phase = 1 - (ends_ns[clock.turn] / 1e9 - clock.time_s) / BURST_S
    return np.asarray(clock.volume - (clock.turn - 1) - moved(phase))


@pytest.mark.parametrize("per_turn", [1.5, 5.0])
def test_connections_are_put_right_by_their_group(per_turn: float) -> None:
    clock, ends = wrong_clock(per_turn, spread=0.03)
    before, after = errors(clock, ends), errors(calibrated(clock, ends), ends)
    assert np.abs(before).mean() > 0.02
    assert np.abs(after).mean() < 0.004
    assert abs(np.median(after)) < 0.002


def test_what_many_samples_tell_is_left_as_it_is() -> None:
    clock, ends = wrong_clock(2 * FINE, spread=0.03)
    assert np.array_equal(calibrated(clock, ends).volume, clock.volume)


def test_few_samples_of_a_group_are_left_as_they_are() -> None:
    clock, ends = wrong_clock(0.2, spread=0.03)
    assert np.array_equal(calibrated(clock, ends).volume, clock.volume)


def test_a_group_without_samples_stands_in_no_others_way() -> None:
    clock, ends = wrong_clock(1.5, spread=0.03)
    more = replace(clock, group=np.append(clock.group, 1))
    assert np.array_equal(calibrated(more, ends).volume, calibrated(clock, ends).volume)
