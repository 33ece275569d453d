"""From sampled packets to a `Slice`: who was seen sending what to whom, when, and where.

Rows are sorted once by stream and time and folded into bins; nothing here looks beyond the slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.addresses import to_text
from collector.messages import MESSAGE_LENGTHS
from collector.records import RecordBatch
from collector.schema import (
    ABSENT_U8,
    ABSENT_U32,
    U64,
    ExporterHealth,
    FlowBatch,
    HeaderState,
    TimeBasis,
    Transport,
)
from reconstruct.acknowledgements import PSN_BITS, find_acks
from reconstruct.bins import BIN_NS, Endpoints, ProgressBins, Verb
from reconstruct.hashing import mix, stream_keys
from reconstruct.slices import Slice, StreamKind, Streams
from reconstruct.unwrap import fell_behind, unwrap

REORDER_PKTS: Final = 1024  # what two queues of one port can put out of order, with room
REORDER_BYTES: Final = 1 << 20

_LAST_WRITE: Final = 0x0B
_WRITES: Final = np.array([0x06, 0x07, 0x08, 0x0A])
_WRITES_IMM: Final = np.array([0x09, 0x0B])
_SENDS: Final = np.array([0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x16, 0x17])
_READ_RESPONSES: Final = np.array([0x0D, 0x0E, 0x0F, 0x10])


def bin_slice(
    flows: FlowBatch,
    exporters: Sequence[ExporterHealth],
    start_ns: int,
    end_ns: int,
    message_lengths: Sequence[int] = MESSAGE_LENGTHS,
) -> Slice:
    """The bins of some samples.

    Parameters
    ----------
    flows : FlowBatch
        Rows in any order.
    exporters : sequence of ExporterHealth
        What `FlowBatch.exporter` points into.
    start_ns, end_ns : int
        The slice, see `reconstruct.slices.Slice`.
    message_lengths : sequence of int
        Of `collector.messages.CLASS_NAMES`, bytes; 0 for one that does not occur.
    """
    flows = flows.take(
        (flows.header_state == HeaderState.COMPLETE)
        & np.isin(flows.transport, (Transport.TCP, Transport.ROCEV2))
    )
    endpoints, src, dst = endpoints_of(flows)
    data, kind = _data_rows(flows)
    rows = np.flatnonzero(data)
    ends = endpoints.key[src[rows]], endpoints.key[dst[rows]]
    connection = _connection_keys(flows, *ends, rows, kind)
    point = _points(flows, exporters, rows)
    keys, first, inverse = np.unique(
        stream_keys(connection, point), return_index=True, return_inverse=True
    )
    stream = inverse.astype(np.int32)
    order = np.lexsort((flows.time_ns[rows], stream))
    streams = replace(
        _streams(flows, src, dst, kind, rows, stream, first, connection, point, message_lengths),
        bare_bytes=_bare_bytes(flows, exporters, endpoints.key[src], endpoints.key[dst], keys),
    )
    return Slice(
        start_ns=start_ns,
        end_ns=end_ns,
        endpoints=endpoints,
        streams=streams,
        bins=_bins(flows, rows[order], stream[order]),
        acks=find_acks(flows, src, dst),
    )


def exporter_key(exporter: ExporterHealth) -> int:
    """Hash of an exporter, the same in every window."""
    name = f"{exporter.agent} {exporter.sub_agent} {exporter.protocol}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def endpoints_of(
    flows: FlowBatch | RecordBatch,
) -> tuple[Endpoints, NDArray[np.int32], NDArray[np.int32]]:
    """The endpoint table, sorted by address, and both ends of each row as ids."""
    n = len(flows)
    table = np.empty(2 * n, [("vni", "u4"), ("hi", "u8"), ("lo", "u8")])
    for side, at in (("src", slice(0, n)), ("dst", slice(n, 2 * n))):
        table["vni"][at] = flows.vni
        table["hi"][at] = getattr(flows, f"{side}_hi")
        table["lo"][at] = getattr(flows, f"{side}_lo")
    # Rows repeat a few hundred addresses: sorting 64-bit hashes is far quicker than rows.
    _, first, inverse = np.unique(
        mix(table["vni"], table["hi"], table["lo"]), return_index=True, return_inverse=True
    )
    rank = np.argsort(table[first], order=("vni", "hi", "lo"))
    place = np.empty(len(rank), np.int32)
    place[rank] = np.arange(len(rank), dtype=np.int32)
    found = table[first][rank]
    ids = place[inverse]
    return endpoint_table(found["vni"], found["hi"], found["lo"]), ids[:n], ids[n:]


def endpoint_table(
    vni: NDArray[np.uint32], hi: NDArray[np.uint64], lo: NDArray[np.uint64]
) -> Endpoints:
    """Endpoints by their addresses, with the names and keys that these give."""
    names = tuple(
        to_text(int(upper), int(lower)) + ("" if net == ABSENT_U32 else f"%{net}")
        for net, upper, lower in zip(vni, hi, lo, strict=True)
    )
    return Endpoints(hi.copy(), lo.copy(), vni.copy(), names, mix(vni, hi, lo))


def _data_rows(flows: FlowBatch) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Which rows carry data of their own sequence, and the `StreamKind` of each row."""
    opcode = flows.opcode & np.uint8(0x1F)
    roce = flows.transport == Transport.ROCEV2
    reliable = roce & (flows.opcode != ABSENT_U8) & np.isin(flows.opcode >> 5, (0, 1, 5))
    request = reliable & ((opcode <= _LAST_WRITE) | np.isin(opcode, (0x16, 0x17)))
    response = reliable & np.isin(opcode, _READ_RESPONSES)
    segment = (flows.transport == Transport.TCP) & (flows.payload_bytes > 0)
    kind = np.where(
        request, StreamKind.REQUEST, np.where(response, StreamKind.READ_RESPONSE, StreamKind.TCP)
    )
    return request | response | segment, kind.astype(np.uint8)


