from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from reconstruct.prediction import foretold

S = 1_000_000_000
BEATS, BEAT_S, STEP_S = 6, 0.7, 0.3  # of an iteration: micro-batches, and an optimiser's step
PERIOD_S = BEATS * BEAT_S + STEP_S
ITERATIONS = 24


def samples(per_beat: int) -> NDArray[np.int64]:
    """One burst of a quarter second in each beat."""
    rng = np.random.default_rng(2)
    begins = PERIOD_S * np.arange(ITERATIONS)[:, None] + BEAT_S * np.arange(BEATS)
    time = begins.ravel()[:, None] + 0.25 * rng.random((begins.size, per_beat))
    return np.sort((time.ravel() * S).astype(np.int64))


def turns(period_s: float) -> NDArray[np.int64]:
    count = int(ITERATIONS * PERIOD_S / period_s)
    return (period_s * np.arange(count) * S - 0.1 * S).astype(np.int64)


@pytest.mark.parametrize("per_beat", [3, 40])
def test_the_true_cycle_foretells_best(per_beat: int) -> None:
    time = samples(per_beat)

    def gain(period_s: float) -> float:
        return foretold(time, np.ones(len(time)), turns(period_s), 0.02 * S)

    true = gain(PERIOD_S)
    for other in (BEAT_S, PERIOD_S / 2, 2 * PERIOD_S, 3 * PERIOD_S):
        assert gain(other) < true
    assert true > 0.5


def test_samples_that_lie_anywhere_are_not_foretold() -> None:
    rng = np.random.default_rng(3)
    time = np.sort(rng.integers(0, int(ITERATIONS * PERIOD_S * S), 5000))
    assert foretold(time, np.ones(len(time)), turns(PERIOD_S), 0.02 * S) < 0.01


def test_two_turns_foretell_nothing() -> None:
    time = samples(3)
    assert foretold(time, np.ones(len(time)), turns(PERIOD_S)[:3], 0.02 * S) == -np.inf
