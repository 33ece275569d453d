"""Packets of other projects' tests, tunnels and RoCE, each with its whole right answer.

tshark's reading stands beside every row it gets right. Where it does not, the bytes decide, and the
test says why. The files are those of akvorado, libtins, PcapPlusPlus and scapy.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from collector.addresses import to_text
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
from tests.collector.conftest import frames_of
from tests.collector.test_headers import parse
from tests.collector.twins import compiled

FOLDERS: Final = ("akvorado-innerhdr", "libtins-roce", "pcapplusplus-roce", "scapy-roce")

# file, number of the frame -> source, destination, protocol, ports, encapsulation, outer addresses
INNER: Final[dict[tuple[str, int], tuple[Any, ...]]] = {
    ("gre-v4-key.pcap", 0): (
        *("192.168.1.101", "192.168.2.102", 1, 0, 0, Encapsulation.GRE),
        *("192.168.12.1", "192.168.12.2"),
    ),
    ("gre-v4-key.pcap", 1): (
        *("192.168.2.102", "192.168.1.101", 1, 0, 0, Encapsulation.GRE),
        *("192.168.12.2", "192.168.12.1"),
    ),
    ("gre-v4-plain.pcap", 0): (
        *("66.59.111.190", "66.59.111.182", 17, 123, 123, Encapsulation.GRE),
        *("172.27.1.66", "66.59.109.137"),
    ),
    ("gre-v6-plain.pcap", 0): (
        *("2001:db8::2", "2001:db8::1", 6, 18716, 23, Encapsulation.GRE),
        *("172.16.23.2", "192.168.47.1"),
    ),
    ("ipv4-ipv4.pcap", 0): (
        *("192.168.0.1", "192.168.0.2", 1, 0, 0, Encapsulation.IP),
        *("10.1.2.1", "10.1.2.2"),
    ),
    ("ipv4-ipv6.pcap", 0): (
        *("2001:610:1908:a000::149:20", "2002:2470:9ffa:fa9:0:dd:ed00:2", 6, 80, 35673),
        *(Encapsulation.IP, "216.66.80.30", "192.168.2.2"),
    ),
    # tshark takes the control word for the first bytes of a frame without one. RFC 4448, 4.6: it
    # is there, and the Ethertype 0x0800 stands four bytes later.
    ("mpls-eompls-cw.pcap", 0): (
        *("10.31.0.1", "10.34.0.1", 6, 11001, 23, Encapsulation.MPLS, "::", "::"),
    ),
    # A control word whose sequence number is 1, which is valid. tshark errs as before.
    ("mpls-eompls-invalid-cw.pcap", 0): (
        *("10.31.0.1", "10.34.0.1", 6, 11001, 23, Encapsulation.MPLS, "::", "::"),
    ),
    ("mpls-explicit-null-ipv4.pcap", 0): (
        *("10.31.0.1", "10.34.0.1", 6, 11001, 23, Encapsulation.MPLS, "::", "::"),
    ),
    ("mpls-explicit-null-ipv6.pcap", 0): (
        *("2001:db8::1", "2001:db8::2", 6, 11001, 80, Encapsulation.MPLS, "::", "::"),
    ),
    # A pseudowire's own channel (first bits 0001): no packet of anybody.
    ("mpls-invalid-nibble.pcap", 0): ("::", "::", 0, 0, 0, Encapsulation.MPLS, "::", "::"),
    ("mpls-ipv4.pcap", 0): (
        *("10.31.0.1", "10.34.0.1", 6, 11001, 23, Encapsulation.MPLS, "::", "::"),
    ),
    ("mpls-ipv6.pcap", 0): (
        *("2001:db8::1", "2001:db8::2", 6, 11001, 80, Encapsulation.MPLS, "::", "::"),
    ),
    ("srv6-end-dt6.pcap", 0): (
        *("1:2:1::1", "b::2", 17, 50701, 5001, Encapsulation.SRV6, "1:2:1::1", "f2::"),
    ),
    # IPv6, IPv4 in it, GRE, PPP, and the tenant's query for a name
    ("vlan-ipv6.pcap", 0): (
        *("172.16.44.3", "8.8.8.8", 17, 40768, 53, Encapsulation.IP),
        *("2402:f000:1:8e01::5555", "2607:fcd0:100:2300::b108:2a6b"),
    ),
}

TSHARK_ERRS: Final = ("mpls-eompls-cw.pcap", "mpls-eompls-invalid-cw.pcap")

ROCE_COLUMNS: Final = (
    *("src", "dst", "src_port", "opcode", "dest_qp", "seq"),
    *("syndrome", "msn", "message_bytes", "marks", "payload_bytes"),
)
_NO_AETH: Final = (ABSENT_U8, ABSENT_U32)

# file -> RoCE version, then the columns above
ROCE: Final[dict[str, tuple[Any, ...]]] = {
    # Sends of one card, and what they were acknowledged with.
    "expected_packet_0.pcap": (
        *(2, "50.11.173.29", "147.144.232.1", 64431, 0x04, 0xA4107C, 2754674),
        *(*_NO_AETH, ABSENT_U32, 0, 1136 - 20 - 8 - 12 - 4),
    ),
    "expected_packet_1.pcap": (
        *(2, "130.114.99.83", "0.0.0.2", 52137, 0x04, 0x41, 2),
        *(*_NO_AETH, ABSENT_U32, Mark.FECN, 108 - 20 - 8 - 12 - 4),
    ),
    "expected_packet_2.pcap": (
        *(2, "0.0.0.2", "130.114.99.83", 28752, 0x11, 0xCA1839, 2),
        *(0, 11129021, ABSENT_U32, Mark.ACK, 0),
    ),
    "expected_packet_3.pcap": (
        *(2, "0.0.0.2", "130.114.99.83", 28752, 0x04, 0xCA1839, 62),
        *(*_NO_AETH, ABSENT_U32, 0, 108 - 20 - 8 - 12 - 4),
    ),
    "expected_packet_4.pcap": (
        *(2, "130.114.99.83", "0.0.0.2", 52137, 0x11, 0x41, 62),
        *(27, 1, ABSENT_U32, Mark.ACK | Mark.FECN, 0),
    ),
    "expected_packet_5.pcap": (
        *(2, "0.0.0.2", "130.114.99.83", 28752, 0x11, 0xCA1839, 2),
        *(0, 11129021, ABSENT_U32, Mark.ACK, 0),
    ),
    # A read asks for data: it carries none, and its length is that of what will come.
    "soft_roce_rc_read_request.pcap": (
        *(2, "192.168.56.129", "192.168.56.131", 57236, 0x0C, 0x11, 0x54CB63),
        *(*_NO_AETH, 65536, 0, 0),
    ),
    # The notice of a real card: from UDP port 0, with BECN, and sixteen bytes that are no data.
    "roce_RoCE_CNP_captured_on_ConnectX_4_Lx.pcap": (
        *(2, "10.0.17.1", "10.0.18.1", 0, 0x81, 0x118, 0),
        *(*_NO_AETH, ABSENT_U32, Mark.CNP | Mark.BECN, 0),
    ),
    "roce_RoCE_v1_RC_ACKNOWLEDGE.pcap": (
        *(1, "15.0.0.2", "15.0.0.2", 0, 0x11, 0x109, 10979520),
        *(0, 5, ABSENT_U32, Mark.ACK, 0),
    ),
    # Five bytes and three of padding.
    "roce_RoCE_v1_RC_RDMA_WRITE_ONLY.pcap": (
        *(1, "15.0.0.2", "15.0.0.2", 0, 0x0A, 0x10A, 10979516),
        *(*_NO_AETH, 5, 0, 5),
    ),
}


@pytest.fixture(scope="module")
def frames(shared: Path) -> dict[tuple[str, int], tuple[Path, bytes]]:
    """Every frame of every file, by the file's name and the frame's number."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((shared / "corpus" / folder).glob("*.pcap")):
            for number, frame in enumerate(frames_of(path)):
                found[path.name, number] = path, frame
    return found


