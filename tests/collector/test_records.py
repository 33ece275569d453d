"""What flow samples say beside or in place of a sampled header."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from collector.addresses import from_text
from collector.schema import ABSENT_U16, ABSENT_U32, HeaderState, Transport
from collector.sflow import Status
from tests.collector import encode as e
from tests.collector.twins import compiled

PLAIN = e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64)
TAGGED = e.ethernet(0x0800, e.ipv4(e.tcp(b"p" * 90, 5000, 29_500, 1, 2), 6), [(0x8100, 5)])


def one(*records: bytes, **fields: Any) -> dict[str, Any]:
    """The one flow row of a sample with these records."""
    (row,) = compiled([e.datagram(e.flow_sample(*records, **fields))])
    assert (row["status"], row["flows"][0]["status"]) == (Status.GOOD, Status.GOOD)
    return dict(row["flows"][0])


def test_a_packet_told_by_its_fields() -> None:
    row = one(e.sampled_ipv4(6, (5000, 29_500), 1340, flags=0x18, tos=0x69))
    assert (row["src_hi"], row["src_lo"]) == from_text("10.0.0.1")
    assert (row["dst_hi"], row["dst_lo"]) == from_text("10.0.0.2")
    assert (row["protocol"], row["src_port"], row["dst_port"]) == (6, 5000, 29_500)
    assert (row["tcp_flags"], row["dscp"], row["ecn"]) == (0x18, 0x1A, 1)
    # Ethernet's header and check sequence are around it; what TCP's header takes is not told.
    assert (row["frame_bytes"], row["payload_bytes"]) == (1358, 0)
    assert (row["transport"], row["header_state"]) == (
        Transport.TCP,
        HeaderState.TRUNCATED_TRANSPORT,
    )
    assert (row["seq"], row["repaired"]) == (ABSENT_U32, 0)


def test_an_ipv6_packet_told_by_its_fields() -> None:
    row = one(e.sampled_ipv6(17, (50_000, 4791), 1100, priority=0x68))
    assert (row["src_hi"], row["src_lo"]) == from_text("2001:db8::1")
    assert (row["dst_hi"], row["dst_lo"]) == from_text("2001:db8::2")
    assert (row["dscp"], row["ecn"], row["payload_bytes"]) == (0x1A, 0, 1100 - 48)
    # It is RoCE, and its base transport header is what is missing.
    assert (row["transport"], row["header_state"]) == (
        Transport.ROCEV2,
        HeaderState.TRUNCATED_BTH,
    )
    assert row["dest_qp"] == ABSENT_U32


def test_a_frame_told_by_its_fields() -> None:
    row = one(e.sampled_ipv4(17, (1, 2), 200), e.sampled_ethernet(0x0800, 222))
    assert (row["frame_bytes"], row["payload_bytes"]) == (222, 172)
    assert (row["transport"], row["header_state"]) == (Transport.UDP, HeaderState.COMPLETE)
    alone = one(e.sampled_ethernet(0x0806, 64))
    assert (alone["frame_bytes"], alone["header_state"]) == (64, HeaderState.NOT_IP)
    no_more = one(e.sampled_ethernet(0x0800, 64))
    assert no_more["header_state"] == HeaderState.TRUNCATED_NETWORK


def test_one_packet_told_twice_is_one_packet() -> None:
    # Some switches send the sampled header and its fields in records of their own.
    told = e.sampled_ipv4(6, (1, 2), 9000, src="192.0.2.1"), e.sampled_ethernet(0x0800, 9018)
    for records in ((e.raw_header(PLAIN), *told), (*told, e.raw_header(PLAIN))):
        row = one(*records)
        assert (row["src_hi"], row["src_lo"]) == from_text("10.0.0.1")
        assert (row["transport"], row["dest_qp"]) == (Transport.ROCEV2, 0x11)
        assert row["frame_bytes"] == len(PLAIN) + 4


@pytest.mark.parametrize(
    ("frame", "left", "vlans", "vlan"),
    [
        (PLAIN, (0, 0), (100, 200), 100),  # received: as it came in
        (PLAIN, (0, 3), (100, 200), 200),  # sent: as it goes out
        (TAGGED, (0, 0), (100, 200), 5),  # a tag in the header is what was on the wire
        (PLAIN, (0, 0), (0, 0), ABSENT_U16),
        (PLAIN, (0, 0), (0xFFFF_FFFF, 0), ABSENT_U16),
        (PLAIN, (0, 0), (4095, 0), ABSENT_U16),
    ],
)
def test_the_vlan_that_the_switch_assigned(
    frame: bytes, left: tuple[int, int], vlans: tuple[int, int], vlan: int
) -> None:
    entered = (0, 4) if left == (0, 3) else (0, 3)
    row = one(e.switch(*vlans), e.raw_header(frame), entered=entered, left=left)
    assert (row["vlan"], row["inner_vlan"]) == (vlan, ABSENT_U16)


def test_a_tag_that_was_taken_off_is_the_outermost() -> None:
    stripped = e.record(1012, struct.pack(">II", 1, 0x88A8_0000 | 0x6000 | 700))
    row = one(e.switch(5, 6), stripped, e.raw_header(TAGGED))
    assert (row["vlan"], row["inner_vlan"]) == (700, 5)
    row = one(stripped, e.raw_header(PLAIN))
    assert (row["vlan"], row["inner_vlan"]) == (700, ABSENT_U16)
    nothing = e.record(1012, struct.pack(">II", 0, 0))
    assert one(nothing, e.raw_header(TAGGED))["vlan"] == 5


def test_the_tenant_network_that_the_switch_tells() -> None:
    into, out_of = (e.record(tag, struct.pack(">I", vni)) for tag, vni in ((1030, 51), (1029, 62)))
    assert one(e.raw_header(PLAIN), out_of)["vni"] == 62
    assert one(out_of, into, e.raw_header(PLAIN))["vni"] == 51
    inner = e.ethernet(0x0800, e.ipv4(e.udp(b"data" * 9, 1, 2), 17))
    vxlan = struct.pack(">II", 0x0800_0000, 7001 << 8) + inner
    frame = e.ethernet(0x0800, e.ipv4(e.udp(vxlan, 50_000, 4789), 17))
    assert one(into, e.raw_header(frame))["vni"] == 7001  # as it was on the wire


def test_queue_depth_and_time_in_the_switch() -> None:
    said = [e.record(tag, struct.pack(">I", n)) for tag, n in ((1036, 3), (1039, 2500), (1040, 9))]
    row = one(*said, e.raw_header(PLAIN))
    assert (row["queue"], row["transit_ns"], row["queue_bytes"]) == (3, 2500, 9)
    nothing = one(e.raw_header(PLAIN))
    assert {nothing[name] for name in ("queue", "transit_ns", "queue_bytes")} == {ABSENT_U32}


def test_routes_and_gateways_of_any_shape_are_skipped() -> None:
    path = struct.pack(">5I", 2, 2, 1, 65_001, 1) + struct.pack(">II", 3, 65_002)
    gateway = struct.pack(">I4s5I", 1, b"\n\0\0\1", 65_000, 1, 2, 2, 2) + path + b"\0" * 8
    router = e.record(1002, struct.pack(">I4sII", 1, b"\n\0\0\1", 24, 24))
    mpls = e.record(1006, struct.pack(">I16sII", 2, b"\x20" + b"\0" * 15, 1, 16_000) + b"\0" * 4)
    row = one(router, e.record(1003, gateway), mpls, e.raw_header(PLAIN))
    assert row["dest_qp"] == 0x11


def test_records_too_short_for_their_fields_say_nothing() -> None:
    sizes = {2: 23, 3: 31, 4: 55, 1001: 15, 1012: 7, 1029: 3, 1030: 3, 1036: 3, 1039: 3, 1040: 3}
    short = (e.record(tag, b"\1" * size) for tag, size in sizes.items())
    assert one(*short) == one()
