"""Columns of a table of transfers, by their names, and the flow records that its rows become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from collector.addresses import from_text
from collector.records import (
    FULL_PAYLOAD,
    RECORD_ABSENT,
    ROCE_PORT,
    TCP,
    UDP,
    RecordBatch,
    RecordTime,
    header_bytes,
)
from collector.transfer_names import NAMES, UNITS_NS, TableError, plain

Bools = NDArray[np.bool_]
Values = NDArray[np.float64] | NDArray[np.int64]

_REQUIRED: Final = ("start", "source", "destination", "bytes")
_TIMES: Final = ("start", "end", "duration")
_PROTOCOLS: Final = {"tcp": TCP, "udp": UDP, "roce": UDP, "rocev2": UDP}
# Numbers that could be times since 1970: a unit is a thousand of the next, so the size says which.
_LEAST_NS: Final = {"ms": 1e11, "us": 1e14, "ns": 1e17}
_MOST_NS: Final = 1 << 62
_MOST_BYTES: Final = 1 << 50  # of one transfer
_LEAST_PAYLOAD: Final = 1  # bytes of a packet


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the file: its name there, and the unit that its name says."""

    name: str
    unit: str | None


class TransferColumns:
    """What the columns of one file mean, and rows of flow records from them.

    Parameters
    ----------
    names
        Of all columns of the file.

    Raises
    ------
    TableError
        A column is missing, or two mean the same.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._columns: dict[str, _Column] = {}
        for name in names:
            base, unit = plain(name)
            role = next((role for role, called in NAMES.items() if base in called), None)
            if role is None or (unit is not None and role not in _TIMES):
                continue
            if role in self._columns:
                both = f"{self._columns[role].name!r} and {name!r}"
                raise TableError(f"columns {both} both tell the {role} of a transfer")
            self._columns[role] = _Column(name, unit)
        lacking = [role for role in _REQUIRED if role not in self._columns]
        if "end" not in self._columns and "duration" not in self._columns:
            lacking.append("duration")
        if lacking:
            called = " or ".join(NAMES[lacking[0]])
            raise TableError(f"a table of transfers without the column {called}")
        # Of times whose columns do not say it.
        named = (self._columns[role].unit for role in ("start", "end") if role in self._columns)
        self._unit: str | None = next(filter(None, named), None)

    @property
    def names(self) -> list[str]:
        """The columns of the file that are read."""
        return [column.name for column in self._columns.values()]

    def rows(self, table: pd.DataFrame) -> tuple[RecordBatch, Bools]:
        """The next rows of the file, as flow records.

        Parameters
        ----------
        table
            With the columns `names`; their values may be text.

        Returns
        -------
        RecordBatch
            A row for each that can be read; `exporter` is 0.
        bool, shape (len(table),)
            Which these are.
        """
        start, usable = self._times(table, "start")
        if "end" in self._columns:
            end, known = self._times(table, "end")
        else:
            length, known = self._times(table, "duration")
            end = start + np.where(usable & known, length, 0)
        usable &= known & (end >= start)
        carried, known = _integers(table[self._columns["bytes"].name], _MOST_BYTES)
        usable &= known
        ends = []
        for side in ("source", "destination"):
            hi, lo, known = _addresses(table[self._columns[side].name])
            ends.append((hi, lo))
            usable &= known
        (src_hi, src_lo), (dst_hi, dst_lo) = ends
        protocol = self._protocol(table)
        vni = self._optional(table, "vni", 0xFF_FFFF, 0)
        rows = RecordBatch.empty(len(table)).but(
            export_ns=end,
            start_ns=start,
            end_ns=end,
            time_basis=np.full(len(table), RecordTime.ABSOLUTE, np.uint8),
            src_hi=src_hi,
            src_lo=src_lo,
            dst_hi=dst_hi,
            dst_lo=dst_lo,
            protocol=protocol,
            src_port=self._optional(table, "source_port", 0xFFFF, 0).astype(np.uint16),
            dst_port=self._optional(
                table, "destination_port", 0xFFFF, np.where(protocol == UDP, ROCE_PORT, 0)
            ).astype(np.uint16),
            vni=np.where(vni > 0, vni, RECORD_ABSENT["vni"]).astype(np.uint32),
            sampling_rate=np.ones(len(table), np.uint32),
            **{
                name: np.full(len(table), value, RecordBatch.KINDS[name])
                for name, value in RECORD_ABSENT.items()
                if name not in ("bytes", "packets", "vni")
            },
        )
        full = np.maximum(-(-carried // FULL_PAYLOAD), 1)
        packets = self._optional(table, "packets", _MOST_BYTES, full)
        # Nothing carries more packets than bytes, so such a count is none.
        packets = np.where((packets < 1) | (packets * _LEAST_PAYLOAD > carried), full, packets)
        rows = rows.but(
            packets=packets.astype(np.uint64),
            bytes=(carried + packets * header_bytes(rows)).astype(np.uint64),
        )
        return rows.take(usable), usable

    def _times(self, table: pd.DataFrame, role: str) -> tuple[NDArray[np.int64], Bools]:
        """ns, since the epoch or of a duration, and which of them can be read."""
        column = self._columns[role]
        values = table[column.name]
        if pd.api.types.is_datetime64_any_dtype(values.dtype):
            return _since_epoch(values)
        if pd.api.types.is_timedelta64_dtype(values.dtype):
            return _in_ns(values)
        numbers = pd.to_numeric(values, errors="coerce")
        numbers = numbers.where(numbers.abs() < np.inf)
        if numbers.isna().all() and role != "duration":
            moments = pd.to_datetime(values, utc=True, errors="coerce", format="ISO8601")
            if moments.notna().any():
                self._unit = self._unit or "s"
            return _since_epoch(moments)
        scale = UNITS_NS[column.unit or self._unit_of(numbers)]
        found, known = _numbers(numbers)
        known &= (found >= 0) & (found < _MOST_NS // scale)
        found = np.where(known, found, 0)
        if found.dtype.kind == "i":
            return found.astype(np.int64) * scale, known
        # What is behind the point by itself: a double holds a time since 1970 to 240 ns only.
        whole = np.floor(found)
        behind = np.rint((found - whole) * scale).astype(np.int64)
        return whole.astype(np.int64) * scale + behind, known

    def _unit_of(self, numbers: pd.Series[Any]) -> str:
        """The unit of times that name none: by the size of the first ones that were read."""
        if self._unit is None:
            typical = float(numbers.abs().median())
            if not np.isfinite(typical):
                return "s"
            fitting = [unit for unit, least in _LEAST_NS.items() if typical >= least]
            self._unit = fitting[-1] if fitting else "s"
        return self._unit

    def _protocol(self, table: pd.DataFrame) -> NDArray[np.uint8]:
        if "protocol" not in self._columns:
            return np.full(len(table), UDP, np.uint8)
        values = table[self._columns["protocol"].name]
        text = values.astype(str).str.strip().str.lower().map(_PROTOCOLS)
        numbers = pd.to_numeric(values, errors="coerce")
        found, known = _numbers(text.where(text.notna(), numbers))
        known &= (found >= 0) & (found <= 0xFF)
        return np.where(known, found, 0).astype(np.uint8)

    def _optional(
        self, table: pd.DataFrame, role: str, most: int, absent: int | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if role not in self._columns:
            return np.broadcast_to(np.asarray(absent, np.int64), len(table))
        found, known = _integers(table[self._columns[role].name], most)
        return np.where(known, found, absent)


def _since_epoch(values: pd.Series[Any]) -> tuple[NDArray[np.int64], Bools]:
    """Points in time; those that name no zone are UTC."""
    return _in_ns(pd.to_datetime(values, utc=True).dt.tz_localize(None))


def _in_ns(values: pd.Series[Any]) -> tuple[NDArray[np.int64], Bools]:
    found = values.to_numpy()
    scale = UNITS_NS[np.datetime_data(found.dtype)[0]]
    whole = found.astype(np.int64)
    known = values.notna().to_numpy() & (whole >= 0) & (whole < _MOST_NS // scale)
    return np.where(known, whole, 0) * scale, known


def _numbers(values: pd.Series[Any]) -> tuple[Values, Bools]:
    """Values as int64 where all are, else as float64; and which of them are numbers."""
    if pd.api.types.is_signed_integer_dtype(values.dtype) and not values.hasnans:
        return values.to_numpy(np.int64), np.ones(len(values), np.bool_)
    found = values.to_numpy(np.float64, na_value=np.nan)
    known = np.isfinite(found)
    return np.where(known, found, 0), known


def _integers(values: pd.Series[Any], most: int) -> tuple[NDArray[np.int64], Bools]:
    """Numbers from 0 to `most`, rounded, and which of the values these are."""
    found, known = _numbers(pd.to_numeric(values, errors="coerce"))
    known &= (found >= 0) & (found <= most)
    return np.where(known, np.rint(found), 0).astype(np.int64), known


def _addresses(values: pd.Series[Any]) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Bools]:
    """Both halves of addresses, and which of the values are any; what follows a % is left out."""
    place, texts = pd.factorize(values.astype(str))
    halves = np.zeros((len(texts) + 1, 2), np.uint64)
    known = np.zeros(len(texts) + 1, np.bool_)
    for number, text in enumerate(texts):
        try:
            halves[number] = from_text(text.partition("%")[0].strip())
        except ValueError:
            continue
        known[number] = True
    return halves[place, 0], halves[place, 1], known[place]
