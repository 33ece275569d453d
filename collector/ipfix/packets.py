"""Sampled packets that came in IPFIX: sections of frames, decoded like sFlow's sampled headers.

Source: RFC 7133 (dataLinkFrameSection 315, dataLinkFrameSize 312), RFC 5477
(ipHeaderPacketSection 313), RFC 7270 (sectionExportedOctets 410).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from collector import headers
from collector.ipfix.elements import Field
from collector.ipfix.plans import LEAST_SECTION_BYTES
from collector.ipfix.reading import Rows
from collector.ipfix.times import Times
from collector.records import ABSENT_U64, RecordTime
from collector.schema import (
    ABSENT_U32,
    I32,
    I64,
    U8,
    U32,
    U64,
    FlowBatch,
    PortState,
    TimeBasis,
)

_ETHERNET: Final = 1
_IPV4: Final = 11
_IPV6: Final = 12
# What an IP packet lacks of its frame: Ethernet's header and check sequence.
_ETHERNET_BYTES: Final = 18
_SECOND_NS: Final = 1_000_000_000


def readable(rows: Rows) -> I64:
    """The rows that hold enough of a packet to read."""
    held = np.maximum(_size(rows, Field.FRAME_HELD), _size(rows, Field.PACKET_HELD))
    return np.flatnonzero(held >= LEAST_SECTION_BYTES)


def sampled(
    buffer: U8,
    rows: Rows,
    times: Times,
    arrival_ns: I64,
    exporter: I32,
    input_: U32,
    output: U32,
    direction: U8,
    rate: U32,
) -> FlowBatch:
    """Rows of a `FlowBatch` from records that carry sections of packets.

    Parameters
    ----------
    buffer : uint8
        The bytes that the records were read from.
    rows
        n records, with a section each.
    times
        When each was seen.
    arrival_ns, exporter, input_, output, direction, rate : shape (n,)

    Notes
    -----
    Without a time in the record the sample is as old as its message: it came before its arrival,
    and at most a second earlier, as with sFlow.
    """
    flows = FlowBatch.empty(len(rows))
    frame = _size(rows, Field.FRAME_HELD) > 0
    at = np.where(frame, rows.of(Field.FRAME_AT), rows.of(Field.PACKET_AT)).astype(np.int64)
    held = np.where(frame, _size(rows, Field.FRAME_HELD), _size(rows, Field.PACKET_HELD))
    if rows.has(Field.HELD_BYTES):
        said = rows.of(Field.HELD_BYTES)
        held = np.where(said <= held.astype(np.uint64), said.astype(np.int64), held)
    version = buffer[np.where(held > 0, at, 0)] >> 4
    protocol = np.where(frame, _ETHERNET, np.where(version == 6, _IPV6, _IPV4))
    if rows.has(Field.FRAME_BYTES):
        size = rows.of(Field.FRAME_BYTES)
        flows.frame_bytes[:] = np.where(size < ABSENT_U32, size, 0)
    flows.exporter[:] = exporter
    flows.input[:] = input_
    flows.output[:] = output
    flows.input_state[:] = np.where(input_ > 0, PortState.SINGLE, PortState.UNKNOWN)
    flows.output_state[:] = np.where(output > 0, PortState.SINGLE, PortState.UNKNOWN)
    flows.direction[:] = direction
    flows.source_id[:] = np.where(direction == 2, output, input_)
    flows.sampling_rate[:] = rate
    timed = times.basis != RecordTime.EXPORT
    flows.time_ns[:] = np.where(timed, times.end_ns, arrival_ns)
    flows.time_min_ns[:] = np.where(timed, times.start_ns, np.maximum(arrival_ns - _SECOND_NS, 0))
    flows.time_basis[:] = np.where(timed, TimeBasis.EXPORTER, TimeBasis.ARRIVAL)
    for column in (flows.queue, flows.queue_bytes, flows.transit_ns):
        column.fill(ABSENT_U32)
    repaired = headers.parse(buffer, at, held, protocol.astype(np.uint32), flows)
    bare = (repaired != 0) & ~frame
    flows.frame_bytes[bare] += np.uint32(_ETHERNET_BYTES)
    return flows


def _size(rows: Rows, field: Field) -> I64:
    said: U64 = rows.of(field)
    return np.where(said == ABSENT_U64, 0, said).astype(np.int64)
