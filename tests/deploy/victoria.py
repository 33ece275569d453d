"""A VictoriaMetrics of the tests' own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

FOREVER_S: Final = 60.0  # only waited for where a test fails
_TRIES: Final = 5


class Victoria:
    """Asks one that runs."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=FOREVER_S)

    def close(self) -> None:
        self._client.close()

    def answers(self) -> bool:
        try:
            return self._client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def take(self, text: str, time_s: int, labels: dict[str, str]) -> None:
        """Keep a page of metrics as one scraped at that time."""
        extra = [("extra_label", f"{name}={value}") for name, value in labels.items()]
        self._client.post(
            "/api/v1/import/prometheus",
            params=[("timestamp", str(time_s * 1000)), *extra],
            content=text.encode(),
        ).raise_for_status()

    def settle(self) -> None:
        """Make all that was taken or scraped visible to queries, at once instead of in seconds."""
        self._client.get("/internal/force_flush").raise_for_status()

    def instant(self, expression: str, time_s: float | None = None) -> list[dict[str, Any]]:
        """Series with one value each, as the query API gives them."""
        asked: dict[str, str | float] = {"query": expression}
        if time_s is not None:
            asked["time"] = time_s
        return self._ask("/api/v1/query", asked)

    def range(
        self, expression: str, start_s: float, end_s: float, step_s: float
    ) -> list[dict[str, Any]]:
        """Series with values from start to end."""
        asked = {"query": expression, "start": start_s, "end": end_s, "step": step_s}
        return self._ask("/api/v1/query_range", asked)

    def _ask(self, path: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self._client.post(path, data=asked)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["data"]["result"]
        return found


def program() -> str:
    """Where it is installed; else the test is skipped."""
    found = shutil.which("victoria-metrics")
    if found is None:
        pytest.skip("victoria-metrics is not installed")
    return found


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Victoria]:
    """One with its data in a folder, until the end."""
    command = [
        program(),
        f"-storageDataPath={folder / 'data'}",
        "-search.latencyOffset=0s",  # else the newest 30 s are held back
        "-search.disableCache",
        "-loggerLevel=ERROR",
        *options,
    ]
    for _ in range(_TRIES):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, f"-httpListenAddr={address}"], stdout=log, stderr=log
            )
        victoria = Victoria(f"http://{address}")
        try:
            if _up(process, victoria):
                yield victoria
                return
        finally:
            victoria.close()
            process.terminate()
            process.wait(FOREVER_S)
    # Another program may have taken the port, but not each time.
    raise AssertionError((folder / "log").read_text())


def _up(process: subprocess.Popen[bytes], victoria: Victoria) -> bool:
    until_s = time.monotonic() + FOREVER_S
    while process.poll() is None and time.monotonic() < until_s:
        if victoria.answers():
            return True
        time.sleep(0.05)
    return False
