from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from collector.addresses import from_text, to_text
from collector.schema import ABSENT_U8, ABSENT_U16, ABSENT_U32, HeaderState, Mark, Transport
from tests.collector import encode as e
from tests.collector.conftest import frames_of, payloads_of
from tests.collector.twins import compiled

TCP = e.tcp(b"p" * 200, 5000, 29500, seq=0xFFFF_FFF0, ack=77, flags=0x18)
WRITE = e.bth(0x0A, 0x00BEEF, 0xABCDEF) + e.reth(64) + b"d" * 64


def parse(frame: bytes, **options: Any) -> dict[str, Any]:
    """The row of one sampled frame."""
    (row,) = compiled([e.datagram(e.flow_sample(e.raw_header(frame, **options)))])
    (flow,) = row["flows"]
    return dict(flow)


def test_tcp_over_ipv4() -> None:
    row = parse(e.ethernet(0x0800, e.ipv4(TCP, 6, tos=0x6A, ttl=17)))
    assert row["transport"] == Transport.TCP
    assert row["header_state"] == HeaderState.COMPLETE
    assert (row["src_lo"], row["dst_lo"]) == (from_text("10.0.0.1")[1], from_text("10.0.0.2")[1])
    assert (row["src_port"], row["dst_port"], row["protocol"]) == (5000, 29500, 6)
    assert (row["seq"], row["ack_seq"], row["tcp_flags"]) == (0xFFFF_FFF0, 77, 0x18)
    assert (row["dscp"], row["ecn"], row["ttl"]) == (26, 2, 17)
    assert (row["payload_bytes"], row["frame_bytes"]) == (200, 14 + 20 + 20 + 200 + 4)
    assert (row["vlan"], row["opcode"], row["dest_qp"]) == (ABSENT_U16, ABSENT_U8, ABSENT_U32)


def test_tcp_over_ipv6_with_a_traffic_class() -> None:
    row = parse(e.ethernet(0x86DD, e.ipv6(TCP, 6, traffic_class=0x6A, hops=3)))
    assert (row["src_hi"], row["src_lo"]) == from_text("2001:db8::1")
    assert (row["dst_hi"], row["dst_lo"]) == from_text("2001:db8::2")
    assert (row["dscp"], row["ecn"], row["ttl"], row["payload_bytes"]) == (26, 2, 3, 200)


@pytest.mark.parametrize(
    "tags",
    [
        [(0x8100, 100)],
        [(0x8100, 100), (0x8100, 200)],
        [(0x88A8, 100), (0x8100, 200)],
        [(0x9100, 100), (0x9100, 200), (0x88A8, 300), (0x8100, 400)],
        [(0x8100, 0xE000 | 100)],  # with a priority
    ],
)
def test_vlan_tags_are_walked_and_the_two_outermost_are_told(tags: list[tuple[int, int]]) -> None:
    # sflow/sflowtool#30, pavel-odintsov/fastnetmon#736, LibreQoE/LibreQoS#1147: behind two tags
    # others find no packet, or take the inner tag for the outer one.
    row = parse(e.ethernet(0x0800, e.ipv4(e.udp(WRITE + b"\0" * 4, 1, 4791), 17), tags))
    assert (row["vlan"], row["dest_qp"], row["payload_bytes"]) == (100, 0xBEEF, 64)
    assert row["inner_vlan"] == (tags[1][1] if len(tags) > 1 else ABSENT_U16)


def test_more_tags_than_anybody_uses() -> None:
    row = parse(e.ethernet(0x0800, e.ipv4(TCP, 6), [(0x8100, 9)] * 5))
    assert (row["vlan"], row["header_state"]) == (9, HeaderState.TOO_DEEP)


def test_headers_without_ethernet() -> None:
    four = parse(e.ipv4(TCP, 6), protocol=11)
    six = parse(e.ipv6(TCP, 6), protocol=12)
    assert (four["payload_bytes"], six["payload_bytes"]) == (200, 200)
    assert parse(e.ipv4(TCP, 6), protocol=2)["header_state"] == HeaderState.NOT_IP


def test_ipv4_options_and_ipv6_extensions_are_skipped() -> None:
    row = parse(e.ethernet(0x0800, e.ipv4(TCP, 6, options=b"\x01" * 12)))
    assert (row["seq"], row["payload_bytes"]) == (0xFFFF_FFF0, 200)
    hop = bytes([60, 1, *[0] * 14])
    destination = bytes([51, 0, *[0] * 6])
    authentication = bytes([6, 4, *[0] * 22])
    row = parse(e.ethernet(0x86DD, e.ipv6(hop + destination + authentication + TCP, 0)))
    assert (row["seq"], row["payload_bytes"], row["protocol"]) == (0xFFFF_FFF0, 200, 6)


