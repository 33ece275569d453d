"""From flow records to a `Slice`: what exporters of IPFIX and NetFlow tell, as bins.

A record says of many packets when the first and the last of them came, and not what lay between.
So its ends are as good as two sampled packets, and what lies between is known no better than the
record is long; unless the exporter shows pauses so short that none worth the name can hide inside
a record: then its packets are spread evenly over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.messages import CLASS_NAMES
from collector.records import (
    ABSENT_U64,
    FULL_PAYLOAD,
    ROCE_PORT,
    TCP,
    UDP,
    RecordBatch,
    header_bytes,
)
from collector.schema import ABSENT_U32, I32, I64, ExporterHealth, Transport
from reconstruct.activity import PROMPT_NS
from reconstruct.binning import endpoints_of, exporter_key
from reconstruct.bins import BIN_NS, RECORD_UNIT_BYTES, ProgressBins, Verb
from reconstruct.hashing import mix, stream_keys
from reconstruct.slices import Acks, Slice, StreamKind, Streams

FRAME_BYTES: Final = 18  # of Ethernet, its check sequence included
# Packets of one message follow one another: they are evidence once, not packet by packet.
MESSAGE_PKTS: Final = 256
MOST_ROWS: Final = 1000  # of a record, however long
QUICK_SHARE: Final = 0.05  # of an exporter's bytes: flows that share their ports seem quick too
ADJACENT_NS: Final = 1_000_000  # records this near are one, cut by the exporter
EDGE_ROWS: Final = 4  # of an end of a record whose packets were all seen: it is no chance sample
UNLIKE_COUNTS: Final = 20  # different ones that a number has to divide to be taken for a rate
FEW_COUNTS: Final = 3  # and if it leaves no more packets than there would be messages
ADJACENT_GAPS: Final = 4.0  # or as near as a few of the gaps between their own packets


@dataclass(frozen=True, slots=True)
class _Parts:
    """Records of one stream each, sorted by stream, then start; cut to the slice.

    Parameters
    ----------
    stream : int32[n]
    start_ns, end_ns : int64[n]
    begins, ends : bool[n]
        Whether that is where traffic began or paused, not where record or slice was cut.
    before, after : float64[n]
        Payload bytes of the stream in the slice before and after it.
    samples : int64[n]
        Packets seen, or messages' worth of them where every packet was.
    frame_bytes : float64[n]
        Of all packets that it stands for.
    hidden_ns : int64[n]
        How long a pause may hide inside it.
    edge_rows : int64[n]
        By how many rows each of its ends is told.
    between : bool[n]
        Whether packets were seen between its first and its last.
    """

    stream: I32
    start_ns: I64
    end_ns: I64
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    samples: I64
    frame_bytes: NDArray[np.float64]
    hidden_ns: I64
    edge_rows: I64
    between: NDArray[np.bool_]


def bins_of_records(
    records: RecordBatch, exporters: Sequence[ExporterHealth], start_ns: int, end_ns: int
) -> Slice:
    """The bins of some flow records.

    Parameters
    ----------
    records : RecordBatch
        Rows in any order: all that reach into the slice. Of a record that reaches beyond it the
        share of its time inside counts, so each slice that it reaches into gets it whole.
    exporters : sequence of ExporterHealth
        What `RecordBatch.exporter` points into.
    start_ns, end_ns : int
        The slice, see `reconstruct.slices.Slice`; a packet at `end_ns` is inside.

    Returns
    -------
    Slice
        As `reconstruct.binning.bin_slice` gives it, and to be merged with others like it, with
        these differences. Streams have `Verb.RECORDED`, no queue pair and no message lengths:
        those of one pair of endpoints are told apart by their UDP ports. Positions count what the
        records count, from 0 on, in steps of `RECORD_UNIT_BYTES` (TCP: of 1). There may be several
        rows to a bin. Where pauses may hide in records there are up to three of each: its first
        packet, its last one (`EDGE_ROWS` of these, a nanosecond apart, where every packet was
        seen), and all others, with the record's length as their slack; else one every `BIN_NS`, or
        less often where it is longer than `MOST_ROWS` of these.

    Notes
    -----
    A flow cache writes a record when a connection pauses for longer than its idle timeout, or has
    been talking for its active timeout. Either way the next record of the connection begins no
    sooner after this one's beginning than the shorter of the two, so the shortest such distance
    says how long a pause may hide. Records of one transfer each follow one another at once.
    """
    records = _usable(_divided(records), start_ns, end_ns)
    endpoints, src, dst = endpoints_of(records)
    ports = records.src_port.astype(np.uint64) << np.uint64(16) | records.dst_port
    kind = np.where(records.protocol == TCP, StreamKind.TCP, StreamKind.REQUEST).astype(np.uint8)
    connection = mix(endpoints.key[src], endpoints.key[dst], kind | np.uint8(Verb.RECORDED), ports)
    keys = np.array([exporter_key(e) for e in exporters], np.uint64)
    point = mix(keys[records.exporter], records.direction)
    _, first, inverse = np.unique(
        stream_keys(connection, point), return_index=True, return_inverse=True
    )
    stream = inverse.astype(np.int32)
    order = np.lexsort((records.end_ns, records.start_ns, stream))
    counts = _counts(records)
    parts = _cut(records.take(order), stream[order], counts.take(order), start_ns, end_ns)
    unit = np.where(records.protocol[first] == TCP, 1, RECORD_UNIT_BYTES)
    bins = _bins(parts, unit)
    samples = np.bincount(bins.connection, bins.samples, len(first)).astype(np.int64)

    top_payload = np.zeros(len(first), np.int64)
    np.maximum.at(top_payload, stream, (counts.payload / counts.packets).astype(np.int64))

    def of_samples(total: NDArray[np.float64]) -> I64:
        """A sum as large as `samples` packets of the stream's mean have it."""
        mean = np.bincount(stream, total, len(first)) / np.bincount(stream, counts.packets)
        return np.rint(mean * samples).astype(np.int64)

    streams = Streams(
        connection=connection[first],
        point=point[first],
        src=src[first],
        dst=dst[first],
        kind=kind[first],
        transport=np.where(records.protocol[first] == TCP, Transport.TCP, Transport.ROCEV2).astype(
            np.uint8
        ),
        dest_qp=np.full(len(first), ABSENT_U32, np.uint32),
        src_port=records.src_port[first],
        dst_port=records.dst_port[first],
        verbs=np.full(len(first), Verb.RECORDED, np.uint8),
        samples=samples,
        payload_bytes=of_samples(counts.payload),
        frame_bytes=of_samples(counts.frames),
        bare_bytes=np.zeros(len(first)),
        top_payload=top_payload,
        classes=np.zeros((len(first), len(CLASS_NAMES)), np.int64),
    )
    return Slice(start_ns, end_ns, endpoints, streams, bins, Acks.none())


