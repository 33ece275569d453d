"""Datagrams for tests: made by hand, or out of other people's captures."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import numpy as np

from collector.addresses import from_text
from collector.link import DatagramBatch


@dataclass(frozen=True, slots=True)
class Arrival:
    """One datagram."""

    payload: bytes
    sender: str = "192.0.2.1"
    port: int = 40_000
    to_port: int = 4739
    time_ns: int = 0


def batch_of(arrivals: Sequence[Arrival], fill: int = 0) -> DatagramBatch:
    """Datagrams one behind another, `fill` between them: a read beyond an end shows."""
    gap = bytes([fill]) * 64
    lengths = np.array([len(each.payload) for each in arrivals], np.int64)
    offsets = np.cumsum(lengths + len(gap)) - lengths - len(gap)
    senders = [from_text(each.sender) for each in arrivals]
    return DatagramBatch(
        buffer=np.frombuffer(b"".join(each.payload + gap for each in arrivals) or gap, np.uint8),
        offset=offsets,
        length=lengths,
        arrival_ns=np.array([each.time_ns for each in arrivals], np.int64),
        src_hi=np.array([hi for hi, _ in senders], np.uint64),
        src_lo=np.array([lo for _, lo in senders], np.uint64),
        src_port=np.array([each.port for each in arrivals], np.uint16),
        dst_port=np.array([each.to_port for each in arrivals], np.uint16),
        file_offset=offsets,
        defect=np.zeros(len(arrivals), np.uint8),
    )


def arrivals_in(path: Path) -> list[Arrival]:
    """UDP datagrams of a capture, or the one that a file holds bare."""
    if path.suffix == ".bin":
        return [Arrival(path.read_bytes())]
    logging.getLogger("scapy.runtime").setLevel(logging.ERROR)
    from scapy.layers.inet import UDP
    from scapy.utils import PcapReader

    found = []
    with PcapReader(str(path)) as reader:
        for packet in reader:
            if not packet.haslayer(UDP):
                continue
            udp = packet[UDP]
            found.append(
                Arrival(
                    bytes(udp.original[8 : udp.len]),
                    str(ip_address(udp.underlayer.src)),
                    int(udp.sport),
                    int(udp.dport),
                    int(float(packet.time) * 1_000_000) * 1000,
                )
            )
    return found
