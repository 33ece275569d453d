"""The obvious slow decoder of IPFIX and NetFlow: ints, dicts and struct, one record at a time.

It knows no bounds on memory, and no totals or options: tests that need those say what is right by
themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tests.collector.ipfix.arrivals import Arrival

_NONE64 = 2**64 - 1
_Field = tuple[int, int, int]  # enterprise, element, width
_VERSION_5 = [
    *((8, 4), (12, 4), (15, 4), (10, 2), (14, 2), (2, 4), (1, 4), (22, 4), (21, 4)),
    *((7, 2), (11, 2), (0, 1), (6, 1), (4, 1), (5, 1), (16, 2), (17, 2), (9, 1), (13, 1), (0, 2)),
]
_SECONDS = {150: "start", 151: "end", 322: "seen"}
_MILLISECONDS = {152: "start", 153: "end", 323: "seen"}
_MICROSECONDS = {154: "start", 155: "end", 324: "seen"}
_NANOSECONDS = {156: "start", 157: "end", 325: "seen"}


class Decoder:
    """Decodes datagrams one by one."""

    def __init__(self) -> None:
        self.templates: dict[tuple[Any, ...], tuple[bool, list[_Field]]] = {}
        self.waiting: dict[tuple[Any, ...], list[tuple[bytes, dict[str, int]]]] = {}
        self.rows: list[dict[str, int]] = []
        self.sections: list[tuple[int, bytes]] = []  # element, bytes
        self.records = 0
        self.uptimes: dict[tuple[Any, ...], int] = {}
        self.boots: dict[tuple[Any, ...], tuple[int, int]] = {}  # ns, and the last uptime

    def add(self, arrival: Arrival) -> None:
        data = arrival.payload
        version = int.from_bytes(data[:2]) if len(data) >= 2 else 0
        header = {10: 16, 9: 20, 5: 24}.get(version)
        if header is None or len(data) < header:
            return
        around = {"arrival_ns": arrival.time_ns, "uptime": -1, "cut": 0, "sampling": 0}
        if version == 10:
            _, size, export_s, _, domain = struct.unpack_from(">HHIII", data)
            around["export_ns"] = export_s * 10**9
            around["cut"] = int(size > len(data))
            data = data[: max(size, header)]
        elif version == 9:
            _, _, around["uptime"], export_s, _, domain = struct.unpack_from(">HHIIII", data)
            around["export_ns"] = export_s * 10**9
        else:
            _, count, around["uptime"], export_s, nanoseconds, _, domain, sampling = (
                struct.unpack_from(">HHIIIIHH", data)
            )
            around["export_ns"] = export_s * 10**9 + nanoseconds
            around["sampling"] = sampling & 0x3FFF
            body = data[header : header + 48 * count]
            for at in range(0, len(body) - 47, 48):
                fields = [(0, number, width) for number, width in _VERSION_5]
                self.records += 1
                self._record(fields, body, at, around)
            return
        session = (arrival.sender, arrival.port, arrival.to_port, domain, version)
        if version == 9:
            around["export_ns"] = self._sharpened(session, around)
        self._restart(session, around["uptime"])
        sets = []
        at = header
        while len(data) - at >= 4:
            number, size = struct.unpack_from(">HH", data, at)
            if size < 4:
                around["cut"] |= int(any(data[at:]))
                break
            if size > len(data) - at:
                around["cut"] = 1
            sets.append((number, data[at + 4 : at + size]))
            at += size
        for number, content in sets:
            if number >= 256:
                self._data((*session, number), content, around)
            elif number in ((0, 1) if version == 9 else (2, 3)):
                self._announce(session, version, number in (1, 3), number, content)

    def _sharpened(self, session: tuple[Any, ...], around: dict[str, int]) -> int:
        """When a message of whole seconds was sent, by the latest start that any of them says."""
        uptime = around["uptime"]
        said = around["export_ns"] - uptime * 10**6
        boot, last = self.boots.get(session, (said, uptime))
        boot -= max(uptime - last, 0) * 100
        if not boot - 1002 * 10**6 <= said <= boot:
            boot = said
        self.boots[session] = boot, uptime
        return boot + uptime * 10**6

    def _restart(self, session: tuple[Any, ...], uptime: int) -> None:
        """An uptime that falls, and did not wrap after 2**32 ms, voids the session's templates."""
        if uptime < 0:
            return
        before = self.uptimes.get(session, -1)
        wrapped = before > 2**32 - 600_000 and uptime < 600_000
        restarted = uptime < before - 10_000 and uptime < before // 2 and not wrapped
        if restarted:
            for key in [key for key in self.templates if key[:-1] == session]:
                del self.templates[key]
        if restarted or wrapped or uptime > before:
            self.uptimes[session] = uptime

    def _announce(
        self, session: tuple[Any, ...], version: int, options: bool, kind: int, content: bytes
    ) -> None:
        at = 0
        found: list[tuple[int, list[_Field] | None]] = []
        while len(content) - at >= 4:
            number, count = struct.unpack_from(">HH", content, at)
            at += 4
            if not number and not count:
                break
            if not count and version == 10:
                if number == kind:
                    found += [
                        (key[-1], None)
                        for key, (of_options, _) in self.templates.items()
                        if key[:-1] == session and of_options == options
                    ]
                else:
                    found.append((number, None))
                continue
            if number < 256:
                break
            if options:
                if len(content) - at < 2:
                    break
                (second,) = struct.unpack_from(">H", content, at)
                at += 2
                if version == 9:
                    count = count // 4 + second // 4
            fields = []
            for _ in range(count):
                if len(content) - at < 4:
                    break
                element, width = struct.unpack_from(">HH", content, at)
                at += 4
                enterprise = 0
                if version == 10 and element >= 0x8000:
                    if len(content) - at < 4:
                        break
                    (enterprise,) = struct.unpack_from(">I", content, at)
                    element -= 0x8000
                    at += 4
                fields.append((enterprise, element, width))
            else:
                found.append((number, fields))
                continue
            break
        for number, definition in found:
            key = (*session, number)
            if definition is None:
                self.templates.pop(key, None)
                continue
            if self.templates.get(key) == (options, definition):
                continue
            self.templates.pop(key, None)
            if sum(1 if width == 65_535 else width for _, _, width in definition):
                self.templates[key] = (options, definition)
                for content_, around in self.waiting.pop(key, []):
                    self._data(key, content_, around | {"cut": 1})

    def _data(self, key: tuple[Any, ...], content: bytes, around: dict[str, int]) -> None:
        if key not in self.templates:
            self.waiting.setdefault(key, []).append((content, around))
            return
        options, fields = self.templates[key]
        least = sum(1 if width == 65_535 else width for _, _, width in fields)
        starts = []
        at = 0
        while len(content) - at >= least:
            end = self._end(fields, content, at)
            if end is None:
                break
            starts.append(at)
            at = end
        rest = content[at:]
        if any(rest) and not around["cut"] and (not starts or len(rest) > 3):
            self.waiting.setdefault(key, []).append((content, around))
            return
        self.records += len(starts)
        if not options:
            for start in starts:
                self._record(fields, content, start, around)

    @staticmethod
    def _end(fields: Sequence[_Field], content: bytes, at: int) -> int | None:
        for _, _, width in fields:
            if width == 65_535:
                if at >= len(content):
                    return None
                width = content[at]
                at += 1
                if width == 255:
                    if len(content) - at < 2:
                        return None
                    width = int.from_bytes(content[at : at + 2])
                    at += 2
            at += width
            if at > len(content):
                return None
        return at

    def _record(
        self, fields: Sequence[_Field], content: bytes, at: int, around: dict[str, int]
    ) -> None:
        said: dict[int, int] = {}
        reverse: dict[int, int] = {}
        ends = {"src": 0, "dst": 0}
        named = set()
        section = None
        for enterprise, element, width in fields:
            size = width
            if width == 65_535:
                size = content[at]
                at += 1
                if size == 255:
                    size = int.from_bytes(content[at : at + 2])
                    at += 2
            value = content[at : at + size]
            at += size
            if enterprise == 29_305 and 1 <= width <= 8:
                reverse[element] = int.from_bytes(value)
            if enterprise:
                continue
            if element in (8, 12, 27, 28):
                if width == (4 if element < 20 else 16):
                    side = "src" if element in (8, 27) else "dst"
                    named.add(side)
                    address = int.from_bytes(value)
                    if address or (width == 4 and not ends[side]):
                        ends[side] = address | (0xFFFF << 32 if width == 4 else 0)
                continue
            if element in (104, 313, 315):
                if width >= 20:
                    section = (element, value)
                continue
            if 1 <= width <= 8:  # numbers have no length of their own (RFC 7011, 7)
                number = int.from_bytes(value)
                if element in (180, 181, 182, 183, 243, 302):
                    element = {180: 7, 182: 7, 181: 11, 183: 11, 243: 58, 302: 48}[element]
                    if number or element not in said:
                        said[element] = number
                else:
                    said[element] = number
        if section is not None:
            if len(section[1]) >= 20:
                self.sections.append(section)
            return
        if named != {"src", "dst"}:
            return
        self.rows.append(_row(said, ends, around))
        if reverse.get(2, 0) or reverse.get(1, 0):
            self.rows.append(_turned(self.rows[-1], reverse))


