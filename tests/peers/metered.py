"""A capture for programs that meter flows, and what they must tell of it."""

from __future__ import annotations

import struct
from pathlib import Path

from collector.addresses import from_text
from collector.records import RecordBatch
from tests.collector.encode import ethernet, ipv4

FLOWS = 4
PACKETS = 50
STEP_NS = 10_000_000
NEAR_NS = 2_000_000


def capture(path: Path, start_ns: int) -> None:
    """Packets of four flows in turn, one each 10 ms; flow n carries 100 * (n + 1) bytes."""
    out = struct.pack("<IHHiIII", 0xA1B2_C3D4, 2, 4, 0, 0, 65_535, 1)
    for turn in range(FLOWS * PACKETS):
        flow = turn % FLOWS
        payload = bytes(100 * (flow + 1))
        datagram = struct.pack(">HHHH", 1000 + flow, 4791, 8 + len(payload), 0) + payload
        frame = ethernet(0x0800, ipv4(datagram, 17, src=f"10.0.0.{flow + 1}", dst="10.0.9.9"))
        micros = (start_ns + turn * STEP_NS) // 1000
        out += struct.pack("<IIII", micros // 1_000_000, micros % 1_000_000, len(frame), len(frame))
        out += frame
    path.write_bytes(out)


def expect_all(rows: RecordBatch, start_ns: int, *, early_ns: int = 0, rate: int = 0) -> None:
    """One record of each flow of `capture`; records are told in milliseconds.

    Their times may be too early, by as much as said; `rate` is what the exporter says of its own.
    """
    rows = rows.take(rows.src_port.argsort())
    flows = range(FLOWS)
    assert rows.src_port.tolist() == [1000 + flow for flow in flows]
    assert rows.src_lo.tolist() == [from_text(f"10.0.0.{flow + 1}")[1] for flow in flows]
    assert set(rows.dst_port.tolist()) == {4791}
    assert set(rows.protocol.tolist()) == {17}
    assert rows.packets.tolist() == [PACKETS] * FLOWS
    assert rows.bytes.tolist() == [PACKETS * (28 + 100 * (flow + 1)) for flow in flows]
    assert rows.doubts.tolist() == [0] * FLOWS
    assert rows.sampling_rate.tolist() == [rate] * FLOWS
    for flow in flows:
        first_ns = start_ns + flow * STEP_NS
        assert -early_ns <= int(rows.start_ns[flow]) - first_ns + NEAR_NS <= 2 * NEAR_NS
        last_ns = first_ns + (PACKETS - 1) * FLOWS * STEP_NS
        assert -early_ns <= int(rows.end_ns[flow]) - last_ns + NEAR_NS <= 2 * NEAR_NS
