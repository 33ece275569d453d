"""Flow records made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collector.addresses import from_text
from collector.records import RECORD_ABSENT, RecordBatch
from collector.schema import ExporterHealth, TimeBasis

MS = 1_000_000
HEADERS = 44  # of a RoCE packet, IPv4's included

EXPORTER = ExporterHealth(
    agent="10.255.0.1",
    sub_agent=0,
    protocol="ipfix",
    datagrams=1,
    flow_samples=0,
    counter_samples=0,
    lost_datagrams=0,
    decode_errors=0,
    sampling_rates=(),
    time_basis=TimeBasis.EXPORTER,
    state="ok",
)


def roce(
    rows: Sequence[tuple[str, str, float, float, int]], rate: int = 1, port: int = 50_000
) -> RecordBatch:
    """Records of (source, destination, start in ms, end in ms, packets of 4 KiB that were seen)."""
    out = RecordBatch.empty(len(rows))
    for name, value in RECORD_ABSENT.items():
        getattr(out, name).fill(value)
    out.protocol.fill(17)
    out.src_port.fill(port)
    out.dst_port.fill(4791)
    out.sampling_rate.fill(rate)
    for i, (src, dst, start_ms, end_ms, packets) in enumerate(rows):
        out.src_hi[i], out.src_lo[i] = from_text(src)
        out.dst_hi[i], out.dst_lo[i] = from_text(dst)
        out.start_ns[i], out.end_ns[i] = round(start_ms * MS), round(end_ms * MS)
        out.packets[i], out.bytes[i] = packets, packets * (4096 + HEADERS)
    return out


def joined(batches: Sequence[RecordBatch]) -> RecordBatch:
    """All rows, mixed."""
    whole = RecordBatch.concat(list(batches))
    return whole.take(np.random.default_rng(7).permutation(len(whole)))
