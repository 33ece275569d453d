from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from reconstruct.iterations import follow_cycle
from tests.reconstruct.rhythm import cuts, moments, nanoseconds

PERIOD_S = 1.1


def followed(time_s: NDArray[np.float64], period_s: float = PERIOD_S) -> NDArray[np.float64]:
    """Cuts in seconds."""
    return follow_cycle(nanoseconds(time_s), np.ones(len(time_s)), period_s) / 1e9


def phases(cut: NDArray[np.float64], turns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phase of each cut that lies inside the turns, counted on from turn to turn."""
    inside = cut[(cut > turns[0]) & (cut < turns[-1])]
    turn = np.searchsorted(turns, inside, "right") - 1
    return np.asarray(turn + (inside - turns[turn]) / np.diff(turns)[turn])


@pytest.mark.parametrize("jitter", [0.0, 0.003, 0.01, 0.03])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_turn_is_cut_in_its_longest_pause(jitter: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    turns = cuts(PERIOD_S, 20, jitter, rng)
    early, late = 0.3 * rng.random((20, 80)), 0.4 + 0.15 * rng.random((20, 60))
    phase = np.concatenate([early, late], axis=1)
    cut = followed(np.sort((turns[:-1, None] + phase * np.diff(turns)[:, None]).ravel()))
    in_pause = np.histogram(cut, np.ravel([turns[:-1] + 0.55 * np.diff(turns), turns[1:]], "F"))[0]
    assert in_pause[::2].tolist() == [1] * 20
    assert in_pause[1::2].sum() == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_wandering_step_time_is_followed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wander = 1 + 0.1 * np.sin(np.arange(40) / 40 * 2 * np.pi) + 0.01 * rng.standard_normal(40)
    turns = np.concatenate([[0.0], np.cumsum(PERIOD_S * wander)])
    found = phases(followed(moments(turns, rng, samples=100)), turns)
    assert 39 <= len(found) <= 41  # cuts lie about where turns begin
    assert np.abs(np.diff(found) - 1).max() < 0.15


@pytest.mark.parametrize("off", [-0.05, 0.05])
def test_a_period_that_is_a_little_wrong_does_no_harm(off: float) -> None:
    rng = np.random.default_rng(5)
    turns = cuts(PERIOD_S, 20, 0.003, rng)
    found = phases(followed(moments(turns, rng, samples=100), PERIOD_S * (1 + off)), turns)
    assert len(found) in (19, 20)
    assert np.abs(np.diff(found) - 1).max() < 0.12


@given(st.integers(0, 2 * 10**18), st.integers(0, 50))
def test_moving_a_job_in_time_moves_its_cuts(shift_ns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    time = nanoseconds(moments(cuts(PERIOD_S, 8, 0.01, rng), rng))
    weight = np.ones(len(time))
    at_home = follow_cycle(time, weight, PERIOD_S)
    away = follow_cycle(time + shift_ns, weight, PERIOD_S)
    assert (away - shift_ns).tolist() == at_home.tolist()


@pytest.mark.parametrize("time", [[], [7]])
def test_fewer_than_two_samples_make_no_turn(time: list[int]) -> None:
    assert len(follow_cycle(np.array(time, np.int64), np.ones(len(time)), PERIOD_S)) == 0


def test_no_turn_is_without_a_sample() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        time = moments(cuts(PERIOD_S, 20, 0.005, rng), rng, samples=100)
        assert np.histogram(time, followed(time))[0].min() > 0
