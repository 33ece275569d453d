"""Reports as files: JOB/NAME.html and JOB/NAME.json, where NAME is a time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from api.contract import Document

_NS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PATTERN: Final = "%Y%m%dT%H%M%SZ"
_FILE: Final = re.compile(r"([0-9]{8}T[0-9]{6}Z)\.(?:html|json)", re.ASCII)
_PARTIAL: Final = re.compile(r"\.[0-9]{8}T[0-9]{6}Z\.(?:html|json)\.part", re.ASCII)
_JOB: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)


def report_name(time_ns: int) -> str:
    """The name of a report of this moment, to the second, as "20261129T215000Z"."""
    return f"{datetime.fromtimestamp(time_ns // _NS, UTC):{_PATTERN}}"


class Shelf:
    """The files of all reports; used by one thread, while others read.

    Parameters
    ----------
    directory
        Made when the first report is written. What else lies there is left alone.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def takes(self, job_id: str) -> bool:
        """Whether a job of this id can have reports: its id is the name of a folder."""
        return _JOB.fullmatch(job_id) is not None

    def newest_ns(self, job_id: str) -> int:
        """The time of the job's newest report, to the second; 0: it has none."""
        return max(map(_time_ns, self._names(self._directory / job_id)), default=0)

    def write(self, job_id: str, name: str, page: str, document: Document) -> None:
        """Put down one report; neither of its files is ever seen in part.

        Raises
        ------
        OSError
            It could not be written. Nothing is left of it but, at worst, one of its files.
        """
        folder = self._directory / job_id
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            if _PARTIAL.fullmatch(left.name):  # of a write that was cut short
                left.unlink()
        texts = {
            "json": json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n",
            "html": page,
        }
        partial = {form: folder / f".{name}.{form}.part" for form in texts}
        try:
            for form, text in texts.items():
                partial[form].write_text(text, encoding="utf-8")
            for form in texts:
                partial[form].replace(folder / f"{name}.{form}")
        except OSError:
            for path in partial.values():
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            raise

    def thin(self, job_id: str, keep: int) -> None:
        """Remove all reports of a job but the newest `keep`.

        Raises
        ------
        OSError
        """
        folder = self._directory / job_id
        for name in sorted(self._names(folder))[:-keep]:
            _remove(folder, name)

    def forget(self, known: Container[str], before_ns: int) -> None:
        """Remove reports from before a time of jobs that are no longer known.

        Raises
        ------
        OSError
        """
        if not self._directory.is_dir():
            return
        for folder in list(self._directory.iterdir()):
            if folder.name in known or not self.takes(folder.name) or folder.is_symlink():
                continue
            names = self._names(folder)
            old = {name for name in names if _time_ns(name) < before_ns}
            for name in old:
                _remove(folder, name)
            if names and old == names:
                with suppress(OSError):  # something of others lies there
                    folder.rmdir()

    def _names(self, folder: Path) -> set[str]:
        try:
            entries = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        return {matched[1] for matched in map(_FILE.fullmatch, entries) if matched}


def _remove(folder: Path, name: str) -> None:
    for form in ("html", "json"):
        (folder / f"{name}.{form}").unlink(missing_ok=True)


def _time_ns(name: str) -> int:
    """The moment a report is of; 0 where its name only looks like one."""
    try:
        since = datetime.strptime(name, _PATTERN).replace(tzinfo=UTC) - _EPOCH
    except ValueError:
        return 0
    return (since.days * 86_400 + since.seconds) * _NS
