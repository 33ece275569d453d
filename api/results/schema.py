"""The tables, as the last of `migrations` leaves them.

Texts from outside are escaped (`rows`), so that every column holds plain ASCII; times are int64 ns
since the epoch.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

METADATA: Final = MetaData()

JOBS: Final = Table(
    "jobs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("status", Text, nullable=False),  # as in `summary`, to be asked for
    Column("first_seen_ns", BigInteger, nullable=False),
    Column("last_seen_ns", BigInteger, nullable=False),
    Column("window_start_ns", BigInteger, nullable=False),
    Column("window_end_ns", BigInteger, nullable=False),
    # Counted here, as old iterations are forgotten and counts must not fall.
    Column("next_index", BigInteger, nullable=False),
    Column("complete_iterations", BigInteger, nullable=False),
    Column("summary", Text, nullable=False),
    Column("digest", Text, nullable=False),  # of the row of `DETAILS`
    # All that it takes to choose the jobs of a list.
    Index("jobs_status", "status", "first_seen_ns", "id"),
)

# Apart from `JOBS`: SQLite reads through a long column to reach the next one, and writes it again
# with its row.
DETAILS: Final = Table(
    "details",
    METADATA,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("document", Text, nullable=False),  # what `summary` lacks
    Column("state", Text, nullable=False),
)

ITERATIONS: Final = Table(
    "iterations",
    METADATA,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("index", BigInteger, primary_key=True, autoincrement=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("bytes", Double),
    Column("complete", Boolean, nullable=False),
    Column("final", Boolean, nullable=False),
    sqlite_with_rowid=False,  # rows lie in the order in which they are read
)
# A job has a few provisional iterations among very many final ones.
Index(
    "iterations_provisional",
    ITERATIONS.c.job_id,
    sqlite_where=~ITERATIONS.c.final,
    postgresql_where=~ITERATIONS.c.final,
)

ANOMALIES: Final = Table(
    "anomalies",
    METADATA,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger),
    Column("document", Text, nullable=False),  # all else that an anomaly says
    Index("anomalies_start_ns", "start_ns"),
)

WINDOW: Final = Table(
    "window",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1", name="one_window"), primary_key=True),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("telemetry", Text, nullable=False),
    Column("unassigned", Text, nullable=False),
)

NUMBERING: Final = Table(
    "numbering",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1", name="one_numbering"), primary_key=True),
    Column("next_job", BigInteger, nullable=False),
)
