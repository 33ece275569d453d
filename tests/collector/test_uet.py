"""UET by hand-made bytes, after the formats of the Ultra Ethernet Specification 1.0, 3.5.10."""

from __future__ import annotations

from typing import Any

import pytest

from collector.addresses import to_text
from collector.schema import ABSENT_U8, ABSENT_U32, HeaderState, Mark, Transport
from tests.collector import encode as e
from tests.collector.encapsulate import VTEPS, pds, uet, vxlan
from tests.collector.test_headers import parse

SES = bytes(range(44))
SYN = 0x04


def sample(header: bytes, **options: Any) -> dict[str, Any]:
    row = parse(uet(header, SES), **options)
    assert row["transport"] == Transport.UET
    return row


def test_a_request_byte_by_byte() -> None:
    # type 2 (RUD request), next header 3, flags 0x08 (acknowledge): 00010 0011 0001000
    header = bytes.fromhex("1188 0005 89abcdef 1234 5678")
    row = sample(header)
    assert (row["opcode"], row["seq"], row["dest_qp"]) == (2, 0x89ABCDEF, 0x5678)
    assert (row["ack_seq"], row["marks"]) == (ABSENT_U32, 0)
    assert (row["src_port"], row["dst_port"], row["protocol"]) == (0xE77E, 4793, 17)
    assert (row["payload_bytes"], row["header_state"]) == (12 + 44, HeaderState.COMPLETE)
    assert pds(2, 0x89ABCDEF, 0x1234, 0x5678, flags=0x08, second=5) == header


@pytest.mark.parametrize("kind", [2, 3, 11, 13, 14])
def test_requests_and_control_packets_have_a_number_of_their_own(kind: int) -> None:
    row = sample(pds(kind, 7, 8, 9))
    assert (row["opcode"], row["seq"], row["dest_qp"], row["marks"]) == (kind, 7, 9, 0)
    row = sample(pds(kind, 7, 8, 9, flags=SYN))  # where the destination would be is an offset
    assert (row["seq"], row["dest_qp"]) == (7, ABSENT_U32)


@pytest.mark.parametrize("kind", [7, 8, 9])
def test_acknowledgements_say_what_has_come(kind: int) -> None:
    row = sample(pds(kind, 7, 8, 9, flags=0x04))  # there the flag asks to clear
    assert (row["opcode"], row["ack_seq"], row["dest_qp"]) == (kind, 7, 9)
    assert (row["seq"], row["marks"]) == (ABSENT_U32, Mark.ACK)


@pytest.mark.parametrize("kind", [10, 12])
def test_refusals(kind: int) -> None:
    row = sample(pds(kind, 7, 8, 9))
    assert (row["opcode"], row["dest_qp"], row["marks"]) == (kind, 9, Mark.NAK)
    assert (row["seq"], row["ack_seq"]) == (ABSENT_U32, ABSENT_U32)
    assert sample(pds(kind, 7, 8, 0, flags=0x08))["dest_qp"] == ABSENT_U32  # of a RUDI packet


@pytest.mark.parametrize("kind", [0, 1, 4, 5, 6, 15, 31])
def test_packets_of_no_context_give_their_type(kind: int) -> None:
    row = sample(pds(kind, 7, 8, 9))
    assert (row["opcode"], row["header_state"]) == (kind, HeaderState.COMPLETE)
    assert (row["seq"], row["dest_qp"], row["marks"]) == (ABSENT_U32, ABSENT_U32, 0)


def test_a_header_cut_off_is_absent_and_said_to_be() -> None:
    begin = 14 + 20 + 8
    for kept in range(begin, begin + 13):
        row = sample(pds(2, 7, 8, 9), keep=kept)
        whole = kept == begin + 12
        assert row["header_state"] == (
            HeaderState.COMPLETE if whole else HeaderState.TRUNCATED_TRANSPORT
        )
        assert (row["seq"], row["dest_qp"]) == ((7, 9) if whole else (ABSENT_U32, ABSENT_U32))
        assert row["opcode"] == (2 if kept >= begin + 2 else ABSENT_U8)


def test_in_a_tunnel_and_in_fragments() -> None:
    inner = e.ethernet(0x86DD, e.ipv6(e.udp(pds(3, 7, 8, 9), 1, 4793), 17, "fd00::1", "fd00::2"))
    row = parse(e.ethernet(0x0800, e.ipv4(vxlan(inner, 5), 17, *VTEPS)), keep=256)
    assert (row["transport"], row["seq"], row["dest_qp"]) == (Transport.UET, 7, 9)
    assert to_text(row["dst_hi"], row["dst_lo"]) == "fd00::2"
    row = parse(e.ethernet(0x0800, e.ipv4(e.udp(pds(3, 7, 8, 9), 1, 4793), 17, fragment=0x2000)))
    assert (row["transport"], row["header_state"]) == (Transport.UDP, HeaderState.FRAGMENT)
    assert (row["seq"], row["opcode"]) == (ABSENT_U32, ABSENT_U8)