def hidden_ns(bins: ProgressBins, connections: I32) -> int:
    """How long pauses may hide in the records that tell of most of some connections' traffic.

    Parameters
    ----------
    bins : ProgressBins
    connections : int32[c]

    Returns
    -------
    int
        Three quarters of their bytes are in records no longer than this; 0 without records inside
        which anything hides.
    """
    rows = np.flatnonzero(np.isin(bins.connection, connections))
    if not len(rows):
        return 0
    order = np.argsort(bins.slack_ns[rows], kind="stable")
    # Rows of a record's ends are sharp, and carry no bytes where anything lies between them.
    slack, gone = bins.slack_ns[rows][order], np.cumsum(bins.scaled_bytes[rows][order])
    return int(slack[np.searchsorted(gone, 0.75 * gone[-1])])


@dataclass(frozen=True, slots=True)
class _Counts:
    """What records stand for, float64[n]: packets, payload, and whole frames."""

    packets: NDArray[np.float64]
    payload: NDArray[np.float64]
    frames: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp]) -> _Counts:
        return _Counts(self.packets[rows], self.payload[rows], self.frames[rows])


def _divided(records: RecordBatch) -> RecordBatch:
    """Records with the packets that were seen where the exporter multiplied them by its rate."""
    counts = np.stack([records.packets, records.bytes])
    silent = (records.sampling_rate == 0) & np.all((counts > 0) & (counts < ABSENT_U64), axis=0)
    divided = records.take(np.arange(len(records)))
    for exporter in np.unique(records.exporter[silent]):
        rows = np.flatnonzero(silent & (records.exporter == exporter))
        rate = np.gcd.reduce(counts[:, rows], axis=None)
        # Messages of few sizes may have a divisor, too. What takes evidence away needs less proof.
        enough = FEW_COUNTS if rate >= MESSAGE_PKTS else UNLIKE_COUNTS
        if rate > 1 and len(np.unique(records.packets[rows])) >= enough:
            divided.packets[rows] //= rate
            divided.bytes[rows] //= rate
            divided.sampling_rate[rows] = rate
    return divided


