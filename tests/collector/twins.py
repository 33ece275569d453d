"""Runs the compiled kernels beside their slow twins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from collector import headers, roce, sflow
from collector.link import DatagramBatch
from collector.schema import COUNTER_COLUMNS
from tests import naive

HEADER_FIELDS = ("agent_hi", "agent_lo", "sub_agent", "sequence", "uptime_ms", "status")
SAMPLED_FIELDS = ("sequence", "source", "pool", "dropped", "stamp_ns", "status")
FLOW_FIELDS = tuple(sflow.SampleColumns._fields) + tuple(
    name
    for name in (*headers.HeaderColumns._fields, *roce.RoceColumns._fields)
    if name not in sflow.SampleColumns._fields
)
COUNTER_FIELDS = tuple(name for name in COUNTER_COLUMNS if name not in ("time_ns", "exporter"))


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
    sampled, flows, counters = samples.sampled, samples.flows, samples.counters
    repaired = headers.parse(
        batch.buffer, sampled.header_at, sampled.header_bytes, sampled.header_protocol, flows
    )
    rows: list[dict[str, Any]] = []
    for row in range(len(payloads)):
        out: dict[str, Any] = {
            name: int(getattr(samples.headers, name)[row]) for name in HEADER_FIELDS
        }
        out["counter_samples"] = int(samples.headers.counters[row])
        out["discards"] = int(samples.headers.discards[row])
        out["unknown"] = int(samples.headers.unknown[row])
        out["flows"] = [
            {name: int(getattr(flows, name)[i]) for name in FLOW_FIELDS}
            | {name: int(getattr(sampled, name)[i]) for name in SAMPLED_FIELDS}
            | {"repaired": int(repaired[i])}
            for i in np.flatnonzero(samples.flow_datagram == row)
        ]
        out["counters"] = [
            {name: int(getattr(counters, name)[i]) for name in COUNTER_FIELDS}
            for i in np.flatnonzero(samples.counter_datagram == row)
        ]
        rows.append(out)
    return rows


def assert_equal_to_twin(payloads: Sequence[bytes]) -> None:
    """Kernels and twin agree, whatever bytes stand behind each datagram."""
    expected = [naive.decode(payload) for payload in payloads]
    for fill in (0x00, 0xFF):
        assert compiled(payloads, fill) == expected