def test_every_frame_has_its_answer(frames: dict[tuple[str, int], tuple[Path, bytes]]) -> None:
    assert frames.keys() == INNER.keys() | {(name, 0) for name in ROCE}


def test_packets_in_tunnels(frames: dict[tuple[str, int], tuple[Path, bytes]]) -> None:
    for key, expected in INNER.items():
        _, frame = frames[key]
        row = _row(frame)
        ports = row["src_port"], row["dst_port"]
        inner = row["src"], row["dst"], row["protocol"], *ports, row["encapsulation"]
        assert (*inner, row["outer_src"], row["outer_dst"]) == expected, key
        known = expected[0] != "::"
        assert row["header_state"] == (HeaderState.COMPLETE if known else HeaderState.NOT_IP), key
        tagged = key[0] == "vlan-ipv6.pcap"
        assert row["vlan"] == (100 if tagged else ABSENT_U16), key
        assert (row["inner_vlan"], row["vni"]) == (ABSENT_U16, ABSENT_U32), key


def test_packets_of_roce(frames: dict[tuple[str, int], tuple[Path, bytes]]) -> None:
    for name, (version, *expected) in ROCE.items():
        _, frame = frames[name, 0]
        row = _row(frame)
        assert [row[column] for column in ROCE_COLUMNS] == expected, name
        assert row["transport"] == (Transport.ROCEV1 if version == 1 else Transport.ROCEV2), name
        assert (row["header_state"], row["encapsulation"]) == (0, Encapsulation.NONE), name


