"""`Slice`: one stretch of telemetry as bins, built once and joined with its neighbours at will.

A slice knows nothing of the slices before it, so it can be kept, stored and read again: what ties
slices together (which observation point a connection is read at, how its counter went on) is
worked out by `reconstruct.progress.join`, over whichever of them a question needs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from collector.schema import I32, I64, U8, U16, U32, U64
from reconstruct.bins import Endpoints, ProgressBins


@dataclass(frozen=True, slots=True)
class Streams:
    """Connections, each as one observation point saw it; sums are over the slice's samples.

    Parameters
    ----------
    connection : uint64[s]
        Key of the connection: a hash of its ends, its kind and its queue pair or ports. Ascending.
    point : uint64[s]
        Key of the observation point: a hash of exporter and direction.
    src, dst : int32[s]
        Endpoint ids of the slice.
    kind : uint8[s]
        `StreamKind`.
    transport : uint8[s]
        `collector.schema.Transport`.
    dest_qp : uint32[s]
        RoCE only, else ABSENT_U32.
    src_port, dst_port : uint16[s]
        As first seen.
    verbs : uint8[s]
        `reconstruct.bins.Verb` bits seen.
    samples : int64[s]
    payload_bytes, frame_bytes : int64[s]
        Sums.
    bare_bytes : float64[s]
        Frames without payload (TCP's acknowledgements) times sampling rate, seen beside its data.
    top_payload : int64[s]
        Largest payload, bytes.
    classes : int64[s, len(CLASS_NAMES)]
        How often each canonical message length was read.
    """

    connection: U64
    point: U64
    src: I32
    dst: I32
    kind: U8
    transport: U8
    dest_qp: U32
    src_port: U16
    dst_port: U16
    verbs: U8
    samples: I64
    payload_bytes: I64
    frame_bytes: I64
    bare_bytes: NDArray[np.float64]
    top_payload: I64
    classes: I64

    def __len__(self) -> int:
        return len(self.connection)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Streams:
        """Some of the rows."""
        return Streams(**{f.name: getattr(self, f.name)[rows] for f in fields(Streams)})


class StreamKind:
    """Values of `Streams.kind`: requests and read responses have sequence spaces of their own."""

    TCP = 0
    REQUEST = 1
    READ_RESPONSE = 2


@dataclass(frozen=True, slots=True)
class Acks:
    """Acknowledgements that tell PSN and MSN (see `reconstruct.acknowledgements`).

    Parameters
    ----------
    src, dst : int32[a]
        Endpoint ids of the slice, as the acknowledgement runs.
    src_port : uint16[a]
    time_ns : int64[a]
    psn, msn : uint32[a]
    """

    src: I32
    dst: I32
    src_port: U16
    time_ns: I64
    psn: U32
    msn: U32

    def __len__(self) -> int:
        return len(self.time_ns)

    @classmethod
    def none(cls) -> Acks:
        """No acknowledgements."""
        ends, words = np.zeros(0, np.int32), np.zeros(0, np.uint32)
        return cls(ends, ends, np.zeros(0, np.uint16), np.zeros(0, np.int64), words, words)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Acks:
        """Some of the rows."""
        return Acks(**{f.name: getattr(self, f.name)[rows] for f in fields(Acks)})


@dataclass(frozen=True, slots=True)
class Slice:
    """Bins of the samples from `start_ns` to `end_ns`.

    Parameters
    ----------
    start_ns, end_ns : int
        Event time that the slice stands for, whether it has samples in all of it or not. Between
        slices that are joined, `end_ns` of one must not lie behind `start_ns` of the next, and
        no bin of `BIN_NS` may lie in both.
    endpoints : Endpoints
    streams : Streams
    bins : ProgressBins
        `connection` is a row of `streams`, in whose order it is sorted; positions are unwrapped
        from the raw sequence number of the stream's first sample in the slice.
    acks : Acks
    """

    start_ns: int
    end_ns: int
    endpoints: Endpoints
    streams: Streams
    bins: ProgressBins
    acks: Acks
