"""Writing what one turn of the analysis says: `Saving` prepares it, then does it in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from api.results.records import Document, JobRecord, JobUpdate, WindowRecord
from api.results.rows import (
    Values,
    anomaly_row,
    details_row,
    digest,
    escaped,
    iteration_row,
    job_row,
    window_row,
)
from api.results.schema import ANOMALIES, DETAILS, ITERATIONS, JOBS, WINDOW
from api.results.summary import long_part
from patterns.result import Iteration


@dataclass(frozen=True, slots=True)
class Written:
    """What the row of `DETAILS` of a job was made from, and its digest.

    To compare it with what is to be written costs a twentieth of writing that as JSON.
    """

    document: Document
    state: Document
    digest: str

    def holds(self, record: JobRecord) -> bool:
        """Whether the row of this record is the same."""
        return self.state == record.state and self.document == long_part(record.document)


class Saving:
    """The rows of one turn.

    Parameters
    ----------
    window
        None leaves the one that is stored.
    updates
        At most one of each job.
    written
        What is known of earlier turns, by job.

    Attributes
    ----------
    written
        The same of this turn's jobs, once it is done.

    Raises
    ------
    TypeError
        A document is no JSON.
    """

    def __init__(
        self,
        window: WindowRecord | None,
        updates: Sequence[JobUpdate],
        written: Mapping[str, Written],
    ) -> None:
        self._updates = updates
        self._details: dict[str, Values] = {}
        self.written = {u.record.id: self._details_of(u.record, written) for u in updates}
        self._windows = [] if window is None else [window_row(window)]
        self._jobs = [job_row(update.record) for update in updates]
        anomalies = [
            anomaly_row(escaped(update.record.id), anomaly)
            for update in updates
            for anomaly in update.anomalies
        ]
        # Of two with one id the later; PostgreSQL takes no two in one statement.
        self._anomalies = list({(row["job_id"], row["id"]): row for row in anomalies}.values())

    def write(self, connection: Connection) -> None:
        """Write all of it, in the transaction that is open.

        One statement each for the rows of a table, whatever their number: a statement costs more
        than a row.
        """
        iterations, details = self._number(connection)
        _upsert(connection, WINDOW, self._windows)
        _upsert(connection, JOBS, self._jobs)
        _upsert(connection, DETAILS, details)
        if self._jobs:
            connection.execute(
                delete(ITERATIONS).where(
                    ITERATIONS.c.job_id.in_([row["id"] for row in self._jobs]),
                    ~ITERATIONS.c.final,
                )
            )
        if iterations:
            statement = _insert(connection, ITERATIONS).on_conflict_do_nothing()
            _execute(connection, statement, iterations)
        _upsert(connection, ANOMALIES, self._anomalies)

    def _details_of(self, record: JobRecord, written: Mapping[str, Written]) -> Written:
        known = written.get(record.id)
        if known is not None and known.holds(record):
            return known
        self._details[record.id] = row = details_row(record)
        return Written(long_part(record.document), record.state, digest(row))

    def _number(self, connection: Connection) -> tuple[list[Values], list[Values]]:
        """Complete the rows of jobs; give those of iterations, and of details that changed."""
        before = {
            row.id: (row.next_index, row.complete_iterations, row.digest)
            for row in connection.execute(
                select(JOBS.c.id, JOBS.c.next_index, JOBS.c.complete_iterations, JOBS.c.digest)
                .where(JOBS.c.id.in_([row["id"] for row in self._jobs]))
                .with_for_update()
            )
        }
        rows, details = [], []
        for row, update in zip(self._jobs, self._updates, strict=True):
            job = str(row["id"])
            next_index, complete, stored_digest = before.get(job, (0, 0, None))
            stored = _stored(connection, job, update.final, next_index)
            final = {int(one.index): one for one in update.final if one.index not in stored}
            row["next_index"] = max([next_index, *(index + 1 for index in final)])
            row["complete_iterations"] = complete + sum(bool(o.complete) for o in final.values())
            row["digest"] = self.written[update.record.id].digest
            if row["digest"] != stored_digest:
                # What was known may be of a row that is there no more.
                details.append(self._details.get(update.record.id) or details_row(update.record))
            rows += [iteration_row(job, one, final=True) for one in final.values()]
            # One with the index of a final one that is stored meets it, and leaves it.
            rows += [
                iteration_row(job, one, final=False)
                for one in update.provisional
                if one.index not in final
            ]
        return rows, details


def _stored(
    connection: Connection, job: str, given: Sequence[Iteration], next_index: int
) -> set[int]:
    """Indices of the final iterations that are stored, from the lowest given one on."""
    lowest = min((int(one.index) for one in given), default=next_index)
    if lowest >= next_index:
        return set()
    statement = select(ITERATIONS.c.index).where(
        ITERATIONS.c.job_id == job, ITERATIONS.c.index >= lowest, ITERATIONS.c.final
    )
    return set(connection.execute(statement).scalars())


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that may say what happens on a conflict, which is each dialect's own."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def _upsert(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    if not rows:
        return
    statement = _insert(connection, table)
    changed = {
        column.name: statement.excluded[column.name] for column in table.c if not column.primary_key
    }
    upsert = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed)
    _execute(connection, upsert, rows)


def _execute(
    connection: Connection, statement: sqlite.Insert | postgresql.Insert, rows: Sequence[Values]
) -> None:
    if connection.dialect.name == "postgresql":
        # A statement that returns something is sent once for many rows, another one row by row.
        connection.execute(statement.returning(*statement.table.primary_key), rows)
    else:
        connection.execute(statement, rows)
