"""A server of the page's files and of canned answers, which a test changes as it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from api.contract import exporter_document, job_document, rfc3339
from api.http.schemas import Exporters, Jobs
from api.http.topology import topology
from patterns.result import JobResult
from tests.api import made

Document = dict[str, Any]

WEB: Final = Path(__file__).resolve().parents[3] / "api" / "web"
# As the service sends it; and no script may make markup of text.
POLICY: Final = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
WINDOW: Final = {
    "start": rfc3339(made.START_NS),
    "end": rfc3339(made.START_NS + 8 * made.SECOND_NS),
}


class Answers:
    """What the service answers, by path without its query.

    Attributes
    ----------
    by_path
        Path to (status, JSON). Others are not found.
    asked
        Paths asked for below /api/v1, in order.
    silent
        Drop every connection, as a service that has gone.
    """

    def __init__(self, *jobs: JobResult) -> None:
        self.by_path: dict[str, tuple[int, Document]] = {}
        self.asked: list[str] = []
        self.silent = False
        self.service = _service()
        self.telemetry = _telemetry()
        self.window: Document | None = WINDOW
        self.checks: list[Document] = []
        self.documents = [job_document(job) for job in jobs]
        self.refresh()

    def refresh(self) -> None:
        """Work the answers out anew, after a change of `documents` and the like."""
        failing = [check for check in self.checks if not check["ok"]]
        self.by_path = {
            "/readyz": (
                503 if failing else 200,
                {"status": "failing" if failing else "ok", "checks": self.checks},
            ),
            "/api/v1/jobs": (200, {"jobs": [_summary(job) for job in self.documents]}),
            "/api/v1/anomalies": (
                200,
                {"anomalies": [a for job in self.documents for a in _anomalies(job)]},
            ),
            "/api/v1/reports": (200, {"reports": []}),
            "/api/v1/result": (
                200,
                {
                    "unassigned": {
                        "bytes": 1.5e6,
                        "endpoints": ["10.9.0.1"],
                        "by_class": {"storage": 1.4e6, "hpc": 0},
                    }
                },
            ),
            "/api/v1/exporters": (
                200,
                {
                    "window": self.window,
                    "telemetry": self.telemetry if self.window else None,
                    "service": self.service,
                },
            ),
        }
        for job in self.documents:
            path = f"/api/v1/jobs/{job['id']}"
            self.by_path[path] = (200, job)
            self.by_path[f"{path}/topology"] = (200, topology(job).model_dump())
            self.by_path[f"{path}/anomalies"] = (200, {"anomalies": _anomalies(job)})
            self.by_path[f"{path}/iterations"] = (
                200,
                {"job": job["id"], "iterations": job["iterations"], "next_after": None},
            )
        # What the tests serve is what the service may answer.
        Jobs.model_validate(self.by_path["/api/v1/jobs"][1])
        Exporters.model_validate(self.by_path["/api/v1/exporters"][1])


def _summary(job: Document) -> Document:
    complete = [step for step in job["iterations"] if step["complete"] and step["final"]]
    shared = ("id", "name", "user", "source", "status", "confidence", "hosts", "endpoints")
    return {
        **{name: job[name] for name in (*shared, "period_s", "period_ci_s", "parallelism")},
        "first_seen": rfc3339(made.START_NS),
        "last_seen": rfc3339(made.START_NS + 8 * made.SECOND_NS),
        "period_confidence": 0.97,
        "groups": [],
        "iterations": len(complete),
        "last_iteration": complete[-1] if complete else None,
        "anomalies": {
            "open": sum(anomaly["end"] is None for anomaly in job["anomalies"]),
            "all": len(job["anomalies"]),
        },
    }


def _anomalies(job: Document) -> list[Document]:
    return [{**anomaly, "job": job["id"]} for anomaly in job["anomalies"]]


def _telemetry() -> Document:
    telemetry = made.telemetry()
    return {
        "datagrams": 3,
        "flow_samples": 4,
        "flow_records": 0,
        "counter_samples": 2,
        "lost_datagrams": 1,
        "decode_errors": 0,
        "errors": [],
        "exporters": [exporter_document(exporter) for exporter in telemetry.exporters],
    }


def _service() -> Document:
    counters = dict.fromkeys(
        (
            "payload_bytes",
            "kernel_drops",
            "backlog_drops",
            "refused_datagrams",
            "flow_records",
            "decode_errors",
            "rows_stored",
            "rows_held",
            "rows_lost",
            "late_samples",
            "window_rows",
            "ticks",
        ),
        0,
    )
    return {
        **counters,
        "started_at": rfc3339(made.START_NS),
        "datagrams": 3,
        "flow_samples": 4,
        "counter_samples": 2,
        "window": WINDOW,
        "analysis_lag_s": 1.5,
        "analysis_s": 0.5,
        "exporters": [],
    }


@contextmanager
def serving(answers: Answers) -> Iterator[str]:
    """Serve; gives the address of the page."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if path.startswith("/api/v1"):
                answers.asked.append(path)
            if answers.silent:
                self.close_connection = True
                return
            status, kind, body = _answer(answers, path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _answer(answers: Answers, path: str) -> tuple[int, str, bytes]:
    file = WEB / ("index.html" if path == "/" else path.removeprefix("/static/"))
    if (path == "/" or path.startswith("/static/")) and file.is_file():
        return 200, _TYPES[file.suffix], file.read_bytes()
    missing = {"title": "Not Found", "status": 404, "detail": "no job has this id"}
    status, document = answers.by_path.get(path, (404, missing))
    kind = "application/json" if status < 400 else "application/problem+json"
    return status, kind, json.dumps(document).encode()
