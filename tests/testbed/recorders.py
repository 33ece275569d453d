"""Exporters of flow records: the switch's own IPFIX, and meters at its ports.

A meter is a program on each port that tells of what comes in from the host there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal, get_args

from tests.testbed.hosts import Host
from tests.testbed.shell import run, running
from tests.testbed.switch import Switch

Recorder = Literal["switch", "softflowd", "softflowd-9", "nfprobe"]
RECORDERS: Final[tuple[Recorder, ...]] = get_args(Recorder)

RECORDER: Final = "recorder.json"  # in the folder of a case
ACTIVE_S: Final = 1  # what a flow cache can be told at the least
CAPTURED_S: Final = 1.5  # the kernel hands what was captured to tcpdump about once a second
SAMPLERS: Final[frozenset[Recorder]] = frozenset({"switch"})  # meters count every packet
TIMEOUTS: Final = dict.fromkeys(
    ("tcp", "tcp.rst", "tcp.fin", "udp", "general", "maxlife", "expint"), ACTIVE_S
)

# softflowd reads what was captured in blocks of 256 KiB, however long they take to fill. A network
# goes on; here, some packets that are of no job have to fill the last one.
FILLER: Final = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for _ in range(4000):
        out.sendto(b"", (sys.argv[1], 9))
"""

# Words that start a meter on a host's port, for a receiver; the folder is for its files.
Meter = Callable[[Host, str, Path], list[str]]


@contextmanager
def recorded(
    recorder: Recorder, switch: Switch, rate: int, receiver: str, folder: Path
) -> Iterator[None]:
    """While it lasts, `recorder` tells `receiver` (address:port) of all flows on the switch.

    The switch tells of one packet in `rate`, meters of all.
    """
    if recorder == "switch":
        switch.record(rate, ACTIVE_S, receiver)
        yield
        switch.forget_records()
    else:
        folder.mkdir()
        with metered(_METERS[recorder], switch.hosts, receiver, folder):
            yield
    time.sleep(CAPTURED_S)


@contextmanager
def metered(meter: Meter, hosts: Sequence[Host], receiver: str, folder: Path) -> Iterator[None]:
    """A meter on each port; when they end, they tell what they still hold."""
    with ExitStack() as stack:
        for host in hosts:
            words = meter(host, receiver, folder)
            stack.enter_context(running(words, folder / f"{host.port}.log"))
        yield
        for host, neighbour in zip(hosts, (*hosts[1:], hosts[0]), strict=True):
            run(host.command([sys.executable, "-c", FILLER, neighbour.address]))
        for control in folder.glob("*.ctl"):
            run(["softflowctl", "-c", str(control), "expire-all"])


def _softflowd(version: int) -> Meter:
    def words(host: Host, receiver: str, folder: Path) -> list[str]:
        files = ["-p", str(folder / f"{host.port}.pid"), "-c", str(folder / f"{host.port}.ctl")]
        timeouts = [word for name, s in TIMEOUTS.items() for word in ("-t", f"{name}={s}")]
        to = ["-v", str(version), "-n", receiver]
        filtered = f"src host {host.address}"
        return ["softflowd", "-d", "-i", host.port, *files, *timeouts, *to, filtered]

    return words


def _nfprobe(host: Host, receiver: str, folder: Path) -> list[str]:
    configuration = folder / f"{host.port}.conf"
    timeouts = ":".join(f"{name}={s}" for name, s in TIMEOUTS.items())
    configuration.write_text(
        f"pcap_interface: {host.port}\n"
        f"pcap_filter: src host {host.address}\n"
        "plugins: nfprobe\n"
        "aggregate: src_host, dst_host, src_port, dst_port, proto, tos\n"
        f"nfprobe_receiver: {receiver}\n"
        "nfprobe_version: 10\n"
        f"nfprobe_engine: {host.number + 1}\n"
        f"nfprobe_timeouts: {timeouts}\n"
    )
    return ["pmacctd", "-f", str(configuration)]


_METERS: Final[dict[Recorder, Meter]] = {
    "softflowd": _softflowd(10),
    "softflowd-9": _softflowd(9),
    "nfprobe": _nfprobe,
}
