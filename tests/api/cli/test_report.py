"""`ringscope report`, asked of REST over a database made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from api.cli import report
from api.cli.app import ReportFormat
from api.cli.exit import DONE, NOTHING_DONE
from api.contract import validate
from api.http.server import HttpServer
from tests.api.http import made
from tests.api.http.made import Service
from tests.api.reports.test_job import Page

JOB = "/api/v1/jobs/job-1"


@pytest.fixture(scope="module")
def url(service: Service) -> Generator[str]:
    server = HttpServer(service.app, "127.0.0.1", 0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


@contextmanager
def _answering(answer: Callable[[str], object]) -> Generator[str]:
    """A server whose answers a test makes up, by path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_page(url: str, tmp_path: Path) -> None:
    file = tmp_path / "job.html"
    assert report.run("job-1", url, file, None) == DONE
    text = Page(file.read_text(encoding="utf-8")).text
    for said in (
        "job-1 training",
        "complete iterations here 6 slow 1",
        "anomalies 2 1 open",
        "The last 2 may still change.",
        "hang 12:19:07.449 to now, host sure 0.80 nothing is sent since 12:19:07",
        "3 datagrams since 2026-11-29 12:19:00 UTC",
        "Samples too late to be analysed: 11",
        "Datagrams dropped here: 7",
    ):
        assert said in text, said


def test_document_has_all_iterations_page_by_page(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_AT_ONCE", 2)
    assert report.run("job-1", url, Path("-"), ReportFormat.JSON) == DONE
    document = json.loads(capsys.readouterr().out)
    validate(document)
    (job,) = document["jobs"]
    assert [iteration["index"] for iteration in job["iterations"]] == list(range(7))
    assert [anomaly["id"] for anomaly in job["anomalies"]] == ["slow-5", "hang-1"]
    assert document["window"] == {
        "start": "2026-11-30T12:19:00.449747801Z",
        "end": "2026-11-30T12:19:08.449747801Z",
    }


@pytest.mark.parametrize(
    ("name", "chosen", "begins"),
    [
        ("a.json", None, "{"),
        ("a.JSON", None, "{"),
        ("a.html", None, "<!doctype html>"),
        ("a", None, "<!doctype html>"),
        ("a.json", ReportFormat.HTML, "<!doctype html>"),
        ("a.html", ReportFormat.JSON, "{"),
    ],
)
def test_format_by_suffix_or_as_said(
    url: str, tmp_path: Path, name: str, chosen: ReportFormat | None, begins: str
) -> None:
    assert report.run("job-2", url, tmp_path / name, chosen) == DONE
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_hostile_name_is_only_a_name(url: str, tmp_path: Path) -> None:
    assert report.run("job-2", url, tmp_path / "a.html", None) == DONE
    assert 'job-2: <b>"quoted"' in Page((tmp_path / "a.html").read_text()).text


@pytest.mark.parametrize("job", ["job-9", "../job-1", "job-1/groups", "", "ü\n"])
def test_job_that_is_not_there(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    assert report.run(job, url, tmp_path / "a.html", None) == NOTHING_DONE
    assert "ringscope: http" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()


def test_no_window_yet(empty: Service, capsys: pytest.CaptureFixture[str]) -> None:
    empty.results.save(None, [made.update(made.training(), made.START_NS, made.END_NS)])
    server = HttpServer(empty.app, "127.0.0.1", 0)
    server.start()
    assert report.run("job-1", f"http://127.0.0.1:{server.port}", Path("-"), None) == NOTHING_DONE
    server.stop()
    captured = capsys.readouterr()
    assert (captured.out, "no window has been analysed yet" in captured.err) == ("", True)


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        (JOB, {"groups": 7}, "not by the contract: $.jobs[0].groups"),
        (JOB, {"period_s": "<x>"}, "not by the contract: $.jobs[0].period_s"),
        (f"{JOB}/iterations", {"iterations": [{}]}, "cannot be read: KeyError"),
        (f"{JOB}/iterations", {"iterations": [7]}, "cannot be read: TypeError"),
        (f"{JOB}/iterations", {"iterations": [], "next_after": "x"}, "a page leads nowhere"),
        (f"{JOB}/iterations", {"iterations": [], "next_after": 3}, "a page leads nowhere"),
        (f"{JOB}/anomalies", {"anomalies": [{"id": 7}]}, "cannot be read: KeyError"),
        ("/api/v1/exporters", {"telemetry": None}, "not by the contract: $.telemetry"),
        ("/api/v1/exporters", {"service": {}}, "cannot be read: KeyError"),
        ("/api/v1/exporters", {"window": {"start": 1}}, "not by the contract: $.window"),
        ("/api/v1/jobs", {"jobs": [{"id": "job-1"}]}, "cannot be read: KeyError"),
    ],
)
def test_what_is_no_answer_of_ours_is_said(
    service: Service,
    capsys: pytest.CaptureFixture[str],
    path: str,
    change: dict[str, object],
    said: str,
) -> None:
    def answer(asked: str) -> object:
        true = service.json(asked)
        return {**true, **change} if asked.partition("?")[0] == path else true

    with _answering(answer) as url:
        assert report.run("job-1", url, Path("-"), None) == NOTHING_DONE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "internal error" not in captured.err
