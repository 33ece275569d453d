"""Rooms: where a testbed runs, so that nothing of it is left whatever happens.

A room has its own network, process ids and mounts. When the process that opened it ends, by
whatever means, the kernel kills everything inside; and with the last process go the namespaces of
hosts, their links and the switch. Nothing inside has a name that another room could see.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.shell import CommandFailed, run

OUTSIDE = "RINGSCOPE_TESTBED_OUTSIDE"  # a file descriptor of the network that the room is in
RECEIVE_BUFFER_BYTES = 16 << 20
# Whoever dies first takes with it what it started: this process, then `unshare`, then process 1.
ROOM = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
PROJECT = Path(__file__).resolve().parents[2]


def inside(arguments: Sequence[str], *, seconds: float) -> None:
    """Run ``python -m tests.testbed`` with `arguments` in a room of its own.

    Raises
    ------
    tests.testbed.shell.CommandFailed
        It did not end well, or not within `seconds`.
    """
    Path("/run/netns").mkdir(exist_ok=True)
    words = [*ROOM, sys.executable, "-m", "tests.testbed", *arguments]
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        done = subprocess.run(
            words,
            env=os.environ | {OUTSIDE: str(outside)},
            pass_fds=(outside,),
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = late.output.decode(errors="replace") if late.output else ""
        raise CommandFailed(f"{' '.join(arguments)}: over {seconds:.0f} s\n{said}") from late
    finally:
        os.close(outside)
    if done.returncode:
        raise CommandFailed(f"{' '.join(arguments)}: {done.returncode}\n{done.stdout}")


def furnish(hosts_file: Path, names: dict[str, str]) -> None:
    """What a room needs before hosts are built: a loopback, and names for addresses.

    Parameters
    ----------
    hosts_file : where to keep the names; it stands in for ``/etc/hosts`` inside the room.
    names : address by name.
    """
    run(["ip", "link", "set", "lo", "up"])
    run(["mount", "-t", "tmpfs", "tmpfs", "/run/netns"])
    lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
    hosts_file.write_text("\n".join(lines) + "\n")
    run(["mount", "--bind", str(hosts_file), "/etc/hosts"])


@contextmanager
def deep_receive_buffers() -> Iterator[None]:
    """While the switch opens its ports: the userspace switch loses much with the usual buffers.

    The default is one for the whole machine and can only be set outside the room. A socket keeps
    what it was opened with, so that the machine has its own again after a second.
    """
    setting = "/proc/sys/net/core/rmem_default"
    outside = ["nsenter", f"--net=/proc/self/fd/{os.environ[OUTSIDE]}"]
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        usual = _outside([*outside, "cat", setting]).strip()
        write = [*outside, "sh", "-c", f'echo "$0" > {setting}']
        _outside([*write, str(RECEIVE_BUFFER_BYTES)])
        try:
            yield
        finally:
            _outside([*write, usual])


def _outside(words: Sequence[str]) -> str:
    handed = (int(os.environ[OUTSIDE]),)
    return subprocess.run(words, pass_fds=handed, capture_output=True, text=True, check=True).stdout
