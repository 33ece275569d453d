"""Telemetry made by hand, every column filled with values of its whole range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from collector.batches import Batch
from collector.records import RECORD_COLUMNS, RecordBatch
from collector.schema import (
    COLUMNS,
    COUNTER_COLUMNS,
    DISCARD_COLUMNS,
    CounterBatch,
    DecodeError,
    DiscardBatch,
    ExporterHealth,
    FlowBatch,
    Telemetry,
    TimeBasis,
)

FOLDERS = ("flows", "counters", "discards", "records", "reports", "errors")
SECOND_NS = 1_000_000_000
START_NS = 1_796_041_140 * SECOND_NS  # a whole minute


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def health(agent: str, sub_agent: int = 0, **changes: object) -> ExporterHealth:
    values: dict[str, object] = {
        "agent": agent,
        "sub_agent": sub_agent,
        "protocol": "sflow5",
        "datagrams": 0,
        "flow_samples": 0,
        "counter_samples": 0,
        "lost_datagrams": 0,
        "decode_errors": 0,
        "sampling_rates": (),
        "time_basis": TimeBasis.ARRIVAL,
        "state": "counters_only",
    }
    return ExporterHealth(**{**values, **changes})  # type: ignore[arg-type]


def flows(times_ns: Sequence[int], exporter: Sequence[int] | int = 0, seed: int = 0) -> FlowBatch:
    columns = _drawn(COLUMNS, times_ns, exporter, seed)
    columns["time_basis"] %= 3
    return FlowBatch(**columns)


def counters(
    times_ns: Sequence[int], exporter: Sequence[int] | int = 0, seed: int = 0
) -> CounterBatch:
    return CounterBatch(**_drawn(COUNTER_COLUMNS, times_ns, exporter, seed))


def discards(
    times_ns: Sequence[int], exporter: Sequence[int] | int = 0, seed: int = 0
) -> DiscardBatch:
    numbers = {name: kind for name, kind in DISCARD_COLUMNS.items() if kind.kind != "S"}
    columns = _drawn(numbers, times_ns, exporter, seed)
    columns["time_basis"] %= 3
    texts = [b"", b"ttl_value_is_too_small", b"\xff\x01", b"x" * 64]
    columns["detail"] = np.array([texts[n % 4] for n in range(len(times_ns))], "S64")
    return DiscardBatch.of(columns)


def records(
    times_ns: Sequence[int], exporter: Sequence[int] | int = 0, seed: int = 0
) -> RecordBatch:
    columns = _drawn(RECORD_COLUMNS, times_ns, exporter, seed)
    columns["end_ns"] = columns.pop("time_ns")
    columns["time_basis"] %= 3
    return RecordBatch(**columns)


def without_columns(folder: Path, names: Sequence[str]) -> None:
    """Write the files of one kind anew, as a version would have that had no such columns."""
    for path in folder.glob("*.parquet"):
        pq.write_table(pq.read_table(path).drop_columns(list(names)), path)


def _drawn(
    names: Mapping[str, np.dtype[np.generic]],
    times_ns: Sequence[int],
    exporter: Sequence[int] | int,
    seed: int,
) -> dict[str, NDArray[Any]]:
    draw = np.random.default_rng(seed)
    rows = len(times_ns)
    columns: dict[str, NDArray[Any]] = {}
    for name, kind in names.items():
        most = np.iinfo(kind.char)
        columns[name] = draw.integers(most.min, most.max, rows, kind.char, endpoint=True)
    columns["time_ns"] = np.array(times_ns, np.int64)
    columns["exporter"] = np.broadcast_to(np.array(exporter, np.int32), rows).copy()
    return columns


def telemetry(
    flow_rows: FlowBatch | None = None,
    counter_rows: CounterBatch | None = None,
    exporters: Sequence[ExporterHealth] = (health("10.255.0.1"),),
    errors: Sequence[DecodeError] = (),
    nameless: int = 0,
    discard_rows: DiscardBatch | None = None,
    record_rows: RecordBatch | None = None,
) -> Telemetry:
    flow_rows = FlowBatch.empty() if flow_rows is None else flow_rows
    record_rows = RecordBatch.empty() if record_rows is None else record_rows
    return Telemetry(
        flows=flow_rows,
        counters=CounterBatch.empty() if counter_rows is None else counter_rows,
        discards=DiscardBatch.empty() if discard_rows is None else discard_rows,
        records=record_rows,
        exporters=tuple(exporters),
        errors=tuple(errors),
        datagrams=nameless + sum(exporter.datagrams for exporter in exporters),
        flow_samples=len(flow_rows),
        flow_records=len(record_rows),
        counter_samples=sum(exporter.counter_samples for exporter in exporters),
        lost_datagrams=sum(exporter.lost_datagrams for exporter in exporters),
        decode_errors=sum(error.count for error in errors),
    )


def numbered(first: int, count: int, times_ns: Sequence[int] | None = None) -> Telemetry:
    """Rows that can be told apart: `seq` counts from `first`; a row a second unless told."""
    times = times_ns or [START_NS + (first + n) * SECOND_NS for n in range(count)]
    rows = flows(times, seed=first)
    rows.seq[:] = np.arange(first, first + count)
    return telemetry(rows)


def rows_of(batch: Batch, exporters: Sequence[ExporterHealth]) -> list[tuple[Any, ...]]:
    """Rows as tuples, each with its exporter's name, sorted."""
    names = [(e.agent, e.sub_agent, e.protocol) for e in exporters]
    values = [batch.column(name).tolist() for name in batch.KINDS if name != "exporter"]
    numbers = batch.column("exporter").tolist()
    return sorted(zip([names[number] for number in numbers], *values, strict=True))
