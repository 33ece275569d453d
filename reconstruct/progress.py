"""From sampled packets to `Progress`: who sent how much to whom, and when.

A connection is read at its ONE best observation point, so that a packet sampled at several hops is
never counted twice; the sequence number then tells volumes, the samples only tell when.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.addresses import to_text
from collector.schema import (
    ABSENT_U8,
    ABSENT_U32,
    FlowBatch,
    HeaderState,
    Telemetry,
    TimeBasis,
    Transport,
)
from reconstruct.acknowledgements import PSN_BITS, Curve, mean_messages
from reconstruct.bins import (
    BIN_NS,
    MESSAGE_CLASSES,
    Connections,
    Endpoints,
    Progress,
    ProgressBins,
    Verb,
)
from reconstruct.hashing import mix
from reconstruct.unwrap import fell_behind, unwrap

PATH_MTUS: Final = np.array([256, 512, 1024, 2048, 4096])  # the IB path MTUs there are
REORDER_PKTS: Final = 1024  # what two queues of one port can put out of order, with room
REORDER_BYTES: Final = 1 << 20

_LAST_WRITE: Final = 0x0B
_WRITES: Final = np.array([0x06, 0x07, 0x08, 0x0A])
_WRITES_IMM: Final = np.array([0x09, 0x0B])
_SENDS: Final = np.array([0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x16, 0x17])
_READ_RESPONSES: Final = np.array([0x0D, 0x0E, 0x0F, 0x10])


def follow(telemetry: Telemetry) -> Progress:
    """Progress of every connection in the window.

    Parameters
    ----------
    telemetry : Telemetry
        As read by `collector.ingest`; rows in any order.

    Returns
    -------
    Progress
        Empty tables where nothing of RoCEv2 or TCP was sampled.
    """
    flows = telemetry.flows
    start, end = _window(flows)
    flows = flows.take(
        (flows.header_state == HeaderState.COMPLETE)
        & np.isin(flows.transport, (Transport.TCP, Transport.ROCEV2))
    )
    endpoints, src, dst = _endpoints(flows)
    data, kind = _data_rows(flows)
    rows = np.flatnonzero(data)
    connection, first_row = _connection_ids(flows, src, dst, kind, rows)
    best = _at_best_point(flows, rows, connection)
    rows, connection = rows[best], connection[best]
    order = np.lexsort((flows.time_ns[rows], connection))
    rows, connection = rows[order], connection[order]
    roce = flows.transport[rows] == Transport.ROCEV2
    position = unwrap(connection, flows.seq[rows], np.where(roce, PSN_BITS, 32).astype(np.uint8))
    connections = _connections(flows, src, dst, rows, connection, position, first_row)
    bins = _bins(flows, rows, connection, position, roce)
    return Progress(endpoints, connections, bins, start, end)


def _window(flows: FlowBatch) -> tuple[int, int]:
    """Event time of the first and the last sample."""
    if not len(flows):
        return 0, 0
    return int(flows.time_ns.min()), int(flows.time_ns.max())


def _endpoints(flows: FlowBatch) -> tuple[Endpoints, NDArray[np.int32], NDArray[np.int32]]:
    """The endpoint table, sorted by address, and both ends of each row as ids."""
    n = len(flows)
    table = np.empty(2 * n, [("vni", "u4"), ("hi", "u8"), ("lo", "u8")])
    for side, at in (("src", slice(0, n)), ("dst", slice(n, 2 * n))):
        table["vni"][at] = flows.vni
        table["hi"][at] = getattr(flows, f"{side}_hi")
        table["lo"][at] = getattr(flows, f"{side}_lo")
    # Rows repeat a few hundred addresses: sorting 64-bit hashes is far quicker than rows.
    _, first, inverse = np.unique(
        mix(table["vni"].astype(np.uint64), table["hi"], table["lo"]),
        return_index=True,
        return_inverse=True,
    )
    rank = np.argsort(table[first], order=("vni", "hi", "lo"))
    place = np.empty(len(rank), np.int32)
    place[rank] = np.arange(len(rank), dtype=np.int32)
    found = table[first][rank]
    ids = place[inverse]
    names = tuple(
        to_text(int(row["hi"]), int(row["lo"]))
        + ("" if row["vni"] == ABSENT_U32 else f"%{row['vni']}")
        for row in found
    )
    endpoints = Endpoints(found["hi"].copy(), found["lo"].copy(), found["vni"].copy(), names)
    return endpoints, ids[:n], ids[n:]


def _data_rows(flows: FlowBatch) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Which rows carry data of their own sequence, and the stream's kind (0 TCP, 1, 2 RoCE).

    Requests and read responses count in different sequence spaces, so they are two streams.
    """
    opcode = flows.opcode & np.uint8(0x1F)
    roce = flows.transport == Transport.ROCEV2
    reliable = roce & (flows.opcode != ABSENT_U8) & np.isin(flows.opcode >> 5, (0, 1, 5))
    request = reliable & ((opcode <= _LAST_WRITE) | np.isin(opcode, (0x16, 0x17)))
    response = reliable & np.isin(opcode, _READ_RESPONSES)
    segment = (flows.transport == Transport.TCP) & (flows.payload_bytes > 0)
    kind = np.where(request, 1, np.where(response, 2, 0)).astype(np.uint64)
    return request | response | segment, kind


