"""sFlow version 5: datagrams to samples.

Three passes over a batch of datagrams: count what each holds, note where each sample lies, then
read the samples into preallocated columns. Every loop is bounded by the bytes that remain, and
what is unknown is skipped by its length, on the full 32-bit tag (enterprise << 12 | format).

Source: sFlow Version 5 (sflow.org, July 2004), section 5; sFlow Dropped Packet Notification
Structures (sample 0:5); sFlow Transit Delay Structures and host-sflow for record 0:1043.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector.link import DatagramBatch, Defect
from collector.schema import ABSENT_U32, I64, U8, U32, U64, CounterBatch, FlowBatch, PortState
from collector.wire import mapped, u32, u64

_FLOW: Final = 1
_COUNTERS: Final = 2
_FLOW_EXPANDED: Final = 3
_COUNTERS_EXPANDED: Final = 4
_DISCARD: Final = 5
_RAW_HEADER: Final = 1
_GENERIC_COUNTERS: Final = 1
_EGRESS_QUEUE: Final = 1036
_TRANSIT_DELAY: Final = 1039
_QUEUE_DEPTH: Final = 1040
_TIMESTAMP: Final = 1043
_FLOW_BYTES: Final = 32
_FLOW_EXPANDED_BYTES: Final = 44
_GENERIC_COUNTERS_BYTES: Final = 88
_INTERNAL: Final = 0x3FFF_FFFF


class Status(IntEnum):
    """How far a datagram or a flow sample could be read."""

    GOOD = 0
    NOT_VERSION_5 = 1
    SHORT_HEADER = 2
    BAD_ADDRESS_TYPE = 3
    SHORT_DATAGRAM = 4
    SHORT_SAMPLE = 5
    SHORT_RECORD = 6


REASONS: Final = {
    Status.NOT_VERSION_5: "not an sFlow version 5 datagram",
    Status.SHORT_HEADER: "the datagram ends inside its header",
    Status.BAD_ADDRESS_TYPE: "the agent's address is neither IPv4 nor IPv6",
    Status.SHORT_DATAGRAM: "the datagram ends before its last sample",
    Status.SHORT_SAMPLE: "a sample too short for its own fields",
    Status.SHORT_RECORD: "a record runs past the end of its sample",
}
DEFECT_REASONS: Final = {
    Defect.FRAGMENT: "an IP fragment: the rest of the datagram is missing",
    Defect.SNAPPED: "the capture kept only the beginning of the datagram",
}


class Headers(NamedTuple):
    """What the datagrams of a batch say of themselves; columns of shape (datagrams,)."""

    agent_hi: U64
    agent_lo: U64
    sub_agent: U32
    sequence: U32
    uptime_ms: U32
    flows: I64  # samples by kind
    counters: I64
    discards: I64
    unknown: I64
    status: U8  # Status
    fault_at: I64  # where in the buffer the status was decided
    digest: U64  # of all bytes, to tell a duplicate from a reused sequence number


class _Places(NamedTuple):
    """Where the samples of one kind lie; columns of shape (samples,)."""

    datagram: I64
    start: I64  # behind the sample's tag and length
    end: I64
    expanded: U8


class SampleColumns(NamedTuple):
    """The columns of `FlowBatch` that a flow sample itself fills."""

    source_id: U32
    input: U32
    input_state: U8
    output: U32
    output_state: U8
    direction: U8
    sampling_rate: U32
    frame_bytes: U32
    queue: U32
    queue_bytes: U32
    transit_ns: U32


class Sampled(NamedTuple):
    """What else a flow sample says; columns of shape (samples,)."""

    sequence: U32
    source: U64  # class << 32 | index of its data source
    pool: U32  # packets that could have been sampled, counted by the sampler; wraps
    dropped: U32  # the sampler's own count of lost samples
    stamp_ns: U64  # record 0:1043; 0 = none
    stamp_at: I64  # its eight bytes in the buffer; 0 = none
    header_at: I64  # the sampled header in the buffer
    header_bytes: I64
    header_protocol: U32  # 0 = no sampled header
    status: U8  # Status
    fault_at: I64


@dataclass(frozen=True, slots=True)
class Samples:
    """All that a batch of sFlow datagrams holds.

    Attributes
    ----------
    headers
        By datagram.
    flows : FlowBatch
        By flow sample; the columns of `SampleColumns` are filled, the rest is for `headers.parse`
        and `ingest`.
    sampled
        By flow sample.
    flow_datagram : int64, shape (flow samples,)
        Which datagram each came in.
    counters : CounterBatch
        By counter sample that holds generic interface counters; time and exporter left to `ingest`.
    counter_datagram : int64, shape (rows of counters,)
    """

    headers: Headers
    flows: FlowBatch
    sampled: Sampled
    flow_datagram: I64
    counters: CounterBatch
    counter_datagram: I64


@njit(cache=True)
def _header_end(buffer: U8, at: int) -> int:
    """Where the samples begin: behind version, agent, sub-agent, sequence, uptime, count."""
    return at + 28 if u32(buffer, at + 4) == 1 else at + 40


@njit(cache=True)
def _digest(buffer: U8, start: int, end: int) -> np.uint64:
    """A 64-bit hash (FNV-1a over words of eight bytes)."""
    value = np.uint64(0xCBF2_9CE4_8422_2325)
    at = start
    while end - at >= 8:
        value = (value ^ u64(buffer, at)) * np.uint64(0x0000_0100_0000_01B3)
        value ^= value >> np.uint64(29)
        at += 8
    while at < end:
        value = (value ^ np.uint64(buffer[at])) * np.uint64(0x0000_0100_0000_01B3)
        at += 1
    return value


@njit(cache=True)
def _count(buffer: U8, offset: I64, length: I64, out: Headers) -> None:
    """First pass: each datagram's header, and how many samples of each kind are whole."""
    for row in range(len(offset)):
        at = int(offset[row])
        size = int(length[row])
        end = at + size
        out.fault_at[row] = at
        if size < 4 or u32(buffer, at) != 5:
            out.status[row] = Status.NOT_VERSION_5
            continue
        family = u32(buffer, at + 4) if size >= 8 else 0
        if size < 28 or (family == 2 and size < 40):
            out.status[row] = Status.SHORT_HEADER
            continue
        if family == 1:
            out.agent_lo[row] = mapped(buffer, at + 8)
        elif family == 2:
            out.agent_hi[row] = u64(buffer, at + 8)
            out.agent_lo[row] = u64(buffer, at + 16)
        else:
            out.status[row] = Status.BAD_ADDRESS_TYPE
            continue
        out.digest[row] = _digest(buffer, at, end)
        at = _header_end(buffer, at)
        out.sub_agent[row] = u32(buffer, at - 16)
        out.sequence[row] = u32(buffer, at - 12)
        out.uptime_ms[row] = u32(buffer, at - 8)
        left = u32(buffer, at - 4)
        while left > 0:
            out.fault_at[row] = at
            if end - at < 8 or u32(buffer, at + 4) > end - at - 8:
                out.status[row] = Status.SHORT_DATAGRAM
                break
            tag = u32(buffer, at)
            if tag in (_FLOW, _FLOW_EXPANDED):
                out.flows[row] += 1
            elif tag in (_COUNTERS, _COUNTERS_EXPANDED):
                out.counters[row] += 1
            elif tag == _DISCARD:
                out.discards[row] += 1
            else:
                out.unknown[row] += 1
            at += 8 + u32(buffer, at + 4)
            left -= 1


