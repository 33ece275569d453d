"""A fresh database per test: SQLite, and PostgreSQL too where RINGSCOPE_POSTGRESQL names one."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, make_url, text

from api.results.connections import sqlite_url
from api.results.database import Results

SERVER: Final = os.environ.get("RINGSCOPE_POSTGRESQL")


@contextmanager
def _new_postgresql(server: str) -> Iterator[str]:
    name = f"ringscope_{uuid4().hex}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture(params=["sqlite", *(["postgresql"] if SERVER else [])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "results.sqlite")
        return
    assert SERVER is not None
    with _new_postgresql(SERVER) as made:
        yield made


@pytest.fixture
def results(url: str) -> Generator[Results]:
    with closing(Results(url)) as opened:
        yield opened
