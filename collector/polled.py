"""What agents tell of their ports and of themselves now and then, beside interface counters.

A row is what one counter sample said, or what is known of a port or an exporter by now. The
schema builds on this module and not the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from collector.batches import Batch

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
Text = NDArray[np.bytes_]
F32 = NDArray[np.float32]
Columns = Mapping[str, np.dtype[np.generic]]

NOT_SAID: Final = 0xFFFF_FFFF
_NAME: Final = "S64"  # sFlow lets names be any length; these are cut

PORT_COLUMNS: Final[dict[str, np.dtype[np.generic]]] = {
    name: np.dtype(kind)
    for name, kind in {
        "time_ns": "i8",  # arrival of the datagram
        "exporter": "i4",
        "ifindex": "u4",
        "name": _NAME,  # as the switch calls the port; empty = not said
        # From here on NOT_SAID = not said, as sFlow has it for counters.
        "aggregate": "u4",  # ifIndex of the LAG that it belongs to
        "lag_state": "u4",  # a byte each: actor's admin and oper state, partner's admin and oper
        "alignment_errors": "u4",
        "fcs_errors": "u4",
        "send_errors": "u4",  # the MAC's own
        "receive_errors": "u4",
        "too_long_frames": "u4",
        "symbol_errors": "u4",
    }.items()
}
HOST_COLUMNS: Final[dict[str, np.dtype[np.generic]]] = {
    name: np.dtype(kind)
    for name, kind in {
        "time_ns": "i8",  # arrival of the datagram
        "exporter": "i4",
        "name": _NAME,  # host name; empty = not said
        "cpu_5s": "i4",  # processor in use, in hundredths of a percent; -1 = not said
        "cpu_1m": "i4",
        "cpu_5m": "i4",
        "load_1m": "f4",  # load average; zero in these and below = not said
        "cpus": "u4",
        "uptime_s": "u4",
        "memory_bytes": "u8",
        "free_bytes": "u8",
    }.items()
}
# What stands for "not said" by column; zero, or no text, in all others.
ABSENT_POLLED: Final[dict[str, int]] = {
    **dict.fromkeys(("cpu_5s", "cpu_1m", "cpu_5m"), -1),
    **dict.fromkeys(tuple(PORT_COLUMNS)[4:], NOT_SAID),
}


@dataclass(frozen=True, slots=True)
class PortBatch(Batch):
    """Ports of exporters; columns as in `PORT_COLUMNS`."""

    KINDS: ClassVar = PORT_COLUMNS

    time_ns: I64
    exporter: I32
    ifindex: U32
    name: Text
    aggregate: U32
    lag_state: U32
    alignment_errors: U32
    fcs_errors: U32
    send_errors: U32
    receive_errors: U32
    too_long_frames: U32
    symbol_errors: U32

    @classmethod
    def empty(cls, rows: int = 0) -> Self:
        """So many rows in which nothing is said, to be filled in place."""
        return cls(**unsaid(PORT_COLUMNS, rows))


@dataclass(frozen=True, slots=True)
class HostBatch(Batch):
    """Exporters as machines: processors and memory; columns as in `HOST_COLUMNS`."""

    KINDS: ClassVar = HOST_COLUMNS

    time_ns: I64
    exporter: I32
    name: Text
    cpu_5s: I32
    cpu_1m: I32
    cpu_5m: I32
    load_1m: F32
    cpus: U32
    uptime_s: U32
    memory_bytes: U64
    free_bytes: U64

    @classmethod
    def empty(cls, rows: int = 0) -> Self:
        """So many rows in which nothing is said, to be filled in place."""
        return cls(**unsaid(HOST_COLUMNS, rows))


def unsaid(columns: Columns, rows: int) -> dict[str, NDArray[Any]]:
    """Columns in which nothing is said."""
    out: dict[str, NDArray[Any]] = {name: np.zeros(rows, kind) for name, kind in columns.items()}
    for name in ABSENT_POLLED.keys() & out.keys():
        out[name].fill(ABSENT_POLLED[name])
    return out
