"""Counter samples: interface counters, and what else agents tell of ports and of themselves."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.polled import HostBatch, PortBatch
from collector.schema import I32, I64, U8, U32, U64, CounterBatch
from collector.sflow import tags
from collector.sflow.datagrams import Places, Status
from collector.sflow.strange import Strange, note
from collector.sflow.tags import Kind
from collector.sflow.text import text
from collector.wire import u32, u64

_GENERIC_BYTES: Final = 88
_ETHERNET_BYTES: Final = 52
_LAG_BYTES: Final = 52  # its two MAC addresses packed; 56 where each is padded to eight bytes
_PROCESSOR_BYTES: Final = 28
_INFINITY: Final = 0x7F80_0000  # as bits of a float
_HOST_CPU_BYTES: Final = 68
_HOST_MEMORY_BYTES: Final = 72


class _Generic(NamedTuple):
    ifindex: U32
    speed_bps: U64
    status: U32
    in_octets: U64
    in_ucast_pkts: U32
    in_discards: U32
    in_errors: U32
    out_octets: U64
    out_ucast_pkts: U32
    out_discards: U32
    out_errors: U32


class _Port(NamedTuple):
    ifindex: U32
    name: U8  # shape (rows, bytes)
    aggregate: U32
    lag_state: U32
    alignment_errors: U32
    fcs_errors: U32
    send_errors: U32
    receive_errors: U32
    too_long_frames: U32
    symbol_errors: U32


class _Host(NamedTuple):
    name: U8  # shape (rows, bytes)
    cpu_5s: I32
    cpu_1m: I32
    cpu_5m: I32
    load_1m: U32  # bits of a float
    cpus: U32
    uptime_s: U32
    memory_bytes: U64
    free_bytes: U64


class Found(NamedTuple):
    """What each counter sample holds; columns of shape (counter samples,)."""

    datagram: I64
    fault_at: I64
    status: U8  # Status
    generic: U8  # 1: it holds interface counters
    port: U8
    host: U8

    @classmethod
    def empty(cls, rows: int) -> Found:
        """So many zeroed rows."""
        return cls(
            datagram=np.zeros(rows, np.int64),
            fault_at=np.zeros(rows, np.int64),
            status=np.zeros(rows, np.uint8),
            generic=np.zeros(rows, np.uint8),
            port=np.zeros(rows, np.uint8),
            host=np.zeros(rows, np.uint8),
        )


@njit(cache=True, nogil=True)
def _read_generic(buffer: U8, at: int, row: int, out: _Generic) -> None:
    out.ifindex[row] = u32(buffer, at)
    out.speed_bps[row] = u64(buffer, at + 8)
    out.status[row] = u32(buffer, at + 20)
    out.in_octets[row] = u64(buffer, at + 24)
    out.in_ucast_pkts[row] = u32(buffer, at + 32)
    out.in_discards[row] = u32(buffer, at + 44)
    out.in_errors[row] = u32(buffer, at + 48)
    out.out_octets[row] = u64(buffer, at + 56)
    out.out_ucast_pkts[row] = u32(buffer, at + 64)
    out.out_discards[row] = u32(buffer, at + 76)
    out.out_errors[row] = u32(buffer, at + 80)


@njit(cache=True, nogil=True)
def _read_port(buffer: U8, tag: int, at: int, end: int, row: int, out: _Port) -> bool:
    """Read a record on a port; False = it is none, or too short."""
    if tag == tags.PORT_NAME:
        return text(buffer, at, end, out.name[row]) >= 0
    if tag == tags.LAG and end - at >= _LAG_BYTES:
        behind = at + (16 if end - at >= _LAG_BYTES + 4 else 12)
        out.aggregate[row] = u32(buffer, behind)
        out.lag_state[row] = u32(buffer, behind + 4)
        return True
    if tag == tags.ETHERNET_COUNTERS and end - at >= _ETHERNET_BYTES:
        out.alignment_errors[row] = u32(buffer, at)
        out.fcs_errors[row] = u32(buffer, at + 4)
        out.send_errors[row] = u32(buffer, at + 32)
        out.too_long_frames[row] = u32(buffer, at + 40)
        out.receive_errors[row] = u32(buffer, at + 44)
        out.symbol_errors[row] = u32(buffer, at + 48)
        return True
    return False


@njit(cache=True, nogil=True)
def _read_host(buffer: U8, tag: int, at: int, end: int, row: int, out: _Host) -> bool:
    """Read a record on the agent's own machine; False = it is none, or too short."""
    if tag == tags.HOST:
        return text(buffer, at, end, out.name[row]) >= 0
    if tag == tags.PROCESSOR and end - at >= _PROCESSOR_BYTES:
        out.cpu_5s[row] = np.int32(np.uint32(u32(buffer, at)))
        out.cpu_1m[row] = np.int32(np.uint32(u32(buffer, at + 4)))
        out.cpu_5m[row] = np.int32(np.uint32(u32(buffer, at + 8)))
        out.memory_bytes[row] = u64(buffer, at + 12)
        out.free_bytes[row] = u64(buffer, at + 20)
        return True
    if tag == tags.HOST_CPU and end - at >= _HOST_CPU_BYTES:
        if u32(buffer, at) < _INFINITY:  # bits of negative numbers and of no number are above
            out.load_1m[row] = u32(buffer, at)
        out.cpus[row] = u32(buffer, at + 20)
        out.uptime_s[row] = u32(buffer, at + 28)
        return True
    if tag == tags.HOST_MEMORY and end - at >= _HOST_MEMORY_BYTES:
        out.memory_bytes[row] = u64(buffer, at)
        out.free_bytes[row] = u64(buffer, at + 8)
        return True
    return False


