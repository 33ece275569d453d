"""RoCE by hand-made bytes: which headers follow is the opcode's to say.

Dissectors read them at the wrong place, or know no CNP (secdev/scapy#2522, #2794, #3408).
"""

from __future__ import annotations

from typing import Any

import pytest

from collector.addresses import from_text
from collector.schema import ABSENT_U8, ABSENT_U32, HeaderState, Mark, Transport
from tests.collector import encode as e
from tests.collector.test_headers import parse

RETH = e.reth(1 << 20)
IMMEDIATE = b"\x00\x10\x00\x00"
DETH = b"\0" * 8
XRC = b"\0" * 4
ATOMIC = b"\0" * 28


def aeth(syndrome: int, msn: int) -> bytes:
    return bytes([syndrome]) + msn.to_bytes(3)


def sample(
    opcode: int, extended: bytes, data: bytes = b"d" * 300, **options: Any
) -> dict[str, Any]:
    return parse(e.roce(e.bth(opcode, 0x123456, 0xFEDCBA, **options) + extended + data))


@pytest.mark.parametrize(
    ("opcode", "extended", "expected"),
    [
        (0x00, b"", {}),
        (0x03, IMMEDIATE, {"immediate": 1 << 20}),
        (0x04, b"", {}),
        (0x05, IMMEDIATE, {"immediate": 1 << 20}),
        (0x06, RETH, {"message_bytes": 1 << 20}),
        (0x07, b"", {}),
        (0x08, b"", {}),
        (0x09, IMMEDIATE, {"immediate": 1 << 20}),
        (0x0A, RETH, {"message_bytes": 1 << 20}),
        (0x0B, RETH + IMMEDIATE, {"message_bytes": 1 << 20, "immediate": 1 << 20}),
        (0x0C, RETH, {"message_bytes": 1 << 20}),
        (0x0D, aeth(0x1F, 9), {"syndrome": 0x1F, "msn": 9}),
        (0x0E, b"", {}),
        (0x0F, aeth(0x1F, 9), {"syndrome": 0x1F, "msn": 9}),
        (0x10, aeth(0x1F, 9), {"syndrome": 0x1F, "msn": 9}),
        (0x11, aeth(0x1F, 9), {"syndrome": 0x1F, "msn": 9, "marks": Mark.ACK}),
        (0x11, aeth(0x60, 9), {"syndrome": 0x60, "msn": 9, "marks": Mark.NAK}),
        (0x11, aeth(0x2E, 9), {"syndrome": 0x2E, "msn": 9, "marks": Mark.NAK}),
        (0x12, aeth(0, 9) + b"\0" * 8, {"syndrome": 0, "msn": 9, "marks": Mark.ACK}),
        (0x13, ATOMIC, {}),
        (0x14, ATOMIC, {}),
        (0x16, b"\0" * 4, {}),
        (0x17, b"\0" * 4, {}),
        (0x26, RETH, {"message_bytes": 1 << 20}),
        (0x2B, RETH + IMMEDIATE, {"message_bytes": 1 << 20, "immediate": 1 << 20}),
        (0x64, DETH, {}),
        (0x65, DETH + IMMEDIATE, {"immediate": 1 << 20}),
        (0xA6, XRC + RETH, {"message_bytes": 1 << 20}),
        (0xAB, XRC + RETH + IMMEDIATE, {"message_bytes": 1 << 20, "immediate": 1 << 20}),
        (0xB1, aeth(0, 9), {"syndrome": 0, "msn": 9, "marks": Mark.ACK}),
        (0xC5, b"", {}),  # a vendor's own
    ],
)
def test_extended_headers_follow_from_the_opcode(
    opcode: int, extended: bytes, expected: dict[str, int]
) -> None:
    row = sample(opcode, extended)
    assert (row["opcode"], row["dest_qp"], row["seq"]) == (opcode, 0x123456, 0xFEDCBA)
    absent = {
        "message_bytes": ABSENT_U32,
        "immediate": ABSENT_U32,
        "msn": ABSENT_U32,
        "syndrome": ABSENT_U8,
        "marks": 0,
    }
    assert {name: row[name] for name in absent} == absent | expected
    assert row["payload_bytes"] == 300
    assert row["header_state"] == HeaderState.COMPLETE


def test_padding_is_no_data() -> None:
    assert sample(0x0A, RETH, b"d" * 300, pad=3)["payload_bytes"] == 297


def test_congestion_marks() -> None:
    assert sample(0x07, b"", marks=0x80)["marks"] == Mark.FECN
    assert sample(0x07, b"", marks=0x40)["marks"] == Mark.BECN
    cnp = sample(0x81, b"", b"\0" * 16, marks=0x40)
    assert (cnp["marks"], cnp["payload_bytes"]) == (Mark.CNP | Mark.BECN, 0)


def test_a_congestion_notice_goes_against_the_data_it_speaks_of() -> None:
    """It comes from UDP port 0, as cards send it, and to the sender of what met congestion."""
    notice = e.bth(0x81, 0x118, 0, marks=0x40) + b"\0" * 16 + b"\1\2\3\4"
    packet = e.ipv4(e.udp(notice, 0, 4791), 17, "10.0.0.2", "10.0.0.1", tos=0xC2)
    row = parse(e.ethernet(0x0800, packet))
    assert (row["transport"], row["opcode"], row["header_state"]) == (Transport.ROCEV2, 0x81, 0)
    assert (row["src_port"], row["dst_port"]) == (0, 4791)
    assert (row["dst_lo"], row["dest_qp"]) == (from_text("10.0.0.1")[1], 0x118)
    assert (row["marks"], row["payload_bytes"]) == (Mark.CNP | Mark.BECN, 0)
    assert (row["message_bytes"], row["syndrome"]) == (ABSENT_U32, ABSENT_U8)
    assert (row["dscp"], row["ecn"]) == (48, 2)


def test_a_header_cut_off_is_absent_and_said_to_be() -> None:
    frame = e.roce(e.bth(0x0B, 5, 6) + RETH + IMMEDIATE + b"d" * 300)
    bth_at = 14 + 20 + 8
    row = parse(frame, keep=bth_at + 11)
    assert (row["opcode"], row["dest_qp"], row["seq"]) == (ABSENT_U8, ABSENT_U32, ABSENT_U32)
    assert row["header_state"] == HeaderState.TRUNCATED_BTH
    row = parse(frame, keep=bth_at + 12 + 15)
    assert (row["opcode"], row["message_bytes"]) == (0x0B, ABSENT_U32)
    assert row["header_state"] == HeaderState.TRUNCATED_TRANSPORT
    row = parse(frame, keep=bth_at + 12 + 16)
    assert (row["message_bytes"], row["immediate"]) == (1 << 20, ABSENT_U32)
    assert row["header_state"] == HeaderState.TRUNCATED_TRANSPORT
    row = parse(frame, keep=bth_at + 12 + 20)
    assert (row["immediate"], row["header_state"]) == (1 << 20, HeaderState.COMPLETE)
    assert row["payload_bytes"] == 300


def test_lengths_that_leave_no_room_for_data_give_none() -> None:
    frame = e.ethernet(0x0800, e.ipv4(e.udp(e.bth(0x06, 1, 2) + RETH, 1, 4791), 17, length=32))
    assert parse(frame)["payload_bytes"] == 0
