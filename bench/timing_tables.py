"""The table of times and volumes: methods side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
from rich.table import Table

from bench.tables import NOTHING, plain_table
from bench.timing import Timing
from bench.timing_judge import all_jobs, median_error

ALL = "all"


def beside_table(timings: Iterable[Timing], level: str) -> Table:
    """All methods side by side: a line per scenario and method, all seeds together.

    Errors of periods are the median over jobs (what was not said counts as the largest), of
    boundaries the median over the paired ones, of step times the mean over iterations.
    """
    columns = (
        *("scenario", "method", "jobs", "period err", "boundary err", "step time err"),
        *("iterations", "missed", "invented", "unknown"),
    )
    table = plain_table(f"Side by side, {level}", columns, left=2)
    held = list(timings)
    methods = list(dict.fromkeys(t.method for t in held))
    held.sort(key=lambda t: (t.scenario, methods.index(t.method)))
    for (scenario, method), some in groupby(held, key=lambda t: (t.scenario, t.method)):
        table.add_row(scenario, method, *_cells(list(some)))
    for method in methods:
        table.add_row(ALL, method, *_cells([t for t in held if t.method == method]))
    return table


def _cells(timings: Sequence[Timing]) -> list[str]:
    period = median_error(m for t in timings for m in t.periods)
    first = NOTHING if period is None else _percent(period)
    if any(t.jobs is None for t in timings):
        return [NOTHING, first, *[NOTHING] * 6]
    jobs = all_jobs(timings)
    near = [e for t in timings for e in t.boundaries]
    lasting = [e for t in timings for e in t.lasting]
    return [
        f"{jobs.exact} / {jobs.true}" + (f", {jobs.false} false" if jobs.false else ""),
        first,
        _percent(float(np.median(near))) if near else NOTHING,
        _percent(float(np.mean(lasting))) if lasting else NOTHING,
        *(str(sum(getattr(t, name) for t in timings)) for name in _COUNTS),
    ]


_COUNTS = ("iterations", "missed", "invented", "unknown")


def _percent(value: float) -> str:
    return "missing" if np.isinf(value) else f"{100 * value:.3f} %"
