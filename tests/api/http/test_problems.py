from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from api.errors import ResultsError
from api.http.schemas import Problem
from api.logs import MOST_A_MINUTE
from api.results.database import Results
from tests.api.http.made import Service

AT_LEAST = "Input should be greater than or equal to"
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        (
            "/jobs?status=busy",
            "query parameter status: Input should be 'training', 'idle', 'hung' or 'ended'",
        ),
        ("/jobs?stauts=training", "there is no query parameter 'stauts' here"),
        ("/jobs?status=idle&status=hung", "query parameter status stands more than once"),
        (
            "/jobs/job-1/iterations?limit=5001",
            "query parameter limit: Input should be less than or equal to 5000",
        ),
        (
            "/jobs/job-1/iterations?limit=0&after=-2",
            f"query parameter after: {AT_LEAST} -1; query parameter limit: {AT_LEAST} 1",
        ),
        (
            "/jobs/job-1/iterations?after=9007199254740992",
            "query parameter after: Input should be less than or equal to 9007199254740991",
        ),
        (
            "/jobs/job-1/iterations?after=<script>",
            f"query parameter after: {NO_INTEGER}",
        ),
        (
            "/anomalies?open=perhaps",
            "query parameter open: Input should be a valid boolean, unable to interpret input",
        ),
        (
            "/anomalies?job=%00",
            "query parameter job: String should match pattern '^[A-Za-z0-9._:-]{1,128}$'",
        ),
        ("/exporters?x=1", "there is no query parameter 'x' here"),
        (
            "/reports?limit=1e3",
            f"query parameter limit: {NO_INTEGER}",
        ),
    ],
)
def test_a_faulty_parameter_is_named(service: Service, path: str, detail: str) -> None:
    assert service.json(f"/api/v1{path}", 422) == {
        "type": "about:blank",
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": detail,
        "instance": f"/api/v1{path.split('?')[0]}",
    }


@pytest.mark.parametrize(
    ("path", "instance"),
    [
        ("/api/v1/nothing", "/api/v1/nothing"),
        ("/api/v1/jobs/", "/api/v1/jobs/"),
        ("/api/v2/jobs", "/api/v2/jobs"),
        ("/docs", "/docs"),
        ("/static/nothing.js", "/static/nothing.js"),
        ("/static/%2e%2e/contract.py", "/static/../contract.py"),
        ("/static/..%2f..%2fpyproject.toml", "/static/../../pyproject.toml"),
        ("/static/%00", "/static/%00"),
        ("/static/" + "a" * 300, "/static/" + "a" * 300),
        ("/a%0d%0ab", "/a%0D%0Ab"),
        ("/%f0%9f%92%a5%ff", "/%F0%9F%92%A5%EF%BF%BD"),
        ("/reports/job-1/a.html", "/reports/job-1/a.html"),
    ],
)
def test_nothing_there(service: Service, path: str, instance: str) -> None:
    assert service.json(path, 404) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "there is nothing here",
        "instance": instance,
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/", "/static/app.js", "/nothing", "/metrics"])
def test_nothing_can_be_changed(service: Service, method: str, path: str) -> None:
    answer = service.ask(path, method)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Method Not Allowed",
        "status": 405,
        "detail": "only GET and HEAD: nothing can be changed here",
        "instance": path,
    }


def test_results_that_cannot_be_read(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ResultsError("sqlite:////results", "disk I/O error")

    service = Service(results)
    monkeypatch.setattr(Results, "summaries", fail)
    with capture_logs() as said:
        answer = service.ask("/api/v1/jobs")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "the results cannot be read at the moment",
        "instance": "/api/v1/jobs",
    }
    reason = "sqlite:////results: disk I/O error"
    assert said == [{"event": "results cannot be read", "log_level": "warning", "reason": reason}]


def test_a_fault_of_ours_is_logged_and_not_shown(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("inside")

    service = Service(results)
    monkeypatch.setattr(Results, "summaries", fail)
    with capture_logs() as said:
        answers = [service.ask("/api/v1/jobs") for _ in range(MOST_A_MINUTE + 5)]
    assert answers[0].headers["content-type"] == "application/problem+json"
    assert answers[0].json() == {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "detail": "a fault of ringscope; its log says more",
        "instance": "/api/v1/jobs",
    }
    assert {answer.status_code for answer in answers} == {500}
    assert answers[0].headers["x-content-type-options"] == "nosniff"
    # One fault asked for again and again does not fill the log.
    told = {"event": "a request failed", "log_level": "error", "path": "/api/v1/jobs"}
    assert said == [{**told, "exc_info": True}] * MOST_A_MINUTE
    assert service.ask("/api/v1/jobs/job-1").status_code == 200


def test_problems_are_what_openapi_says(service: Service) -> None:
    Problem.model_validate(service.json("/nothing", 404))
