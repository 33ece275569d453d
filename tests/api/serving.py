"""`ringscope serve` as a process of its own, and what is needed to talk to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PATIENCE_S: Final = 300.0  # until something that happens anyway; no test is about how soon
ENVIRONMENT: Final = {
    **os.environ,
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "100",
    "RINGSCOPE_LOG__FORMAT": "json",
}


class Served:
    """A running service; made when it says that it listens."""

    def __init__(self, process: subprocess.Popen[str], store: Path, said: Path) -> None:
        self.process = process
        self.store = store
        self._said = said
        wait_until(lambda: process.poll() is not None or bool(self.events("listening")))
        assert self.events("listening"), said.read_text()
        (listening,) = self.events("listening")
        assert listening["store"] == str(store)
        self.to = listening["udp"]
        self.http = "http://" + listening["http"]

    @property
    def port(self) -> int:
        return int(self.to.rpartition(":")[2])

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """What it has said so far, or those of one kind."""
        whole = self._said.read_text().rpartition("\n")[0]
        # What keeps it from starting is said as plain text.
        said = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [each for each in said if event in (None, each["event"])]

    def send(self, *payloads: bytes) -> None:
        """Send datagrams to a service on [::1]."""
        with closing(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as sending:
            for payload in payloads:
                sending.sendto(payload, ("::1", self.port))

    def ask(self, path: str) -> Any:
        """What REST answers, as JSON."""
        answer = httpx.get(f"{self.http}/api/v1{path}", timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def account(self) -> dict[str, int]:
        """The counts it said last; all there is once it has ended."""
        last = self.events("account")[-1]
        return {name: count for name, count in last.items() if isinstance(count, int)}

    def end(self, number: signal.Signals) -> int:
        """Send it a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextmanager
def serving(store: Path, *options: str | Path, **settings: str) -> Generator[Served]:
    """A service until the end of the block.

    `options` win over those given here; `settings` are environment variables without their prefix.
    """
    said = store.with_name(f"{store.name}-said-{time.monotonic_ns()}")
    command = ["--store", str(store), "--listen", "[::1]:0", "--http", "127.0.0.1:0"]
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "api", "serve", *command, *map(str, options)],
            cwd=REPOSITORY,
            env=ENVIRONMENT | {f"RINGSCOPE_{name}": value for name, value in settings.items()},
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            yield Served(process, store, said)
        finally:
            process.kill()


@contextmanager
def replaying(pcap: Path, to: str) -> Generator[subprocess.Popen[str]]:
    """A replay in real time, ended with the block if it has not."""
    with subprocess.Popen(
        [sys.executable, "-m", "api", "replay", str(pcap), "--to", to],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ringscope(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "api", *map(str, arguments)],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def wait_until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.1)
