from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from api.reports.shelf import Shelf, report_name

SECOND_NS = 10**9
NOON_NS = 1_796_040_000 * SECOND_NS  # 2026-11-30 12:00:00


def _shelf(directory: Path, *minutes: int, job: str = "job-1") -> Shelf:
    shelf = Shelf(directory)
    for minute in minutes:
        shelf.write(job, report_name(NOON_NS + minute * 60 * SECOND_NS), f"<p>{minute}", {"n": 1})
    return shelf


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_names_are_times() -> None:
    assert report_name(1_796_041_140_449_747_801) == "20261130T121900Z"


def test_report_is_a_page_and_a_document(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path / "new" / "reports")
    shelf.write("job-1", "20261130T120000Z", "<p>é", {"name": "\ud800é"})
    folder = tmp_path / "new" / "reports" / "job-1"
    assert _files(folder) == ["20261130T120000Z.html", "20261130T120000Z.json"]
    assert (folder / "20261130T120000Z.html").read_text(encoding="utf-8") == "<p>é"
    assert json.loads((folder / "20261130T120000Z.json").read_text()) == {"name": "\ud800é"}


def test_newest(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path, 5, 1)
    assert shelf.newest_ns("job-1") == NOON_NS + 300 * SECOND_NS
    assert shelf.newest_ns("job-2") == 0
    (tmp_path / "job-1" / "20269999T999999Z.html").write_text("looks like one")
    (tmp_path / "job-1" / "notes.html").write_text("")
    assert shelf.newest_ns("job-1") == NOON_NS + 300 * SECOND_NS


@pytest.mark.parametrize("job", ["", ".", "..", ".job", "a/b", "a\0", "job\n", "x" * 129])
def test_ids_that_are_no_folder_names_are_refused(tmp_path: Path, job: str) -> None:
    assert not Shelf(tmp_path).takes(job)
    assert Shelf(tmp_path).takes("job-1")


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    shelf = _shelf(tmp_path, 1, 2, 3, 4)
    (tmp_path / "job-1" / "20261130T120100Z.json").unlink()
    (tmp_path / "job-1" / "notes.txt").write_text("mine")
    shelf.thin("job-1", 2)
    assert _files(tmp_path / "job-1") == [
        "20261130T120300Z.html",
        "20261130T120300Z.json",
        "20261130T120400Z.html",
        "20261130T120400Z.json",
        "notes.txt",
    ]


def test_what_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = _shelf(tmp_path, 1)
    written = Path.write_text

    def full(path: Path, text: str, **options: str) -> int:
        written(path, text[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        shelf.write("job-1", report_name(NOON_NS), "<p>", {})
    assert _files(tmp_path / "job-1") == ["20261130T120100Z.html", "20261130T120100Z.json"]


def test_leftovers_of_a_crash_go_with_the_next_report(tmp_path: Path) -> None:
    (tmp_path / "job-1").mkdir()
    (tmp_path / "job-1" / ".20261130T115900Z.html.part").write_text("half")
    (tmp_path / "job-1" / ".keep").write_text("mine")
    _shelf(tmp_path, 0)
    assert _files(tmp_path / "job-1") == [".keep", "20261130T120000Z.html", "20261130T120000Z.json"]


def test_old_reports_of_forgotten_jobs_go(tmp_path: Path) -> None:
    for job in ("job-1", "job-2", "job-3"):
        _shelf(tmp_path, 1, 5, job=job)
    _shelf(tmp_path, 1, job="job-4")
    (tmp_path / "job-3" / "mine.txt").write_text("")
    (tmp_path / "flows").mkdir()
    (tmp_path / "loose.html").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "job-1")
    shelf = Shelf(tmp_path)
    shelf.forget({"job-1"}, NOON_NS + 120 * SECOND_NS)
    assert _files(tmp_path) == ["flows", "job-1", "job-2", "job-3", "link", "loose.html"]
    assert len(_files(tmp_path / "job-1")) == 4
    assert _files(tmp_path / "job-2") == ["20261130T120500Z.html", "20261130T120500Z.json"]
    shelf.forget({"job-1"}, NOON_NS + 600 * SECOND_NS)
    assert _files(tmp_path) == ["flows", "job-1", "job-3", "link", "loose.html"]
    assert _files(tmp_path / "job-3") == ["mine.txt"]
    Shelf(tmp_path / "not" / "there").forget(set(), NOON_NS)
