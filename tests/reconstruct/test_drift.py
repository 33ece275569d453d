from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from reconstruct.drift import LOST, PARTS, SLACK, Drift, _changes, _Phases, drift
from tests.reconstruct.rhythm import cuts, seen_at, thinned

DRIFTED = 3.0


def of_times(*times: NDArray[np.float64]) -> Drift:
    """Drift of all pairs."""
    pairs = np.array(list(combinations(range(len(times)), 2)), np.intp).T
    return drift(seen_at(*times), *pairs)


@pytest.mark.parametrize("samples", [4, 40])
def test_rails_of_one_job_keep_step(samples: int) -> None:
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        turns = cuts(2.1, 15, 0.02, rng)
        found.append(of_times(*(thinned(turns, rng, samples) for _ in range(4))).sigmas)
    assert np.max(found) < DRIFTED
    assert np.median(found) == pytest.approx(1.0, abs=0.2)


def test_the_noise_falls_with_the_root_of_the_samples() -> None:
    rng = np.random.default_rng(1)
    turns = cuts(2.1, 20, 0.01, rng)
    found = [of_times(*(thinned(turns, rng, n) for _ in range(2))) for n in (10, 40, 8000)]
    assert found[0].noise[0] / found[1].noise[0] == pytest.approx(2.0, rel=0.2)
    assert SLACK <= found[2].noise[0] < 1.1 * SLACK
    assert found[0].turns[0] == pytest.approx(20, abs=1)


def test_jobs_whose_periods_differ_by_half_a_percent_drift_apart() -> None:
    rng = np.random.default_rng(2)
    one, two = cuts(2.1, 12, 0.0, rng), cuts(2.1 * 1.005, 12, 0.0, rng)
    found = of_times(thinned(one, rng, 400), thinned(two - 0.063, rng, 400))
    assert found.sigmas[0] > DRIFTED


def test_jobs_of_equal_period_drift_apart_by_what_each_turn_takes_more_or_less() -> None:
    rng = np.random.default_rng(3)
    one, two = cuts(2.1, 30, 0.01, rng), cuts(2.1, 30, 0.01, rng)
    assert of_times(thinned(one, rng, 400), thinned(two, rng, 400)).sigmas[0] > DRIFTED


def test_a_lag_that_stays_is_no_drift() -> None:
    rng = np.random.default_rng(4)
    turns = cuts(2.1, 20, 0.01, rng)
    assert of_times(thinned(turns, rng, 400), thinned(turns + 0.6, rng, 400)).sigmas[0] < DRIFTED


def test_a_lag_that_steps_once_is_told_from_one_that_grows() -> None:
    rng = np.random.default_rng(5)
    turns = cuts(2.1, 32, 0.01, rng)
    slow = [thinned(turns[:17], rng, 400), thinned(turns[16:] + 0.2, rng, 400)]
    stepped = of_times(thinned(turns, rng, 400), np.concatenate(slow))
    assert stepped.sigmas[0] > DRIFTED > stepped.at_once[0]
    one, other = cuts(2.1, 32, 0.0, rng), cuts(2.1 * 1.003, 32, 0.0, rng)
    grown = of_times(thinned(one, rng, 400), thinned(other, rng, 400))
    assert grown.at_once[0] > DRIFTED


def test_nothing_is_known_where_there_is_no_period() -> None:
    rng = np.random.default_rng(6)
    found = of_times(np.sort(rng.uniform(0, 40, 900)), np.sort(rng.uniform(0, 40, 900)))
    assert (found.sigmas[0], found.at_once[0], found.turns[0]) == (0, 0, 0)
    assert np.isinf(found.noise[0])


def test_a_component_that_is_silent_in_most_parts_shows_little() -> None:
    rng = np.random.default_rng(7)
    turns = cuts(2.1, 40, 0.01, rng)
    whole, short = thinned(turns, rng), thinned(turns[:8], rng)
    found = of_times(whole, whole[::2], short)
    assert np.all(found.sigmas < DRIFTED)
    assert np.all(found.noise[1:] > found.noise[0])


def test_each_pair_is_measured_at_the_period_of_those_that_pairs_connect() -> None:
    rng = np.random.default_rng(8)
    slow, quick = cuts(2.1, 20, 0.01, rng), cuts(0.7, 60, 0.01, rng)
    seen = seen_at(*(thinned(turns, rng) for turns in (slow, quick, slow, quick)))
    found = drift(seen, np.array([1, 0]), np.array([3, 2]))
    assert found.turns == pytest.approx([60, 20], rel=0.05)
    assert np.all(found.sigmas < DRIFTED)


def test_no_pairs_no_drift() -> None:
    rng = np.random.default_rng(9)
    none = np.zeros(0, np.intp)
    assert len(drift(seen_at(thinned(cuts(2.1, 20, 0.01, rng), rng)), none, none).sigmas) == 0


def naive_changes(found: _Phases, a: np.integer, b: np.integer) -> tuple[float, float, float]:
    """`_changes` of one pair, as it is defined."""
    parts = found.phasor.shape[1]
    weights = [1 / (found.variance[a, i] + found.variance[b, i] + SLACK**2) for i in range(parts)]
    between = [complex(found.phasor[a, i] * found.phasor[b, i].conjugate()) for i in range(parts)]
    mean = sum(w * z for w, z in zip(weights, between, strict=True))
    mean /= abs(mean)
    lags = [float(np.angle(z * mean.conjugate())) / (2 * np.pi) for z in between]

    def squares(start: int, end: int, middle: float) -> float:
        return math.fsum(weights[i] * (lags[i] - middle) ** 2 for i in range(start, end))

    def best(start: int, end: int) -> float:
        part = slice(start, end)
        return squares(start, end, float(np.average(lags[part], weights=weights[part])))

    split = min(best(0, i) + best(i, parts) for i in range(1, parts))
    line = np.polyfit(np.arange(parts), lags, 1, w=np.sqrt(weights))
    off = [lag - float(np.polyval(line, i)) for i, lag in enumerate(lags)]
    steady = sum(w * d**2 for w, d in zip(weights, off, strict=True))
    whole = squares(0, parts, 0.0)
    stepped = split / max(parts - 2, 1) if split < steady else whole / (parts - 1)
    return (whole / (parts - 1)) ** 0.5, stepped**0.5, float(parts / sum(weights)) ** 0.5


@pytest.mark.parametrize("parts", [3, 5, PARTS])
def test_changes_are_those_of_the_definition(parts: int) -> None:
    rng = np.random.default_rng(10)
    phasor = np.exp(2j * np.pi * rng.normal(0.2, 0.05, (5, parts)))
    variance = rng.uniform(1e-6, 1e-3, (5, parts))
    variance[3, 1] = LOST
    found = _Phases(phasor, variance, 12.0)
    one, other = np.triu_indices(5, 1)
    for row, a, b in zip(np.transpose(_changes(found, one, other)), one, other, strict=True):
        assert row == pytest.approx(naive_changes(found, a, b), rel=1e-6, abs=1e-6)
