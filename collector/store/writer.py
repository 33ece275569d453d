"""`Store`: the writing side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from collector.errors import StoreError
from collector.schema import I32, I64, CounterBatch, FlowBatch, Telemetry
from collector.store.files import KINDS, Workplace, list_files
from collector.store.reports import Reports
from collector.store.retention import remove_old
from collector.store.rows import Batch, Exporter, to_table
from collector.store.settings import StoreSettings

# A burst must not fill the memory while its seconds last; a row takes some 130 bytes.
MOST_HELD_ROWS: Final = 1 << 20
_NS_PER_S: Final = 1_000_000_000
# Small enough that a query reads few rows beside its window, large enough to compress.
_ROWS_PER_GROUP: Final = 1 << 17
# Their values hardly repeat: as differences they take half of what a dictionary does.
_RISING: Final = ("time_ns", "time_min_ns", "seq", "ack_seq", "msn")


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """How the writing goes; rows are those of flows and counters, since the store was opened.

    Attributes
    ----------
    held_rows
        In memory, not yet on the disk.
    stored_rows
        On the disk.
    lost_rows
        The disk did not take them.
    error
        Why the last flush failed in part or as a whole; None = it did not.
    """

    held_rows: int
    stored_rows: int
    lost_rows: int
    error: str | None


class Store:
    """Writes telemetry into a directory; to be used by one thread at a time.

    Several stores, also of several machines, may write to one directory.

    Parameters
    ----------
    directory
        Made if it is not there.
    settings
        How files are cut and how long they stay.
    clock
        Seconds that pass, for `hold_s`.

    Raises
    ------
    StoreError
        The directory cannot be made or written to.

    Notes
    -----
    A disk that is full or fails later raises nothing: the rows are dropped, counted, and told by
    the status. Age counts from the newest row, so a replayed or forged time in the future would
    end the life of all before it; `ingest` believes no time far from the arrival.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._settings = settings or StoreSettings()
        self._clock = clock
        self._place = Workplace.open(directory)
        self._held: list[Telemetry] = []
        self._held_since_s = 0.0
        self._held_rows = self._stored_rows = self._lost_rows = 0
        self._error: str | None = None
        stored = [file.last_ns for kind in KINDS for file in list_files(directory, kind)]
        self._newest_ns: int | None = max(stored, default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def status(self) -> StoreStatus:
        """How the writing goes."""
        return StoreStatus(self._held_rows, self._stored_rows, self._lost_rows, self._error)

    def append(self, telemetry: Telemetry) -> StoreStatus:
        """Take in a batch; flush if rows have been held for `hold_s` or are too many.

        Parameters
        ----------
        telemetry
            Rows not yet stored, and counts of what came since the batch before (see `since`): the
            store adds them up. Its arrays are kept until the flush and must not be changed.

        Notes
        -----
        Where batches may stay out for longer than `hold_s`, call `flush` by a timer.
        """
        if not self._held:
            self._held_since_s = self._clock()
        self._held.append(telemetry)
        self._held_rows += len(telemetry.flows) + len(telemetry.counters)
        overdue = self._clock() - self._held_since_s >= self._settings.hold_s
        if overdue or self._held_rows >= MOST_HELD_ROWS:
            return self.flush()
        return self.status

    def flush(self) -> StoreStatus:
        """Write all that is held, and remove files that are too old or too many."""
        held, self._held, self._held_rows = self._held, [], 0
        if not held:
            return self.status
        self._error = None
        exporters, flows, counters = _join(held)
        for batch, kind in ((flows, "flows"), (counters, "counters")):
            for rows in _slices(batch.time_ns, self._settings.slice_s * _NS_PER_S):
                part = batch.take(rows)
                table = to_table(part, exporters)
                if self._write(kind, table, int(part.time_ns.min()), int(part.time_ns.max())):
                    self._stored_rows += len(rows)
                else:
                    self._lost_rows += len(rows)
        self._write_reports(held)
        try:
            remove_old(self._directory, self._settings, self._newest_ns)
        except StoreError as error:
            self._error = str(error)
        return self.status

    def close(self) -> None:
        """Write all that is held, and let go of the directory."""
        self.flush()
        self._place.close()

    def _write_reports(self, held: list[Telemetry]) -> None:
        """Write what the batches' exporters said: one sum for each slice that a batch ends in."""
        sums: dict[int, tuple[int, int, Reports]] = {}
        for telemetry in held:
            times = np.concatenate((telemetry.flows.time_ns, telemetry.counters.time_ns))
            if len(times):
                first, last = int(times.min()), int(times.max())
            else:  # only counts and errors, of no time: they are told of the newest
                first = last = self._newest_ns or 0
            key = last // (self._settings.slice_s * _NS_PER_S)
            since, until, reports = sums.get(key, (first, last, Reports()))
            reports.add(telemetry)
            sums[key] = (min(since, first), max(until, last), reports)
        for first, last, reports in sums.values():
            for kind, table in zip(
                ("reports", "errors"), reports.to_tables(first, last), strict=True
            ):
                if len(table):
                    self._write(kind, table, first, last)

    def _write(self, kind: str, table: pa.Table, first_ns: int, last_ns: int) -> bool:
        """Write one file; False if the disk does not take it."""
        try:
            rising = [name for name in _RISING if name in table.schema.names]
            pq.write_table(
                table,
                self._place.partial(),
                compression="zstd",
                row_group_size=_ROWS_PER_GROUP,
                use_dictionary=[name for name in table.schema.names if name not in rising],
                column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
            )
            self._place.publish(kind, first_ns, last_ns)
        except OSError as error:
            # Arrow's own text says the same thrice.
            reason = os.strerror(error.errno) if error.errno else str(error)
            self._error = f"{self._directory / kind}: {reason}"
            self._place.discard()
            return False
        if self._newest_ns is None or last_ns > self._newest_ns:
            self._newest_ns = last_ns
        return True


def _join(held: list[Telemetry]) -> tuple[list[Exporter], FlowBatch, CounterBatch]:
    """All rows of some batches, with one numbering of exporters."""
    numbers: dict[Exporter, int] = {}
    flows, counters = [], []
    for telemetry in held:
        number = np.array(
            [
                numbers.setdefault((e.agent, e.sub_agent, e.protocol), len(numbers))
                for e in telemetry.exporters
            ],
            np.int32,
        )
        flows.append(_renumbered(telemetry.flows, number))
        counters.append(_renumbered(telemetry.counters, number))
    return list(numbers), FlowBatch.concat(flows), CounterBatch.concat(counters)


def _renumbered(batch: Batch, number: I32) -> Batch:
    return replace(batch, exporter=number[batch.exporter])


def _slices(time_ns: I64, slice_ns: int) -> Iterator[NDArray[np.intp]]:
    """The rows of each slice of time, in their order."""
    nth = time_ns // slice_ns
    order = np.argsort(nth, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(nth[order])) + 1) if len(order) else ()
