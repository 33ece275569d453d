"""Connections to the results database: which one, how its transactions run, what can fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError, StatementError

from api.errors import ResultsError
from api.results.migrations import NewerDatabase, upgrade

# How long a transaction waits for another one's end before it fails (SQLite).
_PATIENCE_S: Final = 30.0
_POSTGRESQL_DRIVER: Final = "pg8000"
_HIDDEN: Final = "***"


def sqlite_url(file: Path) -> str:
    """The URL of a database in a file, whatever characters its path has."""
    return URL.create("sqlite", database=str(file)).render_as_string()


class Connections:
    """A pool of connections for all threads; opening brings the database to the newest version.

    Parameters
    ----------
    url
        SQLAlchemy's form: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE.

    Attributes
    ----------
    shown
        The URL without its password and options, for messages.

    Raises
    ------
    ResultsError
        It is no such URL, the database cannot be opened, or is of a newer version.
    """

    def __init__(self, url: str) -> None:
        parsed = _parsed(url)
        self.shown = parsed.set(query={}).render_as_string()
        self._secrets = [text for text in (parsed.password, parsed.query.get("password")) if text]
        try:
            self._engine = _engine(parsed)
        except ModuleNotFoundError as error:
            missing = f"needs the Python package {error.name}, which is not installed"
            raise ResultsError(self.shown, missing) from error
        except (SQLAlchemyError, TypeError, ValueError) as error:
            raise self._refused(error) from error
        self._writing = self._engine.execution_options(writes=True)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads; it sees one state of the database and blocks no writer.

        Raises
        ------
        ResultsError
            The database does not answer, or holds what ringscope did not write.
        """
        try:
            with self._engine.begin() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise self._refused(error) from error
        except JSONDecodeError as error:
            raise ResultsError(self.shown, f"a column holds no JSON: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes: all of it is done at the end of the block, or nothing.

        Raises
        ------
        ResultsError
            Nothing was written.
        """
        try:
            with self._writing.begin() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Close all connections that are not in use."""
        self._engine.dispose()

    def _open(self) -> None:
        try:
            with self.writing() as connection:
                upgrade(connection)
        except (NewerDatabase, TypeError, ValueError) as error:
            # TypeError and ValueError are what drivers make of options they do not know.
            raise self._refused(error) from error
        if self._engine.dialect.name == "sqlite":
            self._read_while_written()

    def _read_while_written(self) -> None:
        """Let SQLite's readers go on while one writes; the file remembers it."""
        try:
            connection = self._engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA journal_mode = WAL")
            finally:
                connection.close()
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> ResultsError:
        """What a driver says, in one line and without the password."""
        cause: BaseException = error
        if isinstance(error, StatementError) and error.orig is not None:
            cause = error.orig
        said = str(cause)
        if cause.args and isinstance(cause.args[0], dict):
            said = str(cause.args[0].get("M", said))  # pg8000 gives the fields of a message
        reason = " ".join(said.split()) or type(cause).__name__
        for secret in self._secrets:
            reason = reason.replace(str(secret), _HIDDEN)
        return ResultsError(self.shown, reason)


def _parsed(text: str) -> URL:
    try:
        url = make_url(text)
    except (SQLAlchemyError, ValueError):
        # Neither the text nor what is wrong with it is shown: there may be a password in both.
        raise ResultsError(
            "results database",
            "its URL is not of the form sqlite:///FILE or postgresql://HOST/NAME",
        ) from None
    kind = url.get_backend_name()
    if kind == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise ResultsError(
                "sqlite://", "a file is needed, as in sqlite:////var/lib/results.sqlite"
            )
        return url
    if "@" in f"{url.host}{url.database}":
        # Then a part of a password may stand in the host's place.
        raise ResultsError(
            f"{url.drivername}://{_HIDDEN}", "an @ in a user's name or password is written %40"
        )
    if kind != "postgresql":
        raise ResultsError(f"{url.drivername}://{_HIDDEN}", "must be sqlite or postgresql")
    if url.drivername == kind:
        return url.set(drivername=f"{kind}+{_POSTGRESQL_DRIVER}")
    return url


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, hide_parameters=True, pool_pre_ping=True)
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": _PATIENCE_S})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        # Python's module would begin a transaction only at some statements, none at DDL.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A reader that turns writer fails at once where another has written meanwhile; one that
        # says so at the beginning waits.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
