"""Encoders of tunnels and of what Ultra Ethernet sends, byte by byte, beside `encode`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import IPv6Address

from tests.collector import encode as e

VTEPS = ("192.0.2.11", "192.0.2.12")


def vxlan(frame: bytes, vni: int, *, flags: int = 0x08, source_port: int = 61_000) -> bytes:
    """UDP that carries a frame (RFC 7348, figure 1)."""
    return e.udp(struct.pack(">B3xI", flags, vni << 8) + frame, source_port, 4789)


def gre(
    kind: int,
    payload: bytes,
    *,
    checksum: int | None = None,
    key: int | None = None,
    sequence: int | None = None,
    flags: int = 0,
) -> bytes:
    """GRE version 0 (RFC 2890, section 2)."""
    options = b""
    for bit, form, value in (
        (0x8000, ">HH", checksum),
        (0x2000, ">I", key),
        (0x1000, ">I", sequence),
    ):
        if value is not None:
            flags |= bit
            options += struct.pack(form, value, 0) if form == ">HH" else struct.pack(form, value)
    return struct.pack(">HH", flags, kind) + options + payload


def pptp(payload: bytes, *, sequence: int | None = 1, ack: int | None = None) -> bytes:
    """GRE version 1 with PPP (RFC 2637, 4.1)."""
    flags = 0x2001 | 0x1000 * (sequence is not None) | 0x0080 * (ack is not None)
    numbers = b"".join(struct.pack(">I", n) for n in (sequence, ack) if n is not None)
    return struct.pack(">HHHH", flags, 0x880B, len(payload), 7) + numbers + payload


def labels(*values: int, ended: bool = True) -> bytes:
    """An MPLS label stack (RFC 3032, 2.1); not `ended`: its bottom is not there."""
    return b"".join(
        struct.pack(">I", value << 12 | (ended and place == len(values) - 1) << 8 | 64)
        for place, value in enumerate(values)
    )


def segments(following: int, addresses: Sequence[str], left: int = 0) -> bytes:
    """A segment routing header (RFC 8754, section 2), the last segment first."""
    fixed = struct.pack(
        ">BBBBBBH", following, 2 * len(addresses), 4, left, len(addresses) - 1, 0, 0
    )
    return fixed + b"".join(IPv6Address(address).packed for address in addresses)


def pds(
    kind: int,
    number: int,
    source: int,
    destination: int,
    *,
    following: int = 3,
    flags: int = 0,
    second: int = 0,
) -> bytes:
    """A PDS header of a context (Ultra Ethernet Specification 1.0, 3.5.10)."""
    prologue = kind << 11 | following << 7 | flags
    return struct.pack(">HHIHH", prologue, second, number, source, destination)


def uet(header: bytes, payload: bytes = b"") -> bytes:
    """A frame with UET over UDP; the source port is the entropy."""
    return e.ethernet(0x0800, e.ipv4(e.udp(header + payload, 0xE77E, 4793), 17))
