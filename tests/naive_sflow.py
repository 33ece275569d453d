"""The slow, obvious twin of the sFlow kernels.

It reads a datagram the way the specification is written, top down, with `struct`, slices and dicts,
and shares no code with `collector` but the names of states.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from collector.schema import ABSENT_U16, ABSENT_U32, HeaderState, PortState, Transport
from collector.sflow import Status
from tests.naive_headers import parse_header

Row = dict[str, Any]


class _Short(Exception):
    """There are fewer bytes than a field needs."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if len(self.data) - self.at < size:
            raise _Short
        self.at += size
        return self.data[self.at - size : self.at]

    def words(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f">{count}I", self.take(4 * count))


def decode(data: bytes) -> Row:
    """One datagram as a dict: header fields, `status`, rows by kind of sample.

    `counter_samples` holds the status of each.
    """
    out: Row = {
        "agent_hi": 0,
        "agent_lo": 0,
        "sub_agent": 0,
        "sequence": 0,
        "uptime_ms": 0,
        "flows": [],
        "counters": [],
        "ports": [],
        "hosts": [],
        "counter_samples": [],
        "discards": [],
        "unknown": 0,
        "status": Status.GOOD,
    }
    reader = _Reader(data)
    try:
        (version,) = reader.words(1)
    except _Short:
        version = 0
    if version != 5:
        return out | {"status": Status.NOT_VERSION_5}
    if len(data) < 28:
        return out | {"status": Status.SHORT_HEADER}
    try:
        (family,) = reader.words(1)
        if family == 1:
            agent = b"\0" * 10 + b"\xff\xff" + reader.take(4)
        elif family == 2:
            agent = reader.take(16)
        else:
            return out | {"status": Status.BAD_ADDRESS_TYPE}
        sub_agent, sequence, uptime_ms, count = reader.words(4)
    except _Short:
        return out | {"status": Status.SHORT_HEADER}
    out["agent_hi"], out["agent_lo"] = struct.unpack(">QQ", agent)
    out |= {"sub_agent": sub_agent, "sequence": sequence, "uptime_ms": uptime_ms}
    for _ in range(count):
        try:
            tag, size = reader.words(2)
            body = reader.take(size)
        except _Short:
            out["status"] = Status.SHORT_DATAGRAM
            break
        if tag in (1, 3):
            out["flows"].append(_flow(body, tag))
        elif tag in (2, 4):
            _counters(body, tag == 4, out)
        elif tag == 5:
            out["discards"].append(_flow(body, tag))
        else:
            out["unknown"] += 1
    return out


def _port(form: int, value: int) -> tuple[PortState, int]:
    if form == 0:
        if value == 0:
            return PortState.UNKNOWN, 0
        return (PortState.INTERNAL if value == 0x3FFFFFFF else PortState.SINGLE), value
    if form == 1:
        return PortState.DISCARDED, value
    if form == 2:
        return PortState.MULTIPLE, value
    return PortState.UNKNOWN, 0


def _flow(body: bytes, kind_of_sample: int) -> Row:
    row: Row = {
        "source_id": 0,
        "input": 0,
        "output": 0,
        "sampling_rate": 0,
        "direction": 0,
        "input_state": PortState.UNKNOWN,
        "output_state": PortState.UNKNOWN,
        "frame_bytes": 0,
        "sequence": 0,
        "source": 0,
        "pool": 0,
        "dropped": 0,
        "stamp_ns": 0,
        "status": Status.GOOD,
        "queue": ABSENT_U32,
        "queue_bytes": ABSENT_U32,
        "transit_ns": ABSENT_U32,
    }
    drop = kind_of_sample == 5
    if drop:
        row |= {"reason": 0, "detail": b""}
    reader = _Reader(body)
    rate = pool = 0
    try:
        if kind_of_sample == 3:
            sequence, kind, index, rate, pool, dropped, *ports, records = reader.words(11)
            entered, left = _port(ports[0], ports[1]), _port(ports[2], ports[3])
        elif kind_of_sample == 1:
            sequence, source, rate, pool, dropped, *ports, records = reader.words(8)
            kind, index = source >> 24, source % (1 << 24)
            entered, left = (_port(p >> 30, p % (1 << 30)) for p in ports)
        else:
            sequence, kind, index, dropped, *ports, reason, records = reader.words(8)
            entered, left = (_port(0, port) for port in ports)
            row["reason"] = reason
    except _Short:
        row["status"] = Status.SHORT_SAMPLE
        return row | parse_header(b"", 0, 0)
    row |= {"sequence": sequence, "source": kind << 32 | index, "dropped": dropped}
    row |= {"source_id": index, "sampling_rate": rate, "pool": pool}
    row["input_state"], row["input"] = entered
    row["output_state"], row["output"] = left
    here = (PortState.SINGLE, index)
    if kind == 0 and (entered == here) != (left == here):
        row["direction"] = 1 if entered == here else 2
    found: list[tuple[int, bytes]] = []
    for _ in range(records):
        try:
            tag, size = reader.words(2)
            found.append((tag, reader.take(size)))
        except _Short:
            row["status"] = Status.SHORT_RECORD
            break
    row["stamp_ns"] = _last(found, 1043, ">Q", (0,))[0]
    for tag, name in ((1036, "queue"), (1039, "transit_ns"), (1040, "queue_bytes")):
        row[name] = _last(found, tag, ">I", (ABSENT_U32,))[0]
    if drop:
        row["detail"] = _detail(found)
    return _packet(row, found)


