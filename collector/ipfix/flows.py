"""Flow records: fields of records become rows of a `RecordBatch`."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.ipfix.elements import Field
from collector.ipfix.reading import Rows
from collector.ipfix.times import Times
from collector.ipfix.totals import Totals
from collector.records import (
    ABSENT_U64,
    RECORD_ABSENT,
    RECORD_COLUMNS,
    Doubt,
    RecordBatch,
)
from collector.schema import I32, I64, U8, U32, U64

# 800 Gb/s for a week; more is a difference of counters that went below zero.
MOST_BYTES: Final = 1 << 56
# No packet is longer than IP's 65,535 bytes, with what a data link may add.
MOST_PACKET_BYTES: Final = 65_535 + 64
_VXLAN: Final = 1  # type of a layer 2 segment (IANA, 351)


class Around(NamedTuple):
    """What is known of records beside their fields; columns of shape (records,)."""

    arrival_ns: I64
    export_ns: I64
    exporter: I32
    selector: U64
    rate: U32


def plain(rows: Rows, field: Field, most: int) -> U64:
    """A field that has no value for absent but zero, nor may exceed `most`."""
    said = rows.of(field)
    out: U64 = np.where(said <= np.uint64(most), said, np.uint64(0))
    return out


def interface(rows: Rows, logical: Field, physical: Field) -> U32:
    """An ifIndex: the logical one, or the physical one where there is none; 0 = unknown."""
    first = plain(rows, logical, 0xFFFF_FFFF)
    if rows.has(physical):
        first = np.where(first > 0, first, plain(rows, physical, 0xFFFF_FFFF))
    return first.astype(np.uint32)


def direction(rows: Rows) -> U8:
    """0 unknown, 1 entering, 2 leaving (IANA, flowDirection 61: 0 and 1)."""
    said = rows.of(Field.DIRECTION)
    return np.where(said < 2, said + np.uint64(1), np.uint64(0)).astype(np.uint8)


def records(rows: Rows, times: Times, around: Around, totals: Totals) -> RecordBatch:
    """Rows of records that name two addresses, and of their answering directions.

    Parameters
    ----------
    rows
        n records.
    times
        When they began and ended; `start_ns` is changed where totals are followed.
    around
        What is known beside.
    totals
        Of all batches.

    Returns
    -------
    RecordBatch
        In order; the answering direction of a record stands behind it.
    """
    out = _columns(rows, times, around)
    if rows.has(Field.TOTAL_BYTES) or rows.has(Field.TOTAL_PACKETS):
        _follow_totals(rows, out, totals)
    _doubt_counts(out)
    answers = rows.of(Field.REVERSE_PACKETS)
    octets = rows.of(Field.REVERSE_BYTES)
    both = ((answers != ABSENT_U64) & (answers > 0)) | ((octets != ABSENT_U64) & (octets > 0))
    if not both.any():
        return out
    turned = _turned(out.take(both), octets[both], answers[both])
    flags = rows.of(Field.REVERSE_TCP_FLAGS)[both]
    turned.tcp_flags[:] = np.where(flags != ABSENT_U64, flags & np.uint64(0xFF), np.uint64(0))
    _doubt_counts(turned)
    place = np.concatenate((np.arange(len(out)), np.flatnonzero(both)))
    return RecordBatch.concat([out, turned]).take(np.argsort(place, kind="stable"))


def _columns(rows: Rows, times: Times, around: Around) -> RecordBatch:
    count = len(rows)
    tos, dscp = rows.of(Field.TOS), rows.of(Field.DSCP)
    whole = tos <= np.uint64(0xFF)
    short = dscp <= np.uint64(0x3F)
    none = np.uint64(RECORD_ABSENT["dscp"])
    vlan, segment = rows.of(Field.VLAN), rows.of(Field.SEGMENT)
    flags = rows.of(Field.TCP_FLAGS)
    tunnelled = (segment != ABSENT_U64) & (segment >> np.uint64(56) == _VXLAN)
    values: dict[str, NDArray[np.generic]] = {
        "arrival_ns": around.arrival_ns,
        "export_ns": around.export_ns,
        "start_ns": times.start_ns,
        "end_ns": times.end_ns,
        "time_basis": times.basis,
        "exporter": around.exporter,
        "bytes": _first_said(rows, Field.BYTES, Field.POST_BYTES),
        "packets": _first_said(rows, Field.PACKETS, Field.POST_PACKETS),
        "src_hi": rows.of(Field.SRC_HI),
        "src_lo": rows.of(Field.SRC_LO),
        "dst_hi": rows.of(Field.DST_HI),
        "dst_lo": rows.of(Field.DST_LO),
        "protocol": plain(rows, Field.PROTOCOL, 0xFF),
        "src_port": plain(rows, Field.SRC_PORT, 0xFFFF),
        "dst_port": plain(rows, Field.DST_PORT, 0xFFFF),
        # Element 6 may have 16 bits; the lower ones are those of RFC 9293.
        "tcp_flags": np.where(flags != ABSENT_U64, flags & np.uint64(0xFF), np.uint64(0)),
        "dscp": np.where(whole, tos >> np.uint64(2), np.where(short, dscp, none)),
        "ecn": np.where(whole, tos & np.uint64(3), none),
        "input": interface(rows, Field.INPUT, Field.PHYSICAL_INPUT),
        "output": interface(rows, Field.OUTPUT, Field.PHYSICAL_OUTPUT),
        "direction": direction(rows),
        "vlan": np.where((vlan > 0) & (vlan < 4095), vlan, np.uint64(RECORD_ABSENT["vlan"])),
        "vni": np.where(tunnelled, segment & np.uint64(0xFF_FFFF), RECORD_ABSENT["vni"]),
        "selector": around.selector,
        "sampling_rate": around.rate,
        "end_reason": plain(rows, Field.END_REASON, 0xFF),
        "doubts": times.doubts,
    }
    out = RecordBatch.empty(count)
    for name in RECORD_COLUMNS:
        getattr(out, name)[:] = values[name]
    return out


def _first_said(rows: Rows, first: Field, second: Field) -> U64:
    """The count of what came in; where an exporter counts only what went out, that."""
    said = rows.of(first)
    if rows.has(second):
        said = np.where(said == ABSENT_U64, rows.of(second), said)
    return said


def _follow_totals(rows: Rows, out: RecordBatch, totals: Totals) -> None:
    """Counts where records only name totals."""
    total, counted = rows.of(Field.TOTAL_BYTES), rows.of(Field.TOTAL_PACKETS)
    lacking = (out.bytes == ABSENT_U64) & (total != ABSENT_U64)
    lacking |= (out.packets == ABSENT_U64) & (counted != ABSENT_U64)
    which = np.flatnonzero(lacking)
    if not len(which):
        return
    words = [
        out.src_hi,
        out.src_lo,
        out.dst_hi,
        out.dst_lo,
        (out.src_port.astype(np.uint64) << np.uint64(32)) | out.dst_port,
        (out.exporter.astype(np.uint64) << np.uint64(32)) | out.input,
        (out.output.astype(np.uint64) << np.uint64(32)) | out.vni,
        (out.protocol.astype(np.uint64) << np.uint64(32))
        | (out.direction.astype(np.uint64) << np.uint64(24))
        | out.vlan,
        rows.of(Field.FLOW_ID),
    ]
    start = out.start_ns[which]
    octets, packets = totals.advance(
        [np.ascontiguousarray(word[which]) for word in words],
        start,
        out.end_ns[which],
        total[which],
        counted[which],
    )
    out.start_ns[which] = start
    # A record that has both keeps what it says itself.
    out.bytes[which] = np.where(out.bytes[which] == ABSENT_U64, octets, out.bytes[which])
    out.packets[which] = np.where(out.packets[which] == ABSENT_U64, packets, out.packets[which])
    out.doubts[which] |= np.uint8(Doubt.FROM_TOTAL)


def _doubt_counts(out: RecordBatch) -> None:
    """Counts that cannot be are absent, and said to be."""
    said = out.bytes != ABSENT_U64
    absurd = said & (out.bytes >= np.uint64(MOST_BYTES))
    counted = (out.packets != ABSENT_U64) & (out.packets > 0)
    many = (out.packets != ABSENT_U64) & (out.packets >= np.uint64(MOST_BYTES))
    counted &= ~many
    most = np.where(counted, out.packets, 0) * np.uint64(MOST_PACKET_BYTES)
    absurd |= said & counted & (out.packets < np.uint64(1 << 40)) & (out.bytes > most)
    out.bytes[absurd] = ABSENT_U64
    out.packets[many] = ABSENT_U64
    out.doubts[absurd | many] |= np.uint8(Doubt.ABSURD_COUNT)


def _turned(rows: RecordBatch, octets: U64, packets: U64) -> RecordBatch:
    """The other direction (RFC 5103): ends change places, counts are its own."""
    for one, other in (
        (rows.src_hi, rows.dst_hi),
        (rows.src_lo, rows.dst_lo),
        (rows.src_port, rows.dst_port),
        (rows.input, rows.output),
    ):
        one[:], other[:] = other.copy(), one.copy()
    rows.bytes[:] = octets
    rows.packets[:] = packets
    rows.direction.fill(0)
    rows.dscp.fill(RECORD_ABSENT["dscp"])
    rows.ecn.fill(RECORD_ABSENT["ecn"])
    rows.doubts[:] = (rows.doubts & np.uint8(~Doubt.ABSURD_COUNT & 0xFF)) | np.uint8(Doubt.REVERSE)
    return rows
