"""RoCE: the base transport header and the extended headers that its opcode calls for.

Source: InfiniBand Architecture Specification, volume 1, release 1.4: 9.2 (BTH), 9.3 (extended
headers), table 38 (opcodes), 9.7.5.2 (AETH syndromes); annex A17 (RoCEv2: CNP, opcode 0x81).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector.schema import I64, U8, U16, U32, FlowBatch, HeaderState, Mark
from collector.wire import u8, u24, u32

BTH_BYTES: Final = 12
ICRC_BYTES: Final = 4
CNP: Final = 0x81
_RC, _UC, _UD, _XRC = 0x00, 0x20, 0x60, 0xA0


class Part(IntEnum):
    """Extended headers in their order on the wire, and what makes a packet an acknowledgement."""

    DETH = 1  # 8 bytes
    XRCETH = 2  # 4
    RETH = 4  # 16
    ATOMIC = 8  # 28
    AETH = 16  # 4
    ATOMIC_ACK = 32  # 8
    IMMEDIATE = 64  # 4
    INVALIDATE = 128  # 4
    ACKNOWLEDGE = 256  # not a header: the packet carries no data


def _table() -> U16:
    """Parts by opcode; shape (256,)."""
    reliable = {
        0x03: Part.IMMEDIATE,
        0x05: Part.IMMEDIATE,
        0x06: Part.RETH,
        0x09: Part.IMMEDIATE,
        0x0A: Part.RETH,
        0x0B: Part.RETH | Part.IMMEDIATE,
        0x0C: Part.RETH,
        0x0D: Part.AETH,
        0x0F: Part.AETH,
        0x10: Part.AETH,
        0x11: Part.AETH | Part.ACKNOWLEDGE,
        0x12: Part.AETH | Part.ATOMIC_ACK | Part.ACKNOWLEDGE,
        0x13: Part.ATOMIC,
        0x14: Part.ATOMIC,
        0x16: Part.INVALIDATE,
        0x17: Part.INVALIDATE,
    }
    # Responses of XRC travel without XRCETH.
    requests = {*range(0x0D), 0x13, 0x14, 0x16, 0x17}
    table = np.zeros(256, np.uint16)
    for opcode, parts in reliable.items():
        table[_RC | opcode] = parts
        table[_XRC | opcode] = parts
        if opcode <= 0x0B:
            table[_UC | opcode] = parts
    for opcode in requests:
        table[_XRC | opcode] |= Part.XRCETH
    table[_UD | 0x04] = Part.DETH
    table[_UD | 0x05] = Part.DETH | Part.IMMEDIATE
    return table


PARTS: Final = _table()


class RoceColumns(NamedTuple):
    """The columns of `FlowBatch` that RoCE headers fill."""

    header_state: U8
    opcode: U8
    dest_qp: U32
    seq: U32
    msn: U32
    syndrome: U8
    message_bytes: U32
    immediate: U32
    payload_bytes: U32
    marks: U8


@njit(cache=True, nogil=True)
def _parse(buffer: U8, start: I64, ends: I64, table: U16, out: RoceColumns) -> None:
    for row in range(len(start)):
        at = int(start[row])
        if at < 0:
            continue
        end = int(ends[row])
        if end - at < BTH_BYTES:
            out.header_state[row] = HeaderState.TRUNCATED_BTH
            continue
        opcode = u8(buffer, at)
        parts = table[opcode]
        out.opcode[row] = opcode
        out.dest_qp[row] = u24(buffer, at + 5)
        out.seq[row] = u24(buffer, at + 9)
        marks = 0
        if buffer[at + 4] & 0x80:
            marks |= Mark.FECN
        if buffer[at + 4] & 0x40:
            marks |= Mark.BECN
        rest = int(np.int64(out.payload_bytes[row])) - BTH_BYTES - ICRC_BYTES
        rest -= (u8(buffer, at + 1) >> 4) & 3
        at += BTH_BYTES
        if parts & Part.DETH:
            at += 8
            rest -= 8
        if parts & Part.XRCETH:
            at += 4
            rest -= 4
        if parts & Part.RETH:
            if end - at >= 16:
                out.message_bytes[row] = u32(buffer, at + 12)
            at += 16
            rest -= 16
        if parts & Part.ATOMIC:
            at += 28
            rest -= 28
        if parts & Part.AETH:
            if end - at >= 4:
                out.syndrome[row] = buffer[at]
                out.msn[row] = u24(buffer, at + 1)
                # bits 6-5: 0 acknowledged, 1 receiver not ready, 3 negative
                if buffer[at] & 0x60:
                    marks |= Mark.NAK
                elif parts & Part.ACKNOWLEDGE:
                    marks |= Mark.ACK
            at += 4
            rest -= 4
        if parts & Part.ATOMIC_ACK:
            at += 8
            rest -= 8
        if parts & Part.IMMEDIATE:
            if end - at >= 4:
                out.immediate[row] = u32(buffer, at)
            at += 4
            rest -= 4
        if parts & Part.INVALIDATE:
            at += 4
            rest -= 4
        if opcode == CNP:
            marks |= Mark.CNP
            rest = 0  # sixteen reserved bytes are no data
        out.marks[row] = marks
        out.payload_bytes[row] = max(rest, 0)
        if at > end:
            out.header_state[row] = HeaderState.TRUNCATED_TRANSPORT


def parse(buffer: U8, transport_at: I64, header_end: I64, flows: FlowBatch) -> None:
    """Read the RoCE headers of the rows that have one, in place.

    Parameters
    ----------
    buffer : uint8, shape (m,)
    transport_at : int64, shape (n,)
        Where the BTH begins; -1 = the row is no RoCE packet.
    header_end : int64, shape (n,)
        Where the captured bytes end.
    flows : FlowBatch of n rows
        `payload_bytes` of RoCE rows holds all bytes from the BTH to the end of the ICRC.

    Notes
    -----
    A header that was cut off leaves its columns absent and sets TRUNCATED_BTH, or behind the BTH
    TRUNCATED_TRANSPORT. Opcodes that the table does not name count as a bare BTH.

    A CNP goes against the data that it speaks of: its `dest_qp` is that of the sender, and cards
    send it from UDP port 0.
    """
    _parse(
        buffer,
        transport_at,
        header_end,
        PARTS,
        RoceColumns(*(getattr(flows, name) for name in RoceColumns._fields)),
    )