def test_fragments_are_a_state() -> None:
    first = parse(e.ethernet(0x0800, e.ipv4(TCP, 6, fragment=0x2000)))
    later = parse(e.ethernet(0x0800, e.ipv4(TCP, 6, fragment=0x0010)))
    assert (first["header_state"], later["header_state"]) == (HeaderState.FRAGMENT,) * 2
    assert (first["src_port"], later["src_port"]) == (5000, 0)
    assert (later["transport"], later["seq"]) == (Transport.OTHER, ABSENT_U32)
    first = parse(e.ethernet(0x86DD, e.ipv6(bytes([6, 0, 0, 1, 0, 0, 0, 9]) + TCP, 44)))
    later = parse(e.ethernet(0x86DD, e.ipv6(bytes([6, 0, 0, 0x18, 0, 0, 0, 9]) + TCP, 44)))
    assert (first["header_state"], later["header_state"]) == (HeaderState.FRAGMENT,) * 2
    assert (first["src_port"], later["src_port"], later["protocol"]) == (5000, 0, 6)
    # An atomic fragment (RFC 6946) is a whole packet.
    atomic = parse(e.ethernet(0x86DD, e.ipv6(bytes([6, 0, 0, 0, 0, 0, 0, 9]) + TCP, 44)))
    assert (atomic["header_state"], atomic["src_port"]) == (HeaderState.COMPLETE, 5000)
    assert parse(e.ethernet(0x0800, e.ipv4(TCP, 6, fragment=0x4000)))["header_state"] == 0


@pytest.mark.parametrize(
    ("kept", "state"),
    [
        (10, HeaderState.TRUNCATED_NETWORK),
        (13, HeaderState.TRUNCATED_NETWORK),
        (14 + 19, HeaderState.TRUNCATED_NETWORK),
        (14 + 20 + 3, HeaderState.TRUNCATED_TRANSPORT),
        (14 + 20 + 13, HeaderState.TRUNCATED_TRANSPORT),
        (14 + 20 + 14, HeaderState.COMPLETE),
    ],
)
def test_truncated_is_a_state_not_a_zero(kept: int, state: HeaderState) -> None:
    row = parse(e.ethernet(0x0800, e.ipv4(TCP, 6)), keep=kept)
    assert row["header_state"] == state
    complete = state == HeaderState.COMPLETE
    assert (row["ack_seq"] != ABSENT_U32) == complete
    assert row["seq"] == (0xFFFF_FFF0 if kept >= 42 else ABSENT_U32)


def test_what_is_no_ip() -> None:
    for frame in (
        e.ethernet(0x0806, b"\0" * 46),
        e.ethernet(0x0000, b"\0" * 46),
        e.ethernet(46, b"\xaa\xaa\3" + b"\0" * 43),  # a length, not an Ethertype
        e.ethernet(0x0800, b"\x60" + b"\0" * 45),
        e.ethernet(0x0800, b"\x44" + b"\0" * 45),  # a header of 16 bytes
        e.ethernet(0x86DD, b"\x45" + b"\0" * 45),
    ):
        row = parse(frame)
        assert row["header_state"] == HeaderState.NOT_IP
        assert row["frame_bytes"] == len(frame) + 4


@pytest.mark.parametrize("length", [0, 4_294_967_291, 60, 70_000])
def test_an_impossible_frame_length_gives_way_to_the_ip_header(length: int) -> None:
    # pavel-odintsov/fastnetmon#893: switches that send lengths that no frame can have.
    frame = e.ethernet(0x0800, e.ipv4(TCP, 6), [(0x8100, 5)])
    row = parse(frame, frame_bytes=length)
    assert (row["repaired"], row["frame_bytes"], row["payload_bytes"]) == (1, len(frame), 200)
    six = e.ethernet(0x86DD, e.ipv6(TCP, 6))
    row = parse(six, frame_bytes=length)
    assert (row["repaired"], row["frame_bytes"], row["payload_bytes"]) == (1, len(six), 200)
    # Without an IP header only the sampled bytes are known.
    row = parse(e.ethernet(0x0806, b"\0" * 100), frame_bytes=length)
    assert (row["repaired"], row["frame_bytes"]) == (1, 114)


def test_a_believable_frame_length_stays() -> None:
    assert parse(e.ethernet(0x0800, e.ipv4(TCP, 6)))["repaired"] == 0
    assert parse(e.ethernet(0x0800, e.ipv4(TCP, 6)), frame_bytes=65_549)["frame_bytes"] == 65_549


def test_an_ip_length_of_zero_gives_way_to_the_frame_length() -> None:
    # Segmentation offload: the network card fills the length in after the sample was taken.
    row = parse(e.ethernet(0x0800, e.ipv4(TCP, 6, length=0)), frame_bytes=14 + 20 + 20 + 30_000)
    assert (row["payload_bytes"], row["repaired"]) == (30_000, 0)
    row = parse(e.ethernet(0x86DD, e.ipv6(TCP, 6, length=0)), frame_bytes=14 + 40 + 20 + 30_000)
    assert row["payload_bytes"] == 30_000


