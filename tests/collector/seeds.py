"""Datagrams of every kind that agents send, by encoders of our own: where mutations begin."""

from __future__ import annotations

import struct

from tests.collector import encode as e

_DATA = b"d" * 64
_TCP = e.tcp(b"p" * 90, 5000, 29_500, 0x0102_0304, 0x0506_0708)
_WRITE = e.udp(e.bth(0x06, 0x11, 7) + e.reth(1 << 20) + _DATA, 50_000, 4791)
_INNER = e.ipv4(_WRITE, 17, "172.16.0.1", "172.16.0.2")
_INNER_SIX = e.ipv6(_WRITE, 17, "fd00::1", "fd00::2")


def _gre(kind: int, payload: bytes, *, key: int | None = None) -> bytes:
    flags, options = (0, b"") if key is None else (0x2000, struct.pack(">I", key))
    return struct.pack(">HH", flags, kind) + options + payload


def _mpls(*labels: int) -> bytes:
    """A label stack (RFC 3032)."""
    last = len(labels) - 1
    return b"".join(
        struct.pack(">I", label << 12 | (n == last) << 8 | 64) for n, label in enumerate(labels)
    )


def _routing(following: int, segments: int) -> bytes:
    """A segment routing header (RFC 8754)."""
    addresses = b"".join(bytes([0x20, 1, 0x0D, 0xB8, *[0] * 11, n]) for n in range(segments))
    head = struct.pack(">6BH", following, 2 * segments, 4, 0, segments - 1, 0, 0)
    return head + addresses


def frames() -> list[bytes]:
    """Frames of every kind of packet that is read here, plain and inside tunnels."""
    vxlan = struct.pack(">II", 0x0800_0000, 5001 << 8)
    acknowledge = e.bth(0x11, 3, 4) + bytes([0, 0, 0, 5])
    immediate = e.bth(0x0B, 5, 6) + e.reth(0) + b"\0\0\1\0"
    return [
        e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + _DATA),
        e.roce(acknowledge),
        e.roce(immediate),
        e.roce(e.bth(0x81, 9, 0) + b"\0" * 16),
        e.roce(e.bth(0x64, 1, 2) + struct.pack(">II", 0x8001_0000, 77) + _DATA),
        e.ethernet(0x8915, e.ipv6(e.bth(0x04, 1, 2) + _DATA, 27)),
        e.ethernet(0x0800, e.ipv4(_TCP, 6, options=b"\x01" * 8, tos=0x69), [(0x8100, 5)]),
        e.ethernet(0x86DD, e.ipv6(_TCP, 6), [(0x88A8, 100), (0x8100, 200)]),
        e.ethernet(0x86DD, e.ipv6(bytes([6, 0, 1, 4, *[0] * 4]) + _TCP, 60)),
        e.ethernet(0x86DD, e.ipv6(struct.pack(">BBHI", 17, 0, 1, 9) + _WRITE, 44)),
        e.ethernet(0x0800, e.ipv4(_WRITE, 17, fragment=0x2000)),
        e.ethernet(0x0800, e.ipv4(_WRITE, 17, fragment=0x00B9)),
        e.ethernet(0x0800, e.ipv4(b"\x08\0\0\0\0\1\0\1", 1)),
        e.ethernet(0x0806, b"\0\1\x08\0\6\4\0\1" + b"\0" * 20),
        e.ethernet(0x0800, e.ipv4(e.udp(vxlan + e.ethernet(0x0800, _INNER), 54_321, 4789), 17)),
        e.ethernet(0x0800, e.ipv4(_gre(0x0800, _INNER, key=42), 47)),
        e.ethernet(0x0800, e.ipv4(_gre(0x6558, e.ethernet(0x86DD, _INNER_SIX)), 47)),
        e.ethernet(0x86DD, e.ipv6(_gre(0x86DD, _INNER_SIX), 47)),
        e.ethernet(0x0800, e.ipv4(_INNER, 4)),
        e.ethernet(0x0800, e.ipv4(_INNER_SIX, 41)),
        e.ethernet(0x86DD, e.ipv6(_routing(4, 2) + _INNER, 43)),
        e.ethernet(0x86DD, e.ipv6(_routing(143, 1) + e.ethernet(0x0800, _INNER), 43)),
        e.ethernet(0x8847, _mpls(16_000) + _INNER),
        e.ethernet(0x8847, _mpls(16_000, 24_001, 2) + _INNER_SIX),
        e.ethernet(0x8847, _mpls(299) + b"\0\0\0\1" + e.ethernet(0x0800, _INNER)),
        e.ethernet(0x0800, e.ipv4(e.udp(bytes(range(32)) + _DATA, 40_000, 4793), 17)),
    ]


def _ethernet_record() -> bytes:
    return e.record(2, struct.pack(">I8s8sI", 98, b"\2\0\0\0\0\1\0\0", b"\2\0\0\0\0\2\0\0", 0x0800))


def _ipv4_record() -> bytes:
    fields = struct.pack(">II4s4sIIII", 84, 6, b"\n\0\0\1", b"\n\0\0\2", 5000, 29_500, 0x18, 104)
    return e.record(3, fields)