def _connection_keys(
    flows: FlowBatch, src: U64, dst: U64, rows: NDArray[np.intp], kind: NDArray[np.uint8]
) -> U64:
    """Key of the connection of each data row, from the keys of its ends."""
    ports = flows.src_port[rows].astype(np.uint64) << np.uint64(16) | flows.dst_port[rows]
    which = np.where(kind[rows] == StreamKind.TCP, ports, flows.dest_qp[rows])
    return mix(src, dst, kind[rows], which)


def _points(flows: FlowBatch, exporters: Sequence[ExporterHealth], rows: NDArray[np.intp]) -> U64:
    """Key of the observation point of each of some rows."""
    keys = np.array([exporter_key(e) for e in exporters], np.uint64)
    return mix(keys[flows.exporter[rows]], flows.direction[rows])


def _bare_bytes(
    flows: FlowBatch, exporters: Sequence[ExporterHealth], src: U64, dst: U64, streams: U64
) -> NDArray[np.float64]:
    """Bytes by count of TCP's frames without payload, by the stream whose data they go beside.

    Parameters
    ----------
    src, dst : uint64[n]
        Keys of both ends of each row.
    streams : uint64[s]
        Keys of the streams, ascending; what goes beside none of them counts for none.
    """
    out = np.zeros(len(streams))
    bare = np.flatnonzero((flows.transport == Transport.TCP) & (flows.payload_bytes == 0))
    if not len(bare) or not len(streams):
        return out
    tcp = np.full(len(flows), StreamKind.TCP, np.uint8)
    connection = _connection_keys(flows, src[bare], dst[bare], bare, tcp)
    key = stream_keys(connection, _points(flows, exporters, bare))
    at = np.minimum(np.searchsorted(streams, key), len(streams) - 1)
    beside = streams[at] == key
    scaled = flows.frame_bytes[bare].astype(np.float64) * flows.sampling_rate[bare]
    np.add.at(out, at[beside], scaled[beside])
    return out


