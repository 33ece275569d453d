"""What the switch's flushing does to time: when sampled frames really came by.

Frames are captured on the switch's ports as well, so that each sample of a made RoCEv2 frame can be
held against the moment at which the switch took it in.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from collector.ingest import ingest
from collector.schema import Transport
from tests.testbed.hosts import Host
from tests.testbed.shell import running
from tests.testbed.switch import await_file

HEADER_BYTES = 96
BTH = 42  # offset in an untagged IPv4 frame
FRAMES_PCAP = "port-{}.pcap"


@dataclass(frozen=True, slots=True)
class Delays:
    """Of each sample, nanoseconds.

    Parameters
    ----------
    behind_ns : int64[n]
        From the frame's coming by to what ringscope takes for its time.
    interval_ns : int64[n]
        How far the time may lie before that, by ringscope.
    """

    behind_ns: NDArray[np.int64]
    interval_ns: NDArray[np.int64]

    def outside(self, within_ns: int = 0) -> float:
        """Share of the samples whose frame came by further than this outside the interval."""
        early = self.behind_ns - self.interval_ns > within_ns
        return float(np.mean(early | (self.behind_ns < -within_ns)))


@contextmanager
def watched(hosts: Sequence[Host], folder: Path) -> Iterator[None]:
    """While it lasts, heads of all frames that come in are captured, with times."""
    with ExitStack() as stack:
        for host in hosts:
            path = folder / FRAMES_PCAP.format(host.number)
            words = ["tcpdump", "-i", host.port, "-Q", "in", "-n", "-B", "16384", "-Z", "root"]
            dump = [*words, "-s", str(HEADER_BYTES), "--nano", "-U", "-w", str(path), "udp"]
            stack.enter_context(running(dump, folder / "tcpdump.log"))
            await_file(path)
        yield


def delays(folder: Path) -> Delays:
    """Delays of all samples whose frame was seen at a port."""
    came_by = {
        key: at for path in sorted(folder.glob(FRAMES_PCAP.format("*"))) for key, at in frames(path)
    }
    flows = ingest([folder / "capture.pcap"]).flows
    roce = np.flatnonzero(flows.transport == Transport.ROCEV2)
    rows, moments = [], []
    for row in roce.tolist():
        key = int(flows.opcode[row]), int(flows.dest_qp[row]), int(flows.seq[row])
        if key in came_by:
            rows.append(row)
            moments.append(came_by[key])
    time, true = flows.time_ns[rows], np.array(moments, np.int64)
    return Delays(time - true, time - flows.time_min_ns[rows])


def frames(path: Path) -> Iterator[tuple[tuple[int, int, int], int]]:
    """(opcode, destination QP, PSN) and time of each frame of a capture, nanoseconds."""
    data, at = path.read_bytes(), 24
    while at + 16 <= len(data):
        seconds, nanoseconds, held, _ = struct.unpack_from("<IIII", data, at)
        bth = at + 16 + BTH
        if held >= BTH + 12:
            queue = int.from_bytes(data[bth + 5 : bth + 8])
            number = int.from_bytes(data[bth + 9 : bth + 12])
            yield (data[bth], queue, number), seconds * 1_000_000_000 + nanoseconds
        at += 16 + held
