from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from api.http.server import HttpServer
from api.results.connections import sqlite_url
from api.results.database import Results
from tests.api.http.made import Service
from tests.deploy import made


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service of one test, without results."""
    results = Results(sqlite_url(tmp_path / "results.sqlite"))
    yield Service(results)
    results.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A service over three jobs, answering on a port of this machine."""
    results = Results(sqlite_url(tmp_path_factory.mktemp("served") / "results.sqlite"))
    made.fill(results)
    serving = HttpServer(Service(results).app, "127.0.0.1", 0)
    serving.start()
    yield serving
    serving.stop()
    results.close()


@pytest.fixture(scope="module")
def client(server: HttpServer) -> Iterator[httpx.Client]:
    """Asks that service."""
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as asking:
        yield asking
