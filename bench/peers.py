"""What other collectors take for a sample, where they are installed."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bench.ring import SAMPLES, Sender, make_ring, renew
from fixtures.delivery import COLLECTOR, SFLOW_PORT
from fixtures.pcap import FILE_HEADER, envelopes

Encode = Callable[[int], bytes]

_SHORT, _LONG = 5_000, 25_000  # datagrams of a capture
_SENT_PER_S: Final = 20_000  # well below where it begins to lose
_SENT_S: Final = 8.0
_AGENT: Final = 0x0AFF_0001
_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of a sample: of the whole process, and without the kernel's part of it."""

    whole_s: float
    user_s: float | None


def sfacctd(folder: Path, encode: Encode) -> Cost | None:
    """Pmacct's sFlow daemon, adding up by addresses, ports and protocol, from captures."""
    took = []
    for datagrams in (_SHORT, _LONG):
        capture = folder / f"{datagrams}.pcap"
        write_capture(capture, [encode(number) for number in range(datagrams)])
        keys = "src_host,dst_host,src_port,dst_port,proto"
        table = ["-P", "print", "-c", keys, "-O", "csv", "-o", str(folder / "table.csv")]
        spent = processor_time(["sfacctd", "-I", str(capture), *table])
        if spent is None:
            return None
        took.append(spent)
    samples = (_LONG - _SHORT) * SAMPLES
    whole, user = np.subtract(took[1], took[0]) / samples
    return Cost(float(whole), float(user))


def sfcapd(folder: Path, _encode: Encode) -> Cost | None:
    """Nfdump's sFlow collector, writing its files, from the wire; what it loses does not count."""
    if shutil.which("sfcapd") is None:
        return None
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    written = folder / "sfcapd"
    written.mkdir()
    command = ["sfcapd", "-b", "127.0.0.1", "-p", str(port), "-w", str(written)]
    ring = make_ring(1)
    renew(ring, 0, 0, 0)  # compiles
    with subprocess.Popen(
        [*command, "-B", str(1 << 26)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(1.0)
        with closing(Sender(ring, port)) as sender:
            sender.send(_SENT_PER_S, _SENT_S, lambda _: None)
            time.sleep(1.0)
        used = _used(process.pid)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
    taken = sum(map(int, re.findall(r"Flows: (\d+)", said)))
    return Cost(sum(used) / taken, used[0] / taken)


PEERS: Final[Mapping[str, Callable[[Path, Encode], Cost | None]]] = {
    "sfacctd": sfacctd,
    "sfcapd": sfcapd,
}


def write_capture(path: Path, payloads: Sequence[bytes]) -> None:
    """A capture of datagrams from one switch, 10 us apart."""
    count = len(payloads)
    heads = envelopes(
        1_800_000_000_000_000_000 + 10_000 * np.arange(count),
        np.full(count, _AGENT, np.uint32),
        np.full(count, SFLOW_PORT),
        COLLECTOR,
        SFLOW_PORT,
        np.array([len(payload) for payload in payloads]),
    )
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        for head, payload in zip(heads, payloads, strict=True):
            file.write(head.tobytes() + payload)


def processor_time(command: Sequence[str]) -> tuple[float, float] | None:
    """Processor time that a command and all that it started took: whole, and user time.

    None: it is not installed.
    """
    if shutil.which(command[0]) is None:
        return None
    # Its plugins are processes of their own, and may outlive it: then they are ours to wait for.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
    user_s = kernel_s = 0.0
    while True:
        try:
            _, _, used = os.wait4(-1, 0)
        except ChildProcessError:
            return user_s + kernel_s, user_s
        user_s += used.ru_utime
        kernel_s += used.ru_stime


def _used(process: int) -> tuple[float, float]:
    """User and kernel time that a process has had; proc(5)."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    user, kernel = (int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:13])
    return user, kernel
