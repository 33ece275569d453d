"""Classic pcap files.

Source: draft-ietf-opsawg-pcap (PCAP Capture File Format).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numba import njit

from collector.packets import MAX_PACKET_BYTES, ROWS_PER_BATCH, Faults, PacketBatch
from collector.schema import I64, U8
from collector.source import Window
from collector.wire import u32, u32_little

HEADER_BYTES: Final = 24
RECORD_BYTES: Final = 16
# magic -> (little endian, ns per unit of the fraction)
MAGICS: Final = {
    b"\xd4\xc3\xb2\xa1": (True, 1_000),
    b"\xa1\xb2\xc3\xd4": (False, 1_000),
    b"\x4d\x3c\xb2\xa1": (True, 1),
    b"\xa1\xb2\x3c\x4d": (False, 1),
}
_LINK_MASK: Final = 0x03FF_FFFF  # the upper bits tell of a frame check sequence
_BAD_LENGTH: Final = -1


@njit(cache=True)
def _scan(
    buffer: U8,
    start: int,
    end: int,
    little: bool,
    fraction_ns: int,
    offset: I64,
    length: I64,
    arrival_ns: I64,
) -> tuple[int, int, int]:
    """Fill the columns with the records from `start` on.

    Returns the position of the first unread record, the rows filled, and the bytes needed from
    there (0: the columns are full; -1: its length is absurd).
    """
    at = start
    rows = 0
    while rows < len(offset):
        if end - at < RECORD_BYTES:
            return at, rows, RECORD_BYTES
        if little:
            seconds = u32_little(buffer, at)
            fraction = u32_little(buffer, at + 4)
            captured = u32_little(buffer, at + 8)
        else:
            seconds = u32(buffer, at)
            fraction = u32(buffer, at + 4)
            captured = u32(buffer, at + 8)
        if captured > MAX_PACKET_BYTES:
            return at, rows, _BAD_LENGTH
        if end - at < RECORD_BYTES + captured:
            return at, rows, RECORD_BYTES + captured
        offset[rows] = at + RECORD_BYTES
        length[rows] = captured
        arrival_ns[rows] = seconds * 1_000_000_000 + fraction * fraction_ns
        rows += 1
        at += RECORD_BYTES + captured
    return at, rows, 0


def packets(window: Window, faults: Faults) -> Iterator[PacketBatch]:
    """Read a pcap file whose first bytes stand in `window`.

    Parameters
    ----------
    window
        Holds at least the 24 bytes of the file header.
    faults
        Takes note of a damaged or short file; all that came before is yielded.

    Yields
    ------
    PacketBatch
    """
    little, fraction_ns = MAGICS[window.buffer[:4].tobytes()]
    header = window.buffer[:HEADER_BYTES]
    link = (u32_little(header, 20) if little else u32(header, 20)) & _LINK_MASK
    at = HEADER_BYTES
    while True:
        offset = np.empty(ROWS_PER_BATCH, np.int64)
        length = np.empty(ROWS_PER_BATCH, np.int64)
        arrival_ns = np.empty(ROWS_PER_BATCH, np.int64)
        at, rows, need = _scan(
            window.buffer, at, window.end, little, fraction_ns, offset, length, arrival_ns
        )
        if rows:
            yield PacketBatch(
                window.buffer,
                offset[:rows],
                length[:rows],
                arrival_ns[:rows],
                np.full(rows, link, np.int32),
                window.file_offset,
            )
        if need == _BAD_LENGTH:
            faults.note(
                f"a packet longer than {MAX_PACKET_BYTES} bytes: the file is damaged from here on",
                window.file_offset + at,
            )
            return
        if need:
            enough = window.advance(at, need)
            at = 0
            if not enough:
                if window.end:
                    faults.note("the file ends inside a packet", window.file_offset)
                return