def _row(said: dict[int, int], ends: dict[str, int], around: dict[str, int]) -> dict[str, int]:
    def small(element: int, most: int, absent: int = 0) -> int:
        value = said.get(element, absent)
        return value if value <= most else absent

    row = {
        "arrival_ns": around["arrival_ns"],
        "export_ns": around["export_ns"],
        "bytes": said.get(1, said.get(23, _NONE64)),
        "packets": said.get(2, said.get(24, _NONE64)),
        "protocol": small(4, 255),
        "src_port": small(7, 65_535),
        "dst_port": small(11, 65_535),
        "tcp_flags": said.get(6, 0) & 255,
        "dscp": said[5] >> 2 if said.get(5, 256) < 256 else small(195, 63, 255),
        "ecn": said[5] & 3 if said.get(5, 256) < 256 else 255,
        "input": small(10, 2**32 - 1) or small(252, 2**32 - 1),
        "output": small(14, 2**32 - 1) or small(253, 2**32 - 1),
        "direction": said[61] + 1 if said.get(61, 9) < 2 else 0,
        "vlan": said[58] if 0 < said.get(58, 0) < 4095 else 0xFFFF,
        "vni": said[351] % 2**24 if said.get(351, 0) >> 56 == 1 else 0xFFFF_FFFF,
        "selector": said.get(48, _NONE64),
        "end_reason": small(136, 255),
        "doubts": 0,
    }
    for side, value in ends.items():
        row[f"{side}_hi"], row[f"{side}_lo"] = value >> 64, value % 2**64
    _times(row, said, around)
    _counts(row)
    return row


