"""Packets that a switch tells by their fields and not by a sampled header (records 0:3 and 0:4)."""

from __future__ import annotations

from numba import njit

from collector.schema import U8
from collector.sflow.sampled import SampleColumns
from collector.wire import mapped, u32, u64


@njit(cache=True, nogil=True)
def sampled_ipv4(buffer: U8, at: int, row: int, out: SampleColumns) -> None:
    """Fill in a packet from record 0:3 at `at`, sampled IPv4."""
    out.protocol[row] = u32(buffer, at + 4) & 0xFF
    out.src_lo[row] = mapped(buffer, at + 8)
    out.dst_lo[row] = mapped(buffer, at + 12)
    out.src_port[row] = u32(buffer, at + 16) & 0xFFFF
    out.dst_port[row] = u32(buffer, at + 20) & 0xFFFF
    out.tcp_flags[row] = u32(buffer, at + 24) & 0xFF
    out.dscp[row] = (u32(buffer, at + 28) & 0xFF) >> 2
    out.ecn[row] = u32(buffer, at + 28) & 3
    if out.protocol[row] == 17:
        out.payload_bytes[row] = max(u32(buffer, at) - 28, 0)


@njit(cache=True, nogil=True)
def sampled_ipv6(buffer: U8, at: int, row: int, out: SampleColumns) -> None:
    """Fill in a packet from record 0:4 at `at`, sampled IPv6."""
    out.protocol[row] = u32(buffer, at + 4) & 0xFF
    out.src_hi[row] = u64(buffer, at + 8)
    out.src_lo[row] = u64(buffer, at + 16)
    out.dst_hi[row] = u64(buffer, at + 24)
    out.dst_lo[row] = u64(buffer, at + 32)
    out.src_port[row] = u32(buffer, at + 40) & 0xFFFF
    out.dst_port[row] = u32(buffer, at + 44) & 0xFFFF
    out.tcp_flags[row] = u32(buffer, at + 48) & 0xFF
    out.dscp[row] = (u32(buffer, at + 52) & 0xFF) >> 2
    out.ecn[row] = u32(buffer, at + 52) & 3
    if out.protocol[row] == 17:
        out.payload_bytes[row] = max(u32(buffer, at) - 48, 0)
