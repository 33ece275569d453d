"""Sampled packets, counters of ports, and streams of bytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from collector.addresses import from_text
from collector.ipfix import IpfixIngest
from collector.packets import Faults
from collector.schema import CounterBatch, FlowBatch, PortState, TimeBasis, Transport
from tests.collector.encode import ethernet, ipv4
from tests.collector.ipfix import encode
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.collector.ipfix.encode import message, number, set_of

ARRIVAL_NS = encode.EXPORT_S * 10**9 + 5
PACKET = ipv4(struct.pack(">HHHH", 49_152, 4791, 2000, 0) + bytes([4, 0x40]) + bytes(30), 17)


def read(*sets: bytes) -> tuple[FlowBatch, CounterBatch]:
    batch = batch_of([Arrival(message(*sets), time_ns=ARRIVAL_NS)])
    _, counters, packets = IpfixIngest().add(batch, Faults())
    return packets, counters


@pytest.mark.parametrize("width", [encode.VARIABLE, 100])
def test_sections_of_frames(width: int) -> None:
    """RFC 7133: a section of a frame, its length on the wire, and where it was seen."""
    frame = ethernet(0x0800, PACKET)
    section = encode.variable(frame) if width == encode.VARIABLE else frame.ljust(width, b"\0")
    fields = [(10, 4), (14, 4), (61, 1), (312, 2), (410, 2), (315, width)]
    options = set_of(3, encode.options_template(300, [(149, 4)], [(305, 4), (306, 4)]))
    packets, _ = read(
        options,
        set_of(300, number(7, 4) + number(1, 4) + number(2047, 4)),
        set_of(2, encode.template(256, fields)),
        set_of(256, struct.pack(">IIBHH", 3, 0, 0, 4136, len(frame)) + section),
    )
    assert len(packets) == 1
    expected = {
        "src_lo": from_text("10.0.0.1")[1],
        "dst_lo": from_text("10.0.0.2")[1],
        "dst_port": 4791,
        "transport": Transport.ROCEV2,
        "frame_bytes": 4136,
        "opcode": 4,
        "input": 3,
        "input_state": PortState.SINGLE,
        "output_state": PortState.UNKNOWN,
        "source_id": 3,
        "direction": 1,
        "sampling_rate": 2048,
        "time_ns": ARRIVAL_NS,
        "time_min_ns": ARRIVAL_NS - 10**9,
        "time_basis": TimeBasis.ARRIVAL,
    }
    assert {name: getattr(packets, name)[0] for name in expected} == expected


def test_sections_of_packets() -> None:
    """RFC 5477: a packet from its IP header on, and when it was seen."""
    fields = [(323, 8), (313, encode.VARIABLE)]
    seen_ms = encode.EXPORT_S * 1000 - 40
    packets, _ = read(
        set_of(2, encode.template(256, fields)),
        set_of(256, number(seen_ms, 8) + encode.variable(PACKET)),
    )
    assert packets.dst_port.tolist() == [4791]
    assert packets.frame_bytes.tolist() == [len(PACKET) + 18]
    assert packets.time_ns.tolist() == packets.time_min_ns.tolist() == [seen_ms * 1_000_000]
    assert packets.time_basis.tolist() == [TimeBasis.EXPORTER]


def test_sections_too_short_to_read_are_counted() -> None:
    ingest = IpfixIngest()
    sets = (
        set_of(2, encode.template(256, [(315, encode.VARIABLE)])),
        set_of(256, encode.variable(b"short") + encode.variable(ethernet(0x0800, PACKET))),
    )
    _, _, packets = ingest.add(batch_of([Arrival(message(*sets))]), Faults())
    assert len(packets) == 1
    assert ingest.unread_records == 1


class TestCounters:
    """SONiC's high-frequency telemetry (sonic-net/SONiC, its high-level design, 7.2)."""

    FIELDS: tuple[encode.Specifier, ...] = (
        (325, 8),
        (2, 8, 0x0001_0000),  # SAI_PORT_STAT_IF_IN_OCTETS of port 2
        (5, 8, 0x0001_0000),
        (2, 8, 0x0001_0009),  # SAI_PORT_STAT_IF_OUT_OCTETS
        (5, 8, 0x0001_0004),  # SAI_PORT_STAT_IF_IN_ERRORS
        (2, 8, 0x0015_0022),  # a queue's counter: not read
    )

    def read(self, *times_ns: int) -> CounterBatch:
        records = b"".join(
            struct.pack(">QQQQQQ", time_ns, 10 + n, 20 + n, 1 << 40, 40 + n, 9)
            for n, time_ns in enumerate(times_ns)
        )
        _, counters = read(set_of(2, encode.template(256, self.FIELDS)), set_of(256, records, 3))
        return counters

    def test_rows_by_record_and_port(self) -> None:
        time_ns = encode.EXPORT_S * 10**9
        rows = self.read(time_ns - 20_000, time_ns - 10_000)
        nothing = 0xFFFF_FFFF_FFFF_FFFF
        assert rows.ifindex.tolist() == [2, 5, 2, 5]
        assert (rows.time_ns - time_ns).tolist() == [-20_000, -20_000, -10_000, -10_000]
        assert rows.in_octets.tolist() == [10, 20, 11, 21]
        assert rows.out_octets.tolist() == [1 << 40, nothing, 1 << 40, nothing]
        assert rows.in_errors.tolist() == [0xFFFF_FFFF, 40, 0xFFFF_FFFF, 41]
        assert np.all(rows.exporter == 0)

    def test_a_time_that_is_none_gives_way_to_the_arrival(self) -> None:
        assert self.read(10_000).time_ns.tolist() == [ARRIVAL_NS] * 2

    def test_other_enterprises_are_no_counters(self) -> None:
        fields: list[encode.Specifier] = [(325, 8), (1, 8, 35_632)]
        content = set_of(256, bytes(16))
        assert not len(read(set_of(2, encode.template(256, fields)), content)[1])
