"""Tunnels by hand-made bytes: what is inside is the row, what is outside stands beside it.

Elsewhere tunnels and label stacks hide the packet inside, or one label is read where there are
several (akvorado/akvorado#1445, sflow/sflowtool#32, sflow/sflowtool#49).
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from collector.addresses import from_text, to_text
from collector.schema import (
    ABSENT_U8,
    ABSENT_U16,
    ABSENT_U32,
    Encapsulation,
    HeaderState,
    Mark,
    Transport,
)
from tests.collector import encode as e
from tests.collector.encapsulate import VTEPS, gre, labels, pptp, segments, vxlan
from tests.collector.test_headers import parse

DATA = b"d" * 64
WRITE = e.udp(e.bth(0x06, 0x00BEEF, 0xABCDEF) + e.reth(1 << 20) + DATA + b"\0" * 4, 50_000, 4791)
FOUR = e.ipv4(WRITE, 17, "10.1.0.1", "10.1.0.2", tos=0x6A, ttl=63)
SIX = e.ipv6(WRITE, 17, "fd00::1", "fd00::2", traffic_class=0x6A, hops=63)
FRAME = e.ethernet(0x0800, FOUR)
OUTER_SIX = ("2001:db8:a::1", "2001:db8:a::2")
NOBODY = ("::", "::")


def over_ipv4(protocol: int, payload: bytes, **options: Any) -> bytes:
    return e.ethernet(0x0800, e.ipv4(payload, protocol, *VTEPS, **options))


def over_ipv6(following: int, payload: bytes) -> bytes:
    return e.ethernet(0x86DD, e.ipv6(payload, following, *OUTER_SIX))


def ends(row: dict[str, Any], prefix: str = "") -> tuple[str, str]:
    return tuple(
        to_text(row[f"{prefix}{end}_hi"], row[f"{prefix}{end}_lo"]) for end in ("src", "dst")
    )  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("frame", "encapsulation", "outer"),
    [
        (over_ipv4(17, vxlan(FRAME, 5001)), Encapsulation.VXLAN, VTEPS),
        (over_ipv6(17, vxlan(FRAME, 5001)), Encapsulation.VXLAN, OUTER_SIX),
        (over_ipv4(47, gre(0x0800, FOUR)), Encapsulation.GRE, VTEPS),
        (over_ipv4(47, gre(0x0800, FOUR, checksum=1)), Encapsulation.GRE, VTEPS),
        (over_ipv4(47, gre(0x0800, FOUR, key=1)), Encapsulation.GRE, VTEPS),
        (over_ipv4(47, gre(0x0800, FOUR, sequence=1)), Encapsulation.GRE, VTEPS),
        (
            over_ipv4(47, gre(0x0800, FOUR, checksum=1, key=2, sequence=3)),
            Encapsulation.GRE,
            VTEPS,
        ),
        (over_ipv6(47, gre(0x0800, FOUR)), Encapsulation.GRE, OUTER_SIX),
        (over_ipv4(47, gre(0x6558, FRAME, key=5001 << 8)), Encapsulation.GRE, VTEPS),  # NVGRE
        (over_ipv4(47, gre(0x8847, labels(16) + FOUR)), Encapsulation.GRE, VTEPS),
        (over_ipv4(47, pptp(b"\xff\x03\x00\x21" + FOUR)), Encapsulation.GRE, VTEPS),
        (over_ipv4(47, pptp(b"\x00\x21" + FOUR, ack=9)), Encapsulation.GRE, VTEPS),
        (over_ipv4(47, pptp(b"\x21" + FOUR)), Encapsulation.GRE, VTEPS),
        (over_ipv4(4, FOUR), Encapsulation.IP, VTEPS),
        (over_ipv4(4, FOUR, options=b"\x01" * 8), Encapsulation.IP, VTEPS),
        (over_ipv6(4, FOUR), Encapsulation.IP, OUTER_SIX),
        (over_ipv6(60, bytes([4, 0, 1, 4, *[0] * 4]) + FOUR), Encapsulation.IP, OUTER_SIX),
        (over_ipv6(43, segments(4, ["fd01::1"]) + FOUR), Encapsulation.SRV6, OUTER_SIX),
        (over_ipv6(43, segments(143, ["fd01::1"] * 2) + FRAME), Encapsulation.SRV6, OUTER_SIX),
        (over_ipv6(143, FRAME), Encapsulation.SRV6, OUTER_SIX),  # one segment needs no header
        (e.ethernet(0x8847, labels(100) + FOUR), Encapsulation.MPLS, NOBODY),
        (e.ethernet(0x8848, labels(100) + FOUR), Encapsulation.MPLS, NOBODY),
        (e.ethernet(0x8847, labels(0) + FOUR), Encapsulation.MPLS, NOBODY),  # explicit null
        (e.ethernet(0x8847, labels(*range(16, 24)) + FOUR), Encapsulation.MPLS, NOBODY),
        (e.ethernet(0x8847, labels(16) + b"\0" * 4 + FRAME), Encapsulation.MPLS, NOBODY),
        (e.ethernet(0x8847, labels(16) + b"\0\0\0\7" + FRAME), Encapsulation.MPLS, NOBODY),
        (e.ethernet(0x8847, labels(16) + FRAME), Encapsulation.MPLS, NOBODY),  # no control word
        (
            e.ethernet(0x8847, labels(16) + b"\x52" + FRAME[1:]),  # whose address begins so
            Encapsulation.MPLS,
            NOBODY,
        ),
    ],
)
def test_the_row_is_of_the_packet_inside(
    frame: bytes, encapsulation: Encapsulation, outer: tuple[str, str]
) -> None:
    row = parse(frame, keep=256)
    assert (row["encapsulation"], row["header_state"]) == (encapsulation, HeaderState.COMPLETE)
    assert ends(row) == ("10.1.0.1", "10.1.0.2")
    assert ends(row, "outer_") == outer
    assert (row["protocol"], row["src_port"], row["dst_port"]) == (17, 50_000, 4791)
    assert (row["dscp"], row["ecn"], row["ttl"]) == (26, 2, 63)
    assert (row["transport"], row["opcode"]) == (Transport.ROCEV2, 0x06)
    assert (row["dest_qp"], row["seq"], row["message_bytes"]) == (0xBEEF, 0xABCDEF, 1 << 20)
    assert (row["payload_bytes"], row["frame_bytes"]) == (64, len(frame) + 4)
    assert row["vni"] == (5001 if encapsulation == Encapsulation.VXLAN else ABSENT_U32)
    assert (row["vlan"], row["inner_vlan"]) == (ABSENT_U16, ABSENT_U16)


@pytest.mark.parametrize(
    ("frame", "encapsulation"),
    [
        (over_ipv4(17, vxlan(e.ethernet(0x86DD, SIX), 0xFFFFFF)), Encapsulation.VXLAN),
        (over_ipv4(47, gre(0x86DD, SIX)), Encapsulation.GRE),
        (over_ipv4(47, pptp(b"\x00\x57" + SIX)), Encapsulation.GRE),
        (over_ipv4(41, SIX), Encapsulation.IP),
        (over_ipv6(41, SIX), Encapsulation.IP),
        (over_ipv6(43, segments(41, ["fd01::1"], left=1) + SIX), Encapsulation.SRV6),
        (e.ethernet(0x8847, labels(2) + SIX), Encapsulation.MPLS),
    ],
)
def test_ipv6_inside(frame: bytes, encapsulation: Encapsulation) -> None:
    row = parse(frame, keep=256)
    assert (row["encapsulation"], row["header_state"]) == (encapsulation, HeaderState.COMPLETE)
    assert ends(row) == ("fd00::1", "fd00::2")
    assert (row["dscp"], row["ecn"], row["ttl"], row["dest_qp"]) == (26, 2, 63, 0xBEEF)
    assert row["vni"] == (0xFFFFFF if encapsulation == Encapsulation.VXLAN else ABSENT_U32)


def test_an_ipv4_packet_in_an_ipv6_one_leaves_nothing_of_it() -> None:
    row = parse(over_ipv6(4, FOUR), keep=256)
    assert (row["src_hi"], row["dst_hi"]) == (0, 0)
    assert (row["outer_src_hi"], row["outer_src_lo"]) == from_text(OUTER_SIX[0])


def test_without_ethernet_and_by_the_number_of_mpls() -> None:
    assert parse(e.ipv4(FOUR, 4), protocol=11)["encapsulation"] == Encapsulation.IP
    row = parse(labels(16, 17) + FOUR, protocol=13)
    assert (row["encapsulation"], row["dest_qp"]) == (Encapsulation.MPLS, 0xBEEF)


def test_tags_are_those_of_the_fabric_not_of_the_tenant() -> None:
    tenant = e.ethernet(0x0800, FOUR, [(0x8100, 77)])
    row = parse(over_ipv4(17, vxlan(tenant, 1)), keep=256)
    assert (row["vlan"], row["dest_qp"]) == (ABSENT_U16, 0xBEEF)
    fabric = e.ethernet(0x0800, e.ipv4(vxlan(tenant, 1), 17, *VTEPS), [(0x88A8, 5), (0x8100, 6)])
    row = parse(fabric, keep=256)
    assert (row["vlan"], row["inner_vlan"], row["dest_qp"]) == (5, 6, 0xBEEF)


def test_tunnels_in_tunnels() -> None:
    """The outermost is told, the innermost VNI is the tenant's, the innermost packet is the row."""
    inner = e.ipv4(vxlan(FRAME, 42), 17, "10.9.0.1", "10.9.0.2")
    row = parse(over_ipv4(17, vxlan(e.ethernet(0x0800, inner), 7)), keep=256)
    assert (row["encapsulation"], row["vni"]) == (Encapsulation.VXLAN, 42)
    assert (ends(row), ends(row, "outer_")) == (("10.1.0.1", "10.1.0.2"), VTEPS)
    # Labels have no addresses: those of the tunnel inside them are the outermost there are.
    row = parse(e.ethernet(0x8847, labels(16) + e.ipv4(vxlan(FRAME, 42), 17, *VTEPS)), keep=256)
    assert (row["encapsulation"], ends(row, "outer_")) == (Encapsulation.MPLS, VTEPS)
    assert (row["vni"], row["dest_qp"]) == (42, 0xBEEF)


