"""Files of a store: their names, and how one comes to be whole or not at all.

A part is FIRST_LAST_WRITER_GROUP-PART.parquet: the times of its first and last row in ns since the
epoch, the writer's token, the number of its group among those of the writer, and its own number in
the group. So a window is found, and old files are removed, without opening any. One without -PART
stands for its whole group: where it is, the parts of the group are no longer listed. As it appears
at one moment, every listing has each row once, and a writer that dies while it merges leaves none
twice.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from collector.errors import StoreError

_NAME: Final = re.compile(
    r"(-?\d{1,19})_(-?\d{1,19})_([0-9a-f]{24})_(\d+)(?:-(\d+))?\.parquet", re.ASCII
)
_WRITING: Final = ".writing-"
_LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One whole file; times in ns since the epoch, both inclusive; `part` None = of all parts."""

    path: Path
    first_ns: int
    last_ns: int
    writer: str
    group: int
    part: int | None


def list_files(directory: Path, kind: str) -> list[StoredFile]:
    """Files of one kind, in order of their first row, of equal ones as they were written.

    Raises
    ------
    StoreError
        The folder cannot be read. That it is not there yet is no error.
    """
    files = all_files(directory, kind)
    merged = {(file.writer, file.group) for file in files if file.part is None}
    return [f for f in files if f.part is None or (f.writer, f.group) not in merged]


def all_files(directory: Path, kind: str) -> list[StoredFile]:
    """As `list_files`, with parts that a merged file stands for: their rows are there twice."""
    folder = directory / kind
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(folder, error.strerror or str(error)) from error
    found = []
    for name in names:
        if match := _NAME.fullmatch(name):
            first, last, writer, group, part = match.groups()
            number = None if part is None else int(part)
            found.append(
                StoredFile(folder / name, int(first), int(last), writer, int(group), number)
            )
    found.sort(key=lambda file: (file.first_ns, file.writer, file.group, file.part or 0))
    return found


class Workplace:
    """A writer's own folder for files that are not whole yet, held by a lock while it lives.

    The system drops the lock of a process that dies, however it dies; so whoever opens the store
    next can tell the leftovers of the dead from the work of the living.
    """

    def __init__(self, directory: Path, folder: Path, lock: int) -> None:
        self._directory = directory
        self._folder = folder
        self._lock = lock
        # Tokens sort by the time of opening: only a hint, which orders files of equal times.
        self._writer = folder.name.removeprefix(_WRITING)
        self._groups = 0

    @classmethod
    def open(cls, directory: Path, kinds: Sequence[str]) -> Self:
        """Make the folders of some kinds as needed, and remove what dead writers left.

        Raises
        ------
        StoreError
            The directory cannot be made or written to.
        """
        try:
            for kind in kinds:
                (directory / kind).mkdir(parents=True, exist_ok=True)
                if not os.access(directory / kind, os.W_OK | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            while True:
                token = f"{time.time_ns() & (1 << 64) - 1:016x}{secrets.token_hex(4)}"
                folder = directory / f"{_WRITING}{token}"
                folder.mkdir()
                lock = _try_lock(folder)
                if lock is not None:
                    break  # else one that opens at the same moment took us for dead
            for other in directory.glob(f"{_WRITING}*"):
                if other != folder and (dead := _try_lock(other)) is not None:
                    shutil.rmtree(other, ignore_errors=True)
                    os.close(dead)
        except OSError as error:
            raise StoreError(directory, error.strerror or str(error)) from error
        return cls(directory, folder, lock)

    def new_group(self) -> int:
        """The number of a group that has no file yet."""
        self._groups += 1
        return self._groups - 1

    def partial(self) -> Path:
        """A path for the next file, to be written by the caller."""
        return self._folder / "partial.parquet"

    def publish(self, kind: str, first_ns: int, last_ns: int, group: int, part: int | None) -> Path:
        """Give the file at `partial()` its name, once it is on the disk.

        Returns
        -------
        Path
            Where it is now.

        Raises
        ------
        OSError
            The disk did not take it.
        """
        _sync(self.partial())
        folder = self._directory / kind
        number = f"{group}" if part is None else f"{group}-{part}"
        path = folder / f"{first_ns}_{last_ns}_{self._writer}_{number}.parquet"
        self.partial().rename(path)
        _sync(folder)
        return path

    def discard(self) -> None:
        """Remove what is at `partial()`; a disk that will not even do that is no further loss."""
        with suppress(OSError):
            self.partial().unlink()

    def close(self) -> None:
        """Remove the folder and let go of its lock."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


def _try_lock(folder: Path) -> int | None:
    """A descriptor that holds the lock of a writer's folder; None if a living writer has it."""
    try:
        # A lock on a file, opened for writing: network file systems give none on folders.
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink:  # 0: it was removed between the two calls
            return lock
    except BlockingIOError:
        pass
    os.close(lock)
    return None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
