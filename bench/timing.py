"""How right jobs, volumes and iterations are: one capture and one method at a time.

Every formula that is not `bench.score`'s stands here, in the docstring of what works it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from bench.compare import Document, Measured, relative_error
from bench.pairing import JobPair, pair_boundaries, pair_documents
from bench.score import (
    JobCounts,
    boundary_errors,
    group_byte_errors,
    iteration_ends,
    job_counts,
    period_error,
)

RINGSCOPE: Final = "ringscope"
# Boundaries are held to a limit where an iteration of the job has so many samples.
ENOUGH_SAMPLES: Final = 160


@dataclass(frozen=True, slots=True)
class Timing:
    """What one method said of one capture, scored.

    Attributes
    ----------
    jobs
        None for a method that names no jobs.
    group_bytes, periods
        See `bench.score`.
    boundaries
        Distances between paired ends of iterations, of all jobs, in units of the true period.
    held
        Those of them in jobs with `ENOUGH_SAMPLES`.
    lasting
        See `duration_errors`.
    iterations, missed, invented
        Complete iterations of the truth, how many of them have no answer, and how many answers no
        iteration. A job whose period is said to be unknown misses none: see `unknown`.
    unknown
        Complete iterations of jobs whose period is said to be unknown.
    """

    method: str
    scenario: str
    seed: int
    level: str
    timestamps: bool
    jobs: JobCounts | None
    group_bytes: tuple[Measured, ...] = ()
    periods: tuple[Measured, ...] = ()
    boundaries: tuple[float, ...] = ()
    held: tuple[float, ...] = ()
    lasting: tuple[float, ...] = ()
    iterations: int = 0
    missed: int = 0
    invented: int = 0
    unknown: int = 0


def timing(method: str, truth: Document, result: Document) -> Timing:
    """Score a result (or a baseline's document) on all but structure."""
    pairs, lone = pair_documents(truth, result)
    near: list[float] = []
    held: list[float] = []
    missed = invented = unknown = total = 0
    for pair in pairs:
        for boundaries in boundary_errors(pair, truth["window"]):
            count = len(iteration_ends(pair.true, truth["window"]))
            total += count
            silent = len(boundaries.raw) == boundaries.missed
            if silent and pair.said and pair.said.get("period_s") is None:
                unknown += count
                continue
            alone = boundaries.missed + boundaries.invented
            distances = boundaries.raw[: len(boundaries.raw) - alone]
            near += distances
            held += distances if _enough(truth, pair) else ()
            missed += boundaries.missed
            invented += boundaries.invented
    return Timing(
        method,
        *_named(truth),
        jobs=job_counts(pairs, lone),
        group_bytes=tuple(m for pair in pairs for m in group_byte_errors(pair)),
        periods=tuple(m for pair in pairs for m in period_error(pair)),
        boundaries=tuple(near),
        held=tuple(held),
        lasting=tuple(e for pair in pairs for e in duration_errors(pair, truth["window"])),
        iterations=total,
        missed=missed,
        invented=invented,
        unknown=unknown,
    )


def period_only(method: str, truth: Document, period_s: float | None) -> Timing:
    """Score a method that gives one period for all that happens: it is taken for each job's."""
    periods = tuple(
        Measured(job["id"], job["period_s"], period_s, relative_error(period_s, job["period_s"]))
        for job in truth["jobs"]
        if job.get("period_s")
    )
    return Timing(method, *_named(truth), jobs=None, periods=periods)


def duration_errors(pair: JobPair, window: Document) -> Iterable[float]:
    """Per complete iteration whose both ends are paired with neighbours: ``|d(R) - d(T)| / d(T)``.

    d is the time between the two ends. Ends are paired after one constant offset is taken away,
    which moves no duration.
    """
    period = pair.true.get("period_s")
    true, said = (iteration_ends(job or {}, window) for job in (pair.true, pair.said))
    if not period or not len(true) or not len(said):
        return
    first = pair_boundaries(true, said, period / 2)
    offset = float(np.median([said[r] - true[t] for t, r in first])) if first else 0.0
    matches = pair_boundaries(true, said - offset, period / 2)
    for (t0, r0), (t1, r1) in pairwise(matches):
        if t1 - t0 == r1 - r0 == 1:
            lasted = true[t1] - true[t0]
            yield abs(said[r1] - said[r0] - lasted) / lasted


def _enough(truth: Document, pair: JobPair) -> bool:
    seen = truth["observable"]["jobs"].get(pair.true["id"], {})
    return bool(seen.get("samples_per_iteration", 0.0) >= ENOUGH_SAMPLES)


def _named(truth: Document) -> tuple[str, int, str, bool]:
    stamped = bool(truth["export"]["timestamps"])
    return str(truth["scenario"]), int(truth["seed"]), str(truth["level"]), stamped
