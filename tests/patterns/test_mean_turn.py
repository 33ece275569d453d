from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.mean_turn import crude_ends, find_pauses, overshot_ns
from patterns.missed import Pulse
from tests.reconstruct.made import S

TURNS = 20
BURST = 0.4  # of a turn of a second, from its begin on


def pulse(time_s: NDArray[np.float64]) -> Pulse:
    return Pulse(np.sort(np.round(time_s * 1e9)).astype(np.int64), np.ones(len(time_s)))


def bursts(per_turn: int, seed: int = 1) -> NDArray[np.float64]:
    """Samples of bursts that come at random."""
    rng = np.random.default_rng(seed)
    return np.asarray(np.repeat(np.arange(TURNS), per_turn) + BURST * rng.random(TURNS * per_turn))


def ends() -> NDArray[np.int64]:
    return np.round((np.arange(TURNS) + BURST) * 1e9).astype(np.int64)


@pytest.mark.parametrize("per_turn", [20, 200])
def test_ends_that_are_right_are_not_moved(per_turn: int) -> None:
    moved = [overshot_ns(pulse(bursts(per_turn, seed)), ends()) for seed in range(100)]
    assert sum(by > 0 for by in moved) <= 10
    # And if one is, by chance alone, then by no more than chance leaves unseen.
    assert max(moved) <= 5 * BURST / per_turn * 1e9


@pytest.mark.parametrize("late_s", [0.02, 0.05])
def test_ends_behind_all_samples_are_late(late_s: float) -> None:
    by = overshot_ns(pulse(bursts(400)), ends() + round(late_s * 1e9))
    assert by / 1e9 == pytest.approx(late_s, abs=0.003)


def test_few_turns_tell_nothing() -> None:
    assert overshot_ns(pulse(bursts(400)), ends()[:4] + S // 20) == 0
    assert overshot_ns(pulse(np.zeros(0)), ends()) == 0


@pytest.mark.parametrize(
    ("since_s", "until_s", "first", "last"),
    [
        (BURST - 0.2, TURNS + 1.0, 0, TURNS - 2),  # the window begins before an end
        (BURST + 0.01, TURNS + 1.0, 1, TURNS - 2),  # and just behind one
        (-1.0, TURNS - 1 + 0.01, 0, TURNS - 2),  # it ends just behind a begin
        (-1.0, TURNS - 1 - 0.1, 0, TURNS - 3),  # and in a pause, of which no gap tells
    ],
)
def test_ends_are_found_up_to_the_window_s_end(
    since_s: float, until_s: float, first: int, last: int
) -> None:
    time = bursts(400)
    signal = pulse(time[(time >= since_s) & (time < until_s)])
    turns_ns = np.arange(TURNS) * S
    inside = (turns_ns >= since_s * 1e9 - S) & (turns_ns <= until_s * 1e9)
    [pause] = find_pauses(signal, turns_ns[inside])
    found, middles = crude_ends(signal, turns_ns[inside], pause)
    assert np.round(found / 1e9 - BURST).tolist() == list(range(first, last + 1))
    assert np.all(middles > found)
