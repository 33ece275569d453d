"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """From nothing to version 0001."""
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
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    iterations = op.create_table(
        "iterations",
        sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("index", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("start_ns", sa.BigInteger, nullable=False),
        sa.Column("end_ns", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.Double),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("final", sa.Boolean, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "iterations_provisional",
        "iterations",
        ["job_id"],
        sqlite_where=~iterations.c.final,
        postgresql_where=~iterations.c.final,
    )
    op.create_table(
        "anomalies",
        sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("start_ns", sa.BigInteger, nullable=False),
        sa.Column("end_ns", sa.BigInteger),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("anomalies_start_ns", "anomalies", ["start_ns"])
    op.create_table(
        "window",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("start_ns", sa.BigInteger, nullable=False),
        sa.Column("end_ns", sa.BigInteger, nullable=False),
        sa.Column("telemetry", sa.Text, nullable=False),
        sa.Column("unassigned", sa.Text, nullable=False),
        sa.CheckConstraint("id = 1", name="one_window"),
    )
    numbering = op.create_table(
        "numbering",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("next_job", sa.BigInteger, nullable=False),
        sa.CheckConstraint("id = 1", name="one_numbering"),
    )
    op.bulk_insert(numbering, [{"id": 1, "next_job": 0}])
