"""What a store forgets: files that are too old, or the oldest where all are too large."""

from __future__ import annotations

from pathlib import Path

from collector.errors import StoreError
from collector.store.files import KINDS, list_files
from collector.store.settings import StoreSettings


def remove_old(directory: Path, settings: StoreSettings, newest_ns: int | None) -> None:
    """Remove the files that `settings` no longer keeps.

    Parameters
    ----------
    newest_ns
        Time of the newest row of the store, from which age counts; None = there is none.

    Raises
    ------
    StoreError
        A folder cannot be read, or a file not be removed.
    """
    if newest_ns is None or (settings.keep_age_s is None and settings.keep_bytes is None):
        return
    sized = []
    for kind in KINDS:
        for file in list_files(directory, kind):
            try:
                sized.append((file.last_ns, file.path.stat().st_size, file.path))
            except FileNotFoundError:  # another writer was quicker
                continue
    sized.sort(key=lambda entry: entry[0])
    total = sum(size for _, size, _ in sized)
    oldest_ns = None
    if settings.keep_age_s is not None:
        oldest_ns = newest_ns - round(settings.keep_age_s * 1e9)
    for last_ns, size, path in sized:
        too_old = oldest_ns is not None and last_ns < oldest_ns
        too_large = settings.keep_bytes is not None and total > settings.keep_bytes
        if not (too_old or too_large):
            break
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(path, error.strerror or str(error)) from error
        total -= size
