"""What a store forgets: files that are merged, too old, or the oldest where all are too large."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from collector.errors import StoreError
from collector.store.files import StoredFile, all_files
from collector.store.settings import StoreSettings

# Parts stay for so long after they were merged: a reader that listed them before, also one that
# cannot list again in the middle of its query, finds them still there.
SUPERSEDED_S: Final = 600.0
# A store at its limit is brought a little below it, so that not every flush has to look for files.
_SPARE: Final = 32


def remove_old(
    directory: Path, kinds: Sequence[str], settings: StoreSettings, newest_ns: int
) -> int:
    """Remove the files of some kinds that `settings` no longer keeps, whoever wrote them.

    Parameters
    ----------
    newest_ns
        The event time that has been reached, from which age counts.

    Returns
    -------
    int
        Bytes of the files that stay.

    Raises
    ------
    StoreError
        A folder cannot be read, or a file not be removed.
    """
    sized = [entry for kind in kinds for entry in _sized(directory, kind)]
    # Of one group, the parts first: they must not come back into view.
    sized.sort(key=lambda entry: (entry[0].last_ns, entry[0].part is None))
    total = sum(size for _, size in sized)
    oldest_ns = None
    if settings.keep_age_s is not None:
        oldest_ns = newest_ns - round(settings.keep_age_s * 1e9)
    most = None
    if settings.keep_bytes is not None and total > settings.keep_bytes:
        most = settings.keep_bytes - settings.keep_bytes // _SPARE
    for file, size in sized:
        too_old = oldest_ns is not None and file.last_ns < oldest_ns
        too_large = most is not None and total > most
        if not (too_old or too_large):
            break
        _remove(file.path)
        total -= size
    return total


def _sized(directory: Path, kind: str) -> list[tuple[StoredFile, int]]:
    """Files of one kind and their bytes, without parts merged long ago: these are removed."""
    files = all_files(directory, kind)
    merged = {(file.writer, file.group): file.path for file in files if file.part is None}
    parted = {(file.writer, file.group) for file in files if file.part is not None}
    past = {key for key in merged.keys() & parted if _is_past(merged[key])}
    sized = []
    for file in files:
        if file.part is not None and (file.writer, file.group) in past:
            _remove(file.path)
            continue
        try:
            sized.append((file, file.path.stat().st_size))
        except FileNotFoundError:  # another writer was quicker
            continue
    return sized


def _is_past(merged: Path) -> bool:
    try:
        return time.time() - merged.stat().st_mtime >= SUPERSEDED_S
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(path, error.strerror or str(error)) from error