@njit(cache=True, nogil=True)
def _read(
    buffer: U8,
    places: Places,
    count: int,
    found: Found,
    generic: _Generic,
    port: _Port,
    host: _Host,
    strange: Strange,
) -> None:
    row = -1
    for place in range(count):
        expanded = places.tag[place] == tags.COUNTERS_EXPANDED
        if not expanded and places.tag[place] != tags.COUNTERS:
            continue
        row += 1
        at = int(places.start[place])
        end = int(places.end[place])
        found.datagram[row] = places.datagram[place]
        found.fault_at[row] = at
        if end - at < (16 if expanded else 12):
            found.status[row] = Status.SHORT_SAMPLE
            continue
        source = u32(buffer, at + 4)
        if expanded:
            kind, index = source, u32(buffer, at + 8)
            at += 12
        else:
            kind, index = source >> 24, source & 0xFF_FFFF
            at += 8
        port.ifindex[row] = index
        records = u32(buffer, at)
        at += 4
        while records > 0:
            found.fault_at[row] = at
            if end - at < 8 or u32(buffer, at + 4) > end - at - 8:
                found.status[row] = Status.SHORT_RECORD
                break
            tag = u32(buffer, at)
            size = u32(buffer, at + 4)
            at += 8
            if tag == tags.GENERIC_COUNTERS:
                if size >= _GENERIC_BYTES and not found.generic[row]:
                    found.generic[row] = 1
                    _read_generic(buffer, at, row, generic)
            elif not tags.known_counter_record(tag):
                note(strange, int(places.datagram[place]), Kind.COUNTER_RECORD, tag)
            elif _read_host(buffer, tag, at, at + size, row, host):
                found.host[row] = 1
            elif kind == 0 and _read_port(buffer, tag, at, at + size, row, port):
                found.port[row] = 1
            at += size
            records -= 1


def read(
    buffer: U8, places: Places, count: int, rows: int, strange: Strange
) -> tuple[Found, CounterBatch, PortBatch, HostBatch]:
    """Read all counter samples among the first `count` places; there are `rows` of them.

    The batches have a row for each, filled or not, as `Found` tells.
    """
    found = Found.empty(rows)
    counters, ports, hosts = CounterBatch.empty(rows), PortBatch.empty(rows), HostBatch.empty(rows)
    if rows:
        _read(
            buffer,
            places,
            count,
            found,
            _Generic(*(getattr(counters, name) for name in _Generic._fields)),
            _Port(*(_plain(getattr(ports, name)) for name in _Port._fields)),
            _Host(*(_plain(getattr(hosts, name)) for name in _Host._fields)),
            strange,
        )
    return found, counters, ports, hosts


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """A column as kernels take it: text as rows of bytes, floats as their bits."""
    if column.dtype.kind == "S":
        return column.view(np.uint8).reshape(len(column), -1)
    return column.view(np.uint32) if column.dtype.kind == "f" else column
