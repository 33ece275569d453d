"""From slices to `Progress`: who sent how much to whom, and when.

A connection is read at its ONE best observation point, so that a packet sampled at several hops is
never counted twice; the sequence number then tells volumes, the samples only tell when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.schema import I32, I64, U64, FlowBatch, Telemetry, Transport
from reconstruct.acknowledgements import PSN_BITS, Curve, mean_messages
from reconstruct.binning import REORDER_BYTES, REORDER_PKTS, bin_slice, endpoint_table
from reconstruct.bins import Connections, Endpoints, Progress, ProgressBins
from reconstruct.slices import Acks, Slice, StreamKind, Streams
from reconstruct.unwrap import BEHIND_SHARE

PATH_MTUS: Final = np.array([256, 512, 1024, 2048, 4096])  # the IB path MTUs there are


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
    start, end = _window(telemetry.flows)
    return join([bin_slice(telemetry.flows, telemetry.exporters, start, end)])


def _window(flows: FlowBatch) -> tuple[int, int]:
    """Event time of the first and the last sample."""
    if not len(flows):
        return 0, 0
    return int(flows.time_ns.min()), int(flows.time_ns.max())


def join(slices: Sequence[Slice], among: U64 | None = None) -> Progress:
    """Progress of every connection over successive slices, as if they had been one.

    Parameters
    ----------
    slices : sequence of Slice
        In order of time; not empty.
    among : uint64[k]
        Keys of endpoints: only connections between two of them are wanted. None: all.

    Notes
    -----
    Volumes and positions are the same as those of one slice of all samples. A retransmission
    that reaches back over a slice's start is noticed by whole bins.
    """
    parts = [s if among is None else _between(s, among) for s in slices]
    endpoints, number = _endpoints(parts)
    streams = _streams(parts, number)
    bins = _bins(parts)
    sections = np.repeat(np.arange(len(parts), dtype=np.int32), [len(p.streams) for p in parts])
    connection, first = _connections_of(streams)
    chosen = _best_points(streams, connection, len(first))
    connections = _connections(streams, connection, first, chosen)

    kept = chosen[bins.connection]
    bins = bins.take(kept) if not kept.all() else bins
    owner = connection[bins.connection]
    order = _grouped(owner, len(first))
    section = sections[bins.connection][order]
    bins = replace(bins, connection=owner).take(order)
    roce = connections.transport == Transport.ROCEV2
    first_seq, last_seq, repeated = _chained(
        bins.connection,
        section,
        bins.first_seq,
        bins.last_seq,
        np.where(roce, PSN_BITS, 32).astype(np.int64),
        np.where(roce, REORDER_PKTS, REORDER_BYTES).astype(np.int64),
    )
    retransmitted = np.where(repeated, bins.samples, bins.retransmitted).astype(np.int32)
    bins = replace(bins, first_seq=first_seq, last_seq=last_seq, retransmitted=retransmitted)
    connections = replace(
        connections,
        mean_message_bytes=mean_messages(_acks(parts, number), connections, _curve(bins)),
    )
    return Progress(endpoints, connections, bins, parts[0].start_ns, parts[-1].end_ns)


def _between(part: Slice, among: U64) -> Slice:
    """A slice with only the streams and acknowledgements between some endpoints."""
    inside = np.isin(part.endpoints.key, among)
    streams, bins, acks = part.streams, part.bins, part.acks
    wanted = inside[streams.src] & inside[streams.dst]
    starts = np.searchsorted(bins.connection, np.flatnonzero(wanted))
    ends = np.searchsorted(bins.connection, np.flatnonzero(wanted), "right")
    lengths = ends - starts
    rows = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    renumbered = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return replace(
        part,
        streams=streams.take(wanted),
        bins=replace(bins.take(rows), connection=renumbered),
        acks=acks.take(inside[acks.src] & inside[acks.dst]),
    )


def _endpoints(parts: Sequence[Slice]) -> tuple[Endpoints, list[I32]]:
    """All endpoints by address, and the new id of each slice's own."""
    columns = {
        name: np.concatenate([getattr(p.endpoints, name) for p in parts])
        for name in ("vni", "hi", "lo", "key")
    }
    _, first, inverse = np.unique(columns["key"], return_index=True, return_inverse=True)
    vni, hi, lo = (columns[name][first] for name in ("vni", "hi", "lo"))
    rank = np.lexsort((lo, hi, vni))
    place = np.empty(len(rank), np.int32)
    place[rank] = np.arange(len(rank), dtype=np.int32)
    ids = np.split(place[inverse], np.cumsum([len(p.endpoints) for p in parts])[:-1])
    return endpoint_table(vni[rank], hi[rank], lo[rank]), ids


