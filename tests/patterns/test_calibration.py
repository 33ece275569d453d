from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.boundaries import VolumeClock
from patterns.calibration import calibrated

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
    before, after = errors(clock, ends), errors(calibrated(clock), ends)
    assert np.abs(before).mean() > 0.02
    assert np.abs(after).mean() < 0.004
    assert abs(np.median(after)) < 0.002


def test_connections_that_do_not_move_together_are_left_as_they_are() -> None:
    clock, _ = wrong_clock(5.0, spread=0.03)
    alone = np.random.default_rng(2).random(len(clock.owner))
    clock = replace(clock, volume=clock.turn - 1 + alone)
    assert np.array_equal(calibrated(clock).volume, clock.volume)


def test_a_connection_that_strays_has_no_say() -> None:
    """A counter that went round unseen puts all behind it in a wrong place."""
    clock, ends = wrong_clock(5.0, spread=0.03)
    strayed = (clock.owner == 7) & (clock.turn > TURNS // 2)
    clock = replace(clock, volume=np.where(strayed, clock.volume + 0.4, clock.volume))
    right = calibrated(clock)
    assert 7 not in right.owner
    assert len(np.unique(right.owner)) >= CONNECTIONS - 3
    assert np.abs(errors(right, ends)).mean() < 0.004


def test_connections_before_and_after_a_restart_are_put_right_by_themselves() -> None:
    clock, ends = wrong_clock(5.0, spread=0.03)
    early = clock.turn < TURNS // 2
    gone = np.where(early == (clock.owner < CONNECTIONS // 2))[0]
    clock = replace(
        clock,
        owner=clock.owner[gone],
        turn=clock.turn[gone],
        volume=clock.volume[gone],
        time_s=clock.time_s[gone],
    )
    assert np.abs(errors(calibrated(clock), ends)).mean() < 0.004


def test_a_pause_that_was_taken_for_another_one_parts_no_turn() -> None:
    """Where the pause inside a burst was taken for its end, half of it was put into the next."""
    clock, ends = wrong_clock(5.0, spread=0.0)
    wrong = (clock.turn == 6) & (clock.volume > 5.5)
    right = calibrated(replace(clock, turn=np.where(wrong, 7, clock.turn)))
    assert np.abs(errors(right, ends)).max() < 0.05


def test_few_samples_of_a_group_are_left_as_they_are() -> None:
    clock, _ = wrong_clock(0.05, spread=0.03)
    assert np.array_equal(calibrated(clock).volume, clock.volume)


def test_a_group_without_samples_stands_in_no_others_way() -> None:
    clock, _ = wrong_clock(1.5, spread=0.03)
    more = replace(clock, group=np.append(clock.group, 1))
    assert np.array_equal(calibrated(more).volume, calibrated(clock).volume)