@njit(cache=True)
def _locate(buffer: U8, offset: I64, headers: Headers, flows: _Places, counters: _Places) -> None:
    """Second pass: where the samples that were counted lie."""
    flow = 0
    counter = 0
    for row in range(len(offset)):
        left = int(headers.flows[row] + headers.counters[row])
        left += int(headers.discards[row] + headers.unknown[row])
        if not left:
            continue
        at = _header_end(buffer, int(offset[row]))
        while left > 0:
            tag = u32(buffer, at)
            end = at + 8 + u32(buffer, at + 4)
            if tag in (_FLOW, _FLOW_EXPANDED):
                flows.datagram[flow] = row
                flows.start[flow] = at + 8
                flows.end[flow] = end
                flows.expanded[flow] = tag == _FLOW_EXPANDED
                flow += 1
            elif tag in (_COUNTERS, _COUNTERS_EXPANDED):
                counters.datagram[counter] = row
                counters.start[counter] = at + 8
                counters.end[counter] = end
                counters.expanded[counter] = tag == _COUNTERS_EXPANDED
                counter += 1
            at = end
            left -= 1


@njit(cache=True)
def _interface(form: int, value: int) -> tuple[int, int]:
    """`PortState` and value of an interface: format 0 single, 1 discarded, 2 multiple."""
    if form == 0 and value == _INTERNAL:
        return PortState.INTERNAL, value
    if form == 0 and value:
        return PortState.SINGLE, value
    if form == 1:
        return PortState.DISCARDED, value
    if form == 2:
        return PortState.MULTIPLE, value
    return PortState.UNKNOWN, 0


