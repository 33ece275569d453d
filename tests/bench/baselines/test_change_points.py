"""Change points against a twin that keeps every run's values and counts anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.baselines.change_points import (
    HAZARD,
    LONGEST,
    SCALE,
    SHAPE,
    WEIGHT,
    change_points,
)


def slow(values: list[float]) -> list[bool]:
    """Adams and MacKay's recursion; a run's posterior from all its values (Murphy 2007, eq. 85)."""
    centre = sum(values) / len(values)
    runs: list[tuple[int, float]] = []  # where it began, its probability
    found = []
    for now, value in enumerate(values):
        grown = [
            (begin, chance * (1 - HAZARD) * student(value, values[begin:now], centre))
            for begin, chance in runs
        ]
        born = sum(chance for _, chance in runs) * HAZARD if runs else 1.0
        runs = [(now, born * student(value, [], centre)), *grown]
        total = sum(chance for _, chance in runs)
        runs = [(begin, chance / total) for begin, chance in runs]
        found.append(max(runs, key=lambda run: run[1])[0] == now)
    return found


def student(value: float, held: list[float], centre: float) -> float:
    """Density of the next value of a run that holds some."""
    n = len(held)
    mean = sum(held) / n if n else 0.0
    weight, shape = WEIGHT + n, SHAPE + n / 2
    scale = SCALE + sum((x - mean) ** 2 for x in held) / 2
    scale += WEIGHT * n * (mean - centre) ** 2 / (2 * weight)
    where = (WEIGHT * centre + n * mean) / weight
    spread = scale * (weight + 1) / (shape * weight)
    degrees = 2 * shape
    top = math.gamma((degrees + 1) / 2) / math.gamma(degrees / 2)
    bent = math.pow(1 + (value - where) ** 2 / (degrees * spread), -(degrees + 1) / 2)
    return top / math.sqrt(degrees * math.pi * spread) * bent


@pytest.mark.parametrize("seed", range(20))
def test_as_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    series = [
        np.where(rng.random(n) < 0.3, 4.0, -4.0) + rng.normal(0, 0.4, n)
        for n in rng.integers(1, LONGEST + 1, 8)
    ]
    assert [found.tolist() for found in change_points(series)] == [
        slow(values.tolist()) for values in series
    ]


def test_a_long_pause_between_short_ones_begins_a_run() -> None:
    pauses = np.log(([1e-3] * 9 + [1.0]) * 6)
    (found,) = change_points([pauses])
    assert found[9::10].all()
    assert not found[1:9].any()


def test_equal_values_are_one_run() -> None:
    (found,) = change_points([np.full(5 * LONGEST, -2.0)])
    assert np.flatnonzero(found).tolist() == [0]


def test_nothing_and_series_of_nothing() -> None:
    assert change_points([]) == []
    empty, one = change_points([np.zeros(0), np.zeros(1)])
    assert (len(empty), one.tolist()) == (0, [True])
