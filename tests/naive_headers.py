"""The slow, obvious twin of the header kernels: one sampled header, layer by layer.

Every layer takes the bytes that are left, writes what it says into the row, and calls the next.
"""

from __future__ import annotations

import struct
from typing import Any

from collector.schema import (
    ABSENT_U8,
    ABSENT_U16,
    ABSENT_U32,
    Encapsulation,
    HeaderState,
    Mark,
    Transport,
)

Row = dict[str, Any]

TAGS = (0x8100, 0x88A8, 0x9100)
EXTENSIONS = (0, 43, 44, 51, 60, 135, 139, 140)
TUNNELS = 4
LABELS = 8


class _Ends(Exception):
    """The header cannot be read any further."""

    def __init__(self, state: HeaderState) -> None:
        self.state = state


def parse_header(header: bytes, protocol: int, frame_bytes: int) -> Row:
    """A sampled header as the columns of `FlowBatch` that describe the packet."""
    row: Row = {
        "ttl": 0,
        "src_hi": 0,
        "src_lo": 0,
        "dst_hi": 0,
        "dst_lo": 0,
        "protocol": 0,
        "src_port": 0,
        "dst_port": 0,
        "dscp": 0,
        "ecn": 0,
        "vlan": ABSENT_U16,
        "inner_vlan": ABSENT_U16,
        "vni": ABSENT_U32,
        "encapsulation": Encapsulation.NONE,
        "outer_src_hi": 0,
        "outer_src_lo": 0,
        "outer_dst_hi": 0,
        "outer_dst_lo": 0,
        "transport": Transport.OTHER,
        "header_state": HeaderState.COMPLETE,
        "opcode": ABSENT_U8,
        "dest_qp": ABSENT_U32,
        "seq": ABSENT_U32,
        "ack_seq": ABSENT_U32,
        "msn": ABSENT_U32,
        "syndrome": ABSENT_U8,
        "message_bytes": ABSENT_U32,
        "immediate": ABSENT_U32,
        "tcp_flags": 0,
        "payload_bytes": 0,
        "marks": 0,
        "frame_bytes": frame_bytes,
        "repaired": 0,
    }
    if protocol == 0:
        return row | {"header_state": HeaderState.TRUNCATED_NETWORK}
    if frame_bytes == 0 or frame_bytes < len(header) or frame_bytes > 65_535 + 34:
        row |= {"repaired": 1, "frame_bytes": len(header)}
    try:
        _Packet(header, row).begin(protocol)
    except _Ends as end:
        row["header_state"] = end.state
    return row


