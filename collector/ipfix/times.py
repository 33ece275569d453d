"""When a flow began and ended, by whatever clock its record uses.

Source: RFC 7011, 6.1.7 to 6.1.10 (encodings of time); RFC 5102, 5.9 (its elements); RFC 3954, 8
(uptime in NetFlow).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.ipfix.elements import Field
from collector.ipfix.reading import Rows
from collector.records import ABSENT_U64, Doubt, RecordTime
from collector.schema import I64, U8, U64

_MS: Final = 1_000_000
# What lies outside of these is a mistake of units, or a clock that was never set. What lies inside
# may still be far from its message: probes that read old captures say the captures' times.
EARLIEST_NS: Final = 946_684_800 * 1_000_000_000  # the year 2000
LATEST_NS: Final = 4_102_444_800 * 1_000_000_000  # 2100
FAR_NS: Final = 86_400 * 1_000_000_000
BEHIND_NS: Final = 400 * 86_400 * 1_000_000_000  # beyond any flow's duration or delay
# Seconds from 1900 to 1970 (RFC 5905): NTP's upper word is never less for a time since 1970.
_NTP_EPOCH: Final = 2_208_988_800
_WRAP_MS: Final = 1 << 32
_UNKNOWN: Final = -1


class Times(NamedTuple):
    """Columns of shape (records,)."""

    start_ns: I64
    end_ns: I64
    basis: U8  # RecordTime
    doubts: U8  # Doubt


def seen_at(rows: Rows) -> I64:
    """When something was observed, ns since the epoch; -1 = the record does not say."""
    return _absolute(rows, (Field.SEEN_S, Field.SEEN_MS, Field.SEEN_US, Field.SEEN_NS))[0]


def place(rows: Rows, export_ns: I64, uptime_ms: I64, boot_ms: I64) -> Times:
    """Work out when each record's flow began and ended.

    Parameters
    ----------
    rows
        Of n records.
    export_ns : int64, shape (n,)
        The time in the header of each record's message.
    uptime_ms : int64, shape (n,)
        The exporter's uptime there; -1 = IPFIX, which has none.
    boot_ms : int64, shape (n,)
        When the exporter started, ms since the epoch, by its options; -1 = not known. A record
        that says so itself is believed first.

    Notes
    -----
    Micro- and nanoseconds are NTP timestamps (RFC 7011, 6.1.9 and 6.1.10). Exporters that count
    them from 1970 instead are told by the upper word, until NTP's era ends in 2036.

    Uptimes wrap after 49.7 days; the reading nearest to the message counts. A probe that reads an
    old capture tells of times before its own start, which wrap as well.
    """
    count = len(rows)
    start, wrong_start = _absolute(
        rows, (Field.START_S, Field.START_MS, Field.START_US, Field.START_NS)
    )
    end, wrong_end = _absolute(rows, (Field.END_S, Field.END_MS, Field.END_US, Field.END_NS))
    for time, field in ((start, Field.START_AGO_US), (end, Field.END_AGO_US)):
        if rows.has(field):
            ago = rows.of(field)
            said = (ago < BEHIND_NS // 1000) & (time < 0)
            time[said] = export_ns[said] - ago[said].astype(np.int64) * 1000
    basis = np.full(count, RecordTime.ABSOLUTE, np.uint8)
    if rows.has(Field.START_UPTIME) or rows.has(Field.END_UPTIME):
        said_boot = rows.of(Field.BOOT_MS)
        own = (said_boot != ABSENT_U64) & (said_boot > 0) & (said_boot < 1 << 42)
        boot_ms = np.where(own, said_boot.astype(np.int64), boot_ms)
        lacking = (start < 0) & (end < 0)
        for time, field in ((start, Field.START_UPTIME), (end, Field.END_UPTIME)):
            found = _by_uptime(rows.of(field), export_ns, uptime_ms, boot_ms)
            use = lacking & (found >= 0)
            time[use] = found[use]
            basis[use] = RecordTime.UPTIME
    lasted = _duration(rows)
    timed = (start < 0) != (end < 0)
    fill = timed & (start < 0)
    start[fill] = end[fill] - lasted[fill]
    fill = timed & (end < 0)
    end[fill] = start[fill] + lasted[fill]
    if rows.has(Field.SEEN_S) or any(
        rows.has(field) for field in (Field.SEEN_MS, Field.SEEN_US, Field.SEEN_NS)
    ):
        seen = seen_at(rows)
        fill = (end < 0) & (seen >= 0)
        end[fill] = seen[fill]
        start[fill] = seen[fill] - lasted[fill]
    # Nothing else: the message itself. What two uptimes say of the duration is still true.
    blind = end < 0
    if blind.any():
        first, last = rows.of(Field.START_UPTIME), rows.of(Field.END_UPTIME)
        apart = (first != ABSENT_U64) & (last != ABSENT_U64)
        between = (last - first) % np.uint64(_WRAP_MS)
        apart &= between < np.uint64(BEHIND_NS // _MS // 10)
        lasted = np.where(apart, between.astype(np.int64) * _MS, lasted)
        end[blind] = export_ns[blind]
        start[blind] = end[blind] - lasted[blind]
        basis[blind] = RecordTime.EXPORT
    turned = start > end
    start[turned] = end[turned]
    np.maximum(start, 0, out=start)  # a message of 1970 began no earlier
    doubts = np.where(wrong_start | wrong_end | turned, int(Doubt.ABSURD_TIME), 0)
    doubts |= np.where(np.abs(end - export_ns) > FAR_NS, int(Doubt.FAR_TIME), 0)
    return Times(start, end, basis, doubts.astype(np.uint8))


def _absolute(
    rows: Rows, fields: tuple[Field, Field, Field, Field]
) -> tuple[I64, NDArray[np.bool_]]:
    """Points in time, finest element first, and which were absurd; -1 = not said."""
    count = len(rows)
    time = np.full(count, _UNKNOWN, np.int64)
    wrong = np.zeros(count, np.bool_)
    for field, scale in zip(reversed(fields), (0, 0, _MS, 1000 * _MS), strict=True):
        if not rows.has(field):
            continue
        said = rows.of(field)
        given = (said != ABSENT_U64) & (said != 0)
        found = np.full(count, _UNKNOWN, np.int64)
        _scale(said, scale, field in (Field.START_US, Field.END_US, Field.SEEN_US), found)
        likely = (found >= EARLIEST_NS) & (found < LATEST_NS)
        wrong |= given & ~likely & (time < 0)
        use = given & likely & (time < 0)
        time[use] = found[use]
    return time, wrong & (time < 0)


@njit(cache=True, nogil=True)
def _scale(said: U64, scale: int, micro: bool, out: I64) -> None:
    """Nanoseconds since 1970; out stays where it does not fit."""
    most = np.uint64((1 << 62) // max(scale, 1))
    for row in range(len(said)):
        value = said[row]
        if scale:
            if value < most:
                out[row] = np.int64(value) * scale
            continue
        seconds = np.int64(value >> np.uint64(32))
        if seconds >= _NTP_EPOCH:
            part = value & np.uint64(0xFFFF_FFFF)
            nanoseconds = np.int64((part * np.uint64(1_000_000_000)) >> np.uint64(32))
            out[row] = (seconds - _NTP_EPOCH) * 1_000_000_000 + nanoseconds
        elif micro:
            if value < np.uint64((1 << 62) // 1000):
                out[row] = np.int64(value) * 1000
        elif value < np.uint64(1 << 62):
            out[row] = np.int64(value)


@njit(cache=True, nogil=True)
def _uptimes(said: U64, export_ns: I64, uptime_ms: I64, boot_ms: I64, out: I64) -> None:
    for row in range(len(said)):
        if said[row] >= np.uint64(1 << 42):  # absent, or in no unit that is known
            continue
        value = np.int64(said[row])
        if uptime_ms[row] >= 0:
            ago = (uptime_ms[row] - value) & 0xFFFF_FFFF
            if ago >= 0x8000_0000:
                ago -= _WRAP_MS
            out[row] = max(export_ns[row] - ago * _MS, 0)
        elif boot_ms[row] >= 0:
            time = (boot_ms[row] + value) * _MS
            if value < _WRAP_MS:  # it has wrapped since, or is of before the start
                behind = export_ns[row] - time + _WRAP_MS // 2 * _MS
                time += behind // (_WRAP_MS * _MS) * _WRAP_MS * _MS
            if abs(export_ns[row] - time) <= BEHIND_NS:
                out[row] = time


def _by_uptime(said: U64, export_ns: I64, uptime_ms: I64, boot_ms: I64) -> I64:
    out = np.full(len(said), _UNKNOWN, np.int64)
    _uptimes(said, export_ns, uptime_ms, boot_ms, out)
    return out


def _duration(rows: Rows) -> I64:
    """How long the flow lasted, ns; 0 = not said."""
    lasted = np.zeros(len(rows), np.int64)
    for field, scale in ((Field.DURATION_US, 1000), (Field.DURATION_MS, _MS)):
        if rows.has(field):
            said = rows.of(field)
            use = said < np.uint64(BEHIND_NS // scale)
            lasted[use] = said[use].astype(np.int64) * scale
    return lasted
