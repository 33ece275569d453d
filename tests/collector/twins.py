"""Runs the compiled kernels beside their slow twins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from collector import headers, roce, sflow
from collector.link import DatagramBatch
from collector.polled import HOST_COLUMNS, PORT_COLUMNS
from collector.schema import COUNTER_COLUMNS, FlowBatch
from tests import naive

HEADER_FIELDS = ("agent_hi", "agent_lo", "sub_agent", "sequence", "uptime_ms", "status")
SAMPLED_FIELDS = ("sequence", "source", "pool", "dropped", "stamp_ns", "status")
PACKET_FIELDS = tuple(
    dict.fromkeys(
        (
            *sflow.SampleColumns._fields,
            *headers.HeaderColumns._fields,
            *roce.RoceColumns._fields,
        )
    )
)
POLLED = {
    "counters": (COUNTER_COLUMNS, "counter_datagram"),
    "ports": (PORT_COLUMNS, "port_datagram"),
    "hosts": (HOST_COLUMNS, "host_datagram"),
}
BY_INGEST = ("time_ns", "exporter")


def batch_of(payloads: Sequence[bytes], fill: int = 0) -> DatagramBatch:
    """Datagrams one behind another, `fill` between them: a read beyond an end shows."""
    gap = bytes([fill]) * 64
    lengths = np.array([len(p) for p in payloads], np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths + len(gap))[:-1])).astype(np.int64)
    rows = len(payloads)
    return DatagramBatch(
        buffer=np.frombuffer(b"".join(p + gap for p in payloads), np.uint8),
        offset=offsets,
        length=lengths,
        arrival_ns=np.zeros(rows, np.int64),
        src_hi=np.zeros(rows, np.uint64),
        src_lo=np.zeros(rows, np.uint64),
        src_port=np.zeros(rows, np.uint16),
        dst_port=np.full(rows, 6343, np.uint16),
        file_offset=offsets,
        defect=np.zeros(rows, np.uint8),
    )


def compiled(payloads: Sequence[bytes], fill: int = 0) -> list[dict[str, Any]]:
    """What the kernels read, in the shape of `naive.decode`."""
    batch = batch_of(payloads, fill)
    samples = sflow.decode(batch)
    rows: list[dict[str, Any]] = [
        {name: int(getattr(samples.headers, name)[row]) for name in HEADER_FIELDS}
        | {"unknown": int(samples.headers.unknown[row])}
        | {name: [] for name in ("flows", "discards", "counter_samples", *POLLED)}
        for row in range(len(payloads))
    ]
    for packet, datagram in _packets(batch, samples.flows, samples.sampled):
        rows[datagram]["flows"].append(packet)
    if samples.discards is not None:
        found = samples.discards
        notices = _packets(batch, found.packets, found.sampled)
        for i, (packet, datagram) in enumerate(notices):
            told = {"reason": int(found.drop.reason[i])}
            told["detail"] = found.drop.detail[i].tobytes().rstrip(b"\0")
            rows[datagram]["discards"].append(packet | told)
    if samples.polled is not None:
        polled = samples.polled
        for status, datagram in zip(polled.found.status, polled.found.datagram, strict=True):
            rows[datagram]["counter_samples"].append(status)
        for name, (columns, whose) in POLLED.items():
            batch_of_kind = getattr(polled, name)
            for i, datagram in enumerate(getattr(polled, whose)):
                rows[datagram][name].append(
                    {n: getattr(batch_of_kind, n)[i].item() for n in columns if n not in BY_INGEST}
                )
    for name, counted in (
        ("flows", samples.headers.flows),
        ("discards", samples.headers.discards),
        ("counter_samples", samples.headers.counters),
    ):
        assert [len(row[name]) for row in rows] == counted.tolist()
    return rows


def _packets(
    batch: DatagramBatch, packets: FlowBatch, sampled: sflow.Sampled
) -> list[tuple[dict[str, Any], int]]:
    """Sampled packets, each with the datagram that it came in."""
    repaired = sflow.parse(batch.buffer, packets, sampled)
    return [
        (
            {name: int(getattr(packets, name)[i]) for name in PACKET_FIELDS}
            | {name: int(getattr(sampled, name)[i]) for name in SAMPLED_FIELDS}
            | {"repaired": int(repaired[i])},
            int(sampled.datagram[i]),
        )
        for i in range(len(packets))
    ]


def assert_equal_to_twin(payloads: Sequence[bytes]) -> None:
    """Kernels and twin agree, whatever bytes stand behind each datagram."""
    expected = [naive.decode(payload) for payload in payloads]
    for fill in (0x00, 0xFF):
        assert compiled(payloads, fill) == expected