def _usable(records: RecordBatch, start_ns: int, end_ns: int) -> RecordBatch:
    """Records of TCP and RoCE that count something and reach into the slice."""
    roce = (records.protocol == UDP) & (records.dst_port == ROCE_PORT)
    counted = ((records.bytes != ABSENT_U64) & (records.bytes > 0)) | (
        (records.packets != ABSENT_U64) & (records.packets > 0)
    )
    inside = (records.start_ns <= end_ns) & (records.end_ns >= start_ns)
    ordered = records.start_ns <= records.end_ns
    return records.take(((records.protocol == TCP) | roce) & counted & inside & ordered)


def _counts(records: RecordBatch) -> _Counts:
    """Counts times the sampling rate; what a record does not count follows from what it does."""
    rate = np.maximum(records.sampling_rate, 1).astype(np.float64)
    header = header_bytes(records)
    octets, packets = records.bytes.astype(np.float64), records.packets.astype(np.float64)
    lacking = (records.packets == ABSENT_U64) | (records.packets == 0)
    packets = np.where(lacking, np.ceil(octets / (FULL_PAYLOAD + header)), packets)
    lacking = (records.bytes == ABSENT_U64) | (records.bytes == 0)
    octets = np.where(lacking, packets * (FULL_PAYLOAD + header), octets)
    payload = np.maximum(octets - packets * header, 0)
    return _Counts(packets * rate, payload * rate, (octets + packets * FRAME_BYTES) * rate)


def _cut(records: RecordBatch, stream: I32, counts: _Counts, start_ns: int, end_ns: int) -> _Parts:
    """Records sorted by stream and start, as far as they lie in the slice."""
    low = np.maximum(records.start_ns, start_ns)
    high = np.minimum(records.end_ns, end_ns)
    length = records.end_ns - records.start_ns
    share = np.where(length > 0, (high - low) / np.maximum(length, 1), 1.0)
    after = np.cumsum(counts.payload * share)
    head = np.searchsorted(stream, stream)
    behind = np.concatenate([[0.0], after])[:-1]
    before, after = behind - behind[head], after - behind[head]
    # What its sampler left of a record; where every packet was seen, its messages.
    packets = counts.packets / np.maximum(records.sampling_rate, 1)
    seen = np.where(records.sampling_rate > 1, packets, packets / MESSAGE_PKTS)
    follows = np.zeros(len(stream), np.bool_)
    if len(stream):
        spacing = np.where(records.sampling_rate > 1, length / np.maximum(seen - 1, 1), 0)
        reached = records.end_ns + np.maximum(ADJACENT_NS, ADJACENT_GAPS * spacing)
        follows[1:] = (stream[1:] == stream[:-1]) & (records.start_ns[1:] <= reached[:-1])
    followed = np.append(follows[1:], False)
    samples = np.maximum(np.ceil(seen * share), 1).astype(np.int64)
    hides = _hides(records, stream, counts.payload)
    return _Parts(
        stream=stream,
        start_ns=low,
        end_ns=high,
        begins=~follows & (records.start_ns >= start_ns),
        ends=~followed & (records.end_ns <= end_ns),
        before=before,
        after=after,
        samples=samples,
        frame_bytes=counts.frames * share,
        hidden_ns=np.where(hides, length, 0),
        edge_rows=np.where(records.sampling_rate > 1, 1, EDGE_ROWS),
        between=(packets > 2) & (length > 0),
    )