class _Packet:
    """A header on its way down: how much of it is left, and how many layers it has had."""

    def __init__(self, header: bytes, row: Row) -> None:
        self.header = header
        self.row = row
        self.left = header
        self.tunnels = 0
        self.networks = 0

    def take(self, size: int) -> bytes:
        if len(self.left) < size:
            raise self.cut()
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def cut(self) -> _Ends:
        inner = HeaderState.TRUNCATED_INNER
        return _Ends(inner if self.tunnels else HeaderState.TRUNCATED_NETWORK)

    def begin(self, protocol: int) -> None:
        if protocol == 1:
            self.frame()
        elif protocol == 13:
            self.by_ethertype(0x8847)
        else:
            self.by_ethertype({11: 0x0800, 12: 0x86DD}.get(protocol, 0))

    def frame(self) -> None:
        self.take(12)
        vlans = []
        kind = int.from_bytes(self.take(2))
        while kind in TAGS:
            vlans.append(int.from_bytes(self.take(2)) & 0xFFF)
            if not self.tunnels:
                self.row |= dict(zip(("vlan", "inner_vlan"), vlans, strict=False))
            if len(vlans) == 5:
                raise _Ends(HeaderState.TOO_DEEP)
            kind = int.from_bytes(self.take(2))
        self.by_ethertype(kind)

    def by_ethertype(self, kind: int) -> None:
        if kind == 0x0800:
            self.ipv4()
        elif kind == 0x86DD:
            self.ipv6()
        elif kind == 0x8915:
            self.rocev1()
        elif kind in (0x8847, 0x8848):
            self.tunnel(Encapsulation.MPLS)
            self.labels()
        else:
            raise _Ends(HeaderState.NOT_IP)

    def tunnel(self, kind: Encapsulation) -> None:
        """From here on the row is of what is inside."""
        row = self.row
        row["encapsulation"] = row["encapsulation"] or kind
        ends = ("src_hi", "src_lo", "dst_hi", "dst_lo")
        if self.networks == 1 and kind != Encapsulation.MPLS:
            row |= {f"outer_{name}": row[name] for name in ends}
        row |= dict.fromkeys((*ends, "protocol", "ttl", "dscp", "src_port", "dst_port"), 0)
        row |= {"transport": Transport.OTHER, "payload_bytes": 0}
        row["ecn"] = 3 if row["ecn"] == 3 else 0
        self.tunnels += 1
        if self.tunnels > TUNNELS:
            raise _Ends(HeaderState.TOO_DEEP)

    def labels(self) -> None:
        for _ in range(LABELS):
            if self.take(4)[2] & 1:
                break
        else:
            raise _Ends(HeaderState.TOO_DEEP)
        if not self.left:
            raise self.cut()
        nibble = self.left[0] >> 4
        if nibble in (4, 6):
            self.by_ethertype(0x0800 if nibble == 4 else 0x86DD)
            return
        if nibble == 1:
            raise _Ends(HeaderState.NOT_IP)
        known = (0x0800, 0x86DD, 0x0806, 0x8847, 0x8848, 0x8915, *TAGS)
        control_words = (4, 0) if nibble == 0 else (0,)
        for size in control_words:
            at = size + 12
            if len(self.left) >= at + 2 and int.from_bytes(self.left[at : at + 2]) in known:
                self.take(size)
                self.frame()
                return
        if len(self.left) < control_words[0] + 14:
            raise self.cut()
        raise _Ends(HeaderState.NOT_IP)

    def length(self, before: int, said: int) -> int:
        """The IP packet's length; settles `frame_bytes` where the exporter's cannot be."""
        self.networks += 1
        if said == 0:
            return int(self.row["frame_bytes"]) - before
        if self.row["repaired"] and self.networks == 1:
            self.row["frame_bytes"] = before + said
        return said

    def say(self, tos: int, ttl: int) -> None:
        ecn = 3 if self.row["ecn"] == 3 else tos & 3
        self.row |= {"dscp": tos >> 2, "ecn": ecn, "ttl": ttl}

    def ipv4(self) -> None:
        before = len(self.header) - len(self.left)
        fixed = self.take(20)
        options = (fixed[0] & 15) * 4 - 20
        if fixed[0] >> 4 != 4 or options < 0:
            raise _Ends(HeaderState.NOT_IP)
        said, fragment = struct.unpack(">2xH2xH12x", fixed)
        self.say(fixed[1], fixed[8])
        self.row["src_lo"] = 0xFFFF << 32 | int.from_bytes(fixed[12:16])
        self.row["dst_lo"] = 0xFFFF << 32 | int.from_bytes(fixed[16:20])
        self.row["protocol"] = fixed[9]
        rest = self.length(before, said) - 20 - options
        self.left = self.left[options:]
        if fragment & 0x3FFF:
            self.row["header_state"] = HeaderState.FRAGMENT
        if not fragment & 0x1FFF:
            self.transport(rest, whole=not fragment & 0x2000, routed=False, version=4)

    def ipv6(self) -> None:
        before = len(self.header) - len(self.left)
        fixed = self.fixed_ipv6()
        said = int.from_bytes(fixed[4:6])
        rest = self.length(before, said + 40 if said else 0) - 40
        following, whole, routed = fixed[6], True, False
        self.row["protocol"] = following
        for _ in range(8):
            if following not in EXTENSIONS:
                break
            if len(self.left) < (8 if following == 44 else 3):
                raise self.cut()
            extension = self.left
            size = 8
            if following == 44:
                part = int.from_bytes(extension[2:4])
                if part & 0xFFF9:
                    self.row["header_state"] = HeaderState.FRAGMENT
                    whole = False
                if part >> 3:
                    self.row["protocol"] = extension[0]
                    return
            else:
                size += extension[1] * (4 if following == 51 else 8)
                routed |= following == 43 and extension[2] == 4
            following = extension[0]
            self.row["protocol"] = following
            self.left = self.left[size:]
            rest -= size
        else:
            if following in EXTENSIONS:
                raise _Ends(HeaderState.TOO_DEEP)
        self.transport(rest, whole, routed, version=6)

    def fixed_ipv6(self) -> bytes:
        fixed = self.take(40)
        if fixed[0] >> 4 != 6:
            raise _Ends(HeaderState.NOT_IP)
        self.say(int.from_bytes(fixed[:2]) >> 4 & 0xFF, fixed[7])
        names = ("src_hi", "src_lo", "dst_hi", "dst_lo")
        self.row |= dict(zip(names, struct.unpack(">4Q", fixed[8:]), strict=True))
        return fixed

    def rocev1(self) -> None:
        before = len(self.header) - len(self.left)
        said = int.from_bytes(self.fixed_ipv6()[4:6])
        self.row["transport"] = Transport.ROCEV1
        self.length(before, said + 40)
        _roce(self.left, said, self.row)

    def transport(self, length: int, whole: bool, routed: bool, version: int) -> None:
        """What an IP packet carries, of which there are `length` bytes."""
        protocol, length = self.row["protocol"], max(length, 0)
        if protocol == 6:
            _tcp(self.left, length, self.row)
        elif protocol == 17:
            self.udp(length, whole)
        elif not whole:
            return
        elif protocol == 47:
            self.gre()
        elif protocol == 143 and version == 6:
            self.tunnel(Encapsulation.SRV6)
            self.frame()
        elif protocol in (4, 41):
            self.tunnel(Encapsulation.SRV6 if routed else Encapsulation.IP)
            self.by_ethertype(0x0800 if protocol == 4 else 0x86DD)

    def udp(self, length: int, whole: bool) -> None:
        row, segment = self.row, self.left
        row["transport"] = Transport.UDP
        if len(segment) >= 4:
            row["src_port"], row["dst_port"] = struct.unpack(">HH", segment[:4])
        if len(segment) < 8:
            raise _Ends(HeaderState.TRUNCATED_TRANSPORT)
        row["payload_bytes"] = max(length - 8, 0)
        self.left = segment[8:]
        if not whole:
            return
        if row["dst_port"] == 4791:
            row["transport"] = Transport.ROCEV2
            _roce(self.left, row["payload_bytes"], row)
        elif row["dst_port"] == 4793:
            row["transport"] = Transport.UET
            _uet(self.left, row)
        elif row["dst_port"] == 4789:
            if len(self.left) < 8:
                self.tunnel(Encapsulation.VXLAN)
                raise self.cut()
            if self.left[0] & 8:
                row["vni"] = int.from_bytes(self.left[4:7])
                self.tunnel(Encapsulation.VXLAN)
                self.take(8)
                self.frame()

    def gre(self) -> None:
        data = self.left
        if len(data) < 4:
            self.tunnel(Encapsulation.GRE)
            raise self.cut()
        flags, kind = struct.unpack(">HH", data[:4])
        if flags & 0x4000 or flags & 7 > 1:
            return
        if flags & 7 == 1:
            if kind == 0x880B and flags & 0x1000:
                self.ppp(data[16 if flags & 0x80 else 12 :])
            return
        if kind in (0x0800, 0x86DD, 0x8847, 0x8848, 0x6558):
            self.tunnel(Encapsulation.GRE)
            self.left = data[4 + 4 * sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000)) :]
            if kind == 0x6558:
                self.frame()
            else:
                self.by_ethertype(kind)

    def ppp(self, data: bytes) -> None:
        if data[:2] == b"\xff\x03":
            data = data[2:]
        if len(data) < 2:
            self.tunnel(Encapsulation.GRE)
            raise self.cut()
        size = 1 if data[0] & 1 else 2
        protocol = int.from_bytes(data[:size])
        if protocol in (0x21, 0x57):
            self.tunnel(Encapsulation.GRE)
            self.left = data[size:]
            self.by_ethertype(0x0800 if protocol == 0x21 else 0x86DD)


