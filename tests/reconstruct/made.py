"""Sampled packets and progress tables made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collector.messages import CLASS_NAMES
from collector.schema import (
    ABSENT_U8,
    ABSENT_U16,
    ABSENT_U32,
    COLUMNS,
    CounterBatch,
    ExporterHealth,
    FlowBatch,
    HeaderState,
    Telemetry,
    TimeBasis,
    Transport,
)
from reconstruct.bins import Connections, Endpoints, Progress, ProgressBins, Verb

NETWORK = 0xFFFF_0A00_0000  # 10.0.0.0, mapped
START_NS = 1_767_225_600_000_000_000
S = 1_000_000_000
MTU = 4096
HEADERS = 62  # Ethernet, IPv4, UDP, BTH, ICRC and FCS around the payload of a middle packet

# Opcodes of reliable connections (InfiniBand Architecture Specification 1.2.1, table 38)
SEND_ONLY = 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMM, WRITE_ONLY = 0x06, 0x07, 0x09, 0x0A
READ_REQUEST, READ_MIDDLE, ACKNOWLEDGE = 0x0C, 0x0E, 0x11
TCP_ACK = 0x10


def address(number: int) -> str:
    """Address text of endpoint `number` of `packets`."""
    return f"10.0.{number >> 8}.{number & 255}"


def packets(time_ns: ArrayLike, src: ArrayLike, dst: ArrayLike, **columns: ArrayLike) -> FlowBatch:
    """RDMA writes sampled at a leaf's port with a stamp, but for the columns given.

    `src` and `dst` count addresses from 10.0.0.0; `time_ns` counts from `START_NS`.
    """
    time = np.atleast_1d(np.asarray(time_ns, np.int64)) + START_NS
    values: dict[str, ArrayLike] = {
        "time_ns": time,
        "time_min_ns": time,
        "time_basis": TimeBasis.EXPORTER,
        "direction": 1,
        "sampling_rate": 100,
        "frame_bytes": MTU + HEADERS,
        "payload_bytes": MTU,
        "src_lo": NETWORK + np.asarray(src, np.uint64),
        "dst_lo": NETWORK + np.asarray(dst, np.uint64),
        "protocol": 17,
        "src_port": 49152,
        "dst_port": 4791,
        "vlan": ABSENT_U16,
        "vni": ABSENT_U32,
        "transport": Transport.ROCEV2,
        "header_state": HeaderState.COMPLETE,
        "opcode": WRITE_MIDDLE,
        "dest_qp": 1,
        "msn": ABSENT_U32,
        "syndrome": ABSENT_U8,
        "message_bytes": ABSENT_U32,
        "immediate": ABSENT_U32,
        **columns,
    }
    flows = FlowBatch.empty(len(time))
    for name, value in values.items():
        getattr(flows, name)[:] = np.asarray(value).astype(COLUMNS[name])
    return flows


def segments(time_ns: ArrayLike, src: ArrayLike, dst: ArrayLike, **columns: ArrayLike) -> FlowBatch:
    """TCP segments of 1,448 bytes, but for the columns given."""
    tcp: dict[str, ArrayLike] = {
        "transport": Transport.TCP,
        "protocol": 6,
        "src_port": 50000,
        "dst_port": 50001,
        "opcode": ABSENT_U8,
        "dest_qp": ABSENT_U32,
        "tcp_flags": TCP_ACK,
        "frame_bytes": 1518,
        "payload_bytes": 1448,
    }
    return packets(time_ns, src, dst, **{**tcp, **columns})


def telemetry(*batches: FlowBatch) -> Telemetry:
    """What the collector would hand on of these packets."""
    flows = FlowBatch.concat(list(batches))
    exporters = exporters_of(flows)
    return Telemetry(flows, CounterBatch.empty(), exporters, (), 0, len(flows), 0, 0, 0)


def exporters_of(flows: FlowBatch) -> tuple[ExporterHealth, ...]:
    """Exporters for all numbers that rows name."""
    count = int(flows.exporter.max(initial=-1)) + 1
    return tuple(
        ExporterHealth(f"192.0.2.{n}", 0, "sflow5", 0, 0, 0, 0, 0, (), TimeBasis.EXPORTER, "ok")
        for n in range(count)
    )


@dataclass(frozen=True, slots=True)
class Stream:
    """One connection of `progress_of`: samples at `time_ns` with unwrapped `position`."""

    src: int
    dst: int
    time_ns: Sequence[int] | NDArray[np.int64]
    position: Sequence[int] | NDArray[np.int64]
    fields: dict[str, Any] = field(default_factory=dict)


def progress_of(*streams: Stream, endpoints: int | None = None, rate: int = 100) -> Progress:
    """Progress with a row for each time of a stream; give times that lie more than a bin apart.

    Connections send full RDMA writes, rows hold one sample at 1:`rate`; `Stream.fields` changes
    columns of `Connections` and `ProgressBins`.
    """
    count = endpoints or 1 + max(max(s.src, s.dst) for s in streams)
    time = np.concatenate([np.asarray(s.time_ns, np.int64) for s in streams]) + START_NS
    position = np.concatenate([np.asarray(s.position, np.int64) for s in streams])
    sizes = [len(s.time_ns) for s in streams]
    rows = len(time)

    def per_row(name: str, usual: float) -> NDArray[Any]:
        parts = [
            np.broadcast_to(np.asarray(s.fields.get(name, usual)), size)
            for s, size in zip(streams, sizes, strict=True)
        ]
        return np.concatenate(parts)

    def column(name: str, usual: Any, kind: type) -> NDArray[Any]:
        return np.array([s.fields.get(name, usual) for s in streams], kind)

    bins = ProgressBins(
        connection=np.repeat(np.arange(len(streams), dtype=np.int32), sizes),
        first_ns=time,
        last_ns=time,
        first_seq=position,
        last_seq=position,
        slack_ns=per_row("slack_ns", 0).astype(np.int64),
        samples=per_row("samples", 1).astype(np.int32),
        scaled_bytes=per_row("scaled_bytes", rate * (MTU + HEADERS)).astype(np.float64),
        retransmitted=per_row("retransmitted", 0).astype(np.int32),
        marks=np.zeros(rows, np.int32),
    )
    none_read = [0] * len(CLASS_NAMES)
    connections = Connections(
        key=np.arange(len(streams), dtype=np.uint64),
        src=np.array([s.src for s in streams], np.int32),
        dst=np.array([s.dst for s in streams], np.int32),
        transport=column("transport", Transport.ROCEV2, np.uint8),
        dest_qp=np.arange(len(streams), dtype=np.uint32),
        src_port=column("src_port", 49152, np.uint16),
        dst_port=column("dst_port", 4791, np.uint16),
        unit_bytes=column("unit_bytes", MTU, np.int64),
        verbs=column("verbs", Verb.WRITE, np.uint8),
        mean_payload=column("mean_payload", MTU, np.float64),
        mean_frame=column("mean_frame", MTU + HEADERS, np.float64),
        bare_bytes=column("bare_bytes", 0.0, np.float64),
        message_classes=column("message_classes", none_read, np.int64).reshape(
            len(streams), len(CLASS_NAMES)
        ),
        mean_message_bytes=column("mean_message_bytes", np.nan, np.float64),
    )
    low = NETWORK + np.arange(count, dtype=np.uint64)
    table = Endpoints(
        np.zeros(count, np.uint64),
        low,
        np.full(count, ABSENT_U32, np.uint32),
        tuple(address(i) for i in range(count)),
        low,
    )
    return Progress(table, connections, bins, int(time.min()), int(time.max()))


def renamed(progress: Progress, names: Sequence[str]) -> Progress:
    """The same progress between endpoints of other names."""
    return replace(progress, endpoints=replace(progress.endpoints, names=tuple(names)))
