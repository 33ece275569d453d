"""Parts: the many small files of a writer, and how those of one slice of time become one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from collector.store.files import Workplace
from collector.store.parquet import packed, read_pieces, write_file

# How far event time must have moved past a slice until its parts are merged: what comes later is
# rare, and makes a group of its own.
GRACE_S: Final = 60
# Of the rows in memory, some 250,000 samples. A merge takes no more, nor do all merges of a kind
# after one flush. Merging keeps up, as parts near to this are left as they are: they are not small.
_MOST_BYTES: Final = 1 << 25
_MOST_PARTS: Final = 256
_MERGES_PER_FLUSH: Final = 32
# Beyond this many, groups are no longer remembered, and so not merged.
_MOST_GROUPS: Final = 1024
_NS_PER_S: Final = 1_000_000_000

# The rows of a group, piece by piece, with the times of its first and last, as they shall stand in
# one file.
Join = Callable[[Iterator[pa.Table], int, int], Iterable[pa.Table]]


def as_they_are(tables: Iterator[pa.Table], _first_ns: int, _last_ns: int) -> Iterator[pa.Table]:
    """The `Join` of rows that nothing can be made of but more rows."""
    return packed(tables)


@dataclass(slots=True)
class _Group:
    """Parts of one slice."""

    number: int
    due_ns: int
    first_ns: int
    last_ns: int
    paths: list[Path] = field(default_factory=list)
    begun: int = 0  # parts, also those that the disk did not take
    size_bytes: int = 0


class Parts:
    """The files of one kind that one writer makes.

    Parameters
    ----------
    place
        The writer's.
    kind
        Name of the folder.
    schema
        Of all its tables.
    slice_s
        A group holds parts whose last rows are of one slice of this length.
    join
        What merging makes of the rows.
    """

    def __init__(
        self, place: Workplace, kind: str, schema: pa.Schema, slice_s: int, join: Join
    ) -> None:
        self._place = place
        self._kind = kind
        self._schema = schema
        self._slice_ns = slice_s * _NS_PER_S
        self._join = join
        self._open: dict[int, _Group] = {}  # by slice
        self._complete: deque[_Group] = deque()

    def write(self, table: pa.Table, first_ns: int, last_ns: int, newest_ns: int) -> int:
        """Write one part; `newest_ns` is the event time that has been reached.

        Returns
        -------
        int
            Bytes on the disk.

        Raises
        ------
        OSError
            The disk did not take it.
        """
        group = self._group(table.nbytes, first_ns, last_ns, newest_ns)
        part = group.begun
        group.begun += 1
        path, written_bytes = self._put([table], first_ns, last_ns, group.number, part)
        group.paths.append(path)
        group.size_bytes += table.nbytes
        group.first_ns = min(group.first_ns, first_ns)
        group.last_ns = max(group.last_ns, last_ns)
        return written_bytes

    def merge(self, newest_ns: int | None) -> int:
        """Merge groups whose slice event time has passed, as many as one flush may; None: of all.

        The parts stay on the disk for those who have listed them (see `retention`).

        Returns
        -------
        int
            Bytes that came to those on the disk.

        Raises
        ------
        OSError
            The disk did not take it, or a part has been removed. That group is not merged, ever.
        pyarrow.ArrowException
            A part is damaged. That group is not merged, ever.
        """
        for key, group in list(self._open.items()):
            if newest_ns is None or group.due_ns <= newest_ns:
                self._complete.append(self._open.pop(key))
        left_bytes, written_bytes = _MOST_BYTES, 0
        for _ in range(_MERGES_PER_FLUSH):
            # A group without parts or of a single one has nothing to merge.
            while self._complete and len(self._complete[0].paths) < 2:
                self._complete.popleft()
            if not self._complete or self._complete[0].size_bytes > left_bytes:
                break
            group = self._complete.popleft()
            left_bytes -= group.size_bytes
            rows = self._join(read_pieces(group.paths), group.first_ns, group.last_ns)
            _, size = self._put(rows, group.first_ns, group.last_ns, group.number, None)
            written_bytes += size
        return written_bytes

    def _group(self, size_bytes: int, first_ns: int, last_ns: int, newest_ns: int) -> _Group:
        """The group that the next part of a slice goes to."""
        key = last_ns // self._slice_ns
        group = self._open.get(key)
        if group is not None and (
            group.size_bytes + size_bytes > _MOST_BYTES or group.begun >= _MOST_PARTS
        ):
            self._complete.append(self._open.pop(key))
            group = None
        if group is None:
            if len(self._open) + len(self._complete) >= _MOST_GROUPS:
                self._forget_one()
            reached_ns = max((key + 1) * self._slice_ns, newest_ns)
            group = _Group(
                self._place.new_group(), reached_ns + GRACE_S * _NS_PER_S, first_ns, last_ns
            )
            self._open[key] = group
        return group

    def _forget_one(self) -> None:
        if self._complete:
            self._complete.popleft()
        else:
            self._open.pop(next(iter(self._open)))

    def _put(
        self, tables: Iterable[pa.Table], first_ns: int, last_ns: int, group: int, part: int | None
    ) -> tuple[Path, int]:
        try:
            write_file(self._place.partial(), self._schema, tables)
            size_bytes = self._place.partial().stat().st_size
            path = self._place.publish(self._kind, first_ns, last_ns, group, part)
            return path, size_bytes
        except (OSError, pa.ArrowException):
            self._place.discard()
            raise
