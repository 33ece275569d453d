"""SONiC's high-frequency telemetry: templates whose elements are counters of ports.

Source: sonic-net/SONiC, doc/high-frequency-telemetry/high-frequency-telemetry-hld.md, 7.2 (a
template holds observationTimeNanoseconds and, for each counter, an element whose number is the
object's index and whose enterprise is the object's type and the counter's number); opencompute
SAI, saiport.h (numbers of counters). A port's index is what the switch's own configuration makes
of it, not its ifIndex; names of counters' objects are not on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit

from collector.schema import ABSENT_U32, I64, U8, U64, CounterBatch
from collector.wire import u8

_OBSERVATION_TIME_NS: Final = 325
_PORT: Final = 1  # SAI_OBJECT_TYPE_PORT
# By the number that SAI gives each counter of a port.
_COUNTERS: Final = {
    0: "in_octets",
    1: "in_ucast_pkts",
    3: "in_discards",
    4: "in_errors",
    9: "out_octets",
    10: "out_ucast_pkts",
    12: "out_discards",
    13: "out_errors",
}
NAMES: Final = tuple(_COUNTERS.values())
# SAI numbers fewer than 128 types of objects; enterprises beyond 65,535 that are none stay out.
_MOST_TYPES: Final = 0x7F


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where the counters of ports stand in a record of fixed length.

    Attributes
    ----------
    record_bytes, time_at, time_width
        The observation time's place.
    ports : int64, shape (ports,)
        Indexes of ports.
    cells : int64, shape (cells, 4)
        Byte offset, width, row of `ports` and index into `NAMES`.
    """

    record_bytes: int
    time_at: int
    time_width: int
    ports: I64
    cells: I64


def layout(fields: tuple[tuple[int, int, int], ...]) -> Layout | None:
    """The layout of a template of counters; None = it is none, or none of its counters is read."""
    at, time_at, time_width = 0, -1, 0
    ports: dict[int, int] = {}
    cells = []
    for enterprise, number, width in fields:
        if enterprise == 0 and number == _OBSERVATION_TIME_NS and 1 <= width <= 8 and time_at < 0:
            time_at, time_width = at, width
        elif (
            enterprise >> 16 == 0
            or (enterprise >> 16) & 0x7FFF > _MOST_TYPES
            or not 4 <= width <= 8
        ):
            return None
        elif enterprise >> 16 == _PORT and enterprise & 0xFFFF in _COUNTERS:
            row = ports.setdefault(number, len(ports))
            cells.append((at, width, row, NAMES.index(_COUNTERS[enterprise & 0xFFFF])))
        at += width
    if time_at < 0 or not cells:
        return None
    return Layout(
        at,
        time_at,
        time_width,
        np.array(list(ports), np.int64),
        np.array(cells, np.int64),
    )


@njit(cache=True, nogil=True)
def unsigned(buffer: U8, at: int, width: int) -> np.uint64:
    """Big-endian unsigned of 1 to 8 bytes."""
    value = np.uint64(0)
    for byte in range(width):
        value = (value << np.uint64(8)) | np.uint64(u8(buffer, at + byte))
    return value


@njit(cache=True, nogil=True)
def _read(
    buffer: U8, at: I64, time_at: int, time_width: int, cells: I64, time: U64, values: U64
) -> None:
    for record in range(len(at)):
        time[record] = unsigned(buffer, at[record] + time_at, time_width)
        for cell in range(len(cells)):
            values[cells[cell, 3], record, cells[cell, 2]] = unsigned(
                buffer, at[record] + cells[cell, 0], int(cells[cell, 1])
            )


def read(buffer: U8, at: I64, plan: Layout) -> tuple[CounterBatch, U64]:
    """Counters of ports out of records.

    Parameters
    ----------
    buffer : uint8
    at : int64, shape (records,)
        Where each record begins; it is whole.

    Returns
    -------
    CounterBatch
        A row per record and port, time and exporter left to be filled. What is not said is all
        ones, as sFlow has it.
    uint64, shape (records,)
        The observation time as it came.
    """
    records, ports = len(at), len(plan.ports)
    values = np.full((len(NAMES), records, ports), 0xFFFF_FFFF_FFFF_FFFF, np.uint64)
    time = np.zeros(records, np.uint64)
    _read(buffer, at, plan.time_at, plan.time_width, plan.cells, time, values)
    rows = CounterBatch.empty(records * ports)
    rows.ifindex[:] = np.tile(plan.ports, records)
    rows.status.fill(ABSENT_U32)
    for index, name in enumerate(NAMES):
        column = getattr(rows, name)
        column[:] = values[index].reshape(-1).astype(column.dtype)
    return rows, time