def _tcp(segment: bytes, length: int, row: Row) -> None:
    row["transport"] = Transport.TCP
    if len(segment) >= 4:
        row["src_port"], row["dst_port"] = struct.unpack(">HH", segment[:4])
    if len(segment) >= 8:
        (row["seq"],) = struct.unpack(">I", segment[4:8])
    if len(segment) < 14:
        row["header_state"] = HeaderState.TRUNCATED_TRANSPORT
        return
    (row["ack_seq"],) = struct.unpack(">I", segment[8:12])
    row["tcp_flags"] = segment[13]
    row["payload_bytes"] = max(length - (segment[12] >> 4) * 4, 0)


# PDS type -> where its 32 bits go, its mark, and the flag that leaves the destination open
_PDS = {
    **dict.fromkeys((2, 3, 13, 14, 11), ("seq", 0, 0x04)),
    **dict.fromkeys((7, 8, 9), ("ack_seq", Mark.ACK, 0)),
    **dict.fromkeys((10, 12), (None, Mark.NAK, 0x08)),
}


def _uet(data: bytes, row: Row) -> None:
    if len(data) < 2:
        row["header_state"] = HeaderState.TRUNCATED_TRANSPORT
        return
    (prologue,) = struct.unpack(">H", data[:2])
    row["opcode"] = prologue >> 11
    if prologue >> 11 not in _PDS:
        return
    name, row["marks"], unknown = _PDS[prologue >> 11]
    if len(data) < 12:
        row["header_state"] = HeaderState.TRUNCATED_TRANSPORT
        return
    number, _, destination = struct.unpack(">IHH", data[4:12])
    if name:
        row[name] = number
    if not prologue & unknown:
        row["dest_qp"] = destination


