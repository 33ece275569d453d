"""Network layers of a sampled header: Ethernet with its tags, and extension headers of IPv6.

Source: IEEE 802.1Q; RFC 8200, RFC 4302 (authentication header), RFC 8754 (segment routing header).
"""

from __future__ import annotations

from typing import Final

from numba import njit

from collector.schema import ABSENT_U16, U8
from collector.wire import u8, u16

# What a layer holds: an Ethertype, or one of these.
CUT: Final = -1  # the header ends before it is told
OTHER: Final = -2  # nothing that is read here
TOO_MANY: Final = -3  # more layers than are read
ETHERNET: Final = -4

IPV4: Final = 0x0800
IPV6: Final = 0x86DD
MPLS: Final = 0x8847
MPLS_UPSTREAM: Final = 0x8848  # labels that the receiver of the packet gave out (RFC 5332)
ROCEV1: Final = 0x8915

_MOST_TAGS: Final = 4
_MOST_EXTENSIONS: Final = 8
_SEGMENTS: Final = 4  # routing type of the segment routing header


@njit(cache=True)
def is_tag(kind: int) -> bool:
    """Whether an Ethertype begins a VLAN tag: customer, service, or service as before 802.1ad."""
    return kind in (0x8100, 0x88A8, 0x9100)


@njit(cache=True)
def ethernet(buffer: U8, at: int, end: int) -> tuple[int, int, int, int]:
    """Past a frame's addresses and tags: position, what follows, the two outermost VLANs."""
    vlan = inner_vlan = ABSENT_U16
    at += 12
    for tags in range(_MOST_TAGS + 1):
        if end - at < 2:
            return at, CUT, vlan, inner_vlan
        kind = u16(buffer, at)
        at += 2
        if not is_tag(kind):
            return at, kind, vlan, inner_vlan
        if end - at < 2:
            return at, CUT, vlan, inner_vlan
        if tags == 0:
            vlan = u16(buffer, at) & 0x0FFF
        elif tags == 1:
            inner_vlan = u16(buffer, at) & 0x0FFF
        at += 2
    return at, TOO_MANY, vlan, inner_vlan


@njit(cache=True)
def extensions(buffer: U8, at: int, end: int, following: int) -> tuple[int, int, int, int, int]:
    """Past the extension headers of IPv6.

    Returns
    -------
    at : int
        Where they end; CUT or TOO_MANY.
    following : int
        The next header, or the last one that was told.
    part : int
        Offset of a fragment that is not the first of its packet, in units of 8 bytes; else 0.
    fragment, routed : int
        1 where the packet is a fragment; where there is a segment routing header.
    """
    part = fragment = routed = 0
    for _ in range(_MOST_EXTENSIONS):
        if following in (0, 43, 60, 135, 139, 140):
            if end - at < 3:
                return CUT, following, part, fragment, routed
            size = 8 + u8(buffer, at + 1) * 8
            if following == 43 and u8(buffer, at + 2) == _SEGMENTS:
                routed = 1
        elif following == 51:
            if end - at < 3:
                return CUT, following, part, fragment, routed
            size = 8 + u8(buffer, at + 1) * 4
        elif following == 44:
            if end - at < 8:
                return CUT, following, part, fragment, routed
            size = 8
            part = u16(buffer, at + 2) >> 3
            if u16(buffer, at + 2) & 0xFFF9:
                fragment = 1
        else:
            return at, following, part, fragment, routed
        following = u8(buffer, at)
        at += size
        if part:  # what follows stands in the first fragment
            return at, following, part, fragment, routed
    if following in (0, 43, 44, 51, 60, 135, 139, 140):
        return TOO_MANY, following, part, fragment, routed
    return at, following, part, fragment, routed