def _times(row: dict[str, int], said: dict[int, int], around: dict[str, int]) -> None:
    time: dict[str, int] = {}
    wrong: set[str] = set()
    export_ns = around["export_ns"]
    for elements, scale in (
        (_NANOSECONDS, 0),
        (_MICROSECONDS, 1),
        (_MILLISECONDS, 10**6),
        (_SECONDS, 10**9),
    ):
        for element, which in elements.items():
            value = said.get(element, 0)
            if not value or which in time:
                continue
            if scale > 1:
                point = value * scale
            elif value >> 32 >= 2_208_988_800:
                point = ((value >> 32) - 2_208_988_800) * 10**9 + (value % 2**32 * 10**9 >> 32)
            else:
                point = value * 1000 if scale else value
            if 946_684_800 * 10**9 <= point < 4_102_444_800 * 10**9:
                time[which] = point
            else:
                wrong.add(which)
    absurd = bool((wrong - set(time)) & {"start", "end"})
    for element, which in ((158, "start"), (159, "end")):
        if element in said and said[element] < 400 * 86_400 * 10**6 and which not in time:
            time[which] = export_ns - said[element] * 1000
    basis = 0
    seen = time.pop("seen", None)
    if not time:
        for element, which in ((22, "start"), (21, "end")):
            if said.get(element, 2**42) >= 2**42:
                continue
            if around["uptime"] >= 0:
                ago = (around["uptime"] - said[element]) % 2**32
                ago -= 2**32 if ago >= 2**31 else 0
                time[which] = max(export_ns - ago * 10**6, 0)
                basis = 1
    lasted = 0
    for element, scale in ((162, 1000), (161, 10**6)):
        if element in said and said[element] < 400 * 86_400 * 10**9 // scale:
            lasted = said[element] * scale
    if not time and seen is not None:
        time["end"] = seen
    if not time:
        basis = 2
        time["end"] = export_ns
        if 21 in said and 22 in said:
            # what is beyond 64 bits is not here
            between = (said[21] - said[22]) % 2**64 % 2**32
            if between < 400 * 86_400 * 10**3 // 10:
                lasted = between * 10**6
    start = time.get("start", time.get("end", 0) - lasted)
    end = time.get("end", time.get("start", 0) + lasted)
    absurd |= start > end
    row["start_ns"], row["end_ns"], row["time_basis"] = max(min(start, end), 0), end, basis
    row["doubts"] |= (4 if absurd else 0) | (16 if abs(end - export_ns) > 86_400 * 10**9 else 0)


def _counts(row: dict[str, int]) -> None:
    octets, packets = row["bytes"], row["packets"]
    absurd = octets != _NONE64 and octets >= 2**56
    many = packets != _NONE64 and packets >= 2**56
    if octets != _NONE64 and 0 < packets < 2**40 and octets > packets * (65_535 + 64):
        absurd = True
    # All ones is a number that was said.
    if absurd:
        row["bytes"] = _NONE64
    if many:
        row["packets"] = _NONE64
    row["doubts"] |= 1 if absurd or many else 0


def _turned(row: dict[str, int], reverse: dict[int, int]) -> dict[str, int]:
    turned = dict(row)
    for one, other in (("src_hi", "dst_hi"), ("src_lo", "dst_lo"), ("src_port", "dst_port")):
        turned[one], turned[other] = row[other], row[one]
    turned["input"], turned["output"] = row["output"], row["input"]
    turned["bytes"], turned["packets"] = reverse.get(1, _NONE64), reverse.get(2, _NONE64)
    turned["tcp_flags"] = reverse.get(6, 0) & 255
    turned |= {"direction": 0, "dscp": 255, "ecn": 255, "doubts": row["doubts"] & ~1 | 8}
    _counts(turned)
    return turned


def decode(arrivals: Sequence[Arrival]) -> Decoder:
    """All datagrams, in order."""
    decoder = Decoder()
    for arrival in arrivals:
        decoder.add(arrival)
    return decoder