def test_payload_comes_from_the_ip_header_not_from_the_bytes_captured() -> None:
    padded = e.ethernet(0x0800, e.ipv4(e.tcp(b"", 1, 2, 3), 6)) + b"\0" * 6
    assert parse(padded)["payload_bytes"] == 0
    big = e.ethernet(0x0800, e.ipv4(e.tcp(b"x" * 8948, 1, 2, 3), 6))
    assert parse(big, keep=64)["payload_bytes"] == 8948


def test_plain_udp() -> None:
    row = parse(e.ethernet(0x0800, e.ipv4(e.udp(b"x" * 11, 4791, 53), 17)))
    assert (row["transport"], row["payload_bytes"]) == (Transport.UDP, 11)
    assert (row["opcode"], row["seq"]) == (ABSENT_U8, ABSENT_U32)


def test_rocev1_takes_its_addresses_from_the_grh() -> None:
    grh = e.ipv6(WRITE + b"\0" * 4, 0x1B, "::ffff:10.0.0.1", "fe80::2", hops=9, traffic_class=104)
    row = parse(e.ethernet(0x8915, grh))
    assert (row["transport"], row["dest_qp"]) == (Transport.ROCEV1, 0xBEEF)
    assert (row["src_hi"], row["src_lo"]) == from_text("10.0.0.1")
    assert (row["dst_hi"], row["dst_lo"]) == from_text("fe80::2")
    assert (row["ttl"], row["dscp"], row["payload_bytes"]) == (9, 26, 64)
    assert (row["src_port"], row["dst_port"]) == (0, 0)
    assert parse(e.ethernet(0x8915, grh), frame_bytes=0)["frame_bytes"] == 14 + len(grh)


def test_third_party_roce_frames(shared: Path) -> None:
    def row(name: str) -> dict[str, Any]:
        (frame,) = frames_of(shared / "corpus" / name)
        return parse(frame)

    cnp = row("scapy-roce/roce_RoCE_CNP_captured_on_ConnectX_4_Lx.pcap")
    assert (cnp["opcode"], cnp["dest_qp"], cnp["src_port"]) == (0x81, 0x118, 0)
    assert cnp["marks"] == Mark.CNP | Mark.BECN
    assert (cnp["dscp"], cnp["ecn"], cnp["payload_bytes"]) == (48, 2, 0)

    ack = row("scapy-roce/roce_RoCE_v1_RC_ACKNOWLEDGE.pcap")
    assert (ack["transport"], ack["opcode"], ack["dest_qp"]) == (Transport.ROCEV1, 0x11, 0x109)
    assert (ack["seq"], ack["syndrome"], ack["msn"]) == (10979520, 0, 5)
    assert (ack["marks"], ack["payload_bytes"]) == (Mark.ACK, 0)

    write = row("scapy-roce/roce_RoCE_v1_RC_RDMA_WRITE_ONLY.pcap")
    assert (write["opcode"], write["dest_qp"], write["seq"]) == (0x0A, 0x10A, 10979516)
    assert (write["message_bytes"], write["payload_bytes"], write["marks"]) == (5, 5, 0)

    read = row("pcapplusplus-roce/soft_roce_rc_read_request.pcap")
    assert (read["opcode"], read["dest_qp"], read["seq"]) == (0x0C, 0x11, 0x54CB63)
    assert (read["message_bytes"], read["src_port"]) == (65536, 57236)
    assert to_text(read["src_hi"], read["src_lo"]) == "192.168.56.129"

    for number, opcode, qp, psn in (
        (0, 4, 0xA4107C, 2754674),
        (1, 4, 0x41, 2),
        (2, 17, 0xCA1839, 2),
        (3, 4, 0xCA1839, 62),
        (4, 17, 0x41, 62),
        (5, 17, 0xCA1839, 2),
    ):
        sent = row(f"libtins-roce/expected_packet_{number}.pcap")
        assert (sent["opcode"], sent["dest_qp"], sent["seq"]) == (opcode, qp, psn)


def test_tags_and_lengths_of_a_third_party_switch(shared: Path) -> None:
    (payload,) = payloads_of(shared / "corpus/akvorado-sflow/data-qinq.pcap")
    (row,) = compiled([payload])
    (flow,) = row["flows"]
    assert (flow["vlan"], flow["inner_vlan"]) == (1062, 1493)
    assert (flow["src_port"], flow["dst_port"]) == (32017, 443)
    assert (flow["input"], flow["output"]) == (369098852, 369098851)


def test_a_header_cut_inside_its_tag() -> None:
    frame = e.ethernet(0x0800, b"", [(0x8100, 7)])
    assert parse(frame, keep=15)["vlan"] == ABSENT_U16
    row = parse(frame, keep=16)
    assert (row["vlan"], row["header_state"]) == (7, HeaderState.TRUNCATED_NETWORK)
    assert struct.unpack(">H", frame[14:16]) == (7,)
