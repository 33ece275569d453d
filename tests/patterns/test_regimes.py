from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from patterns.regimes import regimes, run_lengths
from tests import naive_regimes

JITTERS = [0.002, 0.01, 0.05]


def steady(count: int, jitter: float, seed: int) -> NDArray[np.float64]:
    """Durations around 1 s."""
    return np.exp(jitter * np.random.default_rng(seed).standard_normal(count))


def stretches(durations: NDArray[np.float64]) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in regimes(durations)]


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_chances_equal_those_of_all_divisions(values: list[float]) -> None:
    found = run_lengths(np.array(values))
    for row, wanted in zip(found, naive_regimes.run_lengths(values), strict=True):
        assert row[: len(wanted)] == pytest.approx(wanted, rel=1e-6, abs=1e-9)
        assert not row[len(wanted) :].any()


@pytest.mark.parametrize("jitter", [*JITTERS, 0.12])
@pytest.mark.parametrize("count", [1, 5, 30, 60])
def test_steady_steps_are_one_regime(jitter: float, count: int) -> None:
    for seed in range(20):
        assert stretches(steady(count, jitter, seed)) == [(0, count)]


@pytest.mark.parametrize("jitter", JITTERS)
@pytest.mark.parametrize("factor", [0.7, 1.3, 2.5])
@pytest.mark.parametrize("at", [6, 15, 24])
def test_steps_that_stay_longer_or_shorter_are_another(
    jitter: float, factor: float, at: int
) -> None:
    told = 0
    for seed in range(20):
        durations = steady(30, jitter, seed)
        durations[at:] *= factor
        found = stretches(durations)
        assert any(abs(first - at) <= 1 for first, _ in found)
        told += len(found) == 2
    assert told >= 19  # chance may draw one of 30 values of five per cent


def test_a_regime_has_its_own_median() -> None:
    durations = np.array([1.0, 1.01, 0.99, 1.0, 1.0, 1.5, 1.51, 1.49, 1.5, 1.52, 1.5])
    assert [one.median_s for one in regimes(durations)] == [1.0, 1.5]


@pytest.mark.parametrize("jitter", JITTERS)
def test_a_spell_of_long_steps_is_a_regime_of_its_own(jitter: float) -> None:
    durations = steady(40, jitter, 1)
    durations[20:27] *= 1.4
    assert stretches(durations) == [(0, 20), (20, 27), (27, 40)]


@pytest.mark.parametrize("jitter", JITTERS)
@pytest.mark.parametrize("every", [5, 8])
def test_checkpoints_end_no_regime(jitter: float, every: int) -> None:
    durations = steady(40, jitter, 2)
    durations[3::every] *= 2.5
    assert stretches(durations) == [(0, 40)]


@pytest.mark.parametrize("jitter", JITTERS)
def test_an_end_that_was_put_too_late_ends_no_regime(jitter: float) -> None:
    durations = steady(40, jitter, 3)
    durations[20:22] *= 1.3, 0.7
    assert stretches(durations) == [(0, 40)]


@pytest.mark.parametrize("long", [1, 2, 3])
def test_a_few_long_steps_at_the_end_are_no_regime_yet(long: int) -> None:
    durations = steady(30, 0.01, 4)
    durations[-long:] *= 1.4
    assert stretches(durations) == [(0, 30)]


def test_nothing_has_no_regime() -> None:
    assert regimes([]) == []
    assert run_lengths(np.zeros(0)).shape == (0, 0)


@given(
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=40),
    st.floats(0.01, 100.0),
)
@settings(deadline=None, max_examples=60)
def test_regimes_hold_all_and_know_no_unit(durations: list[float], unit: float) -> None:
    found = regimes(np.array(durations))
    assert [one.first for one in found] == [0, *(one.last for one in found[:-1])]
    assert found[-1].last == len(durations)
    scaled = regimes(unit * np.array(durations))
    assert [one.first for one in scaled] == [one.first for one in found]
