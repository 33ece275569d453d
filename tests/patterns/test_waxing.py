"""Steps of two bursts, whose pauses are as long as their batch makes them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.missed import Pulse
from patterns.waxing import ends_inside

MS = 1_000_000
BURST_MS = 100
STEPS = 30


def signal(
    common: float, own: float, seed: int, steps: int = STEPS, late: float = 0.0
) -> tuple[Pulse, list[int]]:
    """Samples of steps that pause, burst, pause and burst; and a moment in each pause.

    `common` and `own` are the spread of batches, and of pauses by themselves; `late` that of
    bursts. Computing goes on during the first burst of a step.
    """
    rng = np.random.default_rng(seed)
    now, times, moments = 0.0, [0.0], []
    for batch in np.exp(rng.normal(0, common, steps)):
        hidden = 0.0
        for usual in (410.0, 390.0):
            pause = usual * batch * np.exp(rng.normal(0, own)) - hidden
            burst = BURST_MS * np.exp(rng.normal(0, late))
            moments.append(int((now + pause / 2) * MS))
            times.extend(now + pause + np.linspace(0, burst, 400))
            now += pause + burst
            hidden = burst - BURST_MS
    time_ns = np.array(times) * MS
    return Pulse(time_ns.astype(np.int64), np.ones(len(times))), moments


def told(pulse: Pulse, moments: list[int]) -> tuple[bool, bool]:
    """What is said counted from the pause a step begins with, and from the one inside it."""
    at: NDArray[np.int64] = np.array(moments, np.int64)
    return ends_inside(pulse, at[::2], at[1::2]), ends_inside(pulse, at[1::2], at[::2])


@pytest.mark.parametrize("seed", range(10))
def test_pauses_of_one_batch_are_long_or_short_together(seed: int) -> None:
    assert told(*signal(0.02, 0.005, seed)) == (False, True)


@pytest.mark.parametrize("seed", range(10))
def test_a_step_that_stalls_does_not_decide(seed: int) -> None:
    pulse, moments = signal(0.02, 0.005, seed)
    late = pulse.time_ns > moments[20]
    stalled = Pulse(pulse.time_ns + late * 5_000 * MS, pulse.weight)
    assert told(stalled, [m + 5_000 * MS * (m > moments[20]) for m in moments]) == (False, True)


@pytest.mark.parametrize("seed", range(10))
def test_for_the_last_burst_of_a_step_all_wait(seed: int) -> None:
    assert told(*signal(0.0, 0.02, seed, late=0.2)) == (False, True)


def test_pauses_that_have_nothing_in_common_tell_nothing() -> None:
    found = [told(*signal(0.0, 0.02, seed)) for seed in range(40)]
    assert sum(map(any, found)) < 0.2 * len(found)


def test_turns_of_which_a_pause_was_not_seen_tell_nothing() -> None:
    pulse, moments = signal(0.02, 0.005, 1)
    at = np.array(moments, np.int64)
    outer, inner = np.delete(at[1::2], [3, 9]), np.delete(at[::2], [5, 20])
    assert ends_inside(pulse, outer, inner)
    assert not ends_inside(pulse, inner, outer)


def test_few_steps_tell_nothing() -> None:
    assert told(*signal(0.02, 0.001, 1, steps=6)) == (False, False)


def test_pauses_of_one_length_tell_nothing() -> None:
    assert told(*signal(0.0, 0.0, 1)) == (False, False)
