"""The schema between telemetry and analysis: `ProgressBins` and the tables it points into.

Everything above `reconstruct.progress` reads these and never a sampled packet.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.messages import MESSAGE_LENGTHS
from collector.schema import I32, I64, U8, U16, U32, U64

BIN_NS: Final = 10_000_000  # a tenth of the shortest phase that matters, some 0.1 s

# Payload that one step of a position stands for where flow records tell of RoCE: they count bytes.
RECORD_UNIT_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses within a VNI; an endpoint's id is its row.

    Parameters
    ----------
    hi, lo : uint64[e]
    vni : uint32[e]
    names : tuple of str
    key : uint64[e]
        A hash of the others, the same in every window.
    """

    hi: U64
    lo: U64
    vni: U32
    names: tuple[str, ...]
    key: U64

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: NDArray[np.intp]) -> Endpoints:
        """Some of the rows, in that order."""
        names = tuple(self.names[row] for row in rows.tolist())
        return Endpoints(self.hi[rows], self.lo[rows], self.vni[rows], names, self.key[rows])


@dataclass(frozen=True, slots=True)
class Connections:
    """One-way packet streams: an edge and its destination QP, or an edge and its TCP ports.

    Parameters
    ----------
    key : uint64[c]
        A hash of what follows up to the ports, the same in every window.
    src, dst : int32[c]
        Endpoint ids.
    transport : uint8[c]
        `collector.schema.Transport`.
    dest_qp : uint32[c]
        RoCE only, else ABSENT_U32.
    src_port, dst_port : uint16[c]
    unit_bytes : int64[c]
        Payload bytes that one step of the sequence number stands for: the path MTU for RoCE
        (`RECORD_UNIT_BYTES` by flow records), 1 for TCP.
    verbs : uint8[c]
        `Verb` bits seen.
    mean_payload : float64[c]
        Mean payload of its data packets, bytes.
    mean_frame : float64[c]
        Mean frame of its data packets, bytes.
    bare_bytes : float64[c]
        Frames without payload (TCP's acknowledgements) that it sent as well, by count.
    message_classes : int64[c, len(CLASS_NAMES)]
        How often each canonical message length was read.
    mean_message_bytes : float64[c]
        Mean message by acknowledgements (MTU x dPSN/dMSN); nan where fewer than two tell.
    """

    key: U64
    src: I32
    dst: I32
    transport: U8
    dest_qp: U32
    src_port: U16
    dst_port: U16
    unit_bytes: I64
    verbs: U8
    mean_payload: NDArray[np.float64]
    mean_frame: NDArray[np.float64]
    bare_bytes: NDArray[np.float64]
    message_classes: I64
    mean_message_bytes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.src)


class Verb:
    """Bits of `Connections.verbs`."""

    WRITE: Final = 1
    WRITE_IMM: Final = 2
    SEND: Final = 4
    READ: Final = 8
    RECORDED: Final = 16  # flow records tell of it: what its packets held was not seen


@dataclass(frozen=True, slots=True)
class ProgressBins:
    """One row per connection and time bin of `BIN_NS`, sorted by connection, then time.

    Parameters
    ----------
    connection : int32[r]
    first_ns, last_ns : int64[r]
        Time of the first and last sample in the bin.
    first_seq, last_seq : int64[r]
        Their unwrapped positions (packets or bytes, see `Connections.unit_bytes`).
    slack_ns : int64[r]
        How much earlier the row's samples may have been taken than their time says; 0 where the
        exporter stamps.
    samples : int32[r]
    scaled_bytes : float64[r]
        Frames times sampling rate: the estimate by count.
    retransmitted : int32[r]
        Samples behind the highest position.
    marks : int32[r]
        Samples with ECN congestion experienced.
    """

    connection: I32
    first_ns: I64
    last_ns: I64
    first_seq: I64
    last_seq: I64
    slack_ns: I64
    samples: I32
    scaled_bytes: NDArray[np.float64]
    retransmitted: I32
    marks: I32

    def __len__(self) -> int:
        return len(self.connection)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> ProgressBins:
        """Some of the rows."""
        return ProgressBins(**{f.name: getattr(self, f.name)[rows] for f in fields(ProgressBins)})


@dataclass(frozen=True, slots=True)
class Progress:
    """One window as analysis sees it.

    `message_lengths` are those of `collector.messages.CLASS_NAMES`, as the site has them.
    """

    endpoints: Endpoints
    connections: Connections
    bins: ProgressBins
    window_start_ns: int
    window_end_ns: int
    message_lengths: tuple[int, ...] = MESSAGE_LENGTHS
