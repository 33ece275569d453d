"""An encoder of IPFIX and NetFlow for tests, straight from RFC 7011 and RFC 3954."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from ipaddress import ip_address

EXPORT_S = 1_800_000_000
UPTIME_MS = 5_000_000
VARIABLE = 65_535
Specifier = tuple[int, int] | tuple[int, int, int]  # element, width and perhaps its enterprise


def set_of(number: int, content: bytes, padding: int = 0) -> bytes:
    return struct.pack(">HH", number, 4 + len(content) + padding) + content + bytes(padding)


def _specifiers(fields: Iterable[Specifier]) -> bytes:
    out = b""
    for each in fields:
        if len(each) == 3:
            out += struct.pack(">HHI", each[0] | 0x8000, each[1], each[2])
        else:
            out += struct.pack(">HH", *each)
    return out


def template(number: int, fields: Sequence[Specifier]) -> bytes:
    return struct.pack(">HH", number, len(fields)) + _specifiers(fields)


def options_template(
    number: int, scopes: Sequence[Specifier], fields: Sequence[Specifier]
) -> bytes:
    head = struct.pack(">HHH", number, len(scopes) + len(fields), len(scopes))
    return head + _specifiers([*scopes, *fields])


def options_template_9(
    number: int, scopes: Sequence[Specifier], fields: Sequence[Specifier]
) -> bytes:
    head = struct.pack(">HHH", number, 4 * len(scopes), 4 * len(fields))
    return head + _specifiers([*scopes, *fields])


def message(*sets: bytes, sequence: int = 0, domain: int = 7, export_s: int = EXPORT_S) -> bytes:
    body = b"".join(sets)
    return struct.pack(">HHIII", 10, 16 + len(body), export_s, sequence, domain) + body


def message_9(
    *sets: bytes,
    sequence: int = 0,
    domain: int = 7,
    export_s: int = EXPORT_S,
    uptime_ms: int = UPTIME_MS,
) -> bytes:
    head = struct.pack(">HHIIII", 9, len(sets), uptime_ms, export_s, sequence, domain)
    return head + b"".join(sets)


def message_5(
    *records: bytes,
    sequence: int = 0,
    sampling: int = 0,
    nanoseconds: int = 0,
    engine: int = 0,
    count: int | None = None,
) -> bytes:
    head = struct.pack(
        ">HHIIIIHH",
        5,
        len(records) if count is None else count,
        UPTIME_MS,
        EXPORT_S,
        nanoseconds,
        sequence,
        engine,
        sampling,
    )
    return head + b"".join(records)


def address(text: str) -> bytes:
    return ip_address(text).packed


def number(value: int, width: int) -> bytes:
    return value.to_bytes(width)


def variable(content: bytes, *, wide: bool = False) -> bytes:
    if wide or len(content) > 254:
        return b"\xff" + struct.pack(">H", len(content)) + content
    return bytes([len(content)]) + content


# The fields that most tests use, and a record of them.
PLAIN: Sequence[Specifier] = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (1, 4), (2, 4))


def plain(
    octets: int = 1000, packets: int = 2, src: str = "10.0.0.1", dst: str = "10.0.0.2"
) -> bytes:
    ends = address(src) + address(dst)
    return ends + struct.pack(">HHBII", 4791, 4792, 17, octets, packets)
