"""What the results database forgets."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, select

from api.results.schema import ANOMALIES, DETAILS, ITERATIONS, JOBS


def remove_old(connection: Connection, before_ns: int) -> int:
    """Remove what is too old, in the transaction that is open; see `Results.forget`.

    Returns
    -------
    int
        How many jobs, iterations and anomalies were removed.
    """
    ended = (JOBS.c.status == "ended") & (JOBS.c.last_seen_ns < before_ns)
    gone = select(JOBS.c.id).where(ended)
    removed = 0
    # Job by job, by index: by time alone, all iterations of all jobs would be read.
    first_kept = (
        select(ITERATIONS.c.index)
        .where(ITERATIONS.c.job_id == bindparam("job"), ITERATIONS.c.end_ns >= before_ns)
        .order_by(ITERATIONS.c.index)
        .limit(1)
    )
    for job in connection.execute(select(JOBS.c.id).where(~ended)).scalars().all():
        old = delete(ITERATIONS).where(ITERATIONS.c.job_id == job)
        first = connection.execute(first_kept, {"job": job}).scalar()
        if first is not None:
            old = old.where(ITERATIONS.c.index < first)
        removed += connection.execute(old).rowcount
    connection.execute(delete(DETAILS).where(DETAILS.c.job_id.in_(gone)))
    for statement in (
        delete(ITERATIONS).where(ITERATIONS.c.job_id.in_(gone)),
        delete(ANOMALIES).where(ANOMALIES.c.job_id.in_(gone) | (ANOMALIES.c.end_ns < before_ns)),
        delete(JOBS).where(ended),
    ):
        removed += connection.execute(statement).rowcount
    return removed