def _connection_ids(
    flows: FlowBatch,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    kind: NDArray[np.uint64],
    rows: NDArray[np.intp],
) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Connection id of each row and the first row of each connection, by endpoints, then key."""
    tcp = kind[rows] == 0
    ports = flows.src_port[rows].astype(np.uint64) << np.uint64(16) | flows.dst_port[rows]
    key = np.where(tcp, ports, flows.dest_qp[rows])
    ends = src[rows].astype(np.uint64) << np.uint64(32) | dst[rows].astype(np.uint64)
    _, first, inverse = np.unique(
        mix(ends, kind[rows], key), return_index=True, return_inverse=True
    )
    rank = np.lexsort((key[first], kind[rows][first], ends[first]))
    place = np.empty(len(rank), np.int32)
    place[rank] = np.arange(len(rank), dtype=np.int32)
    return place[inverse], rows[first[rank]]


def _at_best_point(
    flows: FlowBatch, rows: NDArray[np.intp], connection: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Rows of each connection at the (exporter, direction) that sampled most of it.

    A leaf sees all that a host sends, a spine what was hashed or sprayed onto it.
    """
    if not len(rows):
        return np.zeros(0, np.bool_)
    point = flows.exporter[rows].astype(np.int64) << 2 | flows.direction[rows]
    points, point_id = np.unique(point, return_inverse=True)
    pair, pair_id, count = np.unique(
        connection.astype(np.int64) * len(points) + point_id,
        return_inverse=True,
        return_counts=True,
    )
    owner = pair // len(points)
    order = np.lexsort((-pair, count, owner))
    best = np.empty(int(owner[-1]) + 1, np.int64)
    best[owner[order]] = order  # the last write of a connection is its best pair; ties: the lower
    return np.asarray(best[connection] == pair_id)


def _connections(
    flows: FlowBatch,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    rows: NDArray[np.intp],
    connection: NDArray[np.int32],
    position: NDArray[np.int64],
    first_row: NDArray[np.intp],
) -> Connections:
    count = len(first_row)
    transport = flows.transport[first_row]
    roce = transport == Transport.ROCEV2
    samples = np.bincount(connection, minlength=count)
    payload = flows.payload_bytes[rows]
    top_payload = np.zeros(count, np.int64)
    np.maximum.at(top_payload, connection, payload)
    mtu = PATH_MTUS[np.minimum(np.searchsorted(PATH_MTUS, top_payload), len(PATH_MTUS) - 1)]
    classes = np.stack(
        [
            np.bincount(connection[flows.message_bytes[rows] == length], minlength=count)
            for length in MESSAGE_CLASSES.values()
        ],
        axis=1,
    )
    return Connections(
        src=src[first_row],
        dst=dst[first_row],
        transport=transport,
        dest_qp=np.where(roce, flows.dest_qp[first_row], ABSENT_U32).astype(np.uint32),
        src_port=flows.src_port[first_row],
        dst_port=flows.dst_port[first_row],
        unit_bytes=np.where(roce, mtu, 1).astype(np.int64),
        verbs=_verbs(flows, rows, connection, count),
        mean_payload=np.bincount(connection, payload, count) / np.maximum(samples, 1),
        mean_frame=np.bincount(connection, flows.frame_bytes[rows], count) / np.maximum(samples, 1),
        message_classes=classes.astype(np.int64),
        mean_message_bytes=mean_messages(
            flows, src, dst, first_row, Curve(connection, flows.time_ns[rows], position), mtu
        ),
    )


def _verbs(
    flows: FlowBatch, rows: NDArray[np.intp], connection: NDArray[np.int32], count: int
) -> NDArray[np.uint8]:
    """`Verb` bits of each connection; 0 for TCP."""
    opcode = np.where(flows.transport[rows] == Transport.ROCEV2, flows.opcode[rows] & 0x1F, 0xFF)
    out = np.zeros(count, np.uint8)
    for bit, opcodes in (
        (Verb.WRITE, _WRITES),
        (Verb.WRITE_IMM, _WRITES_IMM),
        (Verb.SEND, _SENDS),
        (Verb.READ, _READ_RESPONSES),
    ):
        out[np.unique(connection[np.isin(opcode, opcodes)])] |= np.uint8(bit)
    return out


def _bins(
    flows: FlowBatch,
    rows: NDArray[np.intp],
    connection: NDArray[np.int32],
    position: NDArray[np.int64],
    roce: NDArray[np.bool_],
) -> ProgressBins:
    """Rows sorted by connection and time, folded into bins."""
    time = flows.time_ns[rows]
    window = np.where(roce, REORDER_PKTS, REORDER_BYTES).astype(np.int64)
    behind = fell_behind(connection, position, window)
    slot = time // BIN_NS
    new = np.ones(len(rows), np.bool_)
    new[1:] = (connection[1:] != connection[:-1]) | (slot[1:] != slot[:-1])
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
        connection=connection[head],
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
