"""Sampled packet headers: from the frame down to TCP, UDP and where RoCE begins, through tunnels.

Source: sFlow Version 5, "sampled_header"; RFC 791, RFC 8200, RFC 9293, RFC 768, RFC 6040;
InfiniBand Architecture Specification, annexes A16 (RoCE) and A17 (RoCEv2). Tags and extension
headers are in `collector.network`, tunnels in `collector.tunnels`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector import roce, tunnels, uet
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
    ethernet,
    extensions,
)
from collector.schema import (
    ABSENT_U8,
    ABSENT_U16,
    ABSENT_U32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Encapsulation,
    FlowBatch,
    HeaderState,
    Transport,
)
from collector.wire import mapped, u8, u16, u24, u32, u64

ROCEV2_PORT: Final = 4791
_VXLAN: Final = int(Encapsulation.VXLAN)
_MOST_TUNNELS: Final = 4
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
    encapsulation: U8
    outer_src_hi: U64
    outer_src_lo: U64
    outer_dst_hi: U64
    outer_dst_lo: U64
    transport: U8
    header_state: U8
    seq: U32
    ack_seq: U32
    tcp_flags: U8
    payload_bytes: U32


@njit(cache=True)
def _first(header_protocol: int) -> int:
    """What a sampled header begins with, by sFlow's number for it."""
    if header_protocol == 1:
        return ETHERNET
    if header_protocol == 11:
        return IPV4
    if header_protocol == 12:
        return IPV6
    if header_protocol == 13:
        return MPLS
    return OTHER


