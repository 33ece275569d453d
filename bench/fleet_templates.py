"""Flow samples of a fleet's connections, encoded once, with holes for what differs by sample."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.fleet_jobs import MTU_BYTES
from fixtures.fabric import Fabric
from fixtures.packets import BTH, PACKET, SAMPLED_BYTES, UDP, Opcode, frame_bytes, headers, put
from fixtures.sflow_layout import flow_samples
from fixtures.telemetry import MAC_NIC, MAC_SWITCH, ROCE_TTL

I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

# Places of a message's packets, and where their templates stand within a connection's three.
_OPCODES: Final = (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST_IMM)
_FIRST, _MIDDLE, _LAST = range(3)
_ECN_CAPABLE: Final = 2
# Columns of a sample (sFlow version 5, flow_sample_expanded; IBTA vol. 1, 9.2).
_SEQUENCE: Final = 8
_POOL: Final = 24
_STAMP: Final = 60
SAMPLE_BYTES: Final = 92 + SAMPLED_BYTES  # every sampled packet fills its 128 bytes
_PSN: Final = 92 + BTH + 9


@dataclass(frozen=True, slots=True)
class Templates:
    """Three samples for each connection: a message's first packet, one in its middle, its last."""

    rows: U8  # (3 * connections, SAMPLE_BYTES)
    message_packets: I64  # (connections,)

    def fill(self, connection: I64, packet: I64, psn: I64, numbers: tuple[I64, I64, I64]) -> U8:
        """Samples of packets.

        Parameters
        ----------
        connection, packet, psn
            int64 (n,); `packet` counts from the start of a message.
        numbers
            Sequence number, pool and timestamp (ns since the epoch) of each sample, int64 (n,).

        Returns
        -------
        uint8, shape (n, SAMPLE_BYTES)
        """
        length = self.message_packets[connection]
        within = packet % length
        place = np.where(within == 0, _FIRST, np.where(within == length - 1, _LAST, _MIDDLE))
        rows = np.take(self.rows, 3 * connection + place, axis=0)
        sequence, pool, stamp_ns = numbers
        put(rows, _SEQUENCE, sequence, 4)
        put(rows, _POOL, pool, 4)
        put(rows, _STAMP, stamp_ns, 8)
        put(rows, _PSN, psn, 3)
        return rows


def make_templates(
    connections: NDArray[np.void],
    message_packets: I64,
    fabric: Fabric,
    rate: int,
    rng: np.random.Generator,
) -> Templates:
    """Encode the samples of all connections, as the sender's leaf takes them.

    Parameters
    ----------
    connections
        dtype `fixtures.trace.CONNECTION`, shape (c,).
    message_packets
        int64 (c,), at least 2.
    rate
        One packet in so many is sampled.
    """
    src, dst = connections["src"].astype(np.int64), connections["dst"].astype(np.int64)
    here = fabric.path(src, dst, connections["src_port"], connections["dst_port"])[:, 0]
    nic = np.array([int(IPv4Address(e.address)) for e in fabric.endpoints], np.uint32)
    agent = np.array([int(IPv4Address(s.agent)) for s in fabric.switches], np.uint64)
    packets = np.zeros((len(connections), len(_OPCODES)), PACKET)
    columns: dict[str, NDArray[np.integer]] = {
        "src": nic[src],
        "dst": nic[dst],
        "src_mac": MAC_NIC + nic[src].astype(np.uint64),
        "dst_mac": MAC_SWITCH + agent[here[:, 0]],
        "src_port": connections["src_port"],
        "dst_port": connections["dst_port"],
        "dscp": connections["dscp"],
        "dest_qp": connections["dst_qpn"],
        "dma_address": rng.integers(1 << 20, 1 << 34, len(src)) << 12,
        "remote_key": rng.integers(1 << 8, 1 << 24, len(src)),
        "dma_bytes": message_packets * MTU_BYTES,
        "immediate": message_packets * MTU_BYTES,
    }
    for name, values in columns.items():
        packets[name] = values[:, None]
    packets["ttl"] = ROCE_TTL
    packets["ecn"] = _ECN_CAPABLE
    packets["protocol"] = UDP
    packets["payload"] = MTU_BYTES
    packets["opcode"] = _OPCODES
    packets["ack_request"][:, _LAST] = 1
    flat = packets.ravel()
    sampled, lengths = headers(flat, rng)
    port, output = (np.repeat(here[:, k].astype(np.int64), len(_OPCODES)) for k in (1, 2))
    blank = np.zeros(len(flat), np.int64)
    rates = np.full(len(flat), rate)
    rows = flow_samples(
        sampled, lengths, frame_bytes(flat), blank, port, output, rates, blank, blank
    )
    return Templates(rows, message_packets)
