"""From slices to `Progress`: who sent how much to whom, and when.

A connection is read at its ONE best observation point, so that a packet sampled at several hops is
never counted twice; the sequence number then tells volumes, the samples only tell when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.messages import MESSAGE_LENGTHS
from collector.records import RecordBatch
from collector.schema import I32, FlowBatch, Telemetry, Transport
from reconstruct.acknowledgements import Curve, mean_messages
from reconstruct.binning import bin_slice
from reconstruct.bins import RECORD_UNIT_BYTES, Connections, Progress, ProgressBins, Verb
from reconstruct.merging import Pick, group_rows, merge
from reconstruct.records import bins_of_records
from reconstruct.slices import Slice, StreamKind, Streams
from reconstruct.untold import untold

MOST_BEFORE_NS: Final = 120_000_000_000  # twice the longest active timeout worth analysing
PATH_MTUS: Final = np.array([256, 512, 1024, 2048, 4096])  # the IB path MTUs there are


def follow(telemetry: Telemetry, message_lengths: tuple[int, ...] = MESSAGE_LENGTHS) -> Progress:
    """Progress of every connection in the window.

    Parameters
    ----------
    telemetry : Telemetry
        As read by `collector.ingest`; rows in any order. Flow records count for what no sample
        tells of.
    message_lengths : tuple of int
        Of `collector.messages.CLASS_NAMES`, bytes.

    Returns
    -------
    Progress
        Empty tables where nothing of RoCEv2 or TCP was sampled or recorded.
    """
    start, end = _window(telemetry.flows, telemetry.records)
    slices = [bin_slice(telemetry.flows, telemetry.exporters, start, end, message_lengths)]
    if len(records := untold(telemetry.records, telemetry.flows)):
        slices.append(bins_of_records(records, telemetry.exporters, start, end))
    return join(slices)


def _window(flows: FlowBatch, records: RecordBatch) -> tuple[int, int]:
    """Event time of the first and the last sample, or packet of a record."""
    first, last = [flows.time_ns], [flows.time_ns]
    if len(records):
        # What a record says of long before all others ended is told by nothing else.
        since = int(records.end_ns.min()) - MOST_BEFORE_NS
        first.append(np.maximum(records.start_ns, since))
        last.append(records.end_ns)
    if not any(map(len, last)):
        return 0, 0
    return int(np.concatenate(first).min()), int(np.concatenate(last).max())


def join(slices: Sequence[Slice], pick: Pick | None = None) -> Progress:
    """Progress of every connection over successive slices, as if they had been one.

    Parameters
    ----------
    slices, pick
        See `reconstruct.merging.merge`.
    """
    whole = merge(slices, pick)
    streams, bins = whole.streams, whole.bins
    connection, first = _connections_of(streams)
    chosen = _best_points(streams, connection, len(first))
    connections = _connections(streams, connection, first, chosen)
    rows = np.flatnonzero(chosen[bins.connection])
    owner = connection[bins.connection[rows]]
    order = group_rows(owner, len(first))
    bins = replace(bins.take(rows[order]), connection=owner[order])
    messages = mean_messages(whole.acks, connections, _curve(bins))
    connections = replace(connections, mean_message_bytes=messages)
    return Progress(whole.endpoints, connections, bins, whole.start_ns, whole.end_ns)


def _connections_of(streams: Streams) -> tuple[I32, NDArray[np.intp]]:
    """Connection id of each stream and a first stream of each, by endpoints, then key."""
    _, first, inverse = np.unique(streams.connection, return_index=True, return_inverse=True)
    tcp = streams.kind[first] == StreamKind.TCP
    ports = streams.src_port[first].astype(np.uint64) << np.uint64(16) | streams.dst_port[first]
    which = np.where(tcp, ports, streams.dest_qp[first])
    rank = np.lexsort((which, streams.kind[first], streams.dst[first], streams.src[first]))
    place = np.empty(len(rank), np.int32)
    place[rank] = np.arange(len(rank), dtype=np.int32)
    return place[inverse], first[rank]


def _best_points(streams: Streams, connection: I32, count: int) -> NDArray[np.bool_]:
    """Streams of each connection at the point that sampled most of it.

    A leaf sees all that a host sends, a spine what was hashed or sprayed onto it.
    """
    if not count:
        return np.zeros(0, np.bool_)
    points, point = np.unique(streams.point, return_inverse=True)
    pairs, pair = np.unique(connection.astype(np.int64) * len(points) + point, return_inverse=True)
    samples = np.bincount(pair, streams.samples)
    owner = pairs // len(points)
    order = np.lexsort((-pairs, samples, owner))
    best = np.empty(count, np.int64)
    best[owner[order]] = order  # the last write of a connection is its best pair; ties: the lower
    return np.asarray(best[connection] == pair)


def _connections(
    streams: Streams, connection: I32, first: NDArray[np.intp], chosen: NDArray[np.bool_]
) -> Connections:
    """Connections, by what their best points' streams hold; messages are not measured yet."""
    count = len(first)
    owner = connection[chosen]

    def total(name: str) -> NDArray[np.float64]:
        return np.bincount(owner, getattr(streams, name)[chosen], count).astype(np.float64)

    samples = np.maximum(total("samples"), 1)
    top_payload = np.zeros(count, np.int64)
    np.maximum.at(top_payload, owner, streams.top_payload[chosen])
    verbs = np.zeros(count, np.uint8)
    np.bitwise_or.at(verbs, owner, streams.verbs[chosen])
    classes = np.zeros((count, streams.classes.shape[1]), np.int64)
    np.add.at(classes, owner, streams.classes[chosen])
    mtu = PATH_MTUS[np.minimum(np.searchsorted(PATH_MTUS, top_payload), len(PATH_MTUS) - 1)]
    roce = streams.transport[first] == Transport.ROCEV2
    mtu[verbs & Verb.RECORDED != 0] = RECORD_UNIT_BYTES
    return Connections(
        key=streams.connection[first],
        src=streams.src[first],
        dst=streams.dst[first],
        transport=streams.transport[first],
        dest_qp=streams.dest_qp[first],
        src_port=streams.src_port[first],
        dst_port=streams.dst_port[first],
        unit_bytes=np.where(roce, mtu, 1).astype(np.int64),
        verbs=verbs,
        mean_payload=total("payload_bytes") / samples,
        mean_frame=total("frame_bytes") / samples,
        bare_bytes=total("bare_bytes"),
        message_classes=classes,
        mean_message_bytes=np.full(count, np.nan),
    )


def _curve(bins: ProgressBins) -> Curve:
    """Positions at the first and the last sample of each bin."""
    n = len(bins)
    at = np.empty(2 * n, np.int64)
    position = np.empty(2 * n, np.int64)
    at[0::2], at[1::2] = bins.first_ns, bins.last_ns
    position[0::2], position[1::2] = bins.first_seq, bins.last_seq
    return Curve(np.repeat(bins.connection, 2), at, position)
