"""The schema between `collector` and everything above it.

A `FlowBatch` is one row per sampled packet, held as NumPy columns of fixed dtype. Each column has
one value that means "absent"; nothing else does. `COLUMNS` is the one table of them.

Absent values
-------------
``ABSENT_U32`` for 24- and 32-bit protocol fields that may legally be zero (QP, sequence, MSN,
message length, immediate), ``ABSENT_U16`` for VLANs, ``ABSENT_U8`` for opcode and syndrome, zero
for addresses, ports and sampling rate (0 = the exporter did not say). `ABSENT` names them by
column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from collector.batches import Batch
from collector.polled import HostBatch, PortBatch
from collector.records import RecordBatch

ABSENT_U8: Final = 0xFF
ABSENT_U16: Final = 0xFFFF
ABSENT_U32: Final = 0xFFFF_FFFF

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
U16 = NDArray[np.uint16]
U8 = NDArray[np.uint8]


class TimeBasis(IntEnum):
    """What `time_ns` rests on, best first."""

    EXPORTER = 0
    INTERPOLATED = 1
    ARRIVAL = 2


class PortState(IntEnum):
    """What an interface field says; only SINGLE names a port."""

    UNKNOWN = 0
    SINGLE = 1
    DISCARDED = 2
    MULTIPLE = 3
    INTERNAL = 4


class Transport(IntEnum):
    """The transport found in the sampled header."""

    OTHER = 0
    TCP = 1
    UDP = 2
    ROCEV2 = 3
    ROCEV1 = 4
    UET = 5


class Encapsulation(IntEnum):
    """The outermost tunnel that was opened; what is in it may be a tunnel again."""

    NONE = 0
    VXLAN = 1
    GRE = 2
    IP = 3  # IPv4 or IPv6 in either
    MPLS = 4
    SRV6 = 5


class HeaderState(IntEnum):
    """How far the sampled header could be read."""

    COMPLETE = 0
    NOT_IP = 1
    TRUNCATED_NETWORK = 2
    TRUNCATED_TRANSPORT = 3
    FRAGMENT = 4
    TRUNCATED_BTH = 5  # RoCE, and the header ends before its base transport header does
    TRUNCATED_INNER = 6  # a tunnel, and the header ends before the inner network header does
    TOO_DEEP = 7  # more tunnels in tunnels, or labels, than are opened


class Mark(IntEnum):
    """Bits of the `marks` column."""

    ACK = 1
    NAK = 2
    CNP = 4
    FECN = 8
    BECN = 16


COLUMNS: Final[dict[str, np.dtype[np.generic]]] = {
    name: np.dtype(kind)
    for name, kind in {
        "time_ns": "i8",  # event time, ns since the epoch (basis ARRIVAL: its upper bound)
        "time_min_ns": "i8",  # its lower bound; equals time_ns where the exporter stamps
        "time_basis": "u1",  # TimeBasis
        "exporter": "i4",  # index into Telemetry.exporters
        "source_id": "u4",  # sFlow data source index (ifIndex) the sampler sits on
        "input": "u4",  # ifIndex; a port only where input_state is SINGLE
        "input_state": "u1",  # PortState
        "output": "u4",  # ifIndex, discard reason or port count, by output_state
        "output_state": "u1",  # PortState
        "direction": "u1",  # 0 unknown, 1 received at source_id, 2 sent from source_id
        "sampling_rate": "u4",  # 1 in N; 0 = unknown
        "frame_bytes": "u4",  # length of the frame on the wire
        "ttl": "u1",
        "src_hi": "u8",  # source address (in tunnels: the innermost), upper 64 bits (IPv4: 0)
        "src_lo": "u8",  # lower 64 bits (IPv4: 0x0000ffff_aabbccdd)
        "dst_hi": "u8",
        "dst_lo": "u8",
        "protocol": "u1",  # IP protocol number
        "src_port": "u2",
        "dst_port": "u2",
        "dscp": "u1",
        "ecn": "u1",
        "vlan": "u2",  # outermost VLAN id; ABSENT_U16 = untagged
        "inner_vlan": "u2",  # VLAN id of the second tag; ABSENT_U16 = none
        "vni": "u4",  # tenant network; ABSENT_U32 = none
        "encapsulation": "u1",  # Encapsulation
        "outer_src_hi": "u8",  # addresses of the outermost IP header, if a tunnel began there
        "outer_src_lo": "u8",
        "outer_dst_hi": "u8",
        "outer_dst_lo": "u8",
        "transport": "u1",  # Transport
        "header_state": "u1",  # HeaderState
        "opcode": "u1",  # BTH opcode; ABSENT_U8 = no BTH
        "dest_qp": "u4",  # BTH destination QP; UET: destination PDC
        "seq": "u4",  # BTH PSN (24 bits), TCP sequence number or UET PSN (32 bits)
        "ack_seq": "u4",  # TCP acknowledgement number
        "msn": "u4",  # AETH message sequence number
        "syndrome": "u1",  # AETH syndrome
        "message_bytes": "u4",  # RETH DMA length
        "immediate": "u4",
        "tcp_flags": "u1",
        "payload_bytes": "u4",  # TCP or UDP data; RoCE: without BTH, ETHs, pad and ICRC
        "marks": "u1",  # Mark bits
        "queue": "u4",  # egress queue; ABSENT_U32 = not said
        "queue_bytes": "u4",  # how much stood in that queue; ABSENT_U32 = not said
        "transit_ns": "u4",  # time inside the switch; ABSENT_U32 = not said, or longer than fits
    }.items()
}
# The columns of all tables that are points in time, ns since the epoch.
TIMES: Final = ("time_ns", "time_min_ns", "arrival_ns", "export_ns", "start_ns", "end_ns")

# What stands for "absent" by column; zero in all others that may be absent.
ABSENT: Final = (
    dict.fromkeys(("opcode", "syndrome"), ABSENT_U8)
    | dict.fromkeys(("vlan", "inner_vlan"), ABSENT_U16)
    | dict.fromkeys(
        ("vni", "dest_qp", "seq", "ack_seq", "msn", "message_bytes", "immediate"), ABSENT_U32
    )
    | dict.fromkeys(("queue", "queue_bytes", "transit_ns"), ABSENT_U32)
)
# Columns that files of earlier versions lack: all that reads them takes them as absent.
LATER: Final = (
    *("inner_vlan", "encapsulation"),
    *("outer_src_hi", "outer_src_lo", "outer_dst_hi", "outer_dst_lo"),
    *("queue", "queue_bytes", "transit_ns"),
)


@dataclass(frozen=True, slots=True)
class FlowBatch(Batch):
    """Sampled packets as columns; all columns have the same length.

    Dtypes, units and the meaning of "absent" stand in `COLUMNS`.
    """

    KINDS: ClassVar = COLUMNS

    time_ns: I64
    time_min_ns: I64
    time_basis: U8
    exporter: I32
    source_id: U32
    input: U32
    input_state: U8
    output: U32
    output_state: U8
    direction: U8
    sampling_rate: U32
    frame_bytes: U32
    ttl: U8
    src_hi: U64
    src_lo: U64
    dst_hi: U64
    dst_lo: U64
    protocol: U8
    src_port: U16
    dst_port: U16
    dscp: U8
    ecn: U8
    vlan: U16
    inner_vlan: U16
    vni: U32
    encapsulation: U8
    outer_src_hi: U64
    outer_src_lo: U64
    outer_dst_hi: U64
    outer_dst_lo: U64
    transport: U8
    header_state: U8
    opcode: U8
    dest_qp: U32
    seq: U32
    ack_seq: U32
    msn: U32
    syndrome: U8
    message_bytes: U32
    immediate: U32
    tcp_flags: U8
    payload_bytes: U32
    marks: U8
    queue: U32
    queue_bytes: U32
    transit_ns: U32


COUNTER_COLUMNS: Final[dict[str, np.dtype[np.generic]]] = {
    name: np.dtype(kind)
    for name, kind in {
        "time_ns": "i8",  # arrival of the datagram
        "exporter": "i4",
        "ifindex": "u4",
        "speed_bps": "u8",
        "status": "u4",  # bit 0 admin up, bit 1 oper up
        "in_octets": "u8",
        "in_ucast_pkts": "u4",
        "in_discards": "u4",
        "in_errors": "u4",
        "out_octets": "u8",
        "out_ucast_pkts": "u4",
        "out_discards": "u4",
        "out_errors": "u4",
    }.items()
}


@dataclass(frozen=True, slots=True)
class CounterBatch(Batch):
    """Generic interface counters (sFlow counters_generic, 0:1) as columns."""

    KINDS: ClassVar = COUNTER_COLUMNS

    time_ns: I64
    exporter: I32
    ifindex: U32
    speed_bps: U64
    status: U32
    in_octets: U64
    in_ucast_pkts: U32
    in_discards: U32
    in_errors: U32
    out_octets: U64
    out_ucast_pkts: U32
    out_discards: U32
    out_errors: U32


DISCARD_COLUMNS: Final[dict[str, np.dtype[np.generic]]] = COLUMNS | {
    "reason": np.dtype("u4"),  # why: see `collector.sflow.reasons`
    # What the switch calls it: a hardware trap, a reason of Linux, an ACL or a function; cut, and
    # empty where it does not say.
    "detail": np.dtype("S64"),
    "drops": np.dtype("u4"),  # the switch's own count of notices that it could not send; wraps
}


@dataclass(frozen=True, slots=True)
class DiscardBatch(Batch):
    """Packets that a switch dropped and told of (sFlow sample 0:5), one row each.

    Dtypes and units stand in `DISCARD_COLUMNS`. Of `packets` the sampling rate is 1, `input` and
    `output` are ports or unknown.
    """

    KINDS: ClassVar = DISCARD_COLUMNS

    packets: FlowBatch
    reason: U32
    detail: NDArray[np.bytes_]
    drops: U32

    def column(self, name: str) -> NDArray[Any]:
        """See `Batch`."""
        column: NDArray[Any] = getattr(self.packets if name in COLUMNS else self, name)
        return column

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]]) -> Self:
        """See `Batch`."""
        packets = FlowBatch.of({name: columns[name] for name in COLUMNS})
        return cls(packets, columns["reason"], columns["detail"], columns["drops"])


@dataclass(frozen=True, slots=True)
class UnknownTag:
    """A format that an exporter sent and nobody here knows; skipped by its length."""

    exporter: int  # index into Telemetry.exporters
    kind: str  # "sample", "flow record" or "counter record"
    enterprise: int
    format: int
    count: int


@dataclass(frozen=True, slots=True)
class DecodeError:
    """Something that could not be read; `count` of the same kind in a row of one source."""

    exporter: str | None
    file: str | None
    offset: int | None
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class ExporterNote:
    """Something that happened to an exporter; `count` times, the last time at `time_ns`."""

    time_ns: int  # arrival, ns since the epoch
    kind: str
    text: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class ClockHealth:
    """What is known of an exporter's clock.

    Attributes
    ----------
    offset_s
        What its clock says beyond what it is; None = not known, for `reason`.
    error_s
        The offset is right to this; None with it.
    basis
        "hops": by packets that other exporters sampled too, against the median of them. "arrival":
        against our clock, the network's delay included. "none".
    samples
        Packets or datagrams that say so.
    corrected_s
        What is taken off its timestamps.
    skew_ppm
        How much faster than ours it runs; None = not known.
    jitter_s
        How unevenly its datagrams arrive (RFC 3550, 6.4.1); None = its uptime does not tell.
    """

    offset_s: float | None = None
    error_s: float | None = None
    basis: str = "none"
    samples: int = 0
    reason: str = "its samples carry no time"
    corrected_s: float = 0.0
    skew_ppm: float | None = None
    jitter_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExporterHealth:
    """One exporter as seen in the window: (agent, sub-agent), or (address, observation domain)."""

    agent: str
    sub_agent: int  # of IPFIX the observation domain, of NetFlow the source id or engine
    protocol: str  # "sflow5", "ipfix", "netflow9", "netflow5"; "table": see `collector.transfers`
    datagrams: int
    flow_samples: int
    counter_samples: int
    lost_datagrams: int
    decode_errors: int
    sampling_rates: tuple[int, ...]
    time_basis: TimeBasis
    # "ok" | "templates_missing" | "counters_only" | "rate_unknown" | "silent" | "moved"
    state: str
    duplicate_datagrams: int = 0  # dropped: the same bytes came twice
    lost_samples: int = 0  # by the samples' own numbering, lost datagrams included
    dropped_samples: int = 0  # that its samplers chose and could not send, as they count them
    expected_samples: int = 0  # by the pools that they chose from, behind a source's first sample
    pooled_samples: int = 0  # that came of those
    due_samples: int = 0  # by what passed its sampled ports, between two of their counters
    counted_samples: int = 0  # that came of those
    restarts: int = 0
    # What came is the same whenever it came; what its arrival tells is not.
    clock: ClockHealth = field(default=ClockHealth(), compare=False)
    notes: tuple[ExporterNote, ...] = field(default=(), compare=False)
    discard_samples: int = 0  # notices of dropped packets (sFlow 0:5)
    unknown_samples: int = 0  # skipped by their length
    flow_records: int = 0
    lost_records: int = 0  # by the messages' numbers, where these count records
    unread_records: int = 0  # of templates without two addresses, nor packets, nor counters
    waiting_sets: int = 0  # of records, whose template has not come yet
    dropped_sets: int = 0  # given up, as their template did not come in time


_NO_DISCARDS: Final = DiscardBatch.empty()
_NO_PORTS: Final = PortBatch.empty()
_NO_HOSTS: Final = HostBatch.empty()
_NO_RECORDS: Final = RecordBatch.empty()


@dataclass(frozen=True, slots=True)
class Telemetry:
    """All that was read from one window's captures."""

    flows: FlowBatch
    counters: CounterBatch
    exporters: tuple[ExporterHealth, ...]
    errors: tuple[DecodeError, ...]
    datagrams: int
    flow_samples: int
    counter_samples: int
    lost_datagrams: int
    decode_errors: int
    discards: DiscardBatch = field(default=_NO_DISCARDS, compare=False)
    # As it was at the end of the window: the newest of each port, and of each exporter.
    ports: PortBatch = field(default=_NO_PORTS, compare=False)
    hosts: HostBatch = field(default=_NO_HOSTS, compare=False)
    unknown_tags: tuple[UnknownTag, ...] = ()
    records: RecordBatch = field(default=_NO_RECORDS, compare=False)
    flow_records: int = 0
