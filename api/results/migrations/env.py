"""What Alembic runs to migrate: on the connection given, in the transaction that it has."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
