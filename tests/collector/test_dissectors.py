"""The header kernels beside scapy and tshark, which dissect the same frames their own way."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from collector.addresses import from_text, to_text
from collector.schema import ABSENT_U8, ABSENT_U16, ABSENT_U32
from tests.collector import encode as e
from tests.collector.test_headers import parse

_port = st.integers(1, 65535).filter(lambda port: port != 4791)
_u32 = st.integers(0, 2**32 - 1)
_u24 = st.integers(0, 2**24 - 1)
_vlans = st.lists(st.integers(0, 4095), max_size=3)


def _stack(vlans: list[int], network: Any) -> Any:
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    for vlan in vlans:
        frame /= Dot1Q(vlan=vlan)
    return frame / network


@settings(max_examples=60, deadline=None)
@given(
    vlans=_vlans,
    src=st.ip_addresses(v=4),
    dst=st.ip_addresses(v=4),
    ports=st.tuples(_port, _port),
    seq=_u32,
    ack=_u32,
    flags=st.integers(0, 255),
    tos=st.integers(0, 255),
    ttl=st.integers(0, 255),
    size=st.integers(0, 1400),
)
def test_tcp_as_scapy_builds_it(
    vlans: list[int],
    src: object,
    dst: object,
    ports: tuple[int, int],
    seq: int,
    ack: int,
    flags: int,
    tos: int,
    ttl: int,
    size: int,
) -> None:
    tcp = TCP(sport=ports[0], dport=ports[1], seq=seq, ack=ack, flags=flags)
    network = IP(src=str(src), dst=str(dst), tos=tos, ttl=ttl) / tcp / Raw(b"x" * size)
    row = parse(bytes(_stack(vlans, network)))
    assert to_text(row["src_hi"], row["src_lo"]) == str(src)
    assert to_text(row["dst_hi"], row["dst_lo"]) == str(dst)
    assert (row["src_port"], row["dst_port"]) == ports
    assert (row["seq"], row["ack_seq"], row["tcp_flags"]) == (seq, ack, flags)
    assert (row["dscp"] << 2 | row["ecn"], row["ttl"]) == (tos, ttl)
    assert row["payload_bytes"] == size
    assert row["vlan"] == (vlans[0] if vlans else ABSENT_U16)


@settings(max_examples=60, deadline=None)
@given(
    vlans=_vlans,
    src=st.ip_addresses(v=6),
    qp=_u24,
    psn=_u24,
    marks=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    syndrome=st.integers(0, 31),
    msn=_u24,
    size=st.integers(0, 1024).map(lambda words: words * 4),
)
def test_rocev2_over_ipv6_as_scapy_builds_it(
    vlans: list[int],
    src: object,
    qp: int,
    psn: int,
    marks: tuple[int, int],
    syndrome: int,
    msn: int,
    size: int,
) -> None:
    bth = BTH(opcode=0x10, dqpn=qp, psn=psn, fecn=marks[0], becn=marks[1])
    transport = bth / AETH(syndrome=syndrome, msn=msn) / Raw(b"x" * size)
    network = IPv6(src=str(src), dst="2001:db8::2") / UDP(sport=49152, dport=4791) / transport
    row = parse(bytes(_stack(vlans, network)), keep=256)
    assert (row["src_hi"], row["src_lo"]) == from_text(str(src))
    assert (row["opcode"], row["dest_qp"], row["seq"]) == (0x10, qp, psn)
    assert (row["syndrome"], row["msn"]) == (syndrome, msn)
    assert row["marks"] == marks[0] * 8 | marks[1] * 16
    assert row["payload_bytes"] == size


def _mixed_frames() -> list[bytes]:
    """Every opcode that tshark knows, and TCP and UDP under tags, options and extensions."""
    random = np.random.default_rng(7)
    known = [*range(0x13), 0x16, 0x17, *range(0x20, 0x2C), 0x64, 0x65]
    frames = []
    for opcode in known:
        body = random.bytes(128)
        transport = e.bth(opcode, int(random.integers(1 << 24)), int(random.integers(1 << 24)))
        if opcode % 2:
            frames.append(e.roce(transport + body))
        else:
            inner = e.udp(transport + body, 50_001, 4791)
            frames.append(e.ethernet(0x86DD, e.ipv6(inner, 17, traffic_class=106), [(0x8100, 9)]))
    for size in (0, 1, 1400):
        tcp = e.tcp(b"t" * size, 40_000, 29_500, int(random.integers(1 << 32)), 5, 0x18)
        frames += [
            e.ethernet(0x0800, e.ipv4(tcp, 6, options=b"\x01" * 8, tos=0x28, ttl=3)),
            e.ethernet(0x86DD, e.ipv6(bytes([6, 0, 1, 4, *[0] * 4]) + tcp, 60, hops=7)),
            e.ethernet(0x0800, e.ipv4(tcp, 6), [(0x8100, 5), (0x8100, 6)]),
        ]
    return frames


FIELDS = (
    *("ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "ip.ttl", "ipv6.hlim", "vlan.id"),
    *("ip.dsfield.dscp", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw"),
    *("tcp.flags", "tcp.len", "udp.srcport", "udp.dstport", "infiniband.bth.opcode"),
    *("infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.reth.dmalen"),
    *("infiniband.aeth.msn", "infiniband.immdt"),
)


def test_frames_as_tshark_reads_them(tmp_path: Path) -> None:
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed")
    frames = _mixed_frames()
    capture = tmp_path / "frames.pcap"
    capture.write_bytes(e.pcap((e.EPOCH_NS + n, frame) for n, frame in enumerate(frames)))
    command = [
        tshark,
        "-r",
        str(capture),
        *["-T", "fields", "-E", "separator=;", "-E", "occurrence=f"],
    ]
    for field in FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(frames)
    for line, frame in zip(lines, frames, strict=True):
        their = dict(zip(FIELDS, line.split(";"), strict=True))
        row = parse(frame, keep=len(frame))
        for end in ("src", "dst"):
            address = their[f"ip.{end}"] or their[f"ipv6.{end}"]
            assert to_text(row[f"{end}_hi"], row[f"{end}_lo"]) == address
            port = their[f"tcp.{end}port"] or their[f"udp.{end}port"]
            assert row[f"{end}_port"] == int(port)
        assert row["ttl"] == int(their["ip.ttl"] or their["ipv6.hlim"])
        _agree(row["vlan"], ABSENT_U16, their["vlan.id"])
        if their["ip.dsfield.dscp"]:
            assert row["dscp"] == int(their["ip.dsfield.dscp"])
        _agree(row["opcode"], ABSENT_U8, their["infiniband.bth.opcode"])
        _agree(row["dest_qp"], ABSENT_U32, their["infiniband.bth.destqp"])
        _agree(row["seq"], ABSENT_U32, their["infiniband.bth.psn"] or their["tcp.seq_raw"])
        _agree(row["message_bytes"], ABSENT_U32, their["infiniband.reth.dmalen"])
        _agree(row["msn"], ABSENT_U32, their["infiniband.aeth.msn"])
        immediate = their["infiniband.immdt"]
        _agree(row["immediate"], ABSENT_U32, immediate and f"0x{immediate}")
        if their["tcp.len"]:
            assert row["payload_bytes"] == int(their["tcp.len"])
            assert row["ack_seq"] == int(their["tcp.ack_raw"])
            assert row["tcp_flags"] == int(their["tcp.flags"], 0) & 0xFF


def _agree(mine: int, absent: int, their: str) -> None:
    assert mine == (int(their, 0) if their else absent)
