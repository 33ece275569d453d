"""Sampled packet headers: Ethernet, VLAN, IPv4, IPv6, TCP, UDP, and where RoCE begins.

Source: sFlow Version 5, "sampled_header"; IEEE 802.1Q; RFC 791, RFC 8200, RFC 9293, RFC 768;
InfiniBand Architecture Specification, annexes A16 (RoCE) and A17 (RoCEv2).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector import roce
from collector.schema import (
    ABSENT_U8,
    ABSENT_U16,
    ABSENT_U32,
    I64,
    U8,
    U16,
    U32,
    U64,
    FlowBatch,
    HeaderState,
    Transport,
)
from collector.wire import mapped, u8, u16, u32, u64

ROCEV2_PORT: Final = 4791
_ETHERNET: Final = 1  # header_protocol of sFlow
_IPV4: Final = 11
_IPV6: Final = 12
_ETHERTYPE_ROCE: Final = 0x8915
_CUT: Final = -1  # in place of an Ethertype: the header ends before it
_OTHER: Final = -2  # nothing that is read here
_MOST_TAGS: Final = 4
_MOST_EXTENSIONS: Final = 8
# The largest IP packet (65,535 bytes: a host's segmentation offload, seen by a software switch)
# with Ethernet, four tags and the check sequence. A frame said to be longer is a mistake.
MOST_FRAME_BYTES: Final = 65_535 + 14 + 4 * 4 + 4


class HeaderColumns(NamedTuple):
    """The columns of `FlowBatch` that network and transport headers fill."""

    frame_bytes: U32
    ttl: U8
    src_hi: U64
    src_lo: U64
    dst_hi: U64
    dst_lo: U64
    protocol: U8
    src_port: U16
    dst_port: U16
    dscp: U8
    ecn: U8
    vlan: U16
    inner_vlan: U16
    vni: U32
    transport: U8
    header_state: U8
    seq: U32
    ack_seq: U32
    tcp_flags: U8
    payload_bytes: U32


@njit(cache=True)
def _network(buffer: U8, at: int, end: int, protocol: int) -> tuple[int, int, int]:
    """Where the network header begins, its Ethertype or one of two codes, the outer VLAN."""
    vlan = ABSENT_U16
    if protocol == _IPV4:
        return at, 0x0800, vlan
    if protocol == _IPV6:
        return at, 0x86DD, vlan
    if protocol != _ETHERNET:
        return at, _OTHER, vlan
    at += 12
    for _ in range(_MOST_TAGS + 1):
        if end - at < 2:
            return at, _CUT, vlan
        kind = u16(buffer, at)
        at += 2
        if kind not in (0x8100, 0x88A8, 0x9100):
            return at, kind, vlan
        if end - at < 2:
            return at, _CUT, vlan
        if vlan == ABSENT_U16:
            vlan = u16(buffer, at) & 0x0FFF
        at += 2
    return at, _OTHER, vlan


@njit(cache=True)
def _skip_extensions(buffer: U8, at: int, end: int, following: int) -> tuple[int, int, int, int]:
    """Past the extension headers of IPv6: position, next header, offset and state of a fragment.

    The fragment's state is 0 for none, 1 for a fragment; a position of -1 means cut off.
    """
    fragment = 0
    part = 0
    for _ in range(_MOST_EXTENSIONS):
        if following in (0, 43, 60, 135, 139, 140):
            if end - at < 2:
                return -1, following, part, fragment
            size = 8 + u8(buffer, at + 1) * 8
        elif following == 51:
            if end - at < 2:
                return -1, following, part, fragment
            size = 8 + u8(buffer, at + 1) * 4
        elif following == 44:
            if end - at < 8:
                return -1, following, part, fragment
            size = 8
            part = u16(buffer, at + 2) >> 3
            if u16(buffer, at + 2) & 0xFFF9:
                fragment = 1
        else:
            return at, following, part, fragment
        following = u8(buffer, at)
        at += size
        if part:  # what follows stands in the first fragment
            return at, following, part, fragment
    return at, following, part, fragment


@njit(cache=True)
def _parse(
    buffer: U8,
    start: I64,
    size: I64,
    header_protocol: U32,
    out: HeaderColumns,
    transport_at: I64,
    repaired: U8,
) -> None:
    """Fill `out`; for RoCE rows, `transport_at` says where the BTH begins.

    `payload_bytes` of RoCE rows then holds all that follows UDP (v1: the GRH); `roce` refines it.
    """
    for row in range(len(start)):
        begin = int(start[row])
        end = begin + int(size[row])
        out.inner_vlan[row] = ABSENT_U16
        out.vni[row] = ABSENT_U32
        out.seq[row] = ABSENT_U32
        out.ack_seq[row] = ABSENT_U32
        if not header_protocol[row]:
            out.header_state[row] = HeaderState.TRUNCATED_NETWORK
            out.vlan[row] = ABSENT_U16
            continue
        frame = int(np.int64(out.frame_bytes[row]))
        believed = size[row] <= frame <= MOST_FRAME_BYTES and frame > 0
        at, kind, vlan = _network(buffer, begin, end, int(np.int64(header_protocol[row])))
        out.vlan[row] = vlan
        if not believed:
            repaired[row] = 1
            out.frame_bytes[row] = size[row]  # at least so long; the IP header may know better
        if kind == 0x0800:
            if end - at < 20:
                out.header_state[row] = HeaderState.TRUNCATED_NETWORK
                continue
            ihl = (u8(buffer, at) & 15) * 4
            if u8(buffer, at) >> 4 != 4 or ihl < 20:
                out.header_state[row] = HeaderState.NOT_IP
                continue
            length = u16(buffer, at + 2)
            out.dscp[row] = buffer[at + 1] >> 2
            out.ecn[row] = buffer[at + 1] & 3
            part = u16(buffer, at + 6) & 0x1FFF
            fragment = 1 if u16(buffer, at + 6) & 0x3FFF else 0
            out.ttl[row] = buffer[at + 8]
            following = u8(buffer, at + 9)
            out.src_lo[row] = mapped(buffer, at + 12)
            out.dst_lo[row] = mapped(buffer, at + 16)
            inner = at + ihl
        elif kind in (0x86DD, _ETHERTYPE_ROCE):
            if end - at < 40:
                out.header_state[row] = HeaderState.TRUNCATED_NETWORK
                continue
            if u8(buffer, at) >> 4 != 6:
                out.header_state[row] = HeaderState.NOT_IP
                continue
            length = u16(buffer, at + 4)
            if length or kind == _ETHERTYPE_ROCE:
                length += 40
            out.dscp[row] = (u16(buffer, at) >> 6) & 0x3F
            out.ecn[row] = (u16(buffer, at) >> 4) & 3
            out.ttl[row] = buffer[at + 7]
            out.src_hi[row] = u64(buffer, at + 8)
            out.src_lo[row] = u64(buffer, at + 16)
            out.dst_hi[row] = u64(buffer, at + 24)
            out.dst_lo[row] = u64(buffer, at + 32)
            part = 0
            fragment = 0
            following = u8(buffer, at + 6)
            inner = at + 40
            if kind == _ETHERTYPE_ROCE:
                out.transport[row] = Transport.ROCEV1
                out.payload_bytes[row] = max(length - 40, 0)
                transport_at[row] = inner
                if not believed:
                    out.frame_bytes[row] = at - begin + length
                continue
            inner, following, part, fragment = _skip_extensions(buffer, inner, end, following)
        elif kind == _CUT:
            out.header_state[row] = HeaderState.TRUNCATED_NETWORK
            continue
        else:
            out.header_state[row] = HeaderState.NOT_IP
            continue

        out.protocol[row] = following
        if length and not believed:
            out.frame_bytes[row] = at - begin + length
        elif not length:  # offloaded segmentation: the card fills it in later
            length = int(np.int64(out.frame_bytes[row])) - (at - begin)
        if inner < 0:
            out.header_state[row] = HeaderState.TRUNCATED_NETWORK
            continue
        if fragment:
            out.header_state[row] = HeaderState.FRAGMENT
        if part:
            continue
        payload = max(at + length - inner, 0)
        if following == 6:
            out.transport[row] = Transport.TCP
        elif following == 17:
            out.transport[row] = Transport.UDP
        else:
            continue
        if end - inner >= 4:
            out.src_port[row] = u16(buffer, inner)
            out.dst_port[row] = u16(buffer, inner + 2)
        if following == 17:
            if end - inner < 8:
                out.header_state[row] = HeaderState.TRUNCATED_TRANSPORT
                continue
            out.payload_bytes[row] = max(payload - 8, 0)
            if out.dst_port[row] == ROCEV2_PORT and not fragment:
                out.transport[row] = Transport.ROCEV2
                transport_at[row] = inner + 8
            continue
        if end - inner >= 8:
            out.seq[row] = u32(buffer, inner + 4)
        if end - inner < 14:
            out.header_state[row] = HeaderState.TRUNCATED_TRANSPORT
            continue
        out.ack_seq[row] = u32(buffer, inner + 8)
        out.tcp_flags[row] = buffer[inner + 13]
        out.payload_bytes[row] = max(payload - (u8(buffer, inner + 12) >> 4) * 4, 0)


def parse(
    buffer: U8, header_at: I64, header_bytes: I64, header_protocol: U32, flows: FlowBatch
) -> U8:
    """Read sampled headers into the columns of `flows`, in place.

    Parameters
    ----------
    buffer : uint8, shape (m,)
    header_at, header_bytes : int64, shape (n,)
        Where each sampled header lies in `buffer`.
    header_protocol : uint32, shape (n,)
        As in sFlow: 1 Ethernet, 11 IPv4, 12 IPv6; others are named NOT_IP. 0 = no header was
        sampled, which counts as one of no bytes.
    flows : FlowBatch of n rows
        `frame_bytes` holds what the exporter said.

    Returns
    -------
    uint8, shape (n,)
        1 where the exporter's frame length was impossible (zero, shorter than the sampled header,
        or longer than any frame) and was taken from the IP header instead.

    Notes
    -----
    `payload_bytes` comes from the lengths in the IP header, never from the bytes captured.
    """
    rows = len(header_at)
    transport_at = np.full(rows, -1, np.int64)
    repaired = np.zeros(rows, np.uint8)
    flows.opcode.fill(ABSENT_U8)
    flows.syndrome.fill(ABSENT_U8)
    for column in (flows.dest_qp, flows.msn, flows.message_bytes, flows.immediate):
        column.fill(ABSENT_U32)
    _parse(
        buffer,
        header_at,
        header_bytes,
        header_protocol,
        HeaderColumns(*(getattr(flows, name) for name in HeaderColumns._fields)),
        transport_at,
        repaired,
    )
    roce.parse(buffer, transport_at, header_at + header_bytes, flows)
    return repaired
