"""Batches as Arrow tables and back: the same columns, but an exporter by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from collector.batches import Batch
from collector.records import RecordBatch
from collector.schema import ABSENT, I32, LATER, TIMES, CounterBatch, DiscardBatch, FlowBatch

Exporter = tuple[str, int, str]  # agent address, sub-agent, protocol
Rows = TypeVar("Rows", bound=Batch)

# The kinds of rows: folders of a store and members of a `Telemetry`. Each has the columns `time_ns`
# and `exporter`.
KINDS: Final[Mapping[str, type[Batch]]] = {
    "flows": FlowBatch,
    "counters": CounterBatch,
    "discards": DiscardBatch,
    "records": RecordBatch,
}

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


SCHEMAS: Final = {kind: _schema(batch.KINDS) for kind, batch in KINDS.items()}

# What rows read in columns that their file does not have yet.
LATER_VALUES: Final = {name: ABSENT.get(name, 0) for name in LATER}


def exporter_name(exporter: Exporter) -> str:
    """An exporter as it stands in files: "AGENT SUB_AGENT PROTOCOL"."""
    return " ".join(map(str, exporter))


def named_exporter(name: str) -> Exporter:
    """The exporter of a name that `exporter_name` made."""
    agent, sub_agent, protocol = name.split(" ")
    return agent, int(sub_agent), protocol


def to_table(kind: str, batch: Batch, exporters: Sequence[Exporter]) -> pa.Table:
    """A batch as a table of the schema `SCHEMAS[kind]`; absent values stay what they are.

    Parameters
    ----------
    kind
        One of `KINDS`.
    batch
        Rows whose `exporter` is an index into `exporters`.
    exporters
        Each is there once.
    """
    columns: list[pa.Array] = []
    for name in batch.KINDS:
        column = pa.array(batch.column(name))
        if name == "exporter":
            column = pa.DictionaryArray.from_arrays(column, list(map(exporter_name, exporters)))
        columns.append(column.view(TIME) if name in TIMES else column)
    return pa.Table.from_arrays(columns, schema=SCHEMAS[kind])


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


def from_table(batch: type[Rows], table: pa.Table, numbers: ExporterNumbers) -> Rows:
    """A table with the schema of these rows as a batch; its columns may be read-only."""
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype in batch.KINDS.items():
        column = table.column(name)
        if name == "exporter":
            columns[name] = numbers.number(column)
        elif dtype.kind == "S":
            columns[name] = column.to_numpy().astype(dtype)
        else:
            columns[name] = column.to_numpy().view(dtype)
    return batch.of(columns)
