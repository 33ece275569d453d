"""Which jobs a list has, and what is read of each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import Function, ScalarSelect, Select, func, select

from api.results.schema import ANOMALIES, ITERATIONS, JOBS


def _summaries() -> Select[Any]:
    inner = ITERATIONS.alias()
    last_complete = (
        select(inner.c.index)
        .where(inner.c.job_id == JOBS.c.id, inner.c.final, inner.c.complete)
        .order_by(inner.c.index.desc())
        .limit(1)
        .correlate(JOBS)
        .scalar_subquery()
    )
    last = (ITERATIONS.c.job_id == JOBS.c.id) & (ITERATIONS.c.index == last_complete)
    return select(
        JOBS,
        _anomalies(func.count()).label("anomalies"),
        _anomalies(func.count(ANOMALIES.c.end_ns)).label("anomalies_ended"),
        ITERATIONS,
    ).select_from(JOBS.outerjoin(ITERATIONS, last))


def _anomalies(counted: Function[int]) -> ScalarSelect[int]:
    """Job by job, by index: anomalies of jobs that are not asked for are not read."""
    return select(counted).where(ANOMALIES.c.job_id == JOBS.c.id).scalar_subquery()


SUMMARIES: Final = _summaries()


def listed(statuses: Collection[str], limit: int | None) -> Select[Any]:
    """Rows of `SUMMARIES`, in any order.

    Parameters
    ----------
    statuses
        Only jobs with one of these; none: all jobs.
    limit
        At most so many, those that have ended last, and of each kind those seen first last.
    """
    chosen = select(JOBS.c.id)
    if statuses:
        chosen = chosen.where(JOBS.c.status.in_(statuses))
    if limit is None:
        return SUMMARIES.where(JOBS.c.id.in_(chosen)) if statuses else SUMMARIES
    chosen = chosen.order_by(JOBS.c.status == "ended", JOBS.c.first_seen_ns.desc(), JOBS.c.id)
    return SUMMARIES.where(JOBS.c.id.in_(chosen.limit(limit)))
