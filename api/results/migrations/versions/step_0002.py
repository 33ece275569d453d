"""Jobs in short, and the long parts of their documents in a table of their own."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_JOBS = sa.table(
    "jobs",
    *map(sa.column, ("id", "status", "document", "state", "summary", "digest")),
)
_KEPT = (
    *("id", "status", "first_seen_ns", "last_seen_ns", "window_start_ns", "window_end_ns"),
    *("next_index", "complete_iterations", "summary", "digest"),
)


def upgrade() -> None:
    """From version 0001 to 0002."""
    details = op.create_table(
        "details",
        sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.add_column("jobs", sa.Column("summary", sa.Text))
    op.add_column("jobs", sa.Column("digest", sa.Text))
    connection = op.get_bind()
    # One at a time: all documents may be more than memory holds.
    for job in connection.execute(sa.select(_JOBS.c.id)).scalars().all():
        _divide(connection, details, job)
    if connection.dialect.name == "sqlite":
        _rebuild(connection)
    else:
        for name in ("summary", "digest"):
            op.alter_column("jobs", name, nullable=False)
        for name in ("document", "state"):
            op.drop_column("jobs", name)
    op.create_index("jobs_status", "jobs", ["status", "first_seen_ns", "id"])


def _divide(connection: sa.Connection, details: sa.Table, job: str) -> None:
    """Move the long parts of a job's row to a row of details."""
    row = connection.execute(sa.select(_JOBS).where(_JOBS.c.id == job)).one()
    try:
        document = json.loads(row.document)
    except json.JSONDecodeError as error:
        raise ValueError(f"the document of job {job} is no JSON: {error}") from error
    names = ("groups", "ranks", "edges")
    long = json.dumps({name: document[name] for name in names if name in document})
    short: dict[str, Any] = {
        name: None if name in names else value for name, value in document.items()
    }
    if "groups" in document:
        short["groups"] = _counted(document["groups"])
    connection.execute(details.insert(), {"job_id": job, "document": long, "state": row.state})
    connection.execute(
        sa.update(_JOBS).where(_JOBS.c.id == job),
        {
            "document": "",
            "state": "",
            "summary": json.dumps(short),
            "digest": blake2b(f"{long}\n{row.state}\n".encode(), digest_size=16).hexdigest(),
        },
    )


def _counted(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter(
        (group["kind"], group["algorithm"], group["collective"], len(group["members"]))
        for group in groups
    )
    names = ("kind", "algorithm", "collective", "size", "count")
    return [dict(zip(names, (*group, count), strict=True)) for group, count in counts.items()]


def _rebuild(connection: sa.Connection) -> None:
    """Drop columns of `jobs` as SQLite before 3.35 can: by making the table anew.

    Rows of other tables point to its rows all the while; whether they still do is asked at the
    end of the transaction.
    """
    columns = ", ".join(_KEPT)
    connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    connection.exec_driver_sql(f"CREATE TABLE jobs_kept AS SELECT {columns} FROM jobs")
    op.drop_table("jobs")
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("first_seen_ns", sa.BigInteger, nullable=False),
        sa.Column("last_seen_ns", sa.BigInteger, nullable=False),
        sa.Column("window_start_ns", sa.BigInteger, nullable=False),
        sa.Column("window_end_ns", sa.BigInteger, nullable=False),
        sa.Column("next_index", sa.BigInteger, nullable=False),
        sa.Column("complete_iterations", sa.BigInteger, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    connection.exec_driver_sql(f"INSERT INTO jobs ({columns}) SELECT {columns} FROM jobs_kept")
    op.drop_table("jobs_kept")
