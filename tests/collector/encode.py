"""Encoders for tests: packets, sFlow datagrams and capture files, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address, ip_address

SECOND = 1_000_000_000
EPOCH_NS = 1_800_000_000 * SECOND
MACS = bytes.fromhex("020000000002020000000001")


def ethernet(kind: int, payload: bytes, tags: Sequence[tuple[int, int]] = ()) -> bytes:
    """A frame; `tags` are (Ethertype, VLAN id) from the outside in."""
    stack = b"".join(struct.pack(">HH", tpid, vid) for tpid, vid in tags)
    return MACS + stack + struct.pack(">H", kind) + payload


def ipv4(
    payload: bytes,
    protocol: int,
    src: str = "10.0.0.1",
    dst: str = "10.0.0.2",
    *,
    length: int | None = None,
    options: bytes = b"",
    fragment: int = 0,
    tos: int = 0,
    ttl: int = 64,
) -> bytes:
    total = 20 + len(options) + len(payload) if length is None else length
    ihl = 5 + len(options) // 4
    fixed = struct.pack(">BBHHHBBH", 0x40 | ihl, tos, total, 7, fragment, ttl, protocol, 0)
    return fixed + ip_address(src).packed + ip_address(dst).packed + options + payload


def ipv6(
    payload: bytes,
    following: int,
    src: str = "2001:db8::1",
    dst: str = "2001:db8::2",
    *,
    length: int | None = None,
    traffic_class: int = 0,
    hops: int = 64,
) -> bytes:
    size = len(payload) if length is None else length
    fixed = struct.pack(">IHBB", 6 << 28 | traffic_class << 20, size, following, hops)
    return fixed + IPv6Address(src).packed + IPv6Address(dst).packed + payload


def udp(payload: bytes, src_port: int = 49152, dst_port: int = 6343) -> bytes:
    return struct.pack(">HHHH", src_port, dst_port, 8 + len(payload), 0) + payload


def tcp(
    payload: bytes, src_port: int, dst_port: int, seq: int, ack: int = 0, flags: int = 0x10
) -> bytes:
    return struct.pack(">HHIIBBHHH", src_port, dst_port, seq, ack, 0x50, flags, 512, 0, 0) + payload


def bth(opcode: int, dest_qp: int, psn: int, *, pad: int = 0, marks: int = 0) -> bytes:
    return struct.pack(">BBHII", opcode, pad << 4, 0xFFFF, marks << 24 | dest_qp, psn)


def reth(message_bytes: int) -> bytes:
    return struct.pack(">QII", 0x7F00_0000_1000, 0x1234, message_bytes)


def roce(transport: bytes, src: str = "10.0.0.1", dst: str = "10.0.0.2") -> bytes:
    """RoCEv2 over IPv4; `transport` runs from the BTH to the end of the data."""
    return ethernet(0x0800, ipv4(udp(transport + b"\0" * 4, 50_000, 4791), 17, src, dst))


def record(tag: int, body: bytes) -> bytes:
    return struct.pack(">II", tag, len(body)) + body


def raw_header(
    frame: bytes, *, protocol: int = 1, frame_bytes: int | None = None, keep: int = 128
) -> bytes:
    """Record 0:1; the frame check sequence counts in the length and is stripped, as on switches."""
    header = frame[:keep]
    length = len(frame) + 4 if frame_bytes is None else frame_bytes
    body = struct.pack(">IIII", protocol, length, 4, len(header)) + header
    return record(1, body + b"\0" * (-len(header) % 4))


def timestamp(time_ns: int) -> bytes:
    """Record 0:1043."""
    return record(1043, struct.pack(">Q", time_ns))


def flow_sample(
    *records: bytes,
    sequence: int = 1,
    source: tuple[int, int] = (0, 3),
    rate: int = 1000,
    pool: int | None = None,
    dropped: int = 0,
    entered: tuple[int, int] = (0, 3),
    left: tuple[int, int] = (0, 0),
    expanded: bool = True,
) -> bytes:
    """Sample 0:3 or 0:1; interfaces and source are pairs (format or class, value)."""
    chosen_from = (sequence * rate if pool is None else pool) & 0xFFFF_FFFF
    if expanded:
        ports = (*source, rate, chosen_from, dropped, *entered, *left)
        fields = struct.pack(">11I", sequence, *ports, len(records))
    else:
        packed = (kind << 30 | value for kind, value in (entered, left))
        source_id = source[0] << 24 | source[1]
        fields = struct.pack(
            ">8I", sequence, source_id, rate, chosen_from, dropped, *packed, len(records)
        )
    return record(3 if expanded else 1, fields + b"".join(records))


def text(value: bytes) -> bytes:
    """An XDR string (RFC 4506, 4.11)."""
    return struct.pack(">I", len(value)) + value + b"\0" * (-len(value) % 4)


def sampled_ethernet(kind: int, frame_bytes: int) -> bytes:
    """Record 0:2: each address is padded to eight bytes."""
    return record(2, struct.pack(">I6s2x6s2xI", frame_bytes, MACS[6:], MACS[:6], kind))


def sampled_ipv4(
    protocol: int,
    ports: tuple[int, int],
    length: int,
    *,
    src: str = "10.0.0.1",
    dst: str = "10.0.0.2",
    flags: int = 0,
    tos: int = 0,
) -> bytes:
    """Record 0:3."""
    ends = ip_address(src).packed + ip_address(dst).packed
    return record(
        3, struct.pack(">II", length, protocol) + ends + struct.pack(">4I", *ports, flags, tos)
    )


def sampled_ipv6(protocol: int, ports: tuple[int, int], length: int, *, priority: int = 0) -> bytes:
    """Record 0:4."""
    ends = IPv6Address("2001:db8::1").packed + IPv6Address("2001:db8::2").packed
    return record(
        4, struct.pack(">II", length, protocol) + ends + struct.pack(">4I", *ports, 0, priority)
    )


def switch(src_vlan: int, dst_vlan: int) -> bytes:
    """Record 0:1001."""
    return record(1001, struct.pack(">4I", src_vlan, 0, dst_vlan, 0))


def discard(
    *records: bytes,
    sequence: int = 1,
    source: tuple[int, int] = (0, 3),
    drops: int = 0,
    entered: int = 3,
    left: int = 0,
    reason: int = 258,
) -> bytes:
    """Sample 0:5; its interfaces are plain numbers."""
    fields = (sequence, *source, drops, entered, left, reason, len(records))
    return record(5, struct.pack(">8I", *fields) + b"".join(records))


GENERIC_COUNTERS = struct.Struct(">2IQ2IQ6IQ6I")


def counter_sample(
    *records: bytes,
    sequence: int = 1,
    source: tuple[int, int] = (0, 3),
    expanded: bool = True,
) -> bytes:
    """Sample 0:4 or 0:2."""
    if expanded:
        fields = struct.pack(">4I", sequence, *source, len(records))
    else:
        fields = struct.pack(">3I", sequence, source[0] << 24 | source[1], len(records))
    return record(4 if expanded else 2, fields + b"".join(records))


def datagram(
    *samples: bytes,
    agent: str = "10.255.0.1",
    sub_agent: int = 0,
    sequence: int = 1,
    uptime_ms: int = 60_000,
    count: int | None = None,
) -> bytes:
    address = ip_address(agent)
    head = struct.pack(">II", 5, 1 if address.version == 4 else 2) + address.packed
    number = len(samples) if count is None else count
    return head + struct.pack(">4I", sub_agent, sequence, uptime_ms, number) + b"".join(samples)


def packet(payload: bytes, *, src: str = "192.0.2.1", dst_port: int = 6343) -> bytes:
    """A datagram as an Ethernet frame."""
    return ethernet(0x0800, ipv4(udp(payload, dst_port=dst_port), 17, src, "192.0.2.9"))


def pcap(
    packets: Iterable[tuple[int, bytes]],
    *,
    link: int = 1,
    order: str = "<",
    nanoseconds: bool = True,
) -> bytes:
    """A pcap file of (time in ns, bytes) pairs."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    unit = 1 if nanoseconds else 1000
    out = [struct.pack(f"{order}IHHIIII", magic, 2, 4, 0, 0, 262144, link)]
    for time_ns, data in packets:
        seconds, rest = divmod(time_ns, SECOND)
        out.append(struct.pack(f"{order}IIII", seconds, rest // unit, len(data), len(data)) + data)
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block."""
    body += b"\0" * (-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link: int = 1, *, resolution: int | None = None, offset_s: int | None = None, order: str = "<"
) -> bytes:
    body = struct.pack(f"{order}HHI", link, 0, 0)
    if resolution is not None:
        body += struct.pack(f"{order}HHB3x", 9, 1, resolution)
    if offset_s is not None:
        body += struct.pack(f"{order}HHq", 14, 8, offset_s)
    return block(1, body + struct.pack(f"{order}HH", 0, 0), order)


def enhanced(ticks: int, data: bytes, *, interface_id: int = 0, order: str = "<") -> bytes:
    head = struct.pack(
        f"{order}5I", interface_id, ticks >> 32, ticks & 0xFFFF_FFFF, len(data), len(data)
    )
    return block(6, head + data, order)


def simple(data: bytes, order: str = "<") -> bytes:
    return block(3, struct.pack(f"{order}I", len(data)) + data, order)
