"""Batches as Arrow tables and back: the same columns, but an exporter by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from collector.schema import (
    ABSENT,
    COLUMNS,
    COUNTER_COLUMNS,
    I32,
    LATER,
    TIMES,
    CounterBatch,
    FlowBatch,
)

Exporter = tuple[str, int, str]  # agent address, sub-agent, protocol
Batch = TypeVar("Batch", FlowBatch, CounterBatch)

TIME: Final = pa.timestamp("ns")  # UTC, and so without a zone
_NAME: Final = pa.dictionary(pa.int32(), pa.string())  # each name is written once per file


def _schema(columns: Mapping[str, np.dtype[np.generic]]) -> pa.Schema:
    fields: dict[str, pa.DataType] = {}
    for name, kind in columns.items():
        if name == "exporter":
            fields[name] = _NAME
        else:
            fields[name] = TIME if name in TIMES else pa.from_numpy_dtype(kind)
    return pa.schema(fields)


SCHEMAS: Final = {FlowBatch: _schema(COLUMNS), CounterBatch: _schema(COUNTER_COLUMNS)}

# What rows read in columns that their file does not have yet.
LATER_VALUES: Final = {name: ABSENT.get(name, 0) for name in LATER}


def exporter_name(exporter: Exporter) -> str:
    """An exporter as it stands in files: "AGENT SUB_AGENT PROTOCOL"."""
    return " ".join(map(str, exporter))


def named_exporter(name: str) -> Exporter:
    """The exporter of a name that `exporter_name` made."""
    agent, sub_agent, protocol = name.split(" ")
    return agent, int(sub_agent), protocol


def to_table(batch: FlowBatch | CounterBatch, exporters: Sequence[Exporter]) -> pa.Table:
    """A batch as a table of its schema in `SCHEMAS`; absent values stay what they are.

    Parameters
    ----------
    batch
        Rows whose `exporter` is an index into `exporters`.
    exporters
        Each is there once.
    """
    columns: list[pa.Array] = []
    for name in COLUMNS if isinstance(batch, FlowBatch) else COUNTER_COLUMNS:
        column = pa.array(getattr(batch, name))
        if name == "exporter":
            column = pa.DictionaryArray.from_arrays(column, list(map(exporter_name, exporters)))
        columns.append(column.view(TIME) if name in TIMES else column)
    return pa.Table.from_arrays(columns, schema=SCHEMAS[type(batch)])


class ExporterNumbers:
    """Numbers the exporters that have rows, over all tables of a window."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}

    def exporters(self) -> tuple[Exporter, ...]:
        """All exporters by number."""
        return tuple(map(named_exporter, self._names))

    def number(self, column: pa.ChunkedArray) -> I32:
        """The number of each row's exporter; int32, shape (rows,)."""
        parts = [np.zeros(0, np.int32)]
        for chunk in column.chunks:
            names, code = chunk.dictionary.to_pylist(), chunk.indices.to_numpy()
            known = np.full(len(names), -1, np.int32)
            # A file names the exporters of its whole flush, also those without a row in it.
            for used in np.flatnonzero(np.bincount(code, minlength=len(names))).tolist():
                known[used] = self._names.setdefault(names[used], len(self._names))
            parts.append(known[code])
        return np.concatenate(parts)


def from_table(kind: type[Batch], table: pa.Table, numbers: ExporterNumbers) -> Batch:
    """A table of the schema `SCHEMAS[kind]` as a batch; its columns may be read-only."""
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype in (COLUMNS if kind is FlowBatch else COUNTER_COLUMNS).items():
        column = table.column(name)
        if name == "exporter":
            columns[name] = numbers.number(column)
        else:
            columns[name] = column.to_numpy().view(dtype)
    return kind(**columns)