def _ipv6_record() -> bytes:
    ends = bytes([0x20, 1, 0x0D, 0xB8, *[0] * 11, 1]), bytes([0x20, 1, 0x0D, 0xB8, *[0] * 11, 2])
    return e.record(4, struct.pack(">II16s16sIIII", 84, 17, *ends, 50_000, 4791, 0, 8))


def _gateway() -> bytes:
    path = struct.pack(">IIIII", 1, 2, 2, 65_001, 65_002)
    return e.record(
        1003, struct.pack(">I4s4I", 1, b"\n\0\0\xfe", 65_000, 65_003, 65_004, 1) + path + b"\0" * 16
    )


def records() -> list[bytes]:
    """Flow records of every format that is read or skipped, without a sampled header."""
    return [
        e.timestamp(e.EPOCH_NS + 5),
        _ethernet_record(),
        _ipv4_record(),
        _ipv6_record(),
        e.record(1001, struct.pack(">4I", 100, 3, 200, 5)),  # switch
        e.record(1002, struct.pack(">I4sII", 1, b"\n\0\0\xfe", 24, 24)),  # router
        _gateway(),
        e.record(1006, struct.pack(">II", 1, 16_000) + b"\0" * 8),  # MPLS
        e.record(1012, struct.pack(">II", 1, 0x8100_0005)),  # VLAN tags
        e.record(1029, struct.pack(">I", 5001)),  # a VNI
        e.record(1036, struct.pack(">I", 3)),  # egress queue
        e.record(1039, struct.pack(">I", 2500)),  # transit delay
        e.record(1040, struct.pack(">I", 65_536)),  # queue depth
        e.record(1041, struct.pack(">I4sI4s", 3, b"drop", 2, b"ttl\0")),  # hardware trap
        e.record(1042, struct.pack(">I4s4sI", 3, b"skb\0", b"\0" * 4, 1)),  # software reason
        e.record(8800 << 12 | 1, struct.pack(">4I", 1, 9000, 0, 64) + b"\xee" * 64),
    ]


def counter_records() -> list[bytes]:
    """Counter records of every format that is read or skipped."""
    return [
        e.record(1, e.GENERIC_COUNTERS.pack(3, 6, 400_000_000_000, 1, 3, 1 << 40, *range(13))),
        e.record(2, struct.pack(">13I", *range(13))),  # Ethernet
        e.record(
            7, struct.pack(">8s8s11I", b"\2\0\0\0\0\1", b"\2\0\0\0\0\2", 9, *range(10))
        ),  # LAG
        e.record(1001, struct.pack(">3IQQ", 10, 20, 30, 1 << 33, 1 << 32)),  # processor
        e.record(1005, struct.pack(">I9s3x", 9, b"Ethernet0")),  # port name
        e.record(
            2000, struct.pack(">I5s3x", 5, b"leaf1") + b"\x11" * 16 + struct.pack(">II4x", 3, 2)
        ),
        e.record(2003, struct.pack(">3f16I", 0.5, 0.25, 0.125, *range(16))),
        e.record(2207, b"\0" * 48),
        e.record(4413 << 12 | 3, b"\xaa" * 44),
    ]


def _discard(*held: bytes) -> bytes:
    """Sample 0:5: a notice of dropped packets."""
    return e.record(5, struct.pack(">8I", 4, 0, 3, 17, 3, 5, 258, len(held)) + b"".join(held))


def datagrams() -> list[bytes]:
    """Well-formed datagrams; together they hold every kind of sample, record and packet."""
    kinds = frames()
    headers = [e.raw_header(frame) for frame in kinds]
    stamped = [
        e.datagram(
            e.flow_sample(e.timestamp(e.EPOCH_NS + n), header, sequence=n, expanded=n % 3 != 0),
            e.flow_sample(headers[-1 - n], sequence=n + 1, left=(n % 3, n)),
            sequence=n,
            agent="2001:db8::9" if n % 4 == 0 else "10.255.0.1",
        )
        for n, header in enumerate(headers)
    ]
    raw = [
        e.raw_header(_INNER, protocol=11, frame_bytes=1500),
        e.raw_header(_INNER_SIX, protocol=12, frame_bytes=0),
        e.raw_header(b"\x45" * 40, protocol=4),
        e.raw_header(kinds[0], frame_bytes=4_294_967_291),
    ]
    return [
        *stamped,
        e.datagram(*(e.flow_sample(one, sequence=n) for n, one in enumerate(raw)), sub_agent=7),
        e.datagram(*(e.flow_sample(one, expanded=False) for one in records()[:8]), sequence=2),
        e.datagram(e.flow_sample(*records(), headers[0], entered=(0, 0x3FFF_FFFF)), sequence=3),
        e.datagram(e.flow_sample(headers[2], *records(), left=(1, 258)), sequence=4),
        e.datagram(
            *(e.counter_sample(one, expanded=n % 2 == 0) for n, one in enumerate(counter_records()))
        ),
        e.datagram(e.counter_sample(*counter_records()), e.flow_sample(headers[6]), sequence=5),
        e.datagram(_discard(headers[0]), e.flow_sample(headers[1]), _discard(*records())),
        e.datagram(_discard(), e.record(4413 << 12 | 1, b"\0" * 8), e.record(77, b"")),
        e.datagram(),
    ]
