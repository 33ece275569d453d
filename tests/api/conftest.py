from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api.results.connections import sqlite_url
from api.results.database import Results
from tests.api.http import made


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """A database with two jobs, to be read only: to open one takes long, so tests share it."""
    opened = Results(sqlite_url(tmp_path_factory.mktemp("http") / "results.sqlite"))
    made.fill(opened)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def service(results: Results) -> made.Service:
    """A service over the shared database; its view must not be changed."""
    return made.Service(results)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[made.Service]:
    """A service of one test, without results."""
    opened = Results(sqlite_url(tmp_path / "results.sqlite"))
    yield made.Service(opened)
    opened.close()


@pytest.fixture
def own(empty: made.Service) -> made.Service:
    """A service of one test, with the same two jobs."""
    made.fill(empty.results)
    return empty
