"""Whether times and volumes are good enough: limits by level, over all captures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from statistics import median
from typing import Final

import numpy as np

from bench.compare import Measured
from bench.limits import Threshold, by_level
from bench.score import JobCounts
from bench.timing import ENOUGH_SAMPLES, Timing


def all_jobs(timings: Iterable[Timing]) -> JobCounts:
    """Counts of jobs over all captures."""
    return sum((t.jobs for t in timings if t.jobs), JobCounts())


def exact_share(timings: Sequence[Timing]) -> float | None:
    """``exact jobs / true jobs``, over all captures."""
    jobs = all_jobs(timings)
    return jobs.exact / jobs.true if jobs.true else None


def false_jobs(timings: Sequence[Timing]) -> float | None:
    """Jobs that are none, over all captures."""
    return float(all_jobs(timings).false)


def bytes_error(timings: Sequence[Timing]) -> float | None:
    """Median over scenarios of the median error over groups; what was not said is infinite."""
    return _over_scenarios(timings, lambda t: t.group_bytes)


def period_error(timings: Sequence[Timing]) -> float | None:
    """Median over scenarios of the median error over jobs; what was not said is infinite."""
    return _over_scenarios(timings, lambda t: t.periods)


def boundary_p95(timings: Sequence[Timing], timestamps: bool) -> float | None:
    """95th percentile over iterations, in jobs with enough samples; with or without 0:1043."""
    errors = [e for t in timings if t.timestamps == timestamps for e in t.held]
    return float(np.percentile(errors, 95)) if errors else None


def uncounted(timings: Sequence[Timing]) -> float | None:
    """``(missed + invented) / true`` iterations; those declared unknown are not missed."""
    true = sum(t.iterations for t in timings)
    return sum(t.missed + t.invented for t in timings) / true if true else None


def median_error(measured: Iterable[Measured]) -> float | None:
    """Median relative error, where what was not said counts as infinite; None for nothing."""
    errors = [inf if m.error is None else m.error for m in measured]
    return median(errors) if errors else None


def _over_scenarios(
    timings: Sequence[Timing], part: Callable[[Timing], tuple[Measured, ...]]
) -> float | None:
    names = dict.fromkeys(t.scenario for t in timings)
    of_each = [
        median_error(m for t in timings if t.scenario == name for m in part(t)) for name in names
    ]
    found = [error for error in of_each if error is not None]
    return median(found) if found else None


THRESHOLDS: Final[tuple[Threshold[Timing], ...]] = (
    Threshold("jobs exact", exact_share, by_level(1.0, 0.99, 0.95), least=True),
    Threshold("false jobs", false_jobs, by_level(0, 0, 0), as_count=True),
    Threshold("bytes per iteration, error", bytes_error, by_level(0.005, 0.01, 0.05)),
    Threshold("period error (median over scenarios)", period_error, by_level(0.0005, 0.001, 0.005)),
    Threshold(
        f"boundary p95, {ENOUGH_SAMPLES} samples an iteration, 0:1043",
        partial(boundary_p95, timestamps=True),
        by_level(0.005, 0.01, None),
    ),
    Threshold(
        f"boundary p95, {ENOUGH_SAMPLES} samples an iteration, without",
        partial(boundary_p95, timestamps=False),
        by_level(0.03, 0.05, None),
    ),
    Threshold("missed or invented iterations", uncounted, by_level(0, 0.002, 0.02)),
)