def nested(depth: int) -> bytes:
    packet = FOUR
    for _ in range(depth):
        packet = e.ipv4(packet, 4, *VTEPS)
    return e.ethernet(0x0800, packet)


def test_depth_is_bounded() -> None:
    row = parse(nested(4), keep=256)
    assert (row["header_state"], row["dest_qp"]) == (HeaderState.COMPLETE, 0xBEEF)
    for frame in (
        nested(5),
        nested(500),
        e.ethernet(0x8847, labels(*range(16, 25)) + FOUR),
        e.ethernet(0x8847, labels(*[16] * 40, ended=False)),
        over_ipv4(47, gre(0x8847, labels(1) + e.ipv4(nested(2)[14:], 4))),
    ):
        row = parse(frame, keep=256)
        assert row["header_state"] == HeaderState.TOO_DEEP
        assert ends(row) == NOBODY
        assert (row["dest_qp"], row["transport"]) == (ABSENT_U32, Transport.OTHER)
    extensions = bytes([60, 0, *[0] * 6]) * 9 + bytes([6, 0, *[0] * 6])
    row = parse(over_ipv6(60, extensions), keep=256)
    assert row["header_state"] == HeaderState.TOO_DEEP
    assert ends(row) == OUTER_SIX  # they were read, and no tunnel was


