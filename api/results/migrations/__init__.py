"""Versions of the results database, and the way from each to the next.

One module of `versions` per step, which is never changed once released: a change of `schema` is a
new step. Alembic keeps in the database which version it has.
"""

from __future__ import annotations

import threading
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

# Any number that no other program takes as a lock in the same database.
_LOCK: Final = 0x72696E6773636F70
# While Alembic migrates, it keeps what it works on in its modules, for the whole process.
_ONE_AT_A_TIME: Final = threading.Lock()


class NewerDatabase(Exception):
    """The database has a version that this program does not know."""


def upgrade(connection: Connection) -> None:
    """Bring a database to the newest version, inside the transaction that is open.

    Parameters
    ----------
    connection
        In a transaction that writes. Of several at once the second waits and finds it done.

    Raises
    ------
    NewerDatabase
        It names the version. Nothing has been changed.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    # Only now, with the database's own lock in hand: who holds this one waits for nobody.
    with _ONE_AT_A_TIME:
        _migrate(connection)


def _migrate(connection: Connection) -> None:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "api.results:migrations")
    steps = ScriptDirectory.from_config(config)
    known = {step.revision for step in steps.walk_revisions()}
    heads = MigrationContext.configure(connection).get_current_heads()
    unknown = sorted(set(heads) - known)
    if unknown:
        raise NewerDatabase(
            f"a newer ringscope wrote this database (version {', '.join(unknown)}; this one knows"
            f" {steps.get_current_head()})"
        )
    command.upgrade(config, "head")
