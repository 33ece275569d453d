"""Stored reports: which there are, and their files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from api.contract import rfc3339
from api.http.schemas import Report, Reports
from api.http.sources import CHECKED, From

# JOB and NAME never begin with a dot: what is being written, or hidden, is not shown.
_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_JOB: Final = re.compile(_NAME)
_FILE: Final = re.compile(rf"({_NAME})\.(html|json)")
_PATH: Final = re.compile(rf"{_NAME}/{_NAME}\.(?:html|json)")
_LIMIT: Final = 500
_MOST: Final = 5000

router = APIRouter(tags=["reports"])


@router.get("/reports", response_model=Reports, dependencies=[CHECKED])
def reports(sources: From, limit: Annotated[int, Query(ge=1, le=_MOST)] = _LIMIT) -> Response:
    """The stored reports, newest first."""
    found = [] if sources.reports_dir is None else list(_stored(sources.reports_dir))
    found.sort(key=lambda report: (report.created, report.job, report.name), reverse=True)
    return Reports(reports=found[:limit]).response()


class ReportFiles(StaticFiles):
    """Files of stored reports and nothing else; `directory` may come to be later."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory, check_dir=False)

    async def check_config(self) -> None:
        """Any directory will do: without one, there are no reports."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """The file of a path, and what the system knows of it; ("", None): there is none."""
        if _PATH.fullmatch(path) is None:
            return "", None
        return super().lookup_path(path)


def _stored(directory: Path) -> Iterator[Report]:
    for job in _entries(directory):
        if _JOB.fullmatch(job.name) is None or not job.is_dir(follow_symlinks=False):
            continue
        written_ns: dict[str, dict[str, int]] = {}
        for entry in _entries(Path(job.path)):
            matched = _FILE.fullmatch(entry.name)
            if matched is None or not entry.is_file(follow_symlinks=False):
                continue
            try:
                file_ns = entry.stat(follow_symlinks=False).st_mtime_ns
            except FileNotFoundError:
                continue  # forgotten while we looked
            written_ns.setdefault(matched[1], {})[matched[2]] = file_ns
        for name, forms in written_ns.items():
            path = f"/reports/{job.name}/{name}"
            yield Report(
                job=job.name,
                name=name,
                created=rfc3339(max(forms.values())),
                html=f"{path}.html" if "html" in forms else None,
                json=f"{path}.json" if "json" in forms else None,
            )


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
