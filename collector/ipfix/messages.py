"""Messages of IPFIX and NetFlow: their headers, and where their sets lie.

Source: RFC 7011, 3 (IPFIX); RFC 3954, 5 (NetFlow version 9); Cisco, "NetFlow Export Datagram
Format" (version 5).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.link import DatagramBatch
from collector.schema import I64, U8, U32
from collector.wire import u16, u32

IPFIX: Final = 10
NETFLOW_9: Final = 9
NETFLOW_5: Final = 5
# Set ids below 256 by what they hold; version 5 has no sets, and its records count as one.
TEMPLATES: Final = 2
OPTIONS_TEMPLATES: Final = 3
VERSION_5_RECORDS: Final = 5
FIRST_DATA: Final = 256
_HEADER_5: Final = 24
_RECORD_5: Final = 48
_HEADER_9: Final = 20
_HEADER_10: Final = 16


class Status(IntEnum):
    """What is wrong with a message."""

    FINE = 0
    NOT_A_VERSION = 1
    SHORT_HEADER = 2
    SHORT_MESSAGE = 3
    SHORT_SET = 4


REASONS: Final = {
    Status.NOT_A_VERSION: "neither IPFIX nor NetFlow version 5 or 9",
    Status.SHORT_HEADER: "the message ends inside its header",
    Status.SHORT_MESSAGE: "the message is longer than its datagram",
    Status.SHORT_SET: "a set runs past the end of its message",
}


class Messages(NamedTuple):
    """Headers; columns of shape (datagrams,)."""

    version: I64
    domain: I64  # observation domain, source id, or engine type and id
    sequence: U32
    time_ns: I64  # when it was sent, by the exporter's clock
    uptime_ms: I64  # -1 = not said
    sampling: I64  # version 5 only: mode and interval
    status: U8  # Status
    fault_at: I64  # in the buffer


class Sets(NamedTuple):
    """Sets in the order of the bytes; columns of shape (sets,)."""

    id: I64  # of templates as in IPFIX: 2 and 3
    start: I64  # behind the set's header
    end: I64
    message: I64


@njit(cache=True, nogil=True)
def _headers(buffer: U8, offset: I64, length: I64, out: Messages, body: I64, stop: I64) -> None:
    """Fill `out`; `body` and `stop` bound the sets of each message."""
    for row in range(len(offset)):
        at = int(offset[row])
        end = at + int(length[row])
        out.fault_at[row] = at
        out.uptime_ms[row] = -1
        body[row] = end
        stop[row] = end
        if end - at < 2:
            out.status[row] = Status.SHORT_HEADER
            continue
        version = u16(buffer, at)
        if version == IPFIX:
            header = _HEADER_10
        elif version == NETFLOW_9:
            header = _HEADER_9
        elif version == NETFLOW_5:
            header = _HEADER_5
        else:
            out.status[row] = Status.NOT_A_VERSION
            continue
        if end - at < header:
            out.status[row] = Status.SHORT_HEADER
            continue
        out.version[row] = version
        body[row] = at + header
        if version == IPFIX:
            out.time_ns[row] = u32(buffer, at + 4) * 1_000_000_000
            out.sequence[row] = u32(buffer, at + 8)
            out.domain[row] = u32(buffer, at + 12)
            size = u16(buffer, at + 2)
            if size > end - at:
                out.status[row] = Status.SHORT_MESSAGE
            else:
                stop[row] = max(at + size, at + header)
            continue
        out.uptime_ms[row] = u32(buffer, at + 4)
        out.time_ns[row] = u32(buffer, at + 8) * 1_000_000_000
        if version == NETFLOW_9:
            out.sequence[row] = u32(buffer, at + 12)
            out.domain[row] = u32(buffer, at + 16)
            continue
        out.time_ns[row] += u32(buffer, at + 12)
        out.sequence[row] = u32(buffer, at + 16)
        out.domain[row] = u16(buffer, at + 20)
        out.sampling[row] = u16(buffer, at + 22)
        needed = body[row] + u16(buffer, at + 2) * _RECORD_5
        if needed > end:
            out.status[row] = Status.SHORT_MESSAGE
        else:
            stop[row] = needed


@njit(cache=True, nogil=True)
def _sets(buffer: U8, out: Messages, body: I64, stop: I64, sets: Sets, filling: bool) -> int:
    """Count the sets, or fill them in."""
    count = 0
    for row in range(len(body)):
        at = int(body[row])
        end = int(stop[row])
        version = out.version[row]
        if version == 0:
            continue
        if version == NETFLOW_5:
            if filling:
                sets.id[count] = VERSION_5_RECORDS
                sets.start[count] = at
                sets.end[count] = end
                sets.message[count] = row
            count += 1
            continue
        while end - at >= 4:
            kind = u16(buffer, at)
            size = u16(buffer, at + 2)
            if size < 4:
                for byte in range(at, end):  # zeros behind the last set harm nobody
                    if buffer[byte]:
                        out.status[row] = Status.SHORT_SET
                        out.fault_at[row] = at
                        break
                break
            if size > end - at:
                if not out.status[row]:
                    out.status[row] = Status.SHORT_SET
                out.fault_at[row] = at
                size = end - at
            if filling:
                if version == NETFLOW_9 and kind < 2:
                    kind += TEMPLATES
                elif kind < FIRST_DATA and (
                    version == NETFLOW_9 or kind not in (TEMPLATES, OPTIONS_TEMPLATES)
                ):
                    kind = 0  # reserved
                sets.id[count] = kind
                sets.start[count] = at + 4
                sets.end[count] = at + size
                sets.message[count] = row
            count += 1
            at += size
    return count


@njit(cache=True, nogil=True)
def _versions(buffer: U8, offset: I64, length: I64, out: U8) -> None:
    for row in range(len(offset)):
        if length[row] >= 2:
            version = u16(buffer, int(offset[row]))
            out[row] = version in (IPFIX, NETFLOW_9, NETFLOW_5)


def of_records(batch: DatagramBatch) -> NDArray[np.bool_]:
    """Which datagrams begin with a version of IPFIX or NetFlow; sFlow begins with 16 zero bits."""
    out = np.zeros(len(batch), np.uint8)
    _versions(batch.buffer, batch.offset, batch.length, out)
    return out.astype(np.bool_)


def walk(batch: DatagramBatch) -> tuple[Messages, Sets]:
    """Find the headers and sets of all messages of a batch, one message per datagram.

    Returns
    -------
    Messages
        By datagram; `version` 0 where it is no message.
    Sets
        In the order of the bytes. A set that is cut keeps what is there of it.
    """
    rows = len(batch)
    out = Messages(
        version=np.zeros(rows, np.int64),
        domain=np.zeros(rows, np.int64),
        sequence=np.zeros(rows, np.uint32),
        time_ns=np.zeros(rows, np.int64),
        uptime_ms=np.zeros(rows, np.int64),
        sampling=np.zeros(rows, np.int64),
        status=np.zeros(rows, np.uint8),
        fault_at=np.zeros(rows, np.int64),
    )
    body, stop = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    _headers(batch.buffer, batch.offset, batch.length, out, body, stop)
    count = _sets(batch.buffer, out, body, stop, _room(0), False)
    sets = _room(count)
    _sets(batch.buffer, out, body, stop, sets, True)
    return out, sets


def _room(rows: int) -> Sets:
    return Sets(*(np.zeros(rows, np.int64) for _ in Sets._fields))