@njit(cache=True, nogil=True)
def _parse(
    buffer: U8,
    start: I64,
    size: I64,
    header_protocol: U32,
    out: HeaderColumns,
    pds: uet.PdsColumns,
    transport_at: I64,
    repaired: U8,
) -> None:
    """Fill `out`, and `pds` of UET; for RoCE rows, `transport_at` says where the BTH begins.

    `payload_bytes` of RoCE rows then holds all that follows UDP (v1: the GRH); `roce` refines it.
    """
    for row in range(len(start)):
        begin = int(start[row])
        end = begin + int(size[row])
        out.vlan[row] = ABSENT_U16
        out.inner_vlan[row] = ABSENT_U16
        out.vni[row] = ABSENT_U32
        out.seq[row] = ABSENT_U32
        out.ack_seq[row] = ABSENT_U32
        if not header_protocol[row]:
            out.header_state[row] = HeaderState.TRUNCATED_NETWORK
            continue
        frame = int(np.int64(out.frame_bytes[row]))
        believed = size[row] <= frame <= MOST_FRAME_BYTES and frame > 0
        if not believed:
            repaired[row] = 1
            out.frame_bytes[row] = size[row]  # at least so long; the IP header may know better
        at = begin
        kind = _first(int(np.int64(header_protocol[row])))
        if kind == ETHERNET:
            at, kind, vlan, inner_vlan = ethernet(buffer, at, end)
            out.vlan[row] = vlan
            out.inner_vlan[row] = inner_vlan
        opened = 0  # tunnels
        networks = 0  # IP headers
        while True:
            if kind == IPV4:
                if end - at < 20:
                    kind = CUT
                    continue
                ihl = (u8(buffer, at) & 15) * 4
                if u8(buffer, at) >> 4 != 4 or ihl < 20:
                    kind = OTHER
                    continue
                version = 4
                length = u16(buffer, at + 2)
                out.dscp[row] = buffer[at + 1] >> 2
                if out.ecn[row] != 3:  # what a tunnel met is met by all it carries (RFC 6040)
                    out.ecn[row] = buffer[at + 1] & 3
                part = u16(buffer, at + 6) & 0x1FFF
                fragment = 1 if u16(buffer, at + 6) & 0x3FFF else 0
                routed = 0
                out.ttl[row] = buffer[at + 8]
                following = u8(buffer, at + 9)
                out.src_lo[row] = mapped(buffer, at + 12)
                out.dst_lo[row] = mapped(buffer, at + 16)
                inner = at + ihl
            elif kind in (IPV6, ROCEV1):
                if end - at < 40:
                    kind = CUT
                    continue
                if u8(buffer, at) >> 4 != 6:
                    kind = OTHER
                    continue
                version = 6
                length = u16(buffer, at + 4)
                if length or kind == ROCEV1:
                    length += 40
                out.dscp[row] = (u16(buffer, at) >> 6) & 0x3F
                if out.ecn[row] != 3:
                    out.ecn[row] = (u16(buffer, at) >> 4) & 3
                out.ttl[row] = buffer[at + 7]
                out.src_hi[row] = u64(buffer, at + 8)
                out.src_lo[row] = u64(buffer, at + 16)
                out.dst_hi[row] = u64(buffer, at + 24)
                out.dst_lo[row] = u64(buffer, at + 32)
                if kind == ROCEV1:
                    out.transport[row] = Transport.ROCEV1
                    out.payload_bytes[row] = max(length - 40, 0)
                    transport_at[row] = at + 40
                    if not (believed or networks):
                        out.frame_bytes[row] = at - begin + length
                    break
                inner, following, part, fragment, routed = extensions(
                    buffer, at + 40, end, u8(buffer, at + 6)
                )
            elif kind in (MPLS, MPLS_UPSTREAM):
                opened += 1
                if not out.encapsulation[row]:
                    out.encapsulation[row] = Encapsulation.MPLS
                if opened > _MOST_TUNNELS:
                    kind = TOO_MANY
                else:
                    at, kind = tunnels.in_mpls(buffer, at, end)
                continue
            elif kind == ETHERNET:  # of a tunnel: its tags are not those of the fabric
                at, kind, _, _ = ethernet(buffer, at, end)
                continue
            else:
                if kind == TOO_MANY:
                    out.header_state[row] = HeaderState.TOO_DEEP
                elif kind != CUT:
                    out.header_state[row] = HeaderState.NOT_IP
                elif opened:
                    out.header_state[row] = HeaderState.TRUNCATED_INNER
                else:
                    out.header_state[row] = HeaderState.TRUNCATED_NETWORK
                break

            out.protocol[row] = following
            if not length:  # offloaded segmentation: the card fills it in later
                length = int(np.int64(out.frame_bytes[row])) - (at - begin)
            elif not (believed or networks):
                out.frame_bytes[row] = at - begin + length
            if inner < 0:
                kind = inner
                continue
            if fragment:
                out.header_state[row] = HeaderState.FRAGMENT
            if part:
                break
            payload = max(at + length - inner, 0)
            if following == 6:
                out.transport[row] = Transport.TCP
                if end - inner >= 4:
                    out.src_port[row] = u16(buffer, inner)
                    out.dst_port[row] = u16(buffer, inner + 2)
                if end - inner >= 8:
                    out.seq[row] = u32(buffer, inner + 4)
                if end - inner < 14:
                    out.header_state[row] = HeaderState.TRUNCATED_TRANSPORT
                    break
                out.ack_seq[row] = u32(buffer, inner + 8)
                out.tcp_flags[row] = buffer[inner + 13]
                out.payload_bytes[row] = max(payload - (u8(buffer, inner + 12) >> 4) * 4, 0)
                break
            if following == 17:
                out.transport[row] = Transport.UDP
                port = 0
                if end - inner >= 4:
                    port = u16(buffer, inner + 2)
                    out.src_port[row] = u16(buffer, inner)
                    out.dst_port[row] = port
                if end - inner < 8:
                    out.header_state[row] = HeaderState.TRUNCATED_TRANSPORT
                    break
                out.payload_bytes[row] = max(payload - 8, 0)
                if fragment:
                    break
                if port == ROCEV2_PORT:
                    out.transport[row] = Transport.ROCEV2
                    transport_at[row] = inner + 8
                    break
                if port == uet.PORT:
                    out.transport[row] = Transport.UET
                    uet.read(buffer, inner + 8, end, row, pds)
                    break
                if port != tunnels.VXLAN_PORT:
                    break
                carried, kind = tunnels.in_vxlan(buffer, inner + 8, end)
                tunnel = _VXLAN
                if kind == ETHERNET:
                    out.vni[row] = u24(buffer, inner + 12)
            elif fragment:
                break
            else:
                carried, kind, tunnel = tunnels.in_ip(
                    buffer, inner, end, following, version, routed
                )
            if kind == OTHER:
                break
            # What was read so far is of the tunnel, not of what it carries. (Written out: to hand
            # all columns to a function costs more than all else that is done here.)
            if networks == 0:
                out.outer_src_hi[row] = out.src_hi[row]
                out.outer_src_lo[row] = out.src_lo[row]
                out.outer_dst_hi[row] = out.dst_hi[row]
                out.outer_dst_lo[row] = out.dst_lo[row]
            out.src_hi[row] = 0
            out.src_lo[row] = 0
            out.dst_hi[row] = 0
            out.dst_lo[row] = 0
            out.protocol[row] = 0
            out.ttl[row] = 0
            out.dscp[row] = 0
            if out.ecn[row] != 3:
                out.ecn[row] = 0
            out.src_port[row] = 0
            out.dst_port[row] = 0
            out.transport[row] = Transport.OTHER
            out.payload_bytes[row] = 0
            networks += 1
            opened += 1
            if not out.encapsulation[row]:
                out.encapsulation[row] = tunnel
            at = carried
            if opened > _MOST_TUNNELS:
                kind = TOO_MANY


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
        As in sFlow: 1 Ethernet, 11 IPv4, 12 IPv6, 13 MPLS; others are named NOT_IP. 0 = no header
        was sampled, which counts as one of no bytes.
    flows : FlowBatch of n rows
        `frame_bytes` holds what the exporter said; the other columns of headers are zero.

    Returns
    -------
    uint8, shape (n,)
        1 where the exporter's frame length was impossible (zero, shorter than the sampled header,
        or longer than any frame) and was taken from the IP header instead.

    Notes
    -----
    `payload_bytes` comes from the lengths in the IP header, never from the bytes captured.

    A tunnel is opened where what it carries is read here, and never in a fragment. From then on the
    row is of the packet inside: where that cannot be read, its addresses are absent, not the
    tunnel's.
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
        uet.PdsColumns(*(getattr(flows, name) for name in uet.PdsColumns._fields)),
        transport_at,
        repaired,
    )
    roce.parse(buffer, transport_at, header_at + header_bytes, flows)
    return repaired