def _streams(parts: Sequence[Slice], number: Sequence[I32]) -> Streams:
    """The streams of all slices, with the new ids of endpoints."""
    columns = {
        f.name: np.concatenate([getattr(p.streams, f.name) for p in parts]) for f in fields(Streams)
    }
    for end in ("src", "dst"):
        columns[end] = np.concatenate(
            [ids[getattr(p.streams, end)] for p, ids in zip(parts, number, strict=True)]
        )
    return Streams(**columns)


def _acks(parts: Sequence[Slice], number: Sequence[I32]) -> Acks:
    """The acknowledgements of all slices, with the new ids of endpoints."""
    columns = {
        f.name: np.concatenate([getattr(p.acks, f.name) for p in parts]) for f in fields(Acks)
    }
    for end in ("src", "dst"):
        columns[end] = np.concatenate(
            [ids[getattr(p.acks, end)] for p, ids in zip(parts, number, strict=True)]
        )
    return Acks(**columns)


def _bins(parts: Sequence[Slice]) -> ProgressBins:
    """The bins of all slices; `connection` is a row of `_streams`."""
    columns = {
        f.name: np.concatenate([getattr(p.bins, f.name) for p in parts])
        for f in fields(ProgressBins)
    }
    ahead = np.cumsum([0, *(len(p.streams) for p in parts[:-1])])
    columns["connection"] = np.concatenate(
        [(p.bins.connection + n).astype(np.int32) for p, n in zip(parts, ahead, strict=True)]
    )
    return ProgressBins(**columns)


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


@njit(cache=True)
def _grouped(owner: I32, count: int) -> I64:
    """Rows by owner, those of one owner in their order (a counting sort)."""
    at = np.zeros(count + 1, np.int64)
    for i in range(len(owner)):
        at[owner[i] + 1] += 1
    for i in range(count):
        at[i + 1] += at[i]
    order = np.empty(len(owner), np.int64)
    for i in range(len(owner)):
        order[at[owner[i]]] = i
        at[owner[i]] += 1
    return order


@njit(cache=True)
def _chained(
    connection: I32, section: I32, first_seq: I64, last_seq: I64, width: I64, window: I64
) -> tuple[I64, I64, NDArray[np.bool_]]:
    """Positions that go on from slice to slice, and bins that lie behind those of slices before.

    Each slice unwrapped from its own first raw number, so the step into it is unwrapped like that
    between any two samples (see `reconstruct.unwrap.unwrap`), and all of it moved by as much.
    """
    first, last = np.empty(len(connection), np.int64), np.empty(len(connection), np.int64)
    repeated = np.zeros(len(connection), np.bool_)
    shift, top, before = np.int64(0), np.int64(0), np.int64(0)
    for i in range(len(connection)):
        owner = connection[i]
        if i == 0 or owner != connection[i - 1]:
            shift, top, before = np.int64(0), first_seq[i], first_seq[i]
        elif section[i] != section[i - 1]:
            turn = np.int64(1) << width[owner]
            step = (first_seq[i] - last[i - 1]) % turn
            if step > turn - np.int64(turn * BEHIND_SHARE):
                step -= turn
            shift = last[i - 1] + step - first_seq[i]
            before = top
        first[i], last[i] = first_seq[i] + shift, last_seq[i] + shift
        repeated[i] = max(first[i], last[i]) < before - window[owner]
        top = max(top, first[i], last[i])
    return first, last, repeated