def _row(frame: bytes) -> dict[str, Any]:
    row = parse(frame, keep=len(frame))
    for end in ("src", "dst", "outer_src", "outer_dst"):
        row[end] = to_text(row[f"{end}_hi"], row[f"{end}_lo"])
    return row


FIELDS: Final = (
    *("ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "infiniband.grh.sgid", "infiniband.grh.dgid"),
    *("tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport", "vlan.id"),
    *("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"),
    *("infiniband.reth.dmalen", "infiniband.aeth.msn", "infiniband.aeth.syndrome", "tcp.seq_raw"),
)


def test_tshark_reads_the_same(frames: dict[tuple[str, int], tuple[Path, bytes]]) -> None:
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed")
    for path in dict.fromkeys(path for path, _ in frames.values()):
        if path.name in TSHARK_ERRS:
            continue
        # The last of a field is that of the innermost layer.
        form = ["-T", "fields", "-E", "separator=;", "-E", "occurrence=l"]
        command = [tshark, "-r", str(path), *form, *(w for f in FIELDS for w in ("-e", f))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for number, line in enumerate(done.stdout.splitlines()):
            their = dict(zip(FIELDS, line.split(";"), strict=True))
            row = _row(frames[path.name, number][1])
            for end, gid in (("src", "infiniband.grh.sgid"), ("dst", "infiniband.grh.dgid")):
                layer = "ipv6" if ":" in row[end] else "ip"
                address = their[f"{layer}.{end}"] or their[gid].removeprefix("::ffff:") or "::"
                assert row[end] == address, path.name
                port = their[f"tcp.{end}port"] or their[f"udp.{end}port"] or "0"
                assert row[f"{end}_port"] == int(port), path.name
            for column, absent, field in (
                ("vlan", ABSENT_U16, "vlan.id"),
                ("opcode", ABSENT_U8, "infiniband.bth.opcode"),
                ("dest_qp", ABSENT_U32, "infiniband.bth.destqp"),
                ("message_bytes", ABSENT_U32, "infiniband.reth.dmalen"),
                ("msn", ABSENT_U32, "infiniband.aeth.msn"),
                ("syndrome", ABSENT_U8, "infiniband.aeth.syndrome"),
            ):
                assert row[column] == (int(their[field], 0) if their[field] else absent), column
            number_said = their["infiniband.bth.psn"] or their["tcp.seq_raw"]
            assert row["seq"] == (int(number_said, 0) if number_said else ABSENT_U32), path.name


def test_every_prefix_of_every_frame_has_a_state(
    frames: dict[tuple[str, int], tuple[Path, bytes]],
) -> None:
    """And what was read of a shorter one, but for a tunnel's ends, stays true of a longer one."""
    for key, (_, frame) in frames.items():
        whole = _row(frame)
        headers = [e.raw_header(frame, keep=kept) for kept in range(len(frame))]
        rows = compiled([e.datagram(e.flow_sample(header)) for header in headers])
        for kept, (row,) in enumerate(read["flows"] for read in rows):
            assert row["header_state"] in list(HeaderState), key
            for column in ("opcode", "dest_qp", "seq", "msn", "message_bytes", "vlan", "vni"):
                absent = {"opcode": ABSENT_U8, "vlan": ABSENT_U16}.get(column, ABSENT_U32)
                assert row[column] in (absent, whole[column]), (key, kept, column)
            assert row["encapsulation"] in (Encapsulation.NONE, whole["encapsulation"]), (key, kept)
