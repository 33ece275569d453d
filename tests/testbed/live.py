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

from tests.testbed.clocks import nanoseconds
from tests.testbed.rooms import PROJECT
from tests.testbed.shell import CommandFailed, running

COLLECTOR = "127.0.0.1:6344"
HTTP = "127.0.0.1:8080"
PATIENCE_S = 120.0  # it compiles before its first window
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


def concluded(until_ns: int) -> list[Document]:
    """All jobs, each with all of its iterations, once all up to a moment was analysed.

    Raises
    ------
    TimeoutError
    """
    late = time.monotonic() + PATIENCE_S
    while _analysed_ns() < until_ns:
        if time.monotonic() > late:
            raise TimeoutError(f"the service is more than {PATIENCE_S} s behind")
        time.sleep(0.5)
    jobs = [ask(f"jobs/{job['id']}") for job in ask("jobs")["jobs"]]
    return [job | {"iterations": list(_iterations(job["id"]))} for job in jobs]


def _analysed_ns() -> int:
    """End of the newest window; 0 before the first."""
    window = ask("exporters")["window"]
    return 0 if window is None else nanoseconds(window["end"])


def _iterations(job: str) -> Iterator[Document]:
    after: int | None = -1
    while after is not None:
        page = ask(f"jobs/{job}/iterations?after={after}&limit={PAGE}")
        yield from page["iterations"]
        after = page["next_after"]
