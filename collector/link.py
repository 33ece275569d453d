"""From captured packets down to UDP payloads, and messages over TCP, that are telemetry.

Source: tcpdump.org link-layer header types; RFC 791 (IPv4), RFC 8200 (IPv6), RFC 768 (UDP);
sFlow version 5 (sflow.org), 5 "datagram"; RFC 7011, 3.1 (IPFIX); RFC 3954, 5.1 (NetFlow version 9);
Cisco, "NetFlow Export Datagram Format" (version 5).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.packets import Faults, PacketBatch
from collector.schema import I64, U8, U16, U64
from collector.streams import Key, Streams
from collector.wire import mapped, u8, u16, u32, u64

SFLOW_PORT: Final = 6343
IPFIX_PORT: Final = 4739
_NULL: Final = 0
_ETHERNET: Final = 1
_RAW: Final = (12, 14, 101, 228, 229)  # DLT_RAW by system, LINKTYPE_RAW, _IPV4, _IPV6
_LOOP: Final = 108
_LINUX_COOKED: Final = 113
_LINUX_COOKED_2: Final = 276
_TCP: Final = 6
_UDP: Final = 17
_MOST_TAGS: Final = 4
_MOST_EXTENSIONS: Final = 8
_MAPPED: Final = 0xFFFF << 32
_LOW: Final = (1 << 64) - 1


class Defect(IntEnum):
    """Why a datagram is shorter than it was when sent."""

    NONE = 0
    FRAGMENT = 1
    SNAPPED = 2


@dataclass(frozen=True, slots=True)
class DatagramBatch:
    """UDP payloads, or messages over TCP, one row each; columns of shape (n,).

    Attributes
    ----------
    buffer : uint8, shape (m,)
        Holds all payloads.
    offset, length : int64
        Captured payload in `buffer`, bytes.
    arrival_ns : int64
        Capture time, ns since the epoch; 0 = the capture does not say.
    src_hi, src_lo : uint64
        Sender's address (IPv4 mapped).
    src_port, dst_port : uint16
    file_offset : int64
        Offset of the payload in the (unpacked) file.
    defect : uint8
        `Defect`.
    """

    buffer: U8
    offset: I64
    length: I64
    arrival_ns: I64
    src_hi: U64
    src_lo: U64
    src_port: U16
    dst_port: U16
    file_offset: I64
    defect: U8

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> DatagramBatch:
        """Some of the datagrams, in that order, over the same buffer."""
        columns: dict[str, Any] = {
            column.name: getattr(self, column.name)[rows]
            for column in fields(self)
            if column.name != "buffer"
        }
        return DatagramBatch(buffer=self.buffer, **columns)


class _Found(NamedTuple):
    packet: I64
    offset: I64
    length: I64
    src_hi: U64
    src_lo: U64
    src_port: U16
    dst_port: U16
    defect: U8


@njit(cache=True)
def _network(buffer: U8, at: int, end: int, link: int) -> int:
    """Position of the IP header, -1 = no IP, -2 = a link type that is not known here."""
    if link == _ETHERNET:
        kind_at = at + 12
    elif link == _LINUX_COOKED:
        kind_at = at + 14
    elif link == _LINUX_COOKED_2:
        kind_at = at
    elif link in (_NULL, _LOOP):
        return at + 4
    elif link in _RAW:
        return at
    else:
        return -2
    after = at + 20 if link == _LINUX_COOKED_2 else kind_at + 2
    for _ in range(_MOST_TAGS + 1):
        if kind_at + 2 > end:
            return -1
        kind = u16(buffer, kind_at)
        if kind in (0x0800, 0x86DD):
            return after
        if kind not in (0x8100, 0x88A8, 0x9100):
            return -1
        kind_at = after + 2
        after += 4
    return -1


@njit(cache=True)
def _looks_like_sflow(buffer: U8, at: int, end: int, length: int) -> bool:
    """Version 5, an address type that exists, and no more samples than fit in `length` bytes."""
    if end - at < 28 or u32(buffer, at) != 5:
        return False
    family = u32(buffer, at + 4)
    if family == 1:
        header = 28
    elif family == 2:
        header = 40
    else:
        return False
    if end - at < header:
        return False
    return bool(u32(buffer, at + header - 4) * 8 <= length - header)


@njit(cache=True)
def _looks_like_records(buffer: U8, at: int, end: int, length: int) -> bool:
    """A version of IPFIX or NetFlow whose counts and first set fit in `length` bytes."""
    if end - at < 16:
        return False
    version = u16(buffer, at)
    if version == 5:
        size = 24 + 48 * u16(buffer, at + 2)
        return bool(72 <= size <= length < size + 48)
    if version == 10:
        size = u16(buffer, at + 2)
        first = at + 16
        if size == 16:
            return bool(length == 16)
        if not 20 <= size <= length:
            return False
    elif version == 9:
        size = length
        first = at + 20
        if not 0 < u16(buffer, at + 2) <= length or size < 24:
            return False
    else:
        return False
    if end - first < 4:
        return False
    kind = u16(buffer, first)
    announces = kind < 2 if version == 9 else 2 <= kind < 4
    return bool((announces or kind >= 256) and 4 <= u16(buffer, first + 2) <= at + size - first)


@njit(cache=True)
def _find(
    buffer: U8, offset: I64, length: I64, link: I64, out: _Found, segments: I64, seen: I64
) -> int:
    """Fill `out` with the telemetry among the packets; returns the rows filled.

    `seen` takes the number of packets of an unknown link type, the first of them, the number of UDP
    datagrams of any kind, and of rows of `segments`: packet, where its IP header begins, where its
    TCP header does, and where its payload would end, of what may carry IPFIX over TCP.
    """
    rows = 0
    for packet in range(len(offset)):
        start = int(offset[packet])
        end = start + int(length[packet])
        ip = _network(buffer, start, end, int(link[packet]))
        if ip == -2:
            if not seen[0]:
                seen[1] = packet
            seen[0] += 1
        if ip < 0 or end - ip < 20:
            continue
        version = u8(buffer, ip) >> 4
        fragment = False
        if version == 4:
            at = ip + (u8(buffer, ip) & 15) * 4
            following = u8(buffer, ip + 9)
            if at < ip + 20 or following not in (_UDP, _TCP):
                continue
            flags = u16(buffer, ip + 6)
            if flags & 0x1FFF:
                continue  # a later fragment: its ports stand in the first one, which is counted
            fragment = flags & 0x2000 != 0
            total = u16(buffer, ip + 2)
            src_hi = np.uint64(0)
            src_lo = mapped(buffer, ip + 12)
        elif version == 6 and end - ip >= 40:
            total = 40 + u16(buffer, ip + 4)
            following = u8(buffer, ip + 6)
            at = ip + 40
            for _ in range(_MOST_EXTENSIONS):
                if following == 44:
                    if end - at < 8 or u16(buffer, at + 2) & 0xFFF8:
                        break
                    fragment = u16(buffer, at + 2) & 1 != 0
                    following = u8(buffer, at)
                    at += 8
                elif following in (0, 43, 60):
                    if end - at < 8:
                        break
                    following = u8(buffer, at)
                    at += 8 + u8(buffer, at + 1) * 8
                else:
                    break
            if following not in (_UDP, _TCP):
                continue
            src_hi = u64(buffer, ip + 8)
            src_lo = u64(buffer, ip + 16)
        else:
            continue
        if end - at < 8:
            continue
        src_port = u16(buffer, at)
        dst_port = u16(buffer, at + 2)
        if following == _TCP:
            if IPFIX_PORT in (src_port, dst_port) and end - at >= 20 and not fragment:
                segments[seen[3], 0] = packet
                segments[seen[3], 1] = ip
                segments[seen[3], 2] = at
                segments[seen[3], 3] = ip + total if total else end
                seen[3] += 1
            continue
        seen[2] += 1
        sent = u16(buffer, at + 4) - 8
        if not fragment and total > at - ip:  # 0: the sender's card filled it in after the capture
            sent = min(sent, ip + total - at - 8)
        if sent <= 0:
            continue
        payload = at + 8
        stop = min(end, payload + sent)
        if fragment and total:
            stop = min(stop, ip + total)
        if (
            src_port not in (SFLOW_PORT, IPFIX_PORT)
            and dst_port not in (SFLOW_PORT, IPFIX_PORT)
            and not _looks_like_sflow(buffer, payload, stop, sent)
            and not _looks_like_records(buffer, payload, stop, sent)
        ):
            continue
        out.packet[rows] = packet
        out.offset[rows] = payload
        out.length[rows] = max(stop - payload, 0)
        out.src_hi[rows] = src_hi
        out.src_lo[rows] = src_lo
        out.src_port[rows] = src_port
        out.dst_port[rows] = dst_port
        out.defect[rows] = 0
        if fragment:
            out.defect[rows] = 1
        elif stop < payload + sent:
            out.defect[rows] = 2
        rows += 1
    return rows


def datagrams(
    batch: PacketBatch, faults: Faults, streams: Streams
) -> tuple[list[DatagramBatch], int]:
    """The telemetry datagrams among captured packets, and the messages of IPFIX over TCP.

    A datagram is telemetry if a port says so (6343 or 4739 on either side) or if its payload begins
    as sFlow version 5, IPFIX, or NetFlow version 9 or 5. TCP is looked into where a port is 4739.

    Parameters
    ----------
    batch
        Packets of any known link type: Ethernet with up to four VLAN tags, Linux cooked (both
        versions), raw IP, null and loopback.
    faults
        Takes note of packets of an unknown link type, and of gaps in streams.
    streams
        Those of the packets before, in the same capture.

    Returns
    -------
    list of DatagramBatch
        In capture order, messages over TCP in a batch of their own; none is empty.
    int
        How many UDP datagrams of any kind there were.
    """
    rows = len(batch.offset)
    found = _Found(
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.uint64),
        np.empty(rows, np.uint64),
        np.empty(rows, np.uint16),
        np.empty(rows, np.uint16),
        np.empty(rows, np.uint8),
    )
    seen = np.zeros(4, np.int64)
    segments = np.empty((rows, 4), np.int64)
    link = batch.link.astype(np.int64)
    count = _find(batch.buffer, batch.offset, batch.length, link, found, segments, seen)
    if seen[0]:
        first = int(seen[1])
        faults.note(
            f"link type {batch.link[first]} is not known",
            batch.file_offset + int(batch.offset[first]),
            int(seen[0]),
        )
    out = []
    if count:
        of_packet = DatagramBatch(
            buffer=batch.buffer,
            offset=found.offset[:count],
            length=found.length[:count],
            arrival_ns=batch.arrival_ns[found.packet[:count]],
            src_hi=found.src_hi[:count],
            src_lo=found.src_lo[:count],
            src_port=found.src_port[:count],
            dst_port=found.dst_port[:count],
            file_offset=found.offset[:count] + batch.file_offset,
            defect=found.defect[:count],
        )
        out.append(of_packet)
    if seen[3]:
        told = _messages(batch, segments[: seen[3]], faults, streams)
        if len(told):
            out.append(told)
    return out, int(seen[2])


def _messages(batch: PacketBatch, segments: I64, faults: Faults, streams: Streams) -> DatagramBatch:
    """The messages that these segments make whole: rows of (packet, IP, TCP, end)."""
    packets = batch.buffer
    messages: list[bytes] = []
    rows: list[tuple[int, int, Key]] = []
    for packet, ip, at, sent in segments.tolist():
        end = int(batch.offset[packet] + batch.length[packet])
        data = at + (int(packets[at + 12]) >> 4) * 4
        key = _key(packets[ip:at].tobytes(), packets[at : at + 4].tobytes())
        header = packets[at + 4 : at + 14].tobytes()
        stop = max(min(end, sent), data)
        found = streams.add(
            key,
            int.from_bytes(header[:4]),
            header[9],
            packets[data:stop].tobytes(),
            max(sent - max(end, data), 0),
            faults,
        )
        messages += found
        rows += [(packet, data, key)] * len(found)
    length = np.array([len(message) for message in messages], np.int64)
    packet = np.array([row[0] for row in rows], np.int64)
    return DatagramBatch(
        buffer=np.frombuffer(bytearray(b"".join(messages)), np.uint8),
        offset=np.cumsum(length) - length,
        length=length,
        arrival_ns=batch.arrival_ns[packet],
        src_hi=np.array([key.src[0] for *_, key in rows], np.uint64),
        src_lo=np.array([key.src[1] for *_, key in rows], np.uint64),
        src_port=np.array([key.src_port for *_, key in rows], np.uint16),
        dst_port=np.array([key.dst_port for *_, key in rows], np.uint16),
        file_offset=np.array([data for _, data, _ in rows], np.int64) + batch.file_offset,
        defect=np.zeros(len(rows), np.uint8),
    )


def _key(ip: bytes, ports: bytes) -> Key:
    """Which stream a segment is of, by its IP header and its ports."""
    size, at = (4, 12) if ip[0] >> 4 == 4 else (16, 8)
    halves = []
    for start in (at, at + size):
        address = int.from_bytes(ip[start : start + size])
        if size == 4:
            address |= _MAPPED
        halves.append((address >> 64, address & _LOW))
    return Key(halves[0], halves[1], int.from_bytes(ports[:2]), int.from_bytes(ports[2:]))
