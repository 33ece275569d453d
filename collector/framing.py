"""Messages in a stream of bytes: IPFIX over TCP, and IPFIX files.

Source: RFC 7011, 10.4 (TCP); RFC 5655 (files are messages one behind the other).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from collector.schema import I64, U8
from collector.wire import u16, u32

_HEADER_BYTES: Final = 16
_IPFIX: Final = 10  # the version that a message begins with


def begins(head: bytes) -> bool:
    """Whether a stream with these first bytes, 16 or more, is one of IPFIX messages."""
    return len(head) >= _HEADER_BYTES and _is_header(np.frombuffer(head, np.uint8), 0)


@njit(cache=True)
def _is_header(buffer: U8, at: int) -> bool:
    return bool(u16(buffer, at) == _IPFIX and u16(buffer, at + 2) >= _HEADER_BYTES)


@njit(cache=True)
def _holds_a_set(buffer: U8, at: int) -> bool:
    """Whether a first set could be one: bytes that look like a header are found anywhere."""
    size, kind = u16(buffer, at + 2), u16(buffer, at + 16)
    fits = 4 <= u16(buffer, at + 18) <= size - _HEADER_BYTES
    return bool(size == _HEADER_BYTES or (fits and (kind in (2, 3) or kind >= 256)))


@njit(cache=True)
def scan(
    buffer: U8, start: int, end: int, offset: I64, length: I64, time_ns: I64, skipped: I64
) -> tuple[int, int, int]:
    """Fill the columns with the messages from `start` on; `time_ns` is their export time.

    Returns the position of the first unread byte, the rows filled, and the bytes needed from there
    (0: the columns are full). `skipped` takes how often bytes belonged to no message, and where
    first; they are left out up to the next header that could be one. Its third entry is 1 where it
    is not known whether a message begins, on the way in and out.
    """
    at = start
    rows = 0
    lost = skipped[2] != 0
    counted = False
    while rows < len(offset):
        if end - at < _HEADER_BYTES:
            return at, rows, _HEADER_BYTES
        if lost and end - at < _HEADER_BYTES + 4:
            return at, rows, _HEADER_BYTES + 4
        if not _is_header(buffer, at) or (lost and not _holds_a_set(buffer, at)):
            if not counted:
                if not skipped[0]:
                    skipped[1] = at
                skipped[0] += 1
            counted = lost = True
            skipped[2] = 1
            at += 1
            continue
        size = u16(buffer, at + 2)
        if end - at < size:
            return at, rows, size
        counted = lost = False
        skipped[2] = 0
        offset[rows] = at
        length[rows] = size
        time_ns[rows] = u32(buffer, at + 4) * 1_000_000_000
        rows += 1
        at += size
    return at, rows, 0


class Splitter:
    """Cuts a stream that comes in pieces into messages; it holds at most one that is not whole.

    Parameters
    ----------
    begins : bool
        Whether the first bytes are those of a message.

    Attributes
    ----------
    skips
        How often, piece by piece, bytes belonged to no message.
    """

    def __init__(self, *, begins: bool = True) -> None:
        self._held = b""
        self._lost = not begins
        self.skips = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take in the next bytes; returns the messages that are whole by now.

        Notes
        -----
        Where no header stands, bytes are skipped up to the next that could be one: a version of
        10, a length that holds its own header, and a set that fits behind it.
        """
        whole = self._held + data
        buffer = np.frombuffer(whole, np.uint8)
        rows = len(whole) // _HEADER_BYTES + 1
        offset, length, time_ns = (np.empty(rows, np.int64) for _ in range(3))
        skipped = np.array([0, 0, self._lost], np.int64)
        at, found, _ = scan(buffer, 0, len(buffer), offset, length, time_ns, skipped)
        self.skips += int(skipped[0])
        self._lost = bool(skipped[2])
        self._held = whole[at:]
        return [
            whole[start : start + size]
            for start, size in zip(offset[:found].tolist(), length[:found].tolist(), strict=True)
        ]
