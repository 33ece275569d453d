"""Turns that are micro-batches of one iteration, by samples made here."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.accumulation import FEWEST, Accumulation, _longer, find_accumulation
from patterns.missed import Pulse

ITERATIONS, BURSTS, PER_BURST = 12, 10, 30
TURN_S, STEP_S = 1.0, 0.12


def samples(
    parts: int, step_s: float, at: int, jitter_s: float = 0.004, seed: int = 1
) -> tuple[Pulse, NDArray[np.int64], NDArray[np.int64]]:
    """Turns of ten bursts; once in `parts` turns an optimiser steps before burst `at`.

    With the last sample of every turn, and the last one before each of those steps.
    """
    rng = np.random.default_rng(seed)
    now, time, ends, steps = 0.0, list[NDArray[np.float64]](), list[float](), list[float]()
    for turn in range(ITERATIONS * parts):
        for burst in range(BURSTS):
            if burst == at and turn % parts == parts - 1:
                steps.append(time[-1][-1] if time else 0.0)
                now += step_s
            begin = now + rng.normal(0, jitter_s)
            time.append(np.sort(begin + rng.uniform(0, 0.05, PER_BURST)))
            now += TURN_S / BURSTS
        ends.append(time[-1][-1])
    moments = np.round(np.concatenate(time) * 1e9).astype(np.int64)
    order = np.argsort(moments, kind="stable")
    ends_ns, steps_ns = (np.round(np.array(at_s) * 1e9).astype(np.int64) for at_s in (ends, steps))
    return Pulse(moments[order], np.ones(len(moments))), ends_ns, steps_ns


def told(parts: int, step_s: float, at: int, jitter_s: float = 0.004) -> Accumulation | None:
    signal, ends, _ = samples(parts, step_s, at, jitter_s)
    return find_accumulation(signal, ends)


@pytest.mark.parametrize("parts", [2, 3, 6, 8, 16])
@pytest.mark.parametrize("at", [3, 8])
def test_iterations_end_where_the_optimiser_steps(parts: int, at: int) -> None:
    signal, ends, steps = samples(parts, STEP_S, at)
    found = find_accumulation(signal, ends)
    assert found is not None
    assert found.turns == parts
    assert found.excess_s == pytest.approx(STEP_S, abs=0.01)
    # The first turn is cut off, and with it perhaps its step.
    assert len(steps) - 1 <= len(found.ends_ns) <= len(steps)
    assert (np.abs(found.ends_ns - steps[-len(found.ends_ns) :]) < 0.02e9).all()


def test_turns_that_are_alike_are_iterations() -> None:
    assert told(4, 0.0, 3) is None


def test_a_step_within_jitter_is_not_told() -> None:
    assert told(4, 0.05, 3, jitter_s=0.05) is None


def test_a_checkpoint_now_and_then_makes_no_iteration() -> None:
    """It takes longer than an optimiser's step."""
    assert told(5, 3.0, 0) is None


def test_a_turn_that_is_long_now_and_then_is_no_rule() -> None:
    signal, ends, _ = samples(1, 0.0, 0)
    later = np.sort(np.random.default_rng(2).choice(ITERATIONS, 3, replace=False))
    moved = ends + np.round(STEP_S * 1e9 * np.searchsorted(later, np.arange(len(ends)))).astype(int)
    assert find_accumulation(signal, moved) is None


def test_too_few_iterations_tell_nothing() -> None:
    signal, ends, _ = samples(4, STEP_S, 3)
    assert find_accumulation(signal, ends[: 4 * 4]) is None


@pytest.mark.parametrize("turns", [12, 16, 20, 40])
def test_turns_that_differ_by_chance_are_no_micro_batches(turns: int) -> None:
    """Without asking for more, 2 to 11 of 100 windows have a place where each turn is longer."""
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(500):
        ends = np.cumsum(0.8e9 * (1 + 0.05 * rng.standard_normal(turns + 1)))
        found += any(
            _longer(ends[span:] - ends[:-span], parts, span) is not None
            for parts in range(2, turns // FEWEST + 1)
            for span in ((1, 2) if parts > 3 else (1,))
        )
    assert found <= 1
