"""Slow, obvious twins of the compiled kernels: plain Python on bytes and numbers.

`decode` reads one sFlow datagram the way the specification is written, top down, with `struct`,
slices and dicts. It shares no code with `collector` but the names of states and marks. The twins of
`reconstruct` stand behind it: integers without wrap, fractions without rounding, sums as written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from collector.schema import (
    ABSENT_U8,
    ABSENT_U16,
    ABSENT_U32,
    HeaderState,
    Mark,
    PortState,
    Transport,
)
from collector.sflow import Status

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
    """One datagram as a dict: header fields, `status`, rows `flows` and `counters`, counts."""
    out: Row = {
        "agent_hi": 0,
        "agent_lo": 0,
        "sub_agent": 0,
        "sequence": 0,
        "uptime_ms": 0,
        "flows": [],
        "counters": [],
        "counter_samples": 0,
        "discards": 0,
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
            out["flows"].append(_flow(body, expanded=tag == 3))
        elif tag in (2, 4):
            out["counter_samples"] += 1
            out["counters"] += _counters(body, expanded=tag == 4)
        elif tag == 5:
            out["discards"] += 1
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


def _flow(body: bytes, expanded: bool) -> Row:
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
    reader = _Reader(body)
    header, protocol = b"", 0
    try:
        if expanded:
            sequence, kind, index, rate, pool, dropped, *ports, records = reader.words(11)
            entered, left = _port(ports[0], ports[1]), _port(ports[2], ports[3])
        else:
            sequence, source, rate, pool, dropped, *ports, records = reader.words(8)
            kind, index = source >> 24, source % (1 << 24)
            entered, left = (_port(p >> 30, p % (1 << 30)) for p in ports)
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
    frame_bytes = 0
    for _ in range(records):
        try:
            tag, size = reader.words(2)
            record = reader.take(size)
        except _Short:
            row["status"] = Status.SHORT_RECORD
            break
        if tag == 1 and size >= 16 and not protocol:
            protocol, frame_bytes, _, length = struct.unpack(">4I", record[:16])
            header = record[16 : 16 + length]
        elif tag == 1043 and size >= 8:
            (row["stamp_ns"],) = struct.unpack(">Q", record[:8])
        elif tag in (1036, 1039, 1040) and size >= 4:
            name = {1036: "queue", 1039: "transit_ns", 1040: "queue_bytes"}[tag]
            (row[name],) = struct.unpack(">I", record[:4])
    return row | parse_header(header, protocol, frame_bytes)


def _counters(body: bytes, expanded: bool) -> list[Row]:
    reader = _Reader(body)
    try:
        reader.take(12 if expanded else 8)
        (records,) = reader.words(1)
        for _ in range(records):
            tag, size = reader.words(2)
            record = reader.take(size)
            if tag == 1 and size >= 88:
                fields = struct.unpack(">2IQ2IQ6IQ6I", record[:88])
                names = (
                    *("ifindex", None, "speed_bps", None, "status"),
                    *("in_octets", "in_ucast_pkts", None, None, "in_discards", "in_errors", None),
                    *("out_octets", "out_ucast_pkts", None, None, "out_discards", "out_errors"),
                    None,
                )
                return [{n: v for n, v in zip(names, fields, strict=True) if n is not None}]
    except _Short:
        pass
    return []


def parse_header(header: bytes, protocol: int, frame_bytes: int) -> Row:
    """A sampled header as the columns of `FlowBatch` that describe the packet."""
    row: Row = {
        "ttl": 0,
        "src_hi": 0,
        "src_lo": 0,
        "dst_hi": 0,
        "dst_lo": 0,
        "protocol": 0,
        "src_port": 0,
        "dst_port": 0,
        "dscp": 0,
        "ecn": 0,
        "vlan": ABSENT_U16,
        "inner_vlan": ABSENT_U16,
        "vni": ABSENT_U32,
        "transport": Transport.OTHER,
        "header_state": HeaderState.COMPLETE,
        "opcode": ABSENT_U8,
        "dest_qp": ABSENT_U32,
        "seq": ABSENT_U32,
        "ack_seq": ABSENT_U32,
        "msn": ABSENT_U32,
        "syndrome": ABSENT_U8,
        "message_bytes": ABSENT_U32,
        "immediate": ABSENT_U32,
        "tcp_flags": 0,
        "payload_bytes": 0,
        "marks": 0,
        "frame_bytes": frame_bytes,
        "repaired": 0,
    }
    if protocol == 0:
        return row | {"header_state": HeaderState.TRUNCATED_NETWORK}
    absurd = frame_bytes == 0 or frame_bytes < len(header) or frame_bytes > 65_535 + 34
    if absurd:
        row |= {"repaired": 1, "frame_bytes": len(header)}
    packet = _Reader(header)
    try:
        kind = _link(packet, protocol, row)
        if kind == 0x0800:
            _ipv4(packet, row, absurd)
        elif kind in (0x86DD, 0x8915):
            _ipv6(packet, row, absurd, grh=kind == 0x8915)
        else:
            row["header_state"] = HeaderState.NOT_IP
    except _Short:
        row["header_state"] = HeaderState.TRUNCATED_NETWORK
    return row


def _link(packet: _Reader, protocol: int, row: Row) -> int:
    if protocol != 1:
        return {11: 0x0800, 12: 0x86DD}.get(protocol, 0)
    packet.take(12)
    for tags in range(5):
        (kind,) = struct.unpack(">H", packet.take(2))
        if kind not in (0x8100, 0x88A8, 0x9100):
            return int(kind)
        (tag,) = struct.unpack(">H", packet.take(2))
        if tags == 0:
            row["vlan"] = tag & 0xFFF
    return 0


def _length(row: Row, absurd: bool, link_bytes: int, said: int) -> int:
    """The IP packet's length; settles `frame_bytes` where the exporter's cannot be."""
    if said == 0:
        return int(row["frame_bytes"]) - link_bytes
    if absurd:
        row["frame_bytes"] = link_bytes + said
    return said


def _ipv4(packet: _Reader, row: Row, absurd: bool) -> None:
    start = packet.at
    fixed = packet.take(20)
    ihl = (fixed[0] & 15) * 4
    if fixed[0] >> 4 != 4 or ihl < 20:
        row["header_state"] = HeaderState.NOT_IP
        return
    said, fragment = struct.unpack(">2xH2xH12x", fixed)
    row |= {"dscp": fixed[1] >> 2, "ecn": fixed[1] & 3, "ttl": fixed[8], "protocol": fixed[9]}
    row["src_lo"] = 0xFFFF << 32 | int.from_bytes(fixed[12:16])
    row["dst_lo"] = 0xFFFF << 32 | int.from_bytes(fixed[16:20])
    end = start + _length(row, absurd, start, said)
    if fragment & 0x3FFF:
        row["header_state"] = HeaderState.FRAGMENT
    if not fragment & 0x1FFF:
        _transport(packet.data, start + ihl, end, row, whole=not fragment & 0x2000)


def _ipv6(packet: _Reader, row: Row, absurd: bool, grh: bool) -> None:
    start = packet.at
    fixed = packet.take(40)
    if fixed[0] >> 4 != 6:
        row["header_state"] = HeaderState.NOT_IP
        return
    first, said = struct.unpack(">IH", fixed[:6])
    row |= {"dscp": first >> 22 & 0x3F, "ecn": first >> 20 & 3, "ttl": fixed[7]}
    names = ("src_hi", "src_lo", "dst_hi", "dst_lo")
    row |= dict(zip(names, struct.unpack(">4Q", fixed[8:]), strict=True))
    if grh:
        row["transport"] = Transport.ROCEV1
        if absurd:
            row["frame_bytes"] = start + 40 + said
        _roce(packet.data[start + 40 :], said, row)
        return
    end = start + _length(row, absurd, start, said + 40 if said else 0)
    following, at, whole = fixed[6], start + 40, True
    row["protocol"] = following
    for _ in range(8):
        extension = packet.data[at:]
        if following in (0, 43, 60, 135, 139, 140, 51):
            if len(extension) < 2:
                raise _Short
            size = extension[1] * 4 + 8 if following == 51 else extension[1] * 8 + 8
        elif following == 44:
            if len(extension) < 8:
                raise _Short
            size = 8
            part = int.from_bytes(extension[2:4])
            if part & 0xFFF9:
                row["header_state"] = HeaderState.FRAGMENT
                whole = False
            if part >> 3:
                row["protocol"] = extension[0]
                return
        else:
            break
        following = extension[0]
        row["protocol"] = following
        at += size
    _transport(packet.data, at, end, row, whole)


def _transport(data: bytes, at: int, end: int, row: Row, whole: bool) -> None:
    """TCP or UDP that begins at `at` of an IP packet that reaches to `end`."""
    if row["protocol"] not in (6, 17):
        return
    segment, length = data[at:], max(end - at, 0)
    row["transport"] = Transport.TCP if row["protocol"] == 6 else Transport.UDP
    if len(segment) >= 4:
        row["src_port"], row["dst_port"] = struct.unpack(">HH", segment[:4])
    if row["protocol"] == 17:
        if len(segment) < 8:
            row["header_state"] = HeaderState.TRUNCATED_TRANSPORT
            return
        row["payload_bytes"] = max(length - 8, 0)
        if row["dst_port"] == 4791 and whole:
            row["transport"] = Transport.ROCEV2
            _roce(segment[8:], row["payload_bytes"], row)
        return
    if len(segment) >= 8:
        (row["seq"],) = struct.unpack(">I", segment[4:8])
    if len(segment) < 14:
        row["header_state"] = HeaderState.TRUNCATED_TRANSPORT
        return
    (row["ack_seq"],) = struct.unpack(">I", segment[8:12])
    row["tcp_flags"] = segment[13]
    row["payload_bytes"] = max(length - (segment[12] >> 4) * 4, 0)


# opcode within its service -> extended headers in order
_RELIABLE = {
    0x03: "I",
    0x05: "I",
    0x06: "R",
    0x09: "I",
    0x0A: "R",
    0x0B: "RI",
    0x0C: "R",
    0x0D: "A",
    0x0F: "A",
    0x10: "A",
    0x11: "A",
    0x12: "Aa",
    0x13: "T",
    0x14: "T",
    0x16: "V",
    0x17: "V",
}
_SIZES = {"D": 8, "X": 4, "R": 16, "T": 28, "A": 4, "a": 8, "I": 4, "V": 4}


def _extended(opcode: int) -> str:
    service, operation = opcode & 0xE0, opcode & 0x1F
    if service == 0x00:
        return _RELIABLE.get(operation, "")
    if service == 0x20:
        return _RELIABLE.get(operation, "") if operation <= 0x0B else ""
    if service == 0x60:
        return {0x04: "D", 0x05: "DI"}.get(operation, "")
    if service == 0xA0:
        request = operation <= 0x0C or operation in (0x13, 0x14, 0x16, 0x17)
        return "X" * request + _RELIABLE.get(operation, "")
    return ""


def _roce(data: bytes, length: int, row: Row) -> None:
    """BTH and what follows; `length` counts from the BTH to the end of the ICRC."""
    row["payload_bytes"] = length
    if len(data) < 12:
        row["header_state"] = HeaderState.TRUNCATED_TRANSPORT
        return
    opcode = data[0]
    row |= {"opcode": opcode, "dest_qp": int.from_bytes(data[5:8])}
    row["seq"] = int.from_bytes(data[9:12])
    marks = Mark.FECN * (data[4] >> 7) | Mark.BECN * (data[4] >> 6 & 1)
    rest = length - 12 - 4 - (data[1] >> 4 & 3)
    at = 12
    for part in _extended(opcode):
        piece = data[at : at + _SIZES[part]]
        at += _SIZES[part]
        rest -= _SIZES[part]
        if len(piece) < _SIZES[part]:
            continue
        if part == "R":
            row["message_bytes"] = int.from_bytes(piece[12:])
        elif part == "I":
            row["immediate"] = int.from_bytes(piece)
        elif part == "A":
            row |= {"syndrome": piece[0], "msn": int.from_bytes(piece[1:])}
            if piece[0] & 0x60:
                marks |= Mark.NAK
            elif opcode & 0x1F in (0x11, 0x12):
                marks |= Mark.ACK
    if opcode == 0x81:
        marks, rest = marks | Mark.CNP, 0
    row |= {"marks": int(marks), "payload_bytes": max(rest, 0)}
    if at > len(data):
        row["header_state"] = HeaderState.TRUNCATED_TRANSPORT


def unwrap(connection: Sequence[int], seq: Sequence[int], width: Sequence[int]) -> list[int]:
    """The one number that agrees with each `seq` and lies near the sample before.

    Near is: less than a quarter of a turn behind it, or at most three quarters ahead.
    """
    last: dict[int, int] = {}
    out = []
    for who, value, bits in zip(connection, seq, width, strict=True):
        if who in last:
            turn, before = 1 << bits, last[who]
            near = range(before - turn // 4 + 1, before + 3 * turn // 4 + 1)
            value = near.start + (value - near.start) % turn
            assert value in near
        last[who] = value
        out.append(value)
    return out


def fell_behind(
    connection: Sequence[int], position: Sequence[int], window: Sequence[int]
) -> list[bool]:
    """Whether any earlier sample of the connection lies more than the window ahead."""
    return [
        any(
            connection[j] == connection[i] and position[j] > position[i] + window[i]
            for j in range(i)
        )
        for i in range(len(position))
    ]


def mix(row: Sequence[int]) -> int:
    """splitmix64 over the values of one row, each added to the state before its step."""
    mask, state = (1 << 64) - 1, 0
    for value in row:
        state = ((state ^ value) + 0x9E3779B97F4A7C15) & mask
        state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ state >> 27) * 0x94D049BB133111EB) & mask
        state ^= state >> 31
    return state


def activity(
    time_ns: Sequence[int], weight: Sequence[float], start_ns: int, end_ns: int, bin_ns: int
) -> list[float]:
    """Sums of weights by bin, bin by bin; the last one may reach beyond the end."""
    return [
        sum(w for t, w in zip(time_ns, weight, strict=True) if low <= t < low + bin_ns)
        for low in range(start_ns, max(end_ns, start_ns + 1), bin_ns)
    ]


def autocorrelation(signal: Sequence[float], longest: int) -> list[float]:
    """Mean product of the centred signal with itself `lag` later, over its variance."""
    n = len(signal)
    exact = [Fraction(value) for value in signal]
    mean = sum(exact) / n
    centred = [value - mean for value in exact]
    variance = sum(value * value for value in centred) / n
    if not variance:
        return [0.0] * (longest + 1)
    return [
        float(sum(centred[i] * centred[i + lag] for i in range(n - lag)) / (n - lag) / variance)
        for lag in range(longest + 1)
    ]


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Least-squares slope of y over x, and its standard error relative to it."""
    n, xs, ys = len(x), [Fraction(v) for v in x], [Fraction(v) for v in y]
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    sxx = sum((a - mean_x) ** 2 for a in xs)
    found = sum((a - mean_x) * (b - mean_y) for a, b in zip(xs, ys, strict=True)) / sxx
    rest = sum((b - mean_y - found * (a - mean_x)) ** 2 for a, b in zip(xs, ys, strict=True))
    return float(found), float(rest / (n - 2) / sxx) ** 0.5 / float(found)
