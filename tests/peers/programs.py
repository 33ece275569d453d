"""Other people's programs on ports of this machine, and datagrams on their way to them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

PATIENCE_S: Final = 60.0  # a busy machine is slow; only a fault takes this long
_TOGETHER: Final = 16  # datagrams that any receive buffer holds


def installed(*names: str) -> None:
    """Skip the test where a program is missing."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


def free_port() -> int:
    """A UDP port of 127.0.0.1 that nobody uses."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that comes soon on any machine."""
    patience = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < patience, what
        time.sleep(0.01)


def waiting_bytes(port: int) -> int | None:
    """What the kernel holds for whoever listens on the port; None = nobody does."""
    for table in ("udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, _, queues, *_ = line.split()
            if int(local.rpartition(":")[2], 16) == port:
                return int(queues.partition(":")[2], 16)
    return None


def deliver(payloads: Sequence[bytes], port: int) -> None:
    """Send datagrams no faster than they are taken, so that none is lost."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        for first in range(0, len(payloads), _TOGETHER):
            for payload in payloads[first : first + _TOGETHER]:
                sending.sendto(payload, ("127.0.0.1", port))
            until(lambda: waiting_bytes(port) == 0, f"port {port} takes nothing")


@contextmanager
def running(command: list[str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A program that is interrupted at the end, and waited for, with all that it started."""
    with log.open("wb") as out:
        program = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        yield program
        program.send_signal(signal.SIGINT)
        program.wait(PATIENCE_S)
    finally:
        # Plugins of pmacct are processes of their own, and can outlive the one that made them.
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


@contextmanager
def listening(command: list[str], port: int, log: Path) -> Generator[None]:
    """A program that listens on `port`."""
    with running(command, log) as program:
        until(
            lambda: waiting_bytes(port) is not None or program.poll() is not None,
            f"{command[0]} does not listen",
        )
        assert program.poll() is None, log.read_text()
        yield