@pytest.mark.parametrize(
    ("frame", "protocol"),
    [
        (over_ipv4(47, gre(0x88BE, FRAME)), 47),  # a mirrored packet is nobody's traffic
        (over_ipv4(47, gre(0x0800, FOUR, flags=0x4000)), 47),  # source routes
        (over_ipv4(47, gre(0x0800, FOUR, flags=0x0002)), 47),  # version 2
        (over_ipv4(47, pptp(b"", sequence=None, ack=5)), 47),  # only acknowledges
        (over_ipv4(47, pptp(b"\xff\x03\xc0\x21" + b"\1" * 20)), 47),  # link control
        (over_ipv4(17, vxlan(FRAME, 5, flags=0)), 17),
        (over_ipv4(143, FRAME), 143),
        (over_ipv4(50, FOUR), 50),
        (over_ipv4(4, FOUR, fragment=0x2000), 4),
        (over_ipv4(17, vxlan(FRAME, 5), fragment=0x2000), 17),
    ],
)
def test_what_is_not_opened_is_a_packet_of_its_own(frame: bytes, protocol: int) -> None:
    row = parse(frame, keep=256)
    assert (row["encapsulation"], row["protocol"]) == (Encapsulation.NONE, protocol)
    assert (ends(row), ends(row, "outer_")) == (VTEPS, NOBODY)
    assert (row["vni"], row["dest_qp"]) == (ABSENT_U32, ABSENT_U32)
    fragment = frame[20] & 0x3F
    assert row["header_state"] == (HeaderState.FRAGMENT if fragment else HeaderState.COMPLETE)


