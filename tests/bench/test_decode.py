from __future__ import annotations

from bench.decode import SAMPLES, decode, make_batch, make_datagram
from tests import naive


def test_both_sides_of_the_race_read_the_same_samples() -> None:
    flows = decode(make_batch(50))
    rows = [row for number in range(50) for row in naive.decode(make_datagram(number))["flows"]]
    assert len(flows) == len(rows) == 50 * SAMPLES
    for name in ("src_lo", "dst_lo", "opcode", "dest_qp", "seq", "message_bytes", "payload_bytes"):
        assert getattr(flows, name).tolist() == [row[name] for row in rows]


def test_the_samples_are_those_the_benchmark_speaks_of() -> None:
    rows = naive.decode(make_datagram(3))["flows"]
    assert {row["payload_bytes"] for row in rows} == {4096}
    assert {row["opcode"] for row in rows} == {0x06, 0x07}
    assert all(row["stamp_ns"] > 0 for row in rows)
    assert len(make_datagram(3)) <= 1400
