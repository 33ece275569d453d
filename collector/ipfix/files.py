"""IPFIX files: messages one behind the other.

Source: RFC 5655, 7 (a file is a serialised stream of messages, one transport session).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from collector.framing import scan
from collector.link import IPFIX_PORT, DatagramBatch
from collector.packets import ROWS_PER_BATCH, Faults
from collector.source import Window


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
    skipped = np.zeros(3, np.int64)
    while True:
        offset, length, time_ns = (np.empty(ROWS_PER_BATCH, np.int64) for _ in range(3))
        skipped[:2] = 0
        at, rows, need = scan(window.buffer, at, window.end, offset, length, time_ns, skipped)
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
