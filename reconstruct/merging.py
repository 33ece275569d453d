"""Successive slices as one: streams are joined, and their counters go on from slice to slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import chain

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.schema import I32, I64, U64, Transport
from reconstruct.acknowledgements import PSN_BITS
from reconstruct.binning import REORDER_BYTES, REORDER_PKTS
from reconstruct.bins import Endpoints, ProgressBins, Verb
from reconstruct.hashing import stream_keys
from reconstruct.slices import Acks, Slice, Streams
from reconstruct.unwrap import BEHIND_SHARE

Pick = Callable[[Slice], tuple[NDArray[np.intp], NDArray[np.intp]]]
"""Which streams and which acknowledgements of a slice are wanted, as ascending rows."""


def sent_by(keys: U64) -> Pick:
    """Wants what endpoints of these keys send, and acknowledgements between two of them."""

    def pick(part: Slice) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        inside = np.isin(part.endpoints.key, keys)
        streams, acks = part.streams, part.acks
        return (
            np.flatnonzero(inside[streams.src]),
            np.flatnonzero(inside[acks.src] & inside[acks.dst]),
        )

    return pick


def outside(sets: Sequence[U64]) -> Pick:
    """Wants what does not run between two endpoints of one of these (disjoint) sets of keys."""
    keys = np.concatenate([np.zeros(0, np.uint64), *sets])
    owner = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    order = np.argsort(keys)
    keys, owner = keys[order], owner[order]

    def pick(part: Slice) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        held = np.full(len(part.endpoints), -1)
        if len(keys):
            at = np.minimum(np.searchsorted(keys, part.endpoints.key), len(keys) - 1)
            held = np.where(keys[at] == part.endpoints.key, owner[at], -1)
        wanted = [
            np.flatnonzero((held[of.src] < 0) | (held[of.src] != held[of.dst]))
            for of in (part.streams, part.acks)
        ]
        return wanted[0], wanted[1]

    return pick


def those(connections: U64) -> Pick:
    """Wants the connections of these keys, and no acknowledgements."""
    keys = np.unique(connections)

    def pick(part: Slice) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        first = np.searchsorted(part.streams.connection, keys)
        last = np.searchsorted(part.streams.connection, keys, "right")
        return _ranges(first, last), np.zeros(0, np.intp)

    return pick


def merge(slices: Sequence[Slice], pick: Pick | None = None) -> Slice:
    """One slice that holds all that some successive ones do.

    Parameters
    ----------
    slices : sequence of Slice
        In order of time; not empty.
    pick : Pick
        Which streams are wanted; None: all.

    Notes
    -----
    Bins, sums and positions are those of one slice of all samples. Only a retransmission that
    reaches back over the start of a slice is noticed by whole bins.
    """
    parts = [s if pick is None else _restricted(s, pick) for s in slices]
    if len(parts) == 1 and pick is None:
        return parts[0]
    endpoints, number = _endpoints(parts)
    pieces = _streams(parts, number)
    keys = stream_keys(pieces.connection, pieces.point)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    stream = inverse.astype(np.int32)
    streams = _summed(pieces, stream, first)
    piece, section, bins = _bins(parts)
    owner = stream[piece]
    order = group_rows(owner, len(first))
    bins = replace(bins, connection=owner).take(order)
    roce = streams.transport == Transport.ROCEV2
    recorded = streams.verbs & Verb.RECORDED != 0
    first_seq, last_seq, repeated = _chained(
        bins.connection,
        section[order],
        bins.first_seq,
        bins.last_seq,
        # Flow records count on from one slice to the next: where one ends the other begins.
        np.where(recorded, 0, np.where(roce, PSN_BITS, 32)).astype(np.int64),
        np.where(roce, REORDER_PKTS, REORDER_BYTES).astype(np.int64),
    )
    retransmitted = np.where(repeated, bins.samples, bins.retransmitted).astype(np.int32)
    bins = replace(bins, first_seq=first_seq, last_seq=last_seq, retransmitted=retransmitted)
    start_ns, end_ns = parts[0].start_ns, parts[-1].end_ns
    return Slice(start_ns, end_ns, endpoints, streams, bins, _acks(parts, number))


def _restricted(part: Slice, pick: Pick) -> Slice:
    """A slice with only the streams and acknowledgements that are wanted, and their endpoints."""
    wanted, wanted_acks = pick(part)
    starts = np.searchsorted(part.bins.connection, wanted)
    ends = np.searchsorted(part.bins.connection, wanted, "right")
    streams, acks = part.streams.take(wanted), part.acks.take(wanted_acks)
    used = np.zeros(len(part.endpoints), np.bool_)
    for ids in (streams.src, streams.dst, acks.src, acks.dst):
        used[ids] = True
    number = (np.cumsum(used) - 1).astype(np.int32)
    return replace(
        part,
        endpoints=part.endpoints.take(np.flatnonzero(used)),
        streams=replace(streams, src=number[streams.src], dst=number[streams.dst]),
        bins=replace(
            part.bins.take(_ranges(starts, ends)),
            connection=np.repeat(np.arange(len(wanted), dtype=np.int32), ends - starts),
        ),
        acks=replace(acks, src=number[acks.src], dst=number[acks.dst]),
    )


def _ranges(first: NDArray[np.intp], last: NDArray[np.intp]) -> NDArray[np.intp]:
    """The numbers from each first up to, and without, its last, one after the other."""
    lengths = last - first
    return np.asarray(
        np.repeat(first - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum()), np.intp
    )


def _endpoints(parts: Sequence[Slice]) -> tuple[Endpoints, list[I32]]:
    """All endpoints by address, and the new id of each slice's own."""
    whole = Endpoints(
        hi=np.concatenate([p.endpoints.hi for p in parts]),
        lo=np.concatenate([p.endpoints.lo for p in parts]),
        vni=np.concatenate([p.endpoints.vni for p in parts]),
        names=tuple(chain.from_iterable(p.endpoints.names for p in parts)),
        key=np.concatenate([p.endpoints.key for p in parts]),
    )
    _, first, inverse = np.unique(whole.key, return_index=True, return_inverse=True)
    rank = np.lexsort((whole.lo[first], whole.hi[first], whole.vni[first]))
    place = np.empty(len(rank), np.int32)
    place[rank] = np.arange(len(rank), dtype=np.int32)
    ids = np.split(place[inverse], np.cumsum([len(p.endpoints) for p in parts])[:-1])
    return whole.take(first[rank]), ids


