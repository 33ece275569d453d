"""IPFIX files: messages one behind the other.

Source: RFC 5655, 7 (a file is a serialised stream of messages, one transport session).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numba import njit

from collector.ipfix.messages import IPFIX
from collector.link import IPFIX_PORT, DatagramBatch
from collector.packets import ROWS_PER_BATCH, Faults
from collector.schema import I64, U8
from collector.source import Window
from collector.wire import u16, u32

HEADER_BYTES: Final = 16


def begins(head: bytes) -> bool:
    """Whether a file with these first bytes, 16 or more, is one of IPFIX messages."""
    return len(head) >= HEADER_BYTES and _is_header(np.frombuffer(head, np.uint8), 0)


@njit(cache=True)
def _is_header(buffer: U8, at: int) -> bool:
    return bool(u16(buffer, at) == IPFIX and u16(buffer, at + 2) >= HEADER_BYTES)


@njit(cache=True)
def _scan(
    buffer: U8, start: int, end: int, offset: I64, length: I64, time_ns: I64, skipped: I64
) -> tuple[int, int, int]:
    """Fill the columns with the messages from `start` on.

    Returns the position of the first unread byte, the rows filled, and the bytes needed from there
    (0: the columns are full). `skipped` takes how often bytes belonged to no message, and where
    first; they are left out up to the next header that could be one.
    """
    at = start
    rows = 0
    lost = False
    while rows < len(offset):
        if end - at < HEADER_BYTES:
            return at, rows, HEADER_BYTES
        if not _is_header(buffer, at):
            if not lost:
                if not skipped[0]:
                    skipped[1] = at
                skipped[0] += 1
                lost = True
            at += 1
            continue
        size = u16(buffer, at + 2)
        if end - at < size:
            return at, rows, size
        lost = False
        offset[rows] = at
        length[rows] = size
        time_ns[rows] = u32(buffer, at + 4) * 1_000_000_000
        rows += 1
        at += size
    return at, rows, 0


def messages(window: Window, path: Path, faults: Faults) -> Iterator[DatagramBatch]:
    """Read a file of messages, as if each had come in a datagram.

    Parameters
    ----------
    window
        Holds its first bytes.
    path
        Each file is a session of its own.
    faults
        Takes note of bytes that belong to no message.

    Yields
    ------
    DatagramBatch
        From the unspecified address, as a file does not say who sent it; as arrival counts the
        export time of each message, to the second.
    """
    session = zlib.crc32(str(path).encode("utf-8", "surrogateescape")) & 0xFFFF
    at = 0
    while True:
        offset, length, time_ns = (np.empty(ROWS_PER_BATCH, np.int64) for _ in range(3))
        skipped = np.zeros(2, np.int64)
        at, rows, need = _scan(window.buffer, at, window.end, offset, length, time_ns, skipped)
        if skipped[0]:
            where = window.file_offset + int(skipped[1])
            faults.note("bytes that belong to no IPFIX message", where, int(skipped[0]))
        if rows:
            nothing = np.zeros(rows, np.uint64)
            yield DatagramBatch(
                buffer=window.buffer,
                offset=offset[:rows],
                length=length[:rows],
                arrival_ns=time_ns[:rows],
                src_hi=nothing,
                src_lo=nothing,
                src_port=np.full(rows, session, np.uint16),
                dst_port=np.full(rows, IPFIX_PORT, np.uint16),
                file_offset=offset[:rows] + window.file_offset,
                defect=np.zeros(rows, np.uint8),
            )
        if need:
            enough = window.advance(at, need)
            at = 0
            if not enough:
                if window.end:
                    faults.note("the file ends inside a message", window.file_offset)
                return
