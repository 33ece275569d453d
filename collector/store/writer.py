"""`Store`: the writing side of telemetry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from collector.batches import Batch
from collector.schema import Telemetry
from collector.store.held import Held
from collector.store.parts import as_they_are
from collector.store.reports import (
    ERROR_SCHEMA,
    REPORT_SCHEMA,
    Reports,
    summed_errors,
    summed_reports,
)
from collector.store.rows import KINDS, SCHEMAS, Exporter, Rows, to_table
from collector.store.settings import StoreSettings
from collector.store.shelf import Shelf, StoreStatus

# A burst must not fill the memory while its seconds last; a row takes some 130 bytes.
MOST_HELD_ROWS: Final = 1 << 20
_NS_PER_S: Final = 1_000_000_000
_KINDS: Final = {
    **{kind: (schema, as_they_are) for kind, schema in SCHEMAS.items()},
    "reports": (REPORT_SCHEMA, summed_reports),
    "errors": (ERROR_SCHEMA, summed_errors),
}


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
    end the life of all before it; `ingest` believes no time far from the arrival. A batch without
    rows counts as of the newest row and what has passed since, or where there never was one, as
    of the machine's time.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings or StoreSettings()
        self._shelf = Shelf(directory, _KINDS, self._settings, clock)
        self._held: Held[Telemetry] = Held(self._settings.hold_s, clock)
        self._stored_rows = self._lost_rows = 0

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
        shelf = self._shelf
        return StoreStatus(
            self._held.rows, self._stored_rows, self._lost_rows, shelf.error, shelf.merge_error
        )

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
        self._held.add(telemetry, sum(len(getattr(telemetry, kind)) for kind in KINDS))
        if self._held.overdue() or self._held.rows >= MOST_HELD_ROWS:
            return self.flush()
        return self.status

    def flush(self) -> StoreStatus:
        """Write all that is held, merge what is due, and remove files too old or too many."""
        held = self._held.take()
        if not held:
            return self.status
        self._shelf.begin()
        exporters, rows = _join(held)
        for kind in KINDS:
            self._write(kind, rows.pop(kind), exporters)
        self._write_reports(held)
        self._shelf.tidy()
        return self.status

    def close(self) -> None:
        """Write all that is held, and let go of the directory."""
        self.flush()
        self._shelf.close()

    def _write(self, kind: str, batches: list[Batch], exporters: list[Exporter]) -> None:
        """Write the rows of batches: a file for each slice."""
        for part in _by_slice(batches, self._settings.slice_s * _NS_PER_S):
            time_ns = part.column("time_ns")
            first, last = int(time_ns.min()), int(time_ns.max())
            if self._shelf.write(kind, to_table(kind, part, exporters), first, last):
                self._stored_rows += len(part)
            else:
                self._lost_rows += len(part)

    def _write_reports(self, held: list[Telemetry]) -> None:
        """Write what the batches' exporters said: one sum for each slice that a batch ends in."""
        sums: dict[int, tuple[int, int, Reports]] = {}
        for telemetry in held:
            rows: list[Batch] = [getattr(telemetry, kind) for kind in KINDS]
            times = np.concatenate([batch.column("time_ns") for batch in rows])
            if len(times):
                first, last = int(times.min()), int(times.max())
            else:  # only counts and errors, of no time
                first = last = self._shelf.now_ns()
            key = last // (self._settings.slice_s * _NS_PER_S)
            since, until, reports = sums.get(key, (first, last, Reports()))
            reports.add(telemetry)
            sums[key] = (min(since, first), max(until, last), reports)
        for first, last, reports in sums.values():
            for kind, table in zip(
                ("reports", "errors"), reports.to_tables(first, last), strict=True
            ):
                if len(table):
                    self._shelf.write(kind, table, first, last)


def _join(held: list[Telemetry]) -> tuple[list[Exporter], dict[str, list[Batch]]]:
    """The rows of some batches by their kind, with one numbering of exporters."""
    numbers: dict[Exporter, int] = {}
    rows: dict[str, list[Batch]] = {kind: [] for kind in KINDS}
    for telemetry in held:
        number = np.array(
            [
                numbers.setdefault((e.agent, e.sub_agent, e.protocol), len(numbers))
                for e in telemetry.exporters
            ],
            np.int32,
        )
        for kind, batches in rows.items():
            batch: Batch = getattr(telemetry, kind)
            if len(batch):
                batches.append(batch.but(exporter=number[batch.column("exporter")]))
    return list(numbers), rows


def _by_slice(batches: list[Rows], slice_ns: int) -> Iterator[Rows]:
    """All rows by slices of time, in their order.

    Nearly all batches lie in one slice: so that memory stays level, only the others are cut.
    """
    parts: dict[int, list[Rows]] = {}
    for batch in batches:
        nth = batch.column("time_ns") // slice_ns
        for number in np.unique(nth).tolist():
            inside = nth == number
            parts.setdefault(number, []).append(batch if inside.all() else batch.take(inside))
    while parts:
        part = parts.pop(min(parts))
        yield part[0].concat(part)