def _streams(parts: Sequence[Slice], number: Sequence[I32]) -> Streams:
    """The streams of all slices, one after the other, with the new ids of endpoints."""
    columns = {
        f.name: np.concatenate([getattr(p.streams, f.name) for p in parts]) for f in fields(Streams)
    }
    for end in ("src", "dst"):
        columns[end] = np.concatenate(
            [ids[getattr(p.streams, end)] for p, ids in zip(parts, number, strict=True)]
        )
    return Streams(**columns)


def _summed(pieces: Streams, stream: I32, first: NDArray[np.intp]) -> Streams:
    """The streams that pieces of several slices make; sums add up, the rest is as first seen."""
    count = len(first)
    verbs = np.zeros(count, np.uint8)
    np.bitwise_or.at(verbs, stream, pieces.verbs)
    top_payload = np.zeros(count, np.int64)
    np.maximum.at(top_payload, stream, pieces.top_payload)
    classes = np.zeros((count, pieces.classes.shape[1]), np.int64)
    np.add.at(classes, stream, pieces.classes)

    def total(name: str) -> I64:
        return np.bincount(stream, getattr(pieces, name), count).astype(np.int64)

    return replace(
        pieces.take(first),
        bare_bytes=np.bincount(stream, pieces.bare_bytes, count).astype(np.float64),
        verbs=verbs,
        samples=total("samples"),
        payload_bytes=total("payload_bytes"),
        frame_bytes=total("frame_bytes"),
        top_payload=top_payload,
        classes=classes,
    )


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


def _bins(parts: Sequence[Slice]) -> tuple[I32, I32, ProgressBins]:
    """The row of `_streams` and the number of the slice of each bin, and the bins of all slices."""
    columns = {
        f.name: np.concatenate([getattr(p.bins, f.name) for p in parts])
        for f in fields(ProgressBins)
    }
    ahead = np.cumsum([0, *(len(p.streams) for p in parts[:-1])])
    piece = np.concatenate(
        [(p.bins.connection + n).astype(np.int32) for p, n in zip(parts, ahead, strict=True)]
    )
    section = np.repeat(np.arange(len(parts), dtype=np.int32), [len(p.bins) for p in parts])
    return piece, section, ProgressBins(**columns)


@njit(cache=True)
def group_rows(owner: I32, count: int) -> I64:
    """Rows by owner, those of one owner in their order (a counting sort).

    Parameters
    ----------
    owner : int32[n]
        From 0 to `count` - 1.

    Returns
    -------
    int64[n]
    """
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