@pytest.mark.parametrize(
    "frame",
    [
        over_ipv4(17, vxlan(e.ethernet(0x0806, b"\0" * 28), 5)),
        over_ipv4(4, SIX),
        over_ipv4(41, FOUR),
        e.ethernet(0x8847, labels(16) + b"\x10\0\0\0" + b"\0" * 60),  # a pseudowire's own channel
        e.ethernet(0x8847, labels(16) + b"\0\0\0\0" + b"\xaa" * 60),
        e.ethernet(0x8847, labels(16) + b"\xff" * 60),
    ],
)
def test_no_ip_inside_is_nobody_elses(frame: bytes) -> None:
    row = parse(frame, keep=256)
    assert row["encapsulation"] != Encapsulation.NONE
    assert (row["header_state"], ends(row)) == (HeaderState.NOT_IP, NOBODY)
    assert (row["protocol"], row["src_port"], row["dst_port"], row["ttl"]) == (0, 0, 0, 0)
    assert (row["transport"], row["payload_bytes"]) == (Transport.OTHER, 0)


def test_where_the_sampled_bytes_end_is_a_state_of_its_own() -> None:
    """128 bytes, as switches copy them, are enough for RoCE in VXLAN over IPv4, not over IPv6."""
    deep = over_ipv4(17, vxlan(FRAME, 5))
    outer, inner, bth = 14 + 20 + 8 + 8, 14 + 20, 8
    for kept, state in (
        (14 + 20 + 7, HeaderState.TRUNCATED_TRANSPORT),
        (14 + 20 + 8, HeaderState.TRUNCATED_INNER),
        (outer, HeaderState.TRUNCATED_INNER),
        (outer + inner - 1, HeaderState.TRUNCATED_INNER),
        (outer + inner, HeaderState.TRUNCATED_TRANSPORT),
        (outer + inner + bth, HeaderState.TRUNCATED_BTH),
        (outer + inner + bth + 11, HeaderState.TRUNCATED_BTH),
        (outer + inner + bth + 12, HeaderState.TRUNCATED_TRANSPORT),
        (outer + inner + bth + 28, HeaderState.COMPLETE),
    ):
        row = parse(deep, keep=kept)
        assert row["header_state"] == state, kept
        opened = kept >= outer - 8
        assert ends(row, "outer_") == (VTEPS if opened else NOBODY)
        if state == HeaderState.TRUNCATED_INNER:  # a tunnel's ends are no endpoints
            assert ends(row) == NOBODY
        if kept >= outer + inner:
            assert ends(row) == ("10.1.0.1", "10.1.0.2")
        assert (row["opcode"] != ABSENT_U8) == (kept >= outer + inner + bth + 12)
        assert (row["message_bytes"] != ABSENT_U32) == (kept >= outer + inner + bth + 28)
    assert parse(deep) == parse(deep, keep=256)
    both_six = over_ipv6(17, vxlan(e.ethernet(0x86DD, SIX), 5))
    assert parse(both_six)["header_state"] == HeaderState.TRUNCATED_TRANSPORT
    assert parse(both_six, keep=132)["header_state"] == HeaderState.TRUNCATED_BTH


