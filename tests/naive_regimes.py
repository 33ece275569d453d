"""The slow, obvious twin of `patterns.regimes.run_lengths`: every division into runs by itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise, product

HAZARD, ALONE, RANGE = 0.01, 0.03, 2.0
APART, SHAPE, LEAST_SPREAD = 0.3, 1.0, 0.002


def run_lengths(values: Sequence[float]) -> list[list[float]]:
    """Chances of how many values of its run came before each value, by all divisions up to it."""
    steps = [abs(b - a) for a, b in pairwise(values)]
    usual = 1.4826 * statistics.median(steps) / math.sqrt(2) if steps else 0.0
    spread, centre = max(LEAST_SPREAD, usual), statistics.median(values)
    out = []
    for count in range(1, len(values) + 1):
        total = [0.0] * count
        for division in product((False, True), repeat=count - 1):
            starts = [0, *(i for i, begins in enumerate(division, 1) if begins)]
            prior = math.prod(HAZARD if begins else 1 - HAZARD for begins in division)
            runs = [values[a:b] for a, b in zip(starts, [*starts[1:], count], strict=True)]
            fit = math.prod(_likelihood(run, centre, spread) for run in runs)
            total[count - 1 - starts[-1]] += prior * fit
        out.append([chance / sum(total) for chance in total])
    return out


def _likelihood(run: Sequence[float], centre: float, spread: float) -> float:
    """Of a run's values, each by those before it."""
    mean, weight = centre, (spread / APART) ** 2
    shape, scale = SHAPE, SHAPE * spread**2
    product_ = 1.0
    for value in run:
        own = (1 - ALONE) * _student(value - mean, weight, shape, scale)
        fit = own + ALONE / RANGE
        belongs = own / fit
        product_ *= fit
        scale += belongs * weight * (value - mean) ** 2 / (2 * (weight + belongs))
        mean = (weight * mean + belongs * value) / (weight + belongs)
        weight += belongs
        shape += belongs / 2
    return product_


def _student(off: float, weight: float, shape: float, scale: float) -> float:
    freedom = 2 * shape
    width = math.sqrt(scale * (weight + 1) / (shape * weight))
    at = off / width
    constant = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2)
    bent = math.pow(1 + at * at / freedom, -(freedom + 1) / 2)
    return constant * bent / math.sqrt(freedom * math.pi) / width