def _streams(
    flows: FlowBatch,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    kind: NDArray[np.uint8],
    rows: NDArray[np.intp],
    stream: NDArray[np.int32],
    first: NDArray[np.intp],
    connection: U64,
    point: U64,
    message_lengths: Sequence[int],
) -> Streams:
    count = len(first)
    head = rows[first]
    payload = flows.payload_bytes[rows]
    top_payload = np.zeros(count, np.int64)
    np.maximum.at(top_payload, stream, payload)
    told = flows.message_bytes[rows]
    classes = np.stack(
        [
            np.bincount(stream[(length > 0) & (told == length)], minlength=count)
            for length in message_lengths
        ],
        axis=1,
    )
    roce = flows.transport[head] == Transport.ROCEV2
    return Streams(
        connection=connection[first],
        point=point[first],
        src=src[head],
        dst=dst[head],
        kind=kind[head],
        transport=flows.transport[head],
        dest_qp=np.where(roce, flows.dest_qp[head], ABSENT_U32).astype(np.uint32),
        src_port=flows.src_port[head],
        dst_port=flows.dst_port[head],
        verbs=_verbs(flows, rows, stream, count),
        samples=np.bincount(stream, minlength=count).astype(np.int64),
        payload_bytes=np.bincount(stream, payload, count).astype(np.int64),
        frame_bytes=np.bincount(stream, flows.frame_bytes[rows], count).astype(np.int64),
        bare_bytes=np.zeros(count),
        top_payload=top_payload,
        classes=classes.astype(np.int64),
    )


def _verbs(
    flows: FlowBatch, rows: NDArray[np.intp], stream: NDArray[np.int32], count: int
) -> NDArray[np.uint8]:
    """`Verb` bits of each stream; 0 for TCP."""
    opcode = np.where(flows.transport[rows] == Transport.ROCEV2, flows.opcode[rows] & 0x1F, 0xFF)
    out = np.zeros(count, np.uint8)
    for bit, opcodes in (
        (Verb.WRITE, _WRITES),
        (Verb.WRITE_IMM, _WRITES_IMM),
        (Verb.SEND, _SENDS),
        (Verb.READ, _READ_RESPONSES),
    ):
        out[np.unique(stream[np.isin(opcode, opcodes)])] |= np.uint8(bit)
    return out


def _bins(flows: FlowBatch, rows: NDArray[np.intp], stream: NDArray[np.int32]) -> ProgressBins:
    """Rows sorted by stream and time, folded into bins."""
    time = flows.time_ns[rows]
    roce = flows.transport[rows] == Transport.ROCEV2
    position = unwrap(stream, flows.seq[rows], np.where(roce, PSN_BITS, 32).astype(np.uint8))
    behind = fell_behind(
        stream, position, np.where(roce, REORDER_PKTS, REORDER_BYTES).astype(np.int64)
    )
    slot = time // BIN_NS
    new = np.ones(len(rows), np.bool_)
    new[1:] = (stream[1:] != stream[:-1]) | (slot[1:] != slot[:-1])
    head = np.flatnonzero(new)
    tail = np.append(head[1:], len(rows))[: len(head)] - 1
    stamped = flows.time_basis[rows] == TimeBasis.EXPORTER
    slack = np.where(stamped, 0, time - flows.time_min_ns[rows])
    scaled = flows.frame_bytes[rows].astype(np.float64) * flows.sampling_rate[rows]

    def total(values: NDArray[np.generic]) -> NDArray[np.float64]:
        if not len(head):
            return np.zeros(0)
        return np.asarray(np.add.reduceat(values.astype(np.float64), head))

    return ProgressBins(
        connection=stream[head],
        first_ns=time[head],
        last_ns=time[tail],
        first_seq=position[head],
        last_seq=position[tail],
        slack_ns=np.maximum.reduceat(slack, head) if len(head) else slack,
        samples=(tail - head + 1).astype(np.int32),
        scaled_bytes=total(scaled),
        retransmitted=total(behind).astype(np.int32),
        marks=total(flows.ecn[rows] == 3).astype(np.int32),
    )