@njit(cache=True)
def _read_flows(buffer: U8, places: _Places, out: SampleColumns, more: Sampled) -> None:
    """Third pass: the fields of every flow sample, its sampled header and its timestamp."""
    for row in range(len(places.start)):
        at = int(places.start[row])
        end = int(places.end[row])
        more.fault_at[row] = at
        out.queue[row] = ABSENT_U32
        out.queue_bytes[row] = ABSENT_U32
        out.transit_ns[row] = ABSENT_U32
        if end - at < (_FLOW_EXPANDED_BYTES if places.expanded[row] else _FLOW_BYTES):
            more.status[row] = Status.SHORT_SAMPLE
            continue
        more.sequence[row] = u32(buffer, at)
        if places.expanded[row]:
            kind = u32(buffer, at + 4)
            index = u32(buffer, at + 8)
            at += 12
        else:
            kind = u32(buffer, at + 4) >> 24
            index = u32(buffer, at + 4) & 0xFF_FFFF
            at += 8
        more.source[row] = (np.uint64(kind) << np.uint64(32)) | np.uint64(index)
        more.pool[row] = u32(buffer, at + 4)
        more.dropped[row] = u32(buffer, at + 8)
        if places.expanded[row]:
            in_state, in_value = _interface(u32(buffer, at + 12), u32(buffer, at + 16))
            out_state, out_value = _interface(u32(buffer, at + 20), u32(buffer, at + 24))
            records = u32(buffer, at + 28)
            body = at + 32
        else:
            entered = u32(buffer, at + 12)
            left = u32(buffer, at + 16)
            in_state, in_value = _interface(entered >> 30, entered & _INTERNAL)
            out_state, out_value = _interface(left >> 30, left & _INTERNAL)
            records = u32(buffer, at + 20)
            body = at + 24
        out.sampling_rate[row] = u32(buffer, at)
        out.source_id[row] = index
        out.input[row] = in_value
        out.input_state[row] = in_state
        out.output[row] = out_value
        out.output_state[row] = out_state
        received = kind == 0 and in_state == PortState.SINGLE and in_value == index
        sent = kind == 0 and out_state == PortState.SINGLE and out_value == index
        if received != sent:  # both: sent back where it came from, either may have been sampled
            out.direction[row] = 1 if received else 2
        at = body
        while records > 0:
            more.fault_at[row] = at
            if end - at < 8 or u32(buffer, at + 4) > end - at - 8:
                more.status[row] = Status.SHORT_RECORD
                break
            tag = u32(buffer, at)
            size = u32(buffer, at + 4)
            at += 8
            if tag == _RAW_HEADER and size >= 16 and not more.header_protocol[row]:
                more.header_protocol[row] = u32(buffer, at)
                out.frame_bytes[row] = u32(buffer, at + 4)
                more.header_at[row] = at + 16
                more.header_bytes[row] = min(u32(buffer, at + 12), size - 16)
            elif tag == _TIMESTAMP and size >= 8:
                more.stamp_ns[row] = u64(buffer, at)
                more.stamp_at[row] = at
            elif tag == _EGRESS_QUEUE and size >= 4:
                out.queue[row] = u32(buffer, at)
            elif tag == _TRANSIT_DELAY and size >= 4:
                out.transit_ns[row] = u32(buffer, at)
            elif tag == _QUEUE_DEPTH and size >= 4:
                out.queue_bytes[row] = u32(buffer, at)
            at += size
            records -= 1


