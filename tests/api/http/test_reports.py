from __future__ import annotations

import os
from pathlib import Path

import pytest

from api.http.schemas import Reports
from api.results.database import Results
from tests.api.http.made import START_NS, Service


def write(path: Path, text: str, time_ns: int = START_NS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(time_ns, time_ns))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Two whole reports, one without its page, and what is no report."""
    directory = tmp_path / "reports"
    write(directory / "job-1" / "20261130T121900Z.html", "<p>first</p>")
    write(directory / "job-1" / "20261130T121900Z.json", "{}", START_NS - 1)
    write(directory / "job-2" / "late.html", "<p>second</p>", START_NS + 10**9)
    write(directory / "job-2" / "late.json", "{}", START_NS + 10**9)
    write(directory / "job-2" / "bare.json", "[]", START_NS - 10**9)
    write(directory / "job-1" / ".hidden.html", "no")
    write(directory / "job-1" / "notes.txt", "no")
    write(directory / ".job-9" / "a.html", "no")
    write(directory / "job-1" / "deep" / "a.html", "no")
    write(directory / "loose.html", "no")
    write(tmp_path / "secret" / "a.html", "secret")
    (directory / "job-3").symlink_to(tmp_path / "secret")
    (directory / "job-1" / "link.html").symlink_to(tmp_path / "secret" / "a.html")
    (directory / "job-1" / "folder.html").mkdir()
    os.mkfifo(directory / "job-1" / "pipe.html")
    return directory


@pytest.fixture
def service(results: Results, stored: Path) -> Service:
    return Service(results, stored)


SECOND = {
    "job": "job-2",
    "name": "late",
    "created": "2026-11-30T12:19:01.449747801Z",
    "html": "/reports/job-2/late.html",
    "json": "/reports/job-2/late.json",
}
FIRST = {
    "job": "job-1",
    "name": "20261130T121900Z",
    "created": "2026-11-30T12:19:00.449747801Z",
    "html": "/reports/job-1/20261130T121900Z.html",
    "json": "/reports/job-1/20261130T121900Z.json",
}
BARE = {
    "job": "job-2",
    "name": "bare",
    "created": "2026-11-30T12:18:59.449747801Z",
    "html": None,
    "json": "/reports/job-2/bare.json",
}


def test_reports_newest_first(service: Service) -> None:
    answer = service.json("/api/v1/reports")
    assert answer == {"reports": [SECOND, FIRST, BARE]}
    Reports.model_validate(answer)
    assert service.json("/api/v1/reports?limit=1") == {"reports": [SECOND]}


def test_files_of_reports(service: Service) -> None:
    page = service.ask("/reports/job-1/20261130T121900Z.html")
    assert (page.status_code, page.text) == (200, "<p>first</p>")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].endswith("sandbox")
    data = service.ask("/reports/job-2/bare.json")
    assert (data.status_code, data.text) == (200, "[]")
    assert data.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "job-1",
        "job-1/",
        "loose.html",
        "job-1/notes.txt",
        "job-1/.hidden.html",
        ".job-9/a.html",
        "job-1/deep/a.html",
        "job-1/none.html",
        "job-1/folder.html",
        "job-1/pipe.html",
        "job-1/link.html",
        "job-3/a.html",
        "..%2fsecret%2fa.html",
        "%2e%2e/secret/a.html",
        "job-1/..%2f..%2fsecret%2fa.html",
        "job-1%2f..%2f..%2fsecret/a.html",
        "..%5csecret%5ca.html",
        "job-1/%00.html",
        "job-1/20261130T121900Z.html%00",
        "job-1/20261130T121900Z.html%0a",
        "job-1/" + "a" * 5000 + ".html",
    ],
)
def test_no_path_leads_elsewhere(service: Service, path: str) -> None:
    answer = service.ask(f"/reports/{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_no_reports_yet(results: Results, tmp_path: Path) -> None:
    service = Service(results, tmp_path / "not" / "yet")
    assert service.json("/api/v1/reports") == {"reports": []}
    assert service.ask("/reports/job-1/a.html").status_code == 404
    write(tmp_path / "not" / "yet" / "job-1" / "a.html", "now")
    assert service.ask("/reports/job-1/a.html").text == "now"


def test_reports_not_stored(results: Results) -> None:
    service = Service(results, None)
    assert service.json("/api/v1/reports") == {"reports": []}
    assert service.ask("/reports/job-1/a.html").status_code == 404
