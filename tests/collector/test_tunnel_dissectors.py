"""Tunnels beside scapy, which builds them its own way, and tshark, which reads them its own way."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.mpls import MPLS, EoMCW
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import GRE, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from collector.addresses import to_text
from collector.schema import ABSENT_U16, ABSENT_U32, Encapsulation, HeaderState, Transport
from tests.collector import encode as e
from tests.collector.test_headers import parse

MACS: dict[str, Any] = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
KINDS = ("vxlan", "gre", "gre-ethernet", "ip", "srv6", "srv6-ethernet", "mpls", "mpls-ethernet")


@dataclass(frozen=True)
class Around:
    """One tunnel and the ends it runs between."""

    kind: str
    six: bool
    src: int
    dst: int
    number: int  # the VNI, the key, the label, ...

    @property
    def encapsulation(self) -> Encapsulation:
        name = self.kind.split("-")[0]
        return Encapsulation[name.upper()]

    @property
    def ends(self) -> tuple[str, str] | None:
        """Addresses as text; None: labels have none."""
        if self.kind.startswith("mpls"):
            return None
        return _address(self.src, self.six), _address(self.dst, self.six)


def _address(number: int, six: bool) -> str:
    if six:
        return to_text(0xFD00 << 48 | number, number)
    return to_text(0, 0xFFFF << 32 | 10 << 24 | number & 0xFF_FFFF)


def _network(src: int, dst: int, six: bool, **fields: Any) -> Any:
    ends: dict[str, Any] = {"src": _address(src, six), "dst": _address(dst, six)}
    return IPv6(**ends, **fields) if six else IP(**ends, **fields)


def _wrap(around: Around, packet: Any) -> Any:
    """A packet in a tunnel: something that stands behind Ethernet."""
    outer = _network(around.src, around.dst, around.six or around.kind.startswith("srv6"))
    frame = Ether(**MACS) / packet
    match around.kind:
        case "vxlan":
            return (
                outer / UDP(sport=50_001, dport=4789, chksum=0) / VXLAN(vni=around.number) / frame
            )
        case "gre":
            bits = around.number
            options: dict[str, Any] = {"key_present": bits & 1, "seqnum_present": bits >> 1 & 1}
            return outer / GRE(**options, chksum_present=bits >> 2 & 1) / packet
        case "gre-ethernet":
            return outer / GRE(key_present=1, key=around.number, proto=0x6558) / frame
        case "ip":
            return outer / packet
        case "srv6":
            segments = [_address(n, True) for n in range(1 + around.number % 2)]
            return outer / IPv6ExtHdrSegmentRouting(addresses=segments) / packet
        case "srv6-ethernet":
            segments = [_address(around.number, True)]
            return outer / IPv6ExtHdrSegmentRouting(addresses=segments, nh=143) / frame
        case "mpls":
            bottom = MPLS(label=around.number, s=1, ttl=9)
            return MPLS(label=around.number ^ 1, s=0, ttl=9) / bottom / packet
        case _:
            return MPLS(label=around.number, s=1, ttl=9) / EoMCW(seq=around.number & 7) / frame


def _possible(tunnels: Sequence[Around]) -> list[Around]:
    """Labels stand behind Ethernet and GRE; other kinds give way to VXLAN around them."""
    found: list[Around] = []
    for around in tunnels:
        labelled = bool(found) and found[-1].kind.startswith("mpls")
        bare = around.kind in ("ip", "srv6", "mpls")
        found.append(replace(around, kind="vxlan") if labelled and bare else around)
    return found


_around = st.builds(
    Around,
    st.sampled_from(KINDS),
    st.booleans(),
    st.integers(1, 2**20),
    st.integers(1, 2**20),
    st.integers(16, 2**20 - 1),
)
_u32 = st.integers(0, 2**32 - 1)
_u24 = st.integers(0, 2**24 - 1)


@settings(max_examples=150)
@given(
    tunnels=st.lists(_around, min_size=1, max_size=4),
    tags=st.lists(st.tuples(st.booleans(), st.integers(0, 4095)), max_size=2),
    six=st.booleans(),
    options=st.booleans(),
    numbers=st.tuples(_u32, _u24),
    roce=st.booleans(),
    size=st.integers(0, 200).map(lambda words: words * 4),
)
def test_tunnels_as_scapy_builds_them(
    tunnels: list[Around],
    tags: list[tuple[bool, int]],
    six: bool,
    options: bool,
    numbers: tuple[int, int],
    roce: bool,
    size: int,
) -> None:
    packet = _network(7, 8, six, **({"tc": 106} if six else {"tos": 106}))
    if six and options:
        packet /= IPv6ExtHdrDestOpt()
    data = Raw(b"x" * size)
    if roce:
        bth = BTH(opcode=0x04, dqpn=numbers[1], psn=5)
        packet /= UDP(sport=50_000, dport=4791, chksum=0) / bth / data
    else:
        packet /= TCP(sport=5000, dport=29_500, seq=numbers[0], chksum=0) / data
    tunnels = _possible(tunnels)
    for around in tunnels:  # the last is the outermost
        packet = _wrap(around, packet)
    frame = Ether(**MACS)
    for service, vlan in tags:
        frame /= Dot1AD(vlan=vlan) if service else Dot1Q(vlan=vlan)
    built = bytes(frame / packet)
    row = parse(built, keep=len(built))

    assert row["header_state"] == HeaderState.COMPLETE
    assert _ends(row) == (_address(7, six), _address(8, six))
    assert (row["dscp"], row["ecn"], row["payload_bytes"]) == (26, 2, size)
    if roce:
        assert (row["transport"], row["dest_qp"], row["seq"]) == (Transport.ROCEV2, numbers[1], 5)
    else:
        assert (row["transport"], row["seq"]) == (Transport.TCP, numbers[0])
    assert row["encapsulation"] == tunnels[-1].encapsulation
    outermost = next((around for around in reversed(tunnels) if around.ends), None)
    assert _ends(row, "outer_") == _outer(outermost)
    vnis = [around.number for around in tunnels if around.kind == "vxlan"]
    assert row["vni"] == (vnis[0] if vnis else ABSENT_U32)
    vlans = [vlan for _, vlan in tags] + [ABSENT_U16] * 2
    assert [row["vlan"], row["inner_vlan"]] == vlans[:2]
    assert row["frame_bytes"] == len(built) + 4


def _ends(row: dict[str, Any], prefix: str = "") -> tuple[str, str]:
    src, dst = (
        to_text(row[f"{prefix}{end}_hi"], row[f"{prefix}{end}_lo"]) for end in ("src", "dst")
    )
    return src, dst


def _outer(around: Around | None) -> tuple[str, str]:
    if around is None:
        return "::", "::"
    if around.kind.startswith("srv6"):
        return _address(around.src, True), _address(around.dst, True)
    assert around.ends is not None
    return around.ends


FIELDS = (
    *("ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "vlan.id", "vxlan.vni"),
    *("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"),
    *("tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.len"),
)


def _frames_for_tshark() -> list[tuple[bytes, bool]]:
    """Frames with up to two tunnels, and whether the innermost packet is IPv6."""
    random = np.random.default_rng(4)
    # tshark takes a control word for the first bytes of a frame, and so misreads what follows.
    kinds = [kind for kind in KINDS if kind != "mpls-ethernet"]
    frames = []
    for number in range(60):
        six = bool(number % 2)
        packet = _network(7, 8, six)
        if number % 3:
            bth = BTH(opcode=0x04, dqpn=number, psn=number)
            packet /= UDP(sport=50_000, dport=4791, chksum=0) / bth / Raw(b"x" * 32)
        else:
            packet /= TCP(sport=5000, dport=29_500, seq=number, chksum=0) / Raw(b"x" * number)
        tunnels = []
        for _ in range(1 + number % 2):
            src, dst = (int(end) for end in random.integers(1, 2**20, 2))
            kind = kinds[int(random.integers(len(kinds)))]
            tunnels.append(Around(kind, bool(random.integers(2)), src, dst, 16 + number))
        for around in _possible(tunnels):
            packet = _wrap(around, packet)
        frame = Ether(**MACS) / Dot1Q(vlan=number + 1) if number % 4 == 0 else Ether(**MACS)
        frames.append((bytes(frame / packet), six))
    return frames


def test_tunnels_as_tshark_reads_them(tmp_path: Path) -> None:
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed")
    frames = _frames_for_tshark()
    capture = tmp_path / "frames.pcap"
    capture.write_bytes(e.pcap((e.EPOCH_NS + n, frame) for n, (frame, _) in enumerate(frames)))
    command = [tshark, "-r", str(capture), "-T", "fields", "-E", "separator=;"]
    for field in FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(frames)
    for line, (frame, six) in zip(lines, frames, strict=True):
        # Every layer's value, from the outside in: the last is that of the packet inside.
        their = {f: v.split(",") for f, v in zip(FIELDS, line.split(";"), strict=True)}
        row = parse(frame, keep=len(frame))
        layer = "ipv6" if six else "ip"
        assert _ends(row) == (their[f"{layer}.src"][-1], their[f"{layer}.dst"][-1])
        if row["encapsulation"] != Encapsulation.MPLS:
            outer = "ipv6" if ":" in _ends(row, "outer_")[0] else "ip"
            assert _ends(row, "outer_") == (their[f"{outer}.src"][0], their[f"{outer}.dst"][0])
        for column, absent, value in (
            ("vlan", ABSENT_U16, their["vlan.id"][0]),
            ("vni", ABSENT_U32, their["vxlan.vni"][-1]),
            ("dest_qp", ABSENT_U32, their["infiniband.bth.destqp"][0]),
            ("seq", ABSENT_U32, their["infiniband.bth.psn"][0] or their["tcp.seq_raw"][0]),
        ):
            assert row[column] == (int(value, 0) if value else absent), column
        if their["tcp.len"][0]:
            assert row["payload_bytes"] == int(their["tcp.len"][0])
            assert row["src_port"] == int(their["tcp.srcport"][0])
