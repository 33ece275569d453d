from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from reconstruct.bins import BIN_NS
from reconstruct.iterations import follow_tempo
from reconstruct.tempo import Stretch, find_tempo
from tests.reconstruct.rhythm import cuts, moments, nanoseconds, signal

BIN_S = BIN_NS / 1e9


def changed(
    periods_s: list[float], turns: list[int], seed: int, jitter: float = 0.005
) -> tuple[NDArray[np.float64], list[float]]:
    """Starts of turns of one period after the other, and when each period ends."""
    rng = np.random.default_rng(seed)
    lengths = [
        period_s * (1 + jitter * rng.standard_normal(count))
        for period_s, count in zip(periods_s, turns, strict=True)
    ]
    ends = np.cumsum([length.sum() for length in lengths])
    return np.concatenate([[0.0], np.cumsum(np.concatenate(lengths))]), [float(e) for e in ends]


def tempo_of(turns: NDArray[np.float64], seed: int = 1, samples: int = 200) -> list[Stretch]:
    rng = np.random.default_rng(seed)
    return find_tempo(signal(moments(turns, rng, samples=samples)), BIN_S)


@pytest.mark.parametrize("factor", [0.65, 0.8, 1.25, 1.6])
@pytest.mark.parametrize("at", [12, 15, 18])
def test_a_period_that_changes_is_two(factor: float, at: int) -> None:
    for seed in range(3):
        turns, ends = changed([2.1, 2.1 * factor], [at, 30 - at], seed)
        one, other = tempo_of(turns)
        assert one.period.seconds == pytest.approx(2.1, rel=0.01)
        assert other.period.seconds == pytest.approx(2.1 * factor, rel=0.01)
        assert one.start == 0
        assert one.end == other.start
        assert one.end * BIN_S == pytest.approx(ends[0], abs=2.1)


@pytest.mark.parametrize("jitter", [0.0, 0.01, 0.04, 0.08])
@pytest.mark.parametrize("micro_batches", [0, 4])
def test_a_period_that_holds_is_one(jitter: float, micro_batches: int) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        time = moments(cuts(1.7, 30, jitter, rng), rng, micro_batches, samples=200)
        [stretch] = find_tempo(signal(time), BIN_S)
        assert stretch.period.seconds == pytest.approx(1.7, rel=0.05)


def test_what_has_no_period_has_no_tempo() -> None:
    rng = np.random.default_rng(2)
    assert find_tempo(np.zeros(3000), BIN_S) == []
    assert find_tempo(rng.poisson(1.0, 3000).astype(np.float64), BIN_S) == []


@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_turns_are_followed_through_a_change(factor: float) -> None:
    for seed in range(3):
        turns, ends = changed([2.1, 2.1 * factor], [15, 15], seed)
        rng = np.random.default_rng(seed)
        time = nanoseconds(moments(turns, rng, samples=100))
        until = [round(ends[0] * 1e9), int(time[-1]) + 1]
        tempo = list(zip(until, [2.1, 2.1 * factor], strict=True))
        found = follow_tempo(time, np.ones(len(time)), tempo) / 1e9
        inside = found[(found > turns[0]) & (found < turns[-1])]
        turn = np.searchsorted(turns, inside, "right") - 1
        phase = turn + (inside - turns[turn]) / np.diff(turns)[turn]
        assert 29 <= len(phase) <= 31
        assert np.abs(np.diff(phase) - 1).max() < 0.25
