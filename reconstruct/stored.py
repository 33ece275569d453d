"""Slices as rows of a table, and back: what the store keeps of bins.

One row is one bin. What belongs to a stream as a whole (payload, message lengths) stands on its
first row and adds up over rows, so that a query over the files needs no join.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from collector.messages import CLASS_NAMES
from reconstruct.binning import endpoint_table
from reconstruct.bins import ProgressBins
from reconstruct.hashing import mix, stream_keys
from reconstruct.slices import Acks, Slice, Streams

KIND: Final = "bins"
_TIME: Final = pa.timestamp("ns", tz="UTC")
_SLICE: Final = {"slice_start": _TIME, "slice_end": _TIME}
_STREAM: Final = {
    "src_hi": pa.uint64(),
    "src_lo": pa.uint64(),
    "dst_hi": pa.uint64(),
    "dst_lo": pa.uint64(),
    "vni": pa.uint32(),
    "kind": pa.uint8(),
    "transport": pa.uint8(),
    "dest_qp": pa.uint32(),
    "src_port": pa.uint16(),
    "dst_port": pa.uint16(),
    "connection": pa.uint64(),
    "point": pa.uint64(),
    "verbs": pa.uint8(),
    "top_payload": pa.uint32(),
}
_SUMS: Final = {
    "payload_bytes": pa.uint64(),
    "frame_bytes": pa.uint64(),
    **{f"messages_{name}": pa.uint32() for name in CLASS_NAMES},
}
_BIN: Final = {
    "first_time": _TIME,
    "last_time": _TIME,
    "first_seq": pa.int64(),
    "last_seq": pa.int64(),
    "slack_ns": pa.int64(),
    "samples": pa.uint32(),
    "scaled_bytes": pa.float64(),
    "retransmitted": pa.uint32(),
    "ecn_marks": pa.uint32(),
}
SCHEMA: Final = pa.schema({**_SLICE, **_STREAM, **_SUMS, **_BIN})


def to_table(part: Slice) -> pa.Table:
    """The bins of a slice as a table of `SCHEMA`; acknowledgements are not kept."""
    streams, bins, ends = part.streams, part.bins, part.endpoints
    rows = len(bins)
    first = np.diff(bins.connection, prepend=-1) != 0
    by_stream = {
        "src_hi": ends.hi[streams.src],
        "src_lo": ends.lo[streams.src],
        "dst_hi": ends.hi[streams.dst],
        "dst_lo": ends.lo[streams.dst],
        "vni": ends.vni[streams.src],
        **{
            name: getattr(streams, name)
            for name in ("kind", "transport", "dest_qp", "src_port", "dst_port")
        },
        **{
            name: getattr(streams, name) for name in ("connection", "point", "verbs", "top_payload")
        },
    }
    sums = {
        "payload_bytes": streams.payload_bytes,
        "frame_bytes": streams.frame_bytes,
        **{f"messages_{name}": streams.classes[:, i] for i, name in enumerate(CLASS_NAMES)},
    }
    columns: dict[str, NDArray[Any]] = {
        "slice_start": np.full(rows, part.start_ns),
        "slice_end": np.full(rows, part.end_ns),
        **{name: column[bins.connection] for name, column in by_stream.items()},
        **{name: np.where(first, column[bins.connection], 0) for name, column in sums.items()},
        "first_time": bins.first_ns,
        "last_time": bins.last_ns,
        "first_seq": bins.first_seq,
        "last_seq": bins.last_seq,
        "slack_ns": bins.slack_ns,
        "samples": bins.samples,
        "scaled_bytes": bins.scaled_bytes,
        "retransmitted": bins.retransmitted,
        "ecn_marks": bins.marks,
    }
    return pa.Table.from_arrays(
        [pa.array(columns[field.name]).cast(field.type) for field in SCHEMA], schema=SCHEMA
    )


def from_table(table: pa.Table) -> list[Slice]:
    """The slices whose bins a table of `SCHEMA` holds, in order of time; rows in any order."""
    columns = {name: _values(table.column(name)) for name in SCHEMA.names}
    start = columns["slice_start"]
    order = np.argsort(start, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(start[order])) + 1) if len(order) else []
    return [_slice({name: column[rows] for name, column in columns.items()}) for rows in parts]


def _values(column: pa.ChunkedArray) -> NDArray[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: NDArray[Any] = column.to_numpy()
    return values


def _slice(columns: dict[str, NDArray[Any]]) -> Slice:
    """One slice from its rows."""
    c = columns
    keys = stream_keys(c["connection"], c["point"])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    stream = inverse.astype(np.int32)
    order = np.lexsort((c["first_time"], stream))
    count = len(first)

    def total(name: str) -> NDArray[np.int64]:
        return np.bincount(stream, c[name].astype(np.float64), count).astype(np.int64)

    vni = np.concatenate([c["vni"][first], c["vni"][first]])
    hi = np.concatenate([c["src_hi"][first], c["dst_hi"][first]])
    lo = np.concatenate([c["src_lo"][first], c["dst_lo"][first]])
    _, distinct, ids = np.unique(mix(vni, hi, lo), return_index=True, return_inverse=True)
    ends = ids.astype(np.int32)
    columns_of = {
        name: c[name][first]
        for name in ("connection", "point", "kind", "transport", "dest_qp", "src_port", "dst_port")
    }
    top_payload, verbs = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    np.maximum.at(top_payload, stream, c["top_payload"].astype(np.int64))
    np.bitwise_or.at(verbs, stream, c["verbs"].astype(np.uint8))
    streams = Streams(
        **columns_of,
        src=ends[:count],
        dst=ends[count:],
        verbs=verbs,
        samples=total("samples"),
        payload_bytes=total("payload_bytes"),
        frame_bytes=total("frame_bytes"),
        bare_bytes=np.zeros(count),
        top_payload=top_payload,
        classes=np.stack([total(f"messages_{name}") for name in CLASS_NAMES], axis=1),
    )
    bins = ProgressBins(
        connection=stream[order],
        first_ns=c["first_time"][order].astype(np.int64),
        last_ns=c["last_time"][order].astype(np.int64),
        first_seq=c["first_seq"][order].astype(np.int64),
        last_seq=c["last_seq"][order].astype(np.int64),
        slack_ns=c["slack_ns"][order].astype(np.int64),
        samples=c["samples"][order].astype(np.int32),
        scaled_bytes=c["scaled_bytes"][order].astype(np.float64),
        retransmitted=c["retransmitted"][order].astype(np.int32),
        marks=c["ecn_marks"][order].astype(np.int32),
    )
    none = np.zeros(0, np.int64)
    return Slice(
        start_ns=int(c["slice_start"][0]),
        end_ns=int(c["slice_end"][0]),
        endpoints=endpoint_table(vni[distinct], hi[distinct], lo[distinct]),
        streams=streams,
        bins=bins,
        acks=Acks(
            src=none.astype(np.int32),
            dst=none.astype(np.int32),
            src_port=none.astype(np.uint16),
            time_ns=none,
            psn=none.astype(np.uint32),
            msn=none.astype(np.uint32),
        ),
    )
