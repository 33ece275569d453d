"""UET: the packet delivery header of Ultra Ethernet, behind UDP port 4793.

Source: Ultra Ethernet Specification 1.0, 3.5.10 (PDS header formats): a prologue of 5 bits type, 4
bits next header and 7 bits flags; then, in packets of a packet delivery context (PDC), 16 bits that
depend on the type, the 32-bit sequence number, and both ends' identifiers of 16 bits.

Notes
-----
Packets of no PDC (RUDI, UUD) and encrypted ones give their type alone. What stands behind this
header (congestion state, semantic header) is not read, and neither is UET without UDP.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from numba import njit

from collector.schema import U8, U32, HeaderState, Mark
from collector.wire import u8, u16, u32

PORT: Final = 4793
_BYTES: Final = 12
_SYN: Final = 0x04  # of a request's flags: the destination's identifier is not known yet
_NO_CONTEXT: Final = 0x08  # of a refusal's flags: it answers a packet of no PDC
_CONTROL: Final = 11


class PdsColumns(NamedTuple):
    """The columns of `FlowBatch` that a PDS header fills."""

    header_state: U8
    opcode: U8
    dest_qp: U32
    seq: U32
    ack_seq: U32
    marks: U8


@njit(cache=True)
def read(buffer: U8, at: int, end: int, row: int, out: PdsColumns) -> None:
    """Read the header at `at` into one row; what is cut off stays absent and sets its state."""
    if end - at < 2:
        out.header_state[row] = HeaderState.TRUNCATED_TRANSPORT
        return
    kind = u8(buffer, at) >> 3
    out.opcode[row] = kind
    request = kind in (2, 3, 13, 14)  # unordered, ordered; each with congestion state
    acknowledgement = kind in (7, 8, 9)
    refusal = kind in (10, 12)
    if acknowledgement:
        out.marks[row] = Mark.ACK
    if refusal:
        out.marks[row] = Mark.NAK
    if not (request or acknowledgement or refusal or kind == _CONTROL):
        return
    if end - at < _BYTES:
        out.header_state[row] = HeaderState.TRUNCATED_TRANSPORT
        return
    if acknowledgement:
        out.ack_seq[row] = u32(buffer, at + 4)
    elif not refusal:
        out.seq[row] = u32(buffer, at + 4)
    unknown = 0 if acknowledgement else _NO_CONTEXT if refusal else _SYN
    if not u8(buffer, at + 1) & unknown:
        out.dest_qp[row] = u16(buffer, at + 10)
