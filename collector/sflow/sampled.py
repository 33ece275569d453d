"""What samples of packets say, as columns: flow samples and notices of dropped packets."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from collector.schema import I64, U8, U16, U32, U64

DETAIL_BYTES: Final = 64  # as long as host-sflow lets names of traps, reasons and functions be


class Told(IntEnum):
    """What records of fields (0:2 to 0:4) tell of a packet without a sampled header."""

    NOTHING = 0
    NOT_IP = 1
    IP = 2


class SampleColumns(NamedTuple):
    """The columns of `FlowBatch` that a sample itself fills.

    From `src_hi` on only where there is no sampled header, but a record of the packet's fields.
    """

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
    src_hi: U64
    src_lo: U64
    dst_hi: U64
    dst_lo: U64
    protocol: U8
    src_port: U16
    dst_port: U16
    dscp: U8
    ecn: U8
    tcp_flags: U8
    payload_bytes: U32


class Sampled(NamedTuple):
    """What else a sample says; columns of shape (samples,)."""

    datagram: I64  # which it came in
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
    vlan: U16  # as the switch tells it beside the header; ABSENT_U16 = it does not
    stripped: U8  # 1: `vlan` was a tag outside of those in the header
    vni: U32  # as the switch tells it; ABSENT_U32 = it does not
    told: U8  # Told

    @classmethod
    def empty(cls, rows: int) -> Sampled:
        """So many zeroed rows."""
        return cls(**{name: np.zeros(rows, kind) for name, kind in _SAMPLED_KINDS.items()})

    def take(self, index: I64) -> Sampled:
        """Rows by index, in that order."""
        return Sampled(**{name: getattr(self, name)[index] for name in _SAMPLED_KINDS})


_SAMPLED_KINDS: Final = {
    name: np.dtype(kind)
    for name, kind in {
        "datagram": "i8",
        "sequence": "u4",
        "source": "u8",
        "pool": "u4",
        "dropped": "u4",
        "stamp_ns": "u8",
        "stamp_at": "i8",
        "header_at": "i8",
        "header_bytes": "i8",
        "header_protocol": "u4",
        "status": "u1",
        "fault_at": "i8",
        "vlan": "u2",
        "stripped": "u1",
        "vni": "u4",
        "told": "u1",
    }.items()
}


class Drop(NamedTuple):
    """What only a notice of a dropped packet says; no rows for flow samples."""

    reason: U32
    detail: U8  # shape (samples, DETAIL_BYTES): text, zeros behind it

    @classmethod
    def empty(cls, rows: int) -> Drop:
        """So many zeroed rows."""
        return cls(np.zeros(rows, np.uint32), np.zeros((rows, DETAIL_BYTES), np.uint8))