# opcode within its service -> extended headers in order
_RELIABLE = {
    0x03: "I",
    0x05: "I",
    0x06: "R",
    0x09: "I",
    0x0A: "R",
    0x0B: "RI",
    0x0C: "R",
    0x0D: "A",
    0x0F: "A",
    0x10: "A",
    0x11: "A",
    0x12: "Aa",
    0x13: "T",
    0x14: "T",
    0x16: "V",
    0x17: "V",
}
_SIZES = {"D": 8, "X": 4, "R": 16, "T": 28, "A": 4, "a": 8, "I": 4, "V": 4}


def _extended(opcode: int) -> str:
    service, operation = opcode & 0xE0, opcode & 0x1F
    if service == 0x00:
        return _RELIABLE.get(operation, "")
    if service == 0x20:
        return _RELIABLE.get(operation, "") if operation <= 0x0B else ""
    if service == 0x60:
        return {0x04: "D", 0x05: "DI"}.get(operation, "")
    if service == 0xA0:
        request = operation <= 0x0C or operation in (0x13, 0x14, 0x16, 0x17)
        return "X" * request + _RELIABLE.get(operation, "")
    return ""


def _roce(data: bytes, length: int, row: Row) -> None:
    """BTH and what follows; `length` counts from the BTH to the end of the ICRC."""
    row["payload_bytes"] = length
    if len(data) < 12:
        row["header_state"] = HeaderState.TRUNCATED_BTH
        return
    opcode = data[0]
    row |= {"opcode": opcode, "dest_qp": int.from_bytes(data[5:8])}
    row["seq"] = int.from_bytes(data[9:12])
    marks = Mark.FECN * (data[4] >> 7) | Mark.BECN * (data[4] >> 6 & 1)
    rest = length - 12 - 4 - (data[1] >> 4 & 3)
    at = 12
    for part in _extended(opcode):
        piece = data[at : at + _SIZES[part]]
        at += _SIZES[part]
        rest -= _SIZES[part]
        if len(piece) < _SIZES[part]:
            continue
        if part == "R":
            row["message_bytes"] = int.from_bytes(piece[12:])
        elif part == "I":
            row["immediate"] = int.from_bytes(piece)
        elif part == "A":
            row |= {"syndrome": piece[0], "msn": int.from_bytes(piece[1:])}
            if piece[0] & 0x60:
                marks |= Mark.NAK
            elif opcode & 0x1F in (0x11, 0x12):
                marks |= Mark.ACK
    if opcode == 0x81:
        marks, rest = marks | Mark.CNP, 0
    row |= {"marks": int(marks), "payload_bytes": max(rest, 0)}
    if at > len(data):
        row["header_state"] = HeaderState.TRUNCATED_TRANSPORT