def _last(
    found: list[tuple[int, bytes]], tag: int, form: str, default: tuple[int, ...] = ()
) -> tuple[Any, ...]:
    """The fields of the last record of this tag that has room for them."""
    size = struct.calcsize(form)
    bodies = [body for other, body in found if other == tag and len(body) >= size]
    return struct.unpack(form, bodies[-1][:size]) if bodies else default


def _packet(row: Row, found: list[tuple[int, bytes]]) -> Row:
    """What the records of a sample say of its packet."""
    raw = [body for tag, body in found if tag == 1 and len(body) >= 16 and any(body[:4])]
    if raw:
        protocol, frame_bytes, _, length = struct.unpack(">4I", raw[0][:16])
        row |= parse_header(raw[0][16 : 16 + length], protocol, frame_bytes)
    else:
        row |= parse_header(b"", 0, 0)
        _fields(row, found)
    stripped = _last(found, 1012, ">II", (0, 0))
    if stripped[0]:
        row |= {"inner_vlan": row["vlan"], "vlan": stripped[1] % (1 << 12)}
    elif row["vlan"] == ABSENT_U16:
        vlan = _last(found, 1001, ">4I", (0,) * 4)[2 if row["direction"] == 2 else 0]
        if 1 <= vlan <= 4094:
            row["vlan"] = vlan
    for tag in (1030, 1029):
        if row["vni"] == ABSENT_U32:
            row["vni"] = _last(found, tag, ">I", (ABSENT_U32,))[0]
    return row


