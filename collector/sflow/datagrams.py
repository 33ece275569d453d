"""The outer shell of sFlow datagrams: who sent them, and where each sample lies."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import njit

from collector.digest import digest
from collector.schema import I64, U8, U32, U64
from collector.sflow import tags
from collector.sflow.strange import Strange, note
from collector.sflow.tags import Kind
from collector.wire import mapped, u32, u64


class Status(IntEnum):
    """How far a datagram or a sample could be read."""

    GOOD = 0
    NOT_VERSION_5 = 1
    SHORT_HEADER = 2
    BAD_ADDRESS_TYPE = 3
    SHORT_DATAGRAM = 4
    SHORT_SAMPLE = 5
    SHORT_RECORD = 6


class Headers(NamedTuple):
    """What the datagrams of a batch say of themselves; columns of shape (datagrams,)."""

    agent_hi: U64
    agent_lo: U64
    sub_agent: U32
    sequence: U32
    uptime_ms: U32
    flows: I64  # samples by kind
    counters: I64
    discards: I64
    unknown: I64
    status: U8  # Status
    fault_at: I64  # where in the buffer the status was decided
    digest: U64  # of all bytes, to tell a duplicate from a reused sequence number

    @classmethod
    def empty(cls, rows: int) -> Headers:
        """So many zeroed rows."""
        return cls(
            agent_hi=np.zeros(rows, np.uint64),
            agent_lo=np.zeros(rows, np.uint64),
            sub_agent=np.zeros(rows, np.uint32),
            sequence=np.zeros(rows, np.uint32),
            uptime_ms=np.zeros(rows, np.uint32),
            flows=np.zeros(rows, np.int64),
            counters=np.zeros(rows, np.int64),
            discards=np.zeros(rows, np.int64),
            unknown=np.zeros(rows, np.int64),
            status=np.zeros(rows, np.uint8),
            fault_at=np.zeros(rows, np.int64),
            digest=np.zeros(rows, np.uint64),
        )


class Places(NamedTuple):
    """Where samples lie; columns with room for at least as many."""

    datagram: I64
    start: I64  # behind the sample's tag and length
    end: I64
    tag: U8  # one of the five of `tags`

    @classmethod
    def room(cls, size: int) -> Places:
        """Room for all samples of `size` bytes, which take at least eight bytes each."""
        rows = size // 8
        return cls(
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.empty(rows, np.uint8),
        )


@njit(cache=True, nogil=True)
def walk(
    buffer: U8, offset: I64, length: I64, out: Headers, places: Places, strange: Strange
) -> int:
    """Read each datagram's header, and find the samples in it that are whole.

    Returns how many samples there are in `places`; those of unknown kinds are only counted.
    """
    found = 0
    for row in range(len(offset)):
        at = int(offset[row])
        size = int(length[row])
        end = at + size
        out.fault_at[row] = at
        if size < 4 or u32(buffer, at) != 5:
            out.status[row] = Status.NOT_VERSION_5
            continue
        family = u32(buffer, at + 4) if size >= 8 else 0
        if size < 28 or (family == 2 and size < 40):
            out.status[row] = Status.SHORT_HEADER
            continue
        if family == 1:
            out.agent_lo[row] = mapped(buffer, at + 8)
        elif family == 2:
            out.agent_hi[row] = u64(buffer, at + 8)
            out.agent_lo[row] = u64(buffer, at + 16)
        else:
            out.status[row] = Status.BAD_ADDRESS_TYPE
            continue
        out.digest[row] = digest(buffer, at, end)
        at += 28 if family == 1 else 40
        out.sub_agent[row] = u32(buffer, at - 16)
        out.sequence[row] = u32(buffer, at - 12)
        out.uptime_ms[row] = u32(buffer, at - 8)
        left = u32(buffer, at - 4)
        while left > 0:
            out.fault_at[row] = at
            if end - at < 8 or u32(buffer, at + 4) > end - at - 8:
                out.status[row] = Status.SHORT_DATAGRAM
                break
            tag = u32(buffer, at)
            start = at + 8
            at = start + u32(buffer, at + 4)
            left -= 1
            if tag in (tags.FLOW, tags.FLOW_EXPANDED):
                out.flows[row] += 1
            elif tag in (tags.COUNTERS, tags.COUNTERS_EXPANDED):
                out.counters[row] += 1
            elif tag == tags.DISCARD:
                out.discards[row] += 1
            else:
                out.unknown[row] += 1
                note(strange, row, Kind.SAMPLE, tag)
                continue
            places.datagram[found] = row
            places.start[found] = start
            places.end[found] = at
            places.tag[found] = tag
            found += 1
    return found
