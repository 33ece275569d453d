"""`Shelf`: the writing side of some kinds of tables, whatever their rows mean."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from collector.errors import StoreError
from collector.store.files import Workplace, all_files
from collector.store.parts import Join, Parts
from collector.store.retention import remove_old
from collector.store.settings import StoreSettings

# Looking for files to forget lists all there are; a limit in bytes is also watched in between.
_FORGET_S: Final = 60.0
_LAST: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """How the writing goes; rows since the store was opened, of a `Store` those of samples.

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
    merge_error
        Why small files could not be merged, the last time that happened; None = it never did. No
        row is lost by it.
    """

    held_rows: int
    stored_rows: int
    lost_rows: int
    error: str | None
    merge_error: str | None = None


class Shelf:
    """Writes tables of some kinds into a directory; a disk that fails is told, not raised.

    Parameters
    ----------
    directory
        Made if it is not there.
    kinds
        For each folder the schema of its tables, and what merging makes of them. Settings that
        limit age or bytes hold for these together, and for no other kind.
    settings
        How files are cut and how long they stay.
    clock
        Seconds that pass.

    Raises
    ------
    StoreError
        The directory cannot be made or written to.
    """

    def __init__(
        self,
        directory: Path,
        kinds: Mapping[str, tuple[pa.Schema, Join]],
        settings: StoreSettings,
        clock: Callable[[], float],
    ) -> None:
        self._directory = directory
        self._kinds = tuple(kinds)
        self._settings = settings
        self._clock = clock
        self._place = Workplace.open(directory, self._kinds)
        self._parts = {
            kind: Parts(self._place, kind, schema, settings.slice_s, join)
            for kind, (schema, join) in kinds.items()
        }
        stored = [file.last_ns for kind in kinds for file in all_files(directory, kind)]
        self._newest_ns = max(stored, default=None)
        self._newest_s = clock()
        self._forget_s = clock()
        self._size_bytes = 0
        self._write_error: str | None = None
        self._forget_error: str | None = None
        self.merge_error: str | None = None

    @property
    def error(self) -> str | None:
        """What went wrong since `begin`, or why old files cannot be removed."""
        return self._write_error or self._forget_error

    def now_ns(self) -> int:
        """Event time as far as known: that of the newest row, and what has passed since.

        Where there never was a row it is the machine's time.
        """
        if self._newest_ns is None:
            return time.time_ns()
        passed_ns = round((self._clock() - self._newest_s) * 1e9)
        return min(self._newest_ns + passed_ns, _LAST)

    def begin(self) -> None:
        """Forget the errors of the flush before."""
        self._write_error = None

    def write(self, kind: str, table: pa.Table, first_ns: int, last_ns: int) -> bool:
        """Write one file of rows with these times; False if the disk does not take it."""
        newest_ns = last_ns if self._newest_ns is None else max(self._newest_ns, last_ns)
        try:
            self._size_bytes += self._parts[kind].write(table, first_ns, last_ns, newest_ns)
        except OSError as error:
            self._write_error = self._told(kind, error)
            return False
        if newest_ns != self._newest_ns:
            self._newest_ns, self._newest_s = newest_ns, self._clock()
        return True

    def tidy(self) -> None:
        """Merge what is due, and remove what is too old or too much; to be called after a flush."""
        if self._newest_ns is not None:
            self._merge(self._newest_ns)
            limit = self._settings.keep_bytes
            full = limit is not None and self._size_bytes > limit
            if full or self._clock() >= self._forget_s:
                self._forget(self._newest_ns)

    def close(self) -> None:
        """Merge what would not be merged any more, and let go of the directory."""
        if self._newest_ns is not None:
            self._merge(None)
            self._forget(self._newest_ns)
        self._place.close()

    def _merge(self, newest_ns: int | None) -> None:
        for kind, parts in self._parts.items():
            try:
                self._size_bytes += parts.merge(newest_ns)
            except (OSError, pa.ArrowException) as error:
                self.merge_error = self._told(kind, error)

    def _forget(self, newest_ns: int) -> None:
        self._forget_s = self._clock() + _FORGET_S
        self._forget_error = None
        try:
            self._size_bytes = remove_old(self._directory, self._kinds, self._settings, newest_ns)
        except StoreError as error:
            self._forget_error = str(error)

    def _told(self, kind: str, error: OSError | pa.ArrowException) -> str:
        # Arrow's own text says the same thrice.
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number else str(error).partition("\n")[0]
        return f"{self._directory / kind}: {reason}"
