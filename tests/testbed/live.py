"""ringscope as a service beside the switch, and all that it concluded."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.testbed.rooms import PROJECT
from tests.testbed.shell import CommandFailed, running

COLLECTOR = "127.0.0.1:6344"
HTTP = "127.0.0.1:8080"
PATIENCE_S = 60.0
PAGE = 1000

Document = dict[str, Any]


@contextmanager
def served(folder: Path, inventory: Path) -> Iterator[None]:
    """A running service that listens at `COLLECTOR`, once it answers."""
    words = ["-m", "api", "serve", "--store", str(folder / "store"), "--inventory", str(inventory)]
    listen = ["--listen", COLLECTOR, "--http", HTTP]
    env = os.environ | {"PYTHONPATH": str(PROJECT)}
    with running([sys.executable, *words, *listen], folder / "service.log", env=env) as process:
        until = time.monotonic() + PATIENCE_S
        while not _answers():
            if process.poll() is not None or time.monotonic() > until:
                raise CommandFailed((folder / "service.log").read_text()[-2000:])
            time.sleep(0.2)
        yield


def _answers() -> bool:
    try:
        ask("jobs")
    except OSError:
        return False
    return True


def ask(path: str) -> Document:
    """What the service answers to ``GET /api/v1/PATH``."""
    with urllib.request.urlopen(f"http://{HTTP}/api/v1/{path}", timeout=10) as answer:
        document: Document = json.load(answer)
    return document


def concluded() -> list[Document]:
    """All jobs, each with all of its iterations."""
    jobs = [ask(f"jobs/{job['id']}") for job in ask("jobs")["jobs"]]
    return [job | {"iterations": list(_iterations(job["id"]))} for job in jobs]


def _iterations(job: str) -> Iterator[Document]:
    after: int | None = -1
    while after is not None:
        page = ask(f"jobs/{job}/iterations?after={after}&limit={PAGE}")
        yield from page["iterations"]
        after = page["next_after"]
