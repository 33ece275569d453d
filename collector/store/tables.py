"""`TableStore` and `read_tables`: tables of time of any kind, beside the samples of a store.

    DIR/NAME/       one kind of table, with the schema that its owner gives

Layers above this package keep there what they made of the samples.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from collector.schema import DecodeError
from collector.store.files import list_files
from collector.store.held import Held
from collector.store.parts import as_they_are
from collector.store.rows import KINDS
from collector.store.settings import StoreSettings
from collector.store.shelf import Shelf, StoreStatus

MOST_HELD_BYTES: Final = 1 << 27
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_RESERVED: Final = (*KINDS, "reports", "errors")
_FIRST: Final = -(1 << 63)
_LAST: Final = (1 << 63) - 1
_NS_PER_S: Final = 1_000_000_000
# One is enough unless files go while they are read; each further one has found one gone.
_MOST_LISTINGS: Final = 20

Spanned = tuple[int, int, pa.Table]  # first and last time in ns since the epoch, and rows


class TableStore:
    """Writes tables of one kind; to be used by one thread at a time.

    Several may write to one directory, also beside a `Store`.

    Parameters
    ----------
    directory
        Made if it is not there.
    name
        Of the kind: lower-case letters, digits and underscores.
    schema
        Of all its tables.
    settings
        How files are cut and how long they stay; limits hold for this kind alone.
    clock
        Seconds that pass, for `hold_s`.

    Raises
    ------
    ValueError
        The name is none, or that of a kind of `Store`.
    StoreError
        The directory cannot be made or written to.

    Notes
    -----
    As with `Store`, a disk that fails later raises nothing, and age counts from the newest row.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        schema: pa.Schema,
        settings: StoreSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise ValueError(f"name: {name!r} cannot be that of a kind of table")
        self._name = name
        self._schema = schema
        self._settings = settings or StoreSettings()
        self._shelf = Shelf(directory, {name: (schema, as_they_are)}, self._settings, clock)
        self._held: Held[Spanned] = Held(self._settings.hold_s, clock)
        self._held_bytes = 0
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

    def append(self, table: pa.Table, first_ns: int, last_ns: int) -> StoreStatus:
        """Take in a table; flush if rows have been held for `hold_s` or are too many.

        Parameters
        ----------
        table
            Of the schema. It goes whole into the slice of `last_ns`.
        first_ns, last_ns
            Times of its first and last row, ns since the epoch.

        Raises
        ------
        ValueError
            The table has another schema, or the times are none.
        """
        if not table.schema.equals(self._schema):
            raise ValueError(f"table: its columns are not those of {self._name}")
        if not _FIRST <= first_ns <= last_ns <= _LAST:
            raise ValueError(f"first_ns, last_ns: {first_ns} to {last_ns} is no time")
        if len(table):
            self._held.add((first_ns, last_ns, table), len(table))
            self._held_bytes += table.nbytes
        if self._held.overdue() or self._held_bytes >= MOST_HELD_BYTES:
            return self.flush()
        return self.status

    def flush(self) -> StoreStatus:
        """Write all that is held, merge what is due, and remove files too old or too many."""
        held, self._held_bytes = self._held.take(), 0
        if not held:
            return self.status
        self._shelf.begin()
        slices: dict[int, list[Spanned]] = {}
        for spanned in held:
            nth = spanned[1] // (self._settings.slice_s * _NS_PER_S)
            slices.setdefault(nth, []).append(spanned)
        for parts in slices.values():
            first, last = min(p[0] for p in parts), max(p[1] for p in parts)
            table = pa.concat_tables([p[2] for p in parts])
            if self._shelf.write(self._name, table, first, last):
                self._stored_rows += len(table)
            else:
                self._lost_rows += len(table)
        self._shelf.tidy()
        return self.status

    def close(self) -> None:
        """Write all that is held, and let go of the directory."""
        self.flush()
        self._shelf.close()


def read_tables(
    directory: Path,
    name: str,
    schema: pa.Schema,
    start_ns: int | None = None,
    end_ns: int | None = None,
    later: Mapping[str, int] | None = None,
) -> tuple[list[Spanned], list[DecodeError]]:
    """Read the tables of one kind that reach into a window; a writer may be at work meanwhile.

    Parameters
    ----------
    directory, name, schema
        As they were given to the writer.
    start_ns, end_ns
        The window, ns since the epoch, without its end; None leaves a side open.
    later
        Columns that the schema did not always have, and what their rows read in files without.

    Returns
    -------
    list of (first_ns, last_ns, pyarrow.Table)
        Each row once, in order of `first_ns`. They are not cut to the window, and need not be the
        tables that were appended.
    list of DecodeError
        One for each file that cannot be read.

    Raises
    ------
    StoreError
        The folder cannot be read. That it is not there is no error.
    """
    window = (
        _FIRST if start_ns is None else start_ns,
        _LAST if end_ns is None else end_ns - 1,
    )
    known: dict[Path, pa.Table | DecodeError] = {}
    for _ in range(_MOST_LISTINGS):
        files = [
            file
            for file in list_files(directory, name)
            if file.first_ns <= window[1] and file.last_ns >= window[0]
        ]
        # What is no longer listed was merged since, or forgotten: it need not be held.
        known = {file.path: known[file.path] for file in files if file.path in known}
        try:
            for file in files:
                if file.path not in known:
                    known[file.path] = _read(file.path, schema, later or {})
            break
        except FileNotFoundError:  # removed for its age, or merged: the next listing says
            continue
    found: list[Spanned] = []
    errors = []
    for file in files:
        entry = known.get(file.path, _noted(file.path, "it went while others were read"))
        if isinstance(entry, DecodeError):
            errors.append(entry)
        else:
            found.append((file.first_ns, file.last_ns, entry))
    return found, errors


def _read(path: Path, schema: pa.Schema, later: Mapping[str, int]) -> pa.Table | DecodeError:
    try:
        with pq.ParquetFile(path) as parquet:
            there = parquet.schema_arrow
            if there.equals(schema):
                return parquet.read()
            missing = {name for name in schema.names if name not in there.names}
            before = pa.schema([field for field in schema if field.name not in missing])
            if missing <= later.keys() and there.equals(before):
                return _completed(parquet.read(), schema, later)
            return _noted(path, "written by another version: other columns")
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason, _, _ = str(error).partition("\n")
        return _noted(path, f"damaged: {reason}")


def _completed(table: pa.Table, schema: pa.Schema, later: Mapping[str, int]) -> pa.Table:
    there = table.schema.names
    columns = [
        table.column(field.name)
        if field.name in there
        else pa.repeat(pa.scalar(later[field.name], field.type), len(table))
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _noted(path: Path, reason: str) -> DecodeError:
    name = str(path).encode("utf-8", "backslashreplace").decode("utf-8")
    return DecodeError(None, name, None, reason)
