"""Slow, obvious twins of the compiled kernels: plain Python on bytes and numbers.

`decode` reads one sFlow datagram the way the specification is written, top down, with `struct`,
slices and dicts. It shares no code with `collector` but the names of states; sampled headers are
read in `tests.naive_headers`. The twins of `reconstruct` stand behind it: integers without wrap,
fractions without rounding, sums as written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from collector.schema import ABSENT_U32, PortState
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