def test_congestion_of_the_fabric_is_the_packets() -> None:
    """Switches mark the outer header; where it is taken off, the mark goes inside (RFC 6040)."""
    marked = over_ipv4(17, vxlan(FRAME, 5), tos=0x03)
    assert (parse(marked)["ecn"], parse(marked)["dscp"]) == (3, 26)
    assert parse(over_ipv4(17, vxlan(FRAME, 5), tos=0x01))["ecn"] == 2
    arp = e.ethernet(0x0806, b"\0" * 28)
    assert parse(over_ipv4(17, vxlan(arp, 5), tos=0x03))["ecn"] == 3
    assert parse(over_ipv4(17, vxlan(arp, 5), tos=0x01))["ecn"] == 0


@pytest.mark.parametrize("length", [0, 4_294_967_291])
def test_an_impossible_frame_length_gives_way_to_the_outermost_ip_header(length: int) -> None:
    for frame in (
        over_ipv4(17, vxlan(FRAME, 5)),
        over_ipv4(47, gre(0x0800, FOUR)),
        e.ethernet(0x8847, labels(16, 17) + FOUR),
        e.ethernet(0x8847, labels(16) + b"\0" * 4 + FRAME),
        over_ipv4(17, vxlan(e.ethernet(0x8915, e.ipv6(WRITE[8:], 27)), 5)),
    ):
        row = parse(frame, frame_bytes=length, keep=256)
        assert (row["repaired"], row["frame_bytes"]) == (1, len(frame))


def test_segmentation_offload_inside_a_tunnel() -> None:
    """Neither IP header has a length yet: the frame's is the only one."""
    tcp = e.tcp(b"", 5000, 29_500, 1)
    inner = e.ethernet(0x0800, e.ipv4(tcp, 6, length=0))
    frame = e.ethernet(0x0800, e.ipv4(vxlan(inner, 5), 17, *VTEPS, length=0))
    row = parse(frame, frame_bytes=len(frame) + 30_000)
    assert (row["transport"], row["payload_bytes"]) == (Transport.TCP, 30_000)


def test_congestion_notice_and_rocev1_inside_a_tunnel() -> None:
    cnp = e.udp(e.bth(0x81, 0x118, 0, marks=0x40) + b"\0" * 20, 0, 4791)
    row = parse(over_ipv4(17, vxlan(e.ethernet(0x0800, e.ipv4(cnp, 17)), 5)), keep=256)
    assert (row["marks"], row["dest_qp"]) == (Mark.CNP | Mark.BECN, 0x118)
    assert (row["src_port"], row["payload_bytes"]) == (0, 0)
    grh = e.ipv6(WRITE[8:], 27, "fe80::1", "fe80::2")
    row = parse(over_ipv4(47, gre(0x6558, e.ethernet(0x8915, grh))), keep=256)
    assert (row["transport"], row["dest_qp"]) == (Transport.ROCEV1, 0xBEEF)
    assert (ends(row), ends(row, "outer_")) == (("fe80::1", "fe80::2"), VTEPS)


def test_the_vni_is_24_bits_and_what_is_reserved_does_not_matter() -> None:
    header = struct.pack(">BBHI", 0xFF, 0xFF, 0xFFFF, 0x0102_03FF)
    row = parse(over_ipv4(17, e.udp(header + FRAME, 1, 4789)), keep=256)
    assert (row["vni"], row["dest_qp"]) == (0x010203, 0xBEEF)
