"""Tunnels: what a packet carries inside another, and where that begins.

Source: RFC 7348 (VXLAN); RFC 2784 and RFC 2890 (GRE), RFC 7637 (Ethernet in GRE), RFC 2637 and
RFC 1661 (PPP in GRE); RFC 3032, RFC 4385 and RFC 4448 (MPLS, and Ethernet in it); RFC 2003,
RFC 2473 and RFC 4213 (IP in IP); RFC 8754 and RFC 8986 (SRv6).

Notes
-----
Each function gives a position and what begins there, in the words of `collector.network`: CUT where
the sampled header ends before it is told, OTHER where it is nothing that is read here.
"""

from __future__ import annotations

from typing import Final

from numba import njit

from collector.network import (
    CUT,
    ETHERNET,
    IPV4,
    IPV6,
    MPLS,
    MPLS_UPSTREAM,
    OTHER,
    ROCEV1,
    TOO_MANY,
    is_tag,
)
from collector.schema import U8, Encapsulation
from collector.wire import u8, u16

VXLAN_PORT: Final = 4789
_MOST_LABELS: Final = 8
_TRANSPARENT_BRIDGING: Final = 0x6558
_PPP: Final = 0x880B
_ARP: Final = 0x0806
_NONE: Final = int(Encapsulation.NONE)
_GRE: Final = int(Encapsulation.GRE)
_IP: Final = int(Encapsulation.IP)
_SRV6: Final = int(Encapsulation.SRV6)


@njit(cache=True)
def in_ip(
    buffer: U8, at: int, end: int, protocol: int, version: int, routed: int
) -> tuple[int, int, int]:
    """What an IP packet carries that is a packet again.

    Parameters
    ----------
    at, end
        From the end of its headers to that of the sampled bytes.
    protocol, version
        Of the packet.
    routed
        1 where it has a segment routing header.

    Returns
    -------
    tuple of int
        Position, what begins there (OTHER: it is no tunnel that is read), `Encapsulation`.
    """
    if protocol == 4:
        return at, IPV4, _SRV6 if routed else _IP
    if protocol == 41:
        return at, IPV6, _SRV6 if routed else _IP
    if protocol == 143 and version == 6:
        return at, ETHERNET, _SRV6
    if protocol == 47:
        inner, kind = _gre(buffer, at, end)
        return inner, kind, _GRE
    return at, OTHER, _NONE


@njit(cache=True)
def in_vxlan(buffer: U8, at: int, end: int) -> tuple[int, int]:
    """What follows the UDP header of port 4789; without the flag of a valid VNI it is OTHER."""
    if end - at < 8:
        return at, CUT
    return at + 8, ETHERNET if u8(buffer, at) & 0x08 else OTHER


@njit(cache=True)
def in_mpls(buffer: U8, at: int, end: int) -> tuple[int, int]:
    """What follows a stack of labels.

    Notes
    -----
    Nothing in a packet says it but its first four bits, by custom (RFC 4928): 4 and 6 are IP, 1 is
    a channel of a pseudowire's own, 0 may begin a control word. Ethernet, with a control word or
    without, is told by a known Ethertype at its place.
    """
    for _ in range(_MOST_LABELS):
        if end - at < 4:
            return at, CUT
        bottom = u8(buffer, at + 2) & 1
        at += 4
        if bottom:
            break
    else:
        return at, TOO_MANY
    if end - at < 1:
        return at, CUT
    nibble = u8(buffer, at) >> 4
    if nibble == 4:
        return at, IPV4
    if nibble == 6:
        return at, IPV6
    if nibble == 1:
        return at, OTHER
    control = 4 if nibble == 0 else 0
    if _is_frame(buffer, at + control, end):
        return at + control, ETHERNET
    if _is_frame(buffer, at, end):
        return at, ETHERNET
    return at, CUT if end - at < control + 14 else OTHER


@njit(cache=True)
def _is_frame(buffer: U8, at: int, end: int) -> bool:
    if end - at < 14:
        return False
    kind = u16(buffer, at + 12)
    return kind in (IPV4, IPV6, MPLS, MPLS_UPSTREAM, ROCEV1, _ARP) or is_tag(kind)


@njit(cache=True)
def _gre(buffer: U8, at: int, end: int) -> tuple[int, int]:
    if end - at < 4:
        return at, CUT
    flags, kind = u16(buffer, at), u16(buffer, at + 2)
    version = flags & 7
    if flags & 0x4000 or version > 1:  # source routes: RFC 2784 lets nobody send them
        return at, OTHER
    if version == 1:
        if kind != _PPP or not flags & 0x1000:  # without a sequence number it only acknowledges
            return at, OTHER
        at += 12
        if flags & 0x0080:
            at += 4
        return _ppp(buffer, at, end)
    at += 4
    if flags & 0x8000:  # checksum
        at += 4
    if flags & 0x2000:  # key
        at += 4
    if flags & 0x1000:  # sequence number
        at += 4
    if kind == _TRANSPARENT_BRIDGING:
        return at, ETHERNET
    if kind in (IPV4, IPV6, MPLS, MPLS_UPSTREAM):
        return at, kind
    return at, OTHER


@njit(cache=True)
def _ppp(buffer: U8, at: int, end: int) -> tuple[int, int]:
    """PPP as PPTP sends it: the address may be left out, and a protocol's first byte if zero."""
    if end - at < 2:
        return at, CUT
    if u16(buffer, at) == 0xFF03:
        at += 2
        if end - at < 2:
            return at, CUT
    protocol = u8(buffer, at)
    at += 1
    if not protocol & 1:
        protocol = protocol << 8 | u8(buffer, at)
        at += 1
    if protocol == 0x21:
        return at, IPV4
    if protocol == 0x57:
        return at, IPV6
    return at, OTHER