def _hides(records: RecordBatch, stream: I32, payload: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Records of exporters that write hardly any within `PROMPT_NS` of the one before."""
    near = np.zeros(len(stream), np.bool_)
    near[1:] = (stream[1:] == stream[:-1]) & (np.diff(records.start_ns) <= PROMPT_NS)
    quick = near | np.append(near[1:], False)
    exporters = int(records.exporter.max(initial=-1)) + 1
    whole = np.bincount(records.exporter, payload, exporters)
    share = np.bincount(records.exporter, payload * quick, exporters) / np.maximum(whole, 1)
    return np.asarray(share[records.exporter] < QUICK_SHARE)


def _bins(parts: _Parts, unit: I64) -> ProgressBins:
    """Rows of all records, by stream and time.

    Parameters
    ----------
    parts : _Parts
    unit : int64[streams]
        Payload bytes of a step of position.
    """
    spread = parts.hidden_ns == 0
    length = parts.end_ns - parts.start_ns
    several = np.minimum(np.clip(-(-length // BIN_NS), 1, MOST_ROWS), parts.samples)
    # First and last packet stand in rows of their own where traffic began and paused with them.
    first = np.where(~spread & parts.begins & (length > 0), parts.edge_rows, 0)
    last = np.where(~spread & parts.ends, parts.edge_rows, 0)
    middle = np.where(spread, several, parts.between | (last == 0))
    rows = first + middle + last
    part = np.repeat(np.arange(len(rows)), rows)
    nth = np.arange(len(part)) - np.repeat(np.cumsum(rows) - rows, rows)
    is_first = nth < first[part]
    is_last = nth >= (first + middle)[part]
    # Shares of the record that are through before and after the row.
    step = np.where(spread, several, 1)[part]
    low = np.where(spread[part], nth, 0) / step
    high = np.where(spread[part], nth + 1, 1) / step
    edge = np.where(is_first, 0.0, 1.0)
    ends = is_first | is_last
    time_low, time_high = np.where(ends, edge, low), np.where(ends, edge, high)
    # Rows of one end are a nanosecond apart, inside the record.
    shift = np.where(is_first, np.minimum(nth, length[part]), 0)
    shift = shift - np.where(is_last, np.minimum(rows[part] - 1 - nth, length[part]), 0)
    alone = (nth == first[part]) & is_last
    gone_low = np.where(alone, 0.0, time_low)
    samples = parts.samples - np.where(spread, 0, first + last)
    portion = np.floor(samples[part] * high) - np.floor(samples[part] * low)
    carries = np.where(ends, alone, high - low)
    moved = parts.after - parts.before

    def at(share: NDArray[np.float64]) -> I64:
        return parts.start_ns[part] + np.rint(share * length[part]).astype(np.int64) + shift

    def reached(share: NDArray[np.float64]) -> I64:
        gone = parts.before[part] + share * moved[part]
        return np.floor(gone / unit[parts.stream[part]]).astype(np.int64)

    none = np.zeros(len(part), np.int32)
    return ProgressBins(
        connection=parts.stream[part],
        first_ns=at(time_low),
        last_ns=at(time_high),
        first_seq=reached(gone_low),
        last_seq=reached(time_high),
        slack_ns=np.where(ends, 0, parts.hidden_ns[part]),
        samples=np.where(ends, 1, np.maximum(portion, 1)).astype(np.int32),
        scaled_bytes=parts.frame_bytes[part] * carries,
        retransmitted=none,
        marks=none.copy(),
    )