class _CounterFields(NamedTuple):
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


@njit(cache=True)
def _read_counters(buffer: U8, places: _Places, out: _CounterFields, found: U8) -> None:
    """Third pass for counter samples: the first generic interface record of each."""
    for row in range(len(places.start)):
        at = int(places.start[row]) + (12 if places.expanded[row] else 8)
        end = int(places.end[row])
        if end - at < 4:
            continue
        records = u32(buffer, at)
        at += 4
        while records > 0 and end - at >= 8:
            size = u32(buffer, at + 4)
            if size > end - at - 8:
                break
            if u32(buffer, at) == _GENERIC_COUNTERS and size >= _GENERIC_COUNTERS_BYTES:
                at += 8
                found[row] = 1
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
                break
            at += 8 + size
            records -= 1


def _places(rows: int) -> _Places:
    return _Places(
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.uint8),
    )


def decode(batch: DatagramBatch) -> Samples:
    """Decode a batch of sFlow datagrams, compiled, without a Python step per datagram.

    Parameters
    ----------
    batch
        Datagrams; those that are not sFlow version 5 get a status and no samples.

    Returns
    -------
    Samples
        Rows in the order of the bytes. A datagram that ends early keeps the samples that are
        whole; a flow sample whose records are damaged keeps what was read before.

    Notes
    -----
    Differs from the specification in reading record 0:1043 wherever it stands, also before the
    sampled header as host-sflow sends it; of several sampled headers the first counts.
    """
    rows = len(batch)
    headers = Headers(
        agent_hi=np.zeros(rows, np.uint64),
        agent_lo=np.zeros(rows, np.uint64),
        sub_agent=np.zeros(rows, np.uint32),
        sequence=np.zeros(rows, np.uint32),
        uptime_ms=np.zeros(rows, np.uint32),
        flows=np.zeros(rows, np.int64),
        counters=np.zeros(rows, np.int64),
        discards=np.zeros(rows, np.int64),
        unknown=np.zeros(rows, np.int64),
        status=np.zeros(rows, np.uint8),
        fault_at=np.zeros(rows, np.int64),
        digest=np.zeros(rows, np.uint64),
    )
    _count(batch.buffer, batch.offset, batch.length, headers)
    flow_places = _places(int(headers.flows.sum()))
    counter_places = _places(int(headers.counters.sum()))
    _locate(batch.buffer, batch.offset, headers, flow_places, counter_places)

    samples = len(flow_places.start)
    flows = FlowBatch.empty(samples)
    sampled = Sampled(
        sequence=np.zeros(samples, np.uint32),
        source=np.zeros(samples, np.uint64),
        pool=np.zeros(samples, np.uint32),
        dropped=np.zeros(samples, np.uint32),
        stamp_ns=np.zeros(samples, np.uint64),
        stamp_at=np.zeros(samples, np.int64),
        header_at=np.zeros(samples, np.int64),
        header_bytes=np.zeros(samples, np.int64),
        header_protocol=np.zeros(samples, np.uint32),
        status=np.zeros(samples, np.uint8),
        fault_at=np.zeros(samples, np.int64),
    )
    _read_flows(
        batch.buffer,
        flow_places,
        SampleColumns(*(getattr(flows, name) for name in SampleColumns._fields)),
        sampled,
    )
    counters = CounterBatch.empty(len(counter_places.start))
    found = np.zeros(len(counters), np.uint8)
    _read_counters(
        batch.buffer,
        counter_places,
        _CounterFields(*(getattr(counters, name) for name in _CounterFields._fields)),
        found,
    )
    kept = found.astype(np.bool_)
    return Samples(
        headers=headers,
        flows=flows,
        sampled=sampled,
        flow_datagram=flow_places.datagram,
        counters=counters.take(kept),
        counter_datagram=counter_places.datagram[kept],
    )
