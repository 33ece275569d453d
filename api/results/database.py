"""`Results`: what the analysis has found, kept over restarts and read by everyone else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, func, select, update

from api.errors import ResultsError
from api.results.connections import Connections
from api.results.listing import SUMMARIES, listed
from api.results.records import Document, JobRecord, JobUpdate, Life, Summary, WindowRecord
from api.results.retention import remove_old
from api.results.rows import (
    anomaly,
    escaped,
    iteration,
    job_record,
    summary,
    unescaped,
    window_record,
)
from api.results.saving import Saving, Written
from api.results.schema import ANOMALIES, DETAILS, ITERATIONS, JOBS, NUMBERING, WINDOW
from patterns.result import Anomaly, Iteration

_LAST: Final = 2**63 - 1
# Longer than what a turn of the analysis usually adds, so that a nearly full disk is seen.
_PROBE_BYTES: Final = 1 << 16
# No job has it: an escaped text never holds a bare quote.
_PROBE_ID: Final = '"probe"'
_RECORDS: Final = select(JOBS, DETAILS.c.document, DETAILS.c.state).join(DETAILS)


class Results:
    """The results database; any thread may use it.

    Parameters
    ----------
    url
        sqlite:///FILE (by `connections.sqlite_url`) or postgresql://USER:PASSWORD@HOST/DATABASE.
        An older database is brought up to date, a new one is made.

    Raises
    ------
    ResultsError
        The database cannot be opened, or a newer version wrote it. Also every method raises it
        where the database fails; what a method has to write is then not written at all.
    """

    def __init__(self, url: str) -> None:
        self._connections = Connections(url)
        self._written: dict[str, Written] = {}  # of jobs that have not ended

    def save(self, window: WindowRecord | None, updates: Sequence[JobUpdate]) -> None:
        """Write what one turn of the analysis says, in one transaction.

        Parameters
        ----------
        window
            Takes the place of the last one; None leaves it.
        updates
            At most one of each job. A final iteration that is stored already is left as it is;
            the provisional ones replace those of the job; an anomaly replaces the one of its id.

        Raises
        ------
        TypeError
            A document is no JSON.
        """
        saving = Saving(window, updates, self._written)
        with self._connections.writing() as connection:
            saving.write(connection)
        self._written.update(saving.written)
        for each in updates:
            if each.record.document["status"] == "ended":
                self._written.pop(each.record.id, None)

    def window(self) -> WindowRecord | None:
        """The last window saved; None = none yet."""
        with self._connections.reading() as connection:
            row = connection.execute(select(WINDOW)).one_or_none()
            return None if row is None else window_record(row)

    def jobs(self) -> list[JobRecord]:
        """All jobs, by the time they were first seen, then by id."""
        with self._connections.reading() as connection:
            records = [job_record(row) for row in connection.execute(_RECORDS)]
        return sorted(records, key=lambda record: (record.first_seen_ns, record.id))

    def job(self, job_id: str) -> JobRecord | None:
        """One job; None = there is none of this id."""
        with self._connections.reading() as connection:
            statement = _RECORDS.where(JOBS.c.id == escaped(job_id))
            row = connection.execute(statement).one_or_none()
            return None if row is None else job_record(row)

    def summaries(self, *statuses: str, limit: int | None = None) -> list[Summary]:
        """Jobs in short, by the time they were first seen, then by id.

        Parameters
        ----------
        statuses
            Only jobs with one of these; none: all jobs.
        limit
            At most so many: those that have not ended come first into the list, then those that
            were first seen last.
        """
        if limit is not None:
            limit = max(min(limit, _LAST), 0)
        statement = listed([escaped(status) for status in statuses], limit)
        with self._connections.reading() as connection:
            found = [summary(row) for row in connection.execute(statement)]
        return sorted(found, key=lambda one: (one.first_seen_ns, one.id))

    def summary(self, job_id: str) -> Summary | None:
        """One job in short; None = there is none of this id."""
        with self._connections.reading() as connection:
            statement = SUMMARIES.where(JOBS.c.id == escaped(job_id))
            row = connection.execute(statement).one_or_none()
            return None if row is None else summary(row)

    def detailed(self, job_id: str) -> tuple[Summary, Document] | None:
        """One job in short, and the rest of its document at the same moment.

        Returns
        -------
        tuple, or None where there is no job of this id
            {**summary.document, **rest} is the document.
        """
        statement = SUMMARIES.add_columns(DETAILS.c.document).join(
            DETAILS, DETAILS.c.job_id == JOBS.c.id
        )
        with self._connections.reading() as connection:
            row = connection.execute(statement.where(JOBS.c.id == escaped(job_id))).one_or_none()
            return None if row is None else (summary(row), json.loads(row.document))

    def statuses(self) -> dict[str, int]:
        """How many jobs there are of each status that one has."""
        statement = select(JOBS.c.status, func.count()).group_by(JOBS.c.status)
        with self._connections.reading() as connection:
            return {unescaped(status): jobs for status, jobs in connection.execute(statement)}

    def lives(self) -> list[Life]:
        """Where every job stands, in no order; cheap, as no document is read."""
        columns = (
            *(JOBS.c.id, JOBS.c.status, JOBS.c.first_seen_ns, JOBS.c.window_end_ns),
            JOBS.c.complete_iterations,
        )
        with self._connections.reading() as connection:
            return [
                Life(
                    id=unescaped(row.id),
                    status=unescaped(row.status),
                    first_seen_ns=row.first_seen_ns,
                    window_end_ns=row.window_end_ns,
                    iterations=row.complete_iterations,
                )
                for row in connection.execute(select(*columns))
            ]

    def iterations(
        self,
        job_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Iteration]:
        """Iterations of a job, final and provisional ones, ascending by index.

        Parameters
        ----------
        job_id
            A job; one that does not exist has none.
        after
            Only those with a higher index.
        limit
            At most so many: the first ones, or with `newest` the last ones.
        """
        statement = select(ITERATIONS).where(ITERATIONS.c.job_id == escaped(job_id))
        if after is not None:
            # An index asked for by people may be larger than a column holds.
            statement = statement.where(ITERATIONS.c.index > max(min(after, _LAST), -_LAST))
        if limit is not None:
            statement = statement.limit(max(min(limit, _LAST), 0))
        order = ITERATIONS.c.index.desc() if newest else ITERATIONS.c.index
        with self._connections.reading() as connection:
            found = [iteration(row) for row in connection.execute(statement.order_by(order))]
        return found[::-1] if newest else found

    def anomalies(
        self,
        job_id: str | None = None,
        *,
        kind: str | None = None,
        open_only: bool = False,
        limit: int | None = None,
    ) -> list[tuple[str, Anomaly]]:
        """Anomalies with the ids of their jobs, the newest first.

        Parameters
        ----------
        job_id, kind
            Only those of this job, or of this kind.
        open_only
            Only those without an end.
        limit
            At most so many.
        """
        statement = select(ANOMALIES).order_by(
            ANOMALIES.c.start_ns.desc(), ANOMALIES.c.job_id, ANOMALIES.c.id
        )
        if job_id is not None:
            statement = statement.where(ANOMALIES.c.job_id == escaped(job_id))
        if kind is not None:
            statement = statement.where(ANOMALIES.c.kind == escaped(kind))
        if open_only:
            statement = statement.where(ANOMALIES.c.end_ns.is_(None))
        if limit is not None:
            statement = statement.limit(max(min(limit, _LAST), 0))
        with self._connections.reading() as connection:
            rows = connection.execute(statement)
            return [(unescaped(row.job_id), anomaly(row)) for row in rows]

    def next_job_number(self) -> int:
        """A number that no job has had, from 0; each call gives another one, for ever."""
        with self._connections.writing() as connection:
            # First the write, as it is what keeps a second caller waiting.
            connection.execute(update(NUMBERING).values(next_job=NUMBERING.c.next_job + 1))
            following = connection.execute(select(NUMBERING.c.next_job)).scalar_one()
            return int(following) - 1

    def check(self) -> str | None:
        """Why nothing can be written now; None = a write of usual size has just worked."""
        job = dict.fromkeys((column.name for column in JOBS.c), 0) | {
            "id": _PROBE_ID,
            "status": "",
            "summary": "",
            "digest": "",
        }
        details = {"job_id": _PROBE_ID, "document": " " * _PROBE_BYTES, "state": ""}
        try:
            with self._connections.writing() as connection:
                connection.execute(JOBS.insert(), job)
                connection.execute(DETAILS.insert(), details)
                connection.execute(delete(DETAILS).where(DETAILS.c.job_id == _PROBE_ID))
                connection.execute(delete(JOBS).where(JOBS.c.id == _PROBE_ID))
        except ResultsError as error:
            return error.reason
        return None

    def forget(self, before_ns: int) -> int:
        """Remove what is too old.

        Jobs that have ended and were last seen before go with all they have. Of the others go
        anomalies that ended before, and iterations up to the first that did not.

        Parameters
        ----------
        before_ns
            Event time, ns since the epoch.

        Returns
        -------
        int
            How many jobs, iterations and anomalies were removed.
        """
        with self._connections.writing() as connection:
            return remove_old(connection, before_ns)

    def close(self) -> None:
        """Close the database; a thread that still reads it may finish."""
        self._connections.close()