def _fields(row: Row, found: list[tuple[int, bytes]]) -> None:
    """A packet whose fields stand in records of their own."""
    four, six = _last(found, 3, ">II4s4s4I"), _last(found, 4, ">II16s16s4I")
    ethernet = _last(found, 2, ">I6s2x6s2xI")
    if four or six:
        length, protocol, src, dst, src_port, dst_port, flags, tos = four or six
        before = b"\0" * 10 + b"\xff\xff" if four else b""
        row["src_hi"], row["src_lo"] = struct.unpack(">QQ", before + src)
        row["dst_hi"], row["dst_lo"] = struct.unpack(">QQ", before + dst)
        row |= {"protocol": protocol % 256, "tcp_flags": flags % 256}
        row |= {"src_port": src_port % 65536, "dst_port": dst_port % 65536}
        row |= {"dscp": tos % 256 // 4, "ecn": tos % 4}
        row["frame_bytes"] = (length + 18) % (1 << 32)
        row["header_state"] = HeaderState.COMPLETE
        if row["protocol"] == 6:
            row["transport"] = Transport.TCP
            row["header_state"] = HeaderState.TRUNCATED_TRANSPORT
        elif row["protocol"] == 17:
            row["transport"] = Transport.UDP
            row["payload_bytes"] = max(length - (28 if four else 48), 0)
            if row["dst_port"] == 4791:
                row["transport"] = Transport.ROCEV2
                row["header_state"] = HeaderState.TRUNCATED_BTH
    elif ethernet and ethernet[3] not in (0, 0x0800, 0x86DD):
        row["header_state"] = HeaderState.NOT_IP
    if ethernet:
        row["frame_bytes"] = ethernet[0]


def _string(data: bytes) -> tuple[bytes, bytes] | None:
    """An XDR string, and what stands behind it."""
    if len(data) < 4:
        return None
    (size,) = struct.unpack(">I", data[:4])
    if size > len(data) - 4:
        return None
    return data[4 : 4 + size], data[4 + -(-size // 4) * 4 :]


def _detail(found: list[tuple[int, bytes]]) -> bytes:
    """What names the drop, by what says most: trap, reason of Linux, ACL, function."""
    unknown = b""
    for wanted, skipped in ((1041, 0), (1042, 0), (1037, 4), (1038, 0)):
        for tag, body in found:
            if tag == wanted and (text := _string(body[skipped:])) is not None:
                if tag == 1041:
                    text = _string(text[1]) or text
                told = text[0][:64].rstrip(b"\0")
                if tag == 1042 and (told + b"\0").startswith(b"NOT_SPECIFIED\0"):
                    unknown = unknown or told
                else:
                    return told
    return unknown


def _counters(body: bytes, expanded: bool, out: Row) -> None:
    """Put what a counter sample holds to the rows of its kind."""
    status, generic, port, host = Status.SHORT_SAMPLE, None, None, None
    reader = _Reader(body)
    try:
        if expanded:
            _, kind, index, records = reader.words(4)
        else:
            _, source, records = reader.words(3)
            kind, index = source >> 24, source % (1 << 24)
        status = Status.SHORT_RECORD
        for _ in range(records):
            tag, size = reader.words(2)
            record = reader.take(size)
            if tag == 1 and size >= 88 and generic is None:
                generic = _generic(record)
            elif (told := _of_host(tag, record)) is not None:
                host = (host or dict(_NO_HOST)) | told
            elif kind == 0 and (told := _of_port(tag, record)) is not None:
                port = (port or dict(_NO_PORT)) | {"ifindex": index} | told
        status = Status.GOOD
    except _Short:
        pass
    out["counter_samples"].append(status)
    for name, row in (("counters", generic), ("ports", port), ("hosts", host)):
        if row is not None:
            out[name].append(row)


def _generic(record: bytes) -> Row:
    fields = struct.unpack(">2IQ2IQ6IQ6I", record[:88])
    names = (
        *("ifindex", None, "speed_bps", None, "status"),
        *("in_octets", "in_ucast_pkts", None, None, "in_discards", "in_errors", None),
        *("out_octets", "out_ucast_pkts", None, None, "out_discards", "out_errors"),
        None,
    )
    return {n: v for n, v in zip(names, fields, strict=True) if n is not None}


_ERRORS = (
    *("alignment", "fcs", None, None, None, None, None, None),
    *("send", None, "too_long_frames", "receive", "symbol"),
)
_NO_PORT = {"name": b"", "aggregate": ABSENT_U32, "lag_state": ABSENT_U32} | {
    n if n == "too_long_frames" else f"{n}_errors": ABSENT_U32 for n in _ERRORS if n is not None
}
_NO_HOST = {"name": b"", "cpu_5s": -1, "cpu_1m": -1, "cpu_5m": -1, "load_1m": 0.0, "cpus": 0}
_NO_HOST |= {"uptime_s": 0, "memory_bytes": 0, "free_bytes": 0}


def _of_port(tag: int, record: bytes) -> Row | None:
    if tag == 1005 and (text := _string(record)) is not None:
        return {"name": text[0][:64].rstrip(b"\0")}
    if tag == 7 and len(record) >= 52:
        behind = record[16:] if len(record) >= 56 else record[12:]
        aggregate, state = struct.unpack(">II", behind[:8])
        return {"aggregate": aggregate, "lag_state": state}
    if tag == 2 and len(record) >= 52:
        fields = zip(_ERRORS, struct.unpack(">13I", record[:52]), strict=True)
        return {
            n if n == "too_long_frames" else f"{n}_errors": v for n, v in fields if n is not None
        }
    return None


def _of_host(tag: int, record: bytes) -> Row | None:
    if tag == 2000 and (text := _string(record)) is not None:
        return {"name": text[0][:64].rstrip(b"\0")}
    if tag == 1001 and len(record) >= 28:
        names = ("cpu_5s", "cpu_1m", "cpu_5m", "memory_bytes", "free_bytes")
        return dict(zip(names, struct.unpack(">3i2Q", record[:28]), strict=True))
    if tag == 2003 and len(record) >= 68:
        load, cpus, uptime_s = struct.unpack(">f16xI4xI", record[:32])
        known = 0 <= load < math.inf
        return {"load_1m": load if known else 0.0, "cpus": cpus, "uptime_s": uptime_s}
    if tag == 2004 and len(record) >= 72:
        memory_bytes, free_bytes = struct.unpack(">2Q", record[:16])
        return {"memory_bytes": memory_bytes, "free_bytes": free_bytes}
    return None
