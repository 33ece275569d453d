"""`read`: one window of a store, as if it had just been ingested."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from collector.errors import StoreError
from collector.records import RecordBatch, RecordTime
from collector.schema import (
    I32,
    ClockHealth,
    CounterBatch,
    DecodeError,
    DiscardBatch,
    ExporterHealth,
    FlowBatch,
    Telemetry,
    TimeBasis,
)
from collector.store.reports import COUNTS, ERROR_SCHEMA, LATER_COUNTS, REPORT_SCHEMA, Reports
from collector.store.rows import (
    LATER_VALUES,
    SCHEMAS,
    TIME,
    Exporter,
    ExporterNumbers,
    Rows,
    from_table,
)
from collector.store.tables import Spanned, read_tables

_FIRST: Final = np.iinfo(np.int64).min
_LAST: Final = np.iinfo(np.int64).max


def read(directory: Path, start_ns: int | None = None, end_ns: int | None = None) -> Telemetry:
    """Read the rows of a window; a writer may be at work meanwhile.

    Parameters
    ----------
    directory
        A store.
    start_ns, end_ns
        The window, ns since the epoch, without its end; None leaves a side open.

    Returns
    -------
    Telemetry
        Rows by slice of time, within one as they were appended. Counts that do not stand in rows
        (datagrams, losses, errors) are those of the appended batches that reach into the window,
        summed by slice once that is merged, so they may stand for a little more than it. A file
        that cannot be read is one of `errors`.

    Raises
    ------
    StoreError
        The directory is no store, or cannot be read.
    """
    if not (directory / "flows").is_dir():
        raise StoreError(directory, "no store: it has no folder flows")
    first = _FIRST if start_ns is None else max(start_ns, _FIRST)
    last = _LAST if end_ns is None else min(end_ns - 1, _LAST)
    window = _Window(directory, first, last)
    reports = window.reports()
    numbers = ExporterNumbers()
    flows = window.rows("flows", FlowBatch, numbers)
    counters = window.rows("counters", CounterBatch, numbers)
    discards = window.rows("discards", DiscardBatch, numbers)
    records = window.rows("records", RecordBatch, numbers)
    for error in window.errors:
        reports.note(error)
    # Those with rows by their number, then those that only sent datagrams.
    known = (*numbers.exporters(), *(exporter for exporter in reports.counts if exporter))
    health = _health(tuple(dict.fromkeys(known)), flows, records, reports)
    errors = reports.decode_errors()
    return Telemetry(
        flows=flows,
        counters=counters,
        discards=discards,
        records=records,
        exporters=health,
        errors=errors,
        datagrams=sum(counts["datagrams"] for counts in reports.counts.values()),
        flow_samples=len(flows),
        flow_records=len(records),
        counter_samples=sum(exporter.counter_samples for exporter in health),
        lost_datagrams=sum(exporter.lost_datagrams for exporter in health),
        decode_errors=sum(error.count for error in errors),
    )


class _Window:
    """The files of a store that reach into a window."""

    def __init__(self, directory: Path, first_ns: int, last_ns: int) -> None:
        self._directory = directory
        self._first_ns = first_ns
        self._last_ns = last_ns
        self.errors: list[DecodeError] = []

    def rows(self, kind: str, batch: type[Rows], numbers: ExporterNumbers) -> Rows:
        """All rows of a kind within the window."""
        found = []
        for first_ns, last_ns, table in self._tables(kind, SCHEMAS[kind]):
            rows = from_table(batch, table, numbers)
            if first_ns < self._first_ns or last_ns > self._last_ns:
                time_ns = rows.column("time_ns")
                rows = rows.take((time_ns >= self._first_ns) & (time_ns <= self._last_ns))
            found.append(rows)
        return batch.concat(found)

    def reports(self) -> Reports:
        """Sums of all reports on batches that reach into the window."""
        found = Reports()
        tables = [
            pa.concat_tables([schema.empty_table(), *(t for *_, t in self._tables(kind, schema))])
            for kind, schema in (("reports", REPORT_SCHEMA), ("errors", ERROR_SCHEMA))
        ]
        first, last = (pa.scalar(time, TIME) for time in (self._first_ns, self._last_ns))
        reports, errors = (
            table.filter((pc.field("first_ns") <= last) & (pc.field("time_ns") >= first))
            for table in tables
        )
        found.add_tables(reports, errors)
        return found

    def _tables(self, kind: str, schema: pa.Schema) -> list[Spanned]:
        found, errors = read_tables(
            self._directory,
            kind,
            schema,
            self._first_ns,
            self._last_ns + 1,
            LATER_VALUES | LATER_COUNTS,
        )
        self.errors += errors
        return found


def _health(
    exporters: tuple[Exporter, ...], flows: FlowBatch, records: RecordBatch, reports: Reports
) -> tuple[ExporterHealth, ...]:
    """What is known of each exporter: from the rows where they say it, else from the reports."""
    size = len(exporters)
    samples, told = _tally(flows.exporter, size), _tally(records.exporter, size)
    rated = _tally(flows.exporter[flows.sampling_rate > 0], size)
    rated += _tally(records.exporter[records.sampling_rate > 0], size)
    by_basis = [_tally(flows.exporter[flows.time_basis == basis], size) for basis in TimeBasis]
    stamped = records.time_basis != RecordTime.EXPORT
    by_basis[TimeBasis.EXPORTER] += _tally(records.exporter[stamped], size)
    by_basis[TimeBasis.ARRIVAL] += _tally(records.exporter[~stamped], size)
    found = []
    for number, exporter in enumerate(exporters):
        agent, sub_agent, protocol = exporter
        reported = reports.counts.get(exporter, Counter())
        counts = {name: reported[name] for name in COUNTS} | {
            "flow_samples": int(samples[number]),
            "flow_records": int(told[number]),
        }
        # The basis of most rows; where two are equal, or there are none, the worse.
        basis = max(TimeBasis, key=lambda b: (by_basis[b][number], b))
        state = "ok" if rated[number] else "rate_unknown"
        found.append(
            ExporterHealth(
                agent=agent,
                sub_agent=sub_agent,
                protocol=protocol,
                sampling_rates=tuple(sorted(reports.rates.get(exporter, ()))),
                time_basis=basis,
                state=state if samples[number] or told[number] else "counters_only",
                clock=ClockHealth(reason="clocks are not measured from a store"),
                notes=(),
                **counts,
            )
        )
    return tuple(found)


def _tally(number: I32, size: int) -> NDArray[np.intp]:
    return np.bincount(number, minlength=size)
