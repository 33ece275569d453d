"""The schema of flow records: what exporters of IPFIX and NetFlow say of many packets at once.

A `RecordBatch` is one row per flow record and direction, held as NumPy columns of fixed dtype.
Absent values follow the rules of `collector.schema`, which builds on this module: `RECORD_ABSENT`
names them, zero elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from collector.batches import Batch
from collector.polled import I32, I64, U32, U64

U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
ABSENT_U64: Final = 0xFFFF_FFFF_FFFF_FFFF

TCP: Final = 6
UDP: Final = 17
ROCE_PORT: Final = 4791
# Headers that a record's bytes hold, IPv4's and what follows: UDP, BTH and ICRC; TCP with
# timestamps. Extended headers of RoCE come once a message.
_ROCE_HEADER_BYTES: Final = 20 + 8 + 12 + 4
_TCP_HEADER_BYTES: Final = 20 + 20 + 12
_IPV6_MORE_BYTES: Final = 20
FULL_PAYLOAD: Final = 4096  # of a packet, where a record counts bytes alone or packets alone


class RecordTime(IntEnum):
    """What `start_ns` and `end_ns` rest on, best first."""

    ABSOLUTE = 0  # the record names both points in time
    UPTIME = 1  # counted from when the exporter started, which it told
    EXPORT = 2  # the record's times say nothing: it ended when its message was sent


class Doubt(IntFlag):
    """What is odd about a record."""

    ABSURD_COUNT = 1  # a count that cannot be: taken as absent
    FROM_TOTAL = 2  # the exporter counts from the flow's beginning; this is what was added
    ABSURD_TIME = 4  # a time that cannot be: taken as absent
    REVERSE = 8  # the answering direction of a record of both (RFC 5103)
    FAR_TIME = 16  # more than a day from the time of its message: one of the two clocks is wrong
    TWICE = 32  # told of leaving, by an exporter that told of the same flow entering


RECORD_COLUMNS: Final[dict[str, np.dtype[np.generic]]] = {
    name: np.dtype(kind)
    for name, kind in {
        "arrival_ns": "i8",  # of the datagram; 0 = not known
        "export_ns": "i8",  # the exporter's clock when it sent the message
        "start_ns": "i8",  # first packet, ns since the epoch
        "end_ns": "i8",  # last packet
        "time_basis": "u1",  # RecordTime
        "exporter": "i4",  # index into Telemetry.exporters
        "bytes": "u8",  # of the packets that were seen, headers of IP included
        "packets": "u8",
        "src_hi": "u8",
        "src_lo": "u8",
        "dst_hi": "u8",
        "dst_lo": "u8",
        "protocol": "u1",
        "src_port": "u2",
        "dst_port": "u2",
        "tcp_flags": "u1",  # all that were seen, or-ed
        "dscp": "u1",
        "ecn": "u1",
        "input": "u4",  # ifIndex; 0 = unknown
        "output": "u4",
        "direction": "u1",  # 0 unknown, 1 seen entering, 2 seen leaving
        "vlan": "u2",
        "vni": "u4",
        "selector": "u8",  # which sampler chose the packets
        "sampling_rate": "u4",  # 1 in N; 0 = unknown
        "end_reason": "u1",  # flowEndReason (IANA 136); 0 = not said
        "doubts": "u1",  # Doubt bits
    }.items()
}
RECORD_ABSENT: Final = (
    dict.fromkeys(("bytes", "packets", "selector"), ABSENT_U64)
    | {"vni": 0xFFFF_FFFF, "vlan": 0xFFFF}
    | dict.fromkeys(("dscp", "ecn"), 0xFF)
)


@dataclass(frozen=True, slots=True)
class RecordBatch(Batch):
    """Flow records as columns of one length; see `RECORD_COLUMNS`."""

    KINDS: ClassVar = RECORD_COLUMNS

    arrival_ns: I64
    export_ns: I64
    start_ns: I64
    end_ns: I64
    time_basis: U8
    exporter: I32
    bytes: U64
    packets: U64
    src_hi: U64
    src_lo: U64
    dst_hi: U64
    dst_lo: U64
    protocol: U8
    src_port: U16
    dst_port: U16
    tcp_flags: U8
    dscp: U8
    ecn: U8
    input: U32
    output: U32
    direction: U8
    vlan: U16
    vni: U32
    selector: U64
    sampling_rate: U32
    end_reason: U8
    doubts: U8

    def column(self, name: str) -> NDArray[Any]:
        """See `Batch`; the time of a row, `time_ns` as in all tables, is when its flow ended."""
        column: NDArray[Any] = getattr(self, "end_ns" if name == "time_ns" else name)
        return column


def header_bytes(records: RecordBatch) -> I64:
    """What each packet of a record holds beside its payload, in bytes of IP; int64, shape (n,)."""
    header = np.where(records.protocol == TCP, _TCP_HEADER_BYTES, _ROCE_HEADER_BYTES)
    mapped = (records.src_hi == 0) & (records.src_lo >> np.uint64(32) == 0xFFFF)
    return np.asarray(header + np.where(mapped, 0, _IPV6_MORE_BYTES), np.int64)
