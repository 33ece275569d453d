from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from api.contract import job_document, validate
from api.http import conditional
from api.http.schemas import Anomalies, Groups, Iterations, Jobs
from api.results.database import Results
from tests.api.http import made
from tests.api.http.made import Service
from tests.api.made import job as job_result

RING_0 = ["10.0.0.1", "10.0.0.3", "10.0.0.2", "10.0.0.4"]
SURE = {"confidence": 0.97, "basis": "by shape", "samples": 1200}
LAST = {
    "index": 4,
    "start": "2026-11-30T12:19:03.849747801Z",
    "end": "2026-11-30T12:19:04.849747801Z",
    "duration_s": 1.0,
    "bytes": 5_000_000_000,
    "complete": True,
    "final": True,
}
SLOW = {
    "id": "slow-5",
    "kind": "slow_iteration",
    "severity": "warning",
    "start": "2026-11-30T12:19:04.849747801Z",
    "end": "2026-11-30T12:19:06.399747801Z",
    "verdict": "undecided",
    "subjects": [{"type": "job", "id": "job-1"}],
    "summary": "iteration 5 took 1.55 s, 55 % longer than usual",
    "evidence": {"ratio": 1.55, "samples": 900},
    "confidence": 0.95,
}
HANG = {
    "id": "hang-1",
    "kind": "hang",
    "severity": "critical",
    "start": "2026-11-30T12:19:07.449747801Z",
    "end": None,
    "verdict": "host",
    "subjects": [{"type": "host", "id": "gpu-003"}, {"type": "job", "id": "job-1"}],
    "summary": "nothing is sent since 12:19:07",
    "evidence": {"silent_s": 1.5},
    "confidence": 0.8,
}
TRAINING = {
    "id": "job-1",
    "name": None,
    "user": None,
    "source": "inferred",
    "status": "training",
    "confidence": 0.96,
    "hosts": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"],
    "endpoints": [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
        "10.0.0.4",
        "10.0.1.1",
        "10.0.1.2",
        "10.0.1.3",
        "10.0.1.4",
    ],
    "first_seen": "2026-11-30T12:19:00.449747801Z",
    "last_seen": "2026-11-30T12:19:07.449747801Z",
    "period_s": 1.0,
    "period_ci_s": [0.998, 1.002],
    "period_confidence": 0.97,
    "parallelism": {
        "dp": None,
        "tp": None,
        "pp": 1,
        "cp": 1,
        "ep": 1,
        "candidates": [{"dp": 4, "tp": 2}, {"dp": 8}],
        "basis": {"dp": "tp inside the hosts draws the same rings", "tp": "never on the wire"},
        "confidence": 0.9,
    },
    "groups": [
        {"kind": "dp", "algorithm": "ring", "collective": "all_reduce", "count": 2, "size": 4}
    ],
    "iterations": 4,
    "last_iteration": LAST,
    "anomalies": {"open": 1, "all": 2},
}
ENDED = {
    "id": "job-2",
    "name": '<b>"quoted"\\\n',
    "user": "ada",
    "source": "slurm",
    "status": "ended",
    "confidence": 0.5,
    "hosts": ["gpu-009"],
    "endpoints": ["10.0.0.9", "10.0.1.9"],
    "first_seen": "2026-11-29T12:19:00.449747801Z",
    "last_seen": "2026-11-29T12:20:00.449747801Z",
    "period_s": None,
    "period_ci_s": None,
    "period_confidence": None,
    "parallelism": {
        "dp": None,
        "tp": None,
        "pp": None,
        "cp": None,
        "ep": None,
        "candidates": [],
        "basis": {},
        "confidence": 0.0,
    },
    "groups": [],
    "iterations": 0,
    "last_iteration": None,
    "anomalies": {"open": 0, "all": 0},
}


def test_jobs_say_it_all_in_short(service: Service) -> None:
    answer = service.json("/api/v1/jobs")
    assert answer == {"jobs": [ENDED, TRAINING]}
    Jobs.model_validate(answer)


@pytest.mark.parametrize(
    ("status", "jobs"), [("training", [TRAINING]), ("ended", [ENDED]), ("hung", [])]
)
def test_jobs_by_status(service: Service, status: str, jobs: list[object]) -> None:
    assert service.json(f"/api/v1/jobs?status={status}") == {"jobs": jobs}


@pytest.mark.parametrize(
    ("query", "jobs"),
    [("limit=1", [TRAINING]), ("limit=2", [ENDED, TRAINING]), ("limit=1&status=ended", [ENDED])],
)
def test_of_too_many_jobs_those_that_run_stay(
    service: Service, query: str, jobs: list[object]
) -> None:
    assert service.json(f"/api/v1/jobs?{query}") == {"jobs": jobs}


@pytest.mark.parametrize("limit", ["0", "-1", "5001", "many", ""])
def test_a_limit_that_is_none(service: Service, limit: str) -> None:
    assert service.ask(f"/api/v1/jobs?limit={limit}").status_code == 422


def test_jobs_have_a_limit_of_their_own(own: Service) -> None:
    many = [
        made.update(job_result(id=f"job-{n}", status="ended", iterations=(), anomalies=()), n, n)
        for n in range(10, 510)
    ]
    own.results.save(None, many)
    # With the two that were there, one of which runs; the others were seen before these.
    listed = own.json("/api/v1/jobs")["jobs"]
    assert len(listed) == 500
    assert {job["id"] for job in listed} >= {"job-1", "job-2"}
    assert len(own.json("/api/v1/jobs?limit=5000")["jobs"]) == 502


def test_no_jobs(empty: Service) -> None:
    assert empty.json("/api/v1/jobs") == {"jobs": []}
    assert empty.json("/api/v1/anomalies") == {"anomalies": []}


def test_whole_job_is_the_contract_s(service: Service) -> None:
    job = service.json("/api/v1/jobs/job-1")
    assert job == json.loads(json.dumps(job_document(made.training())))
    assert list(job) == list(job_document(made.training()))
    assert [step["final"] for step in job["iterations"]] == [True] * 5 + [False] * 2
    assert job["anomalies"] == [SLOW, HANG]


@pytest.mark.parametrize("job_id", ["job-1", "job-2"])
def test_whole_job_fits_the_schema(service: Service, job_id: str) -> None:
    validate(
        {
            **service.json("/api/v1/result"),
            "jobs": [service.json(f"/api/v1/jobs/{job_id}")],
        },
        strict=True,
    )


def test_whole_job_shows_the_newest(own: Service) -> None:
    many = job_result(id="job-3", iterations=made.steps(250), anomalies=())
    own.results.save(None, [made.update(many, made.START_NS, made.END_NS)])
    shown = own.json("/api/v1/jobs/job-3")["iterations"]
    assert [step["index"] for step in shown] == list(range(150, 250))


def test_groups(service: Service) -> None:
    answer = service.json("/api/v1/jobs/job-1/groups")
    assert answer["job"] == "job-1"
    assert [group["id"] for group in answer["groups"]] == ["dp-0", "dp-1"]
    edges = [
        ["10.0.0.1", "10.0.0.3"],
        ["10.0.0.3", "10.0.0.2"],
        ["10.0.0.2", "10.0.0.4"],
        ["10.0.0.4", "10.0.0.1"],
    ]
    assert answer["groups"][0] == {
        "id": "dp-0",
        "kind": "dp",
        "members": RING_0,
        "edges": edges,
        "bytes_per_iteration": 1_234_000_000,
        "collective": "all_reduce",
        "algorithm": "ring",
        "algorithms": [
            {
                "algorithm": "ring",
                "variant": "ring",
                "collective": "all_reduce",
                "share": 1.0,
                "channels": [{"order": RING_0, "parent": None, "edges": edges}],
            }
        ],
        "confidence": 0.97,
        "evidence": {"members": SURE, "kind": SURE, "order": SURE},
    }
    Groups.model_validate(answer)
    assert service.json("/api/v1/jobs/job-2/groups") == {"job": "job-2", "groups": []}


def test_iterations(service: Service) -> None:
    answer = service.json("/api/v1/jobs/job-1/iterations")
    assert answer["job"] == "job-1"
    assert answer["next_after"] is None
    assert [step["index"] for step in answer["iterations"]] == [0, 1, 2, 3, 4, 5, 6]
    assert answer["iterations"][0] == {
        "index": 0,
        "start": "2026-11-30T12:19:00.449747801Z",
        "end": "2026-11-30T12:19:00.849747801Z",
        "duration_s": 0.4,
        "bytes": None,
        "complete": False,
        "final": True,
    }
    assert answer["iterations"][4] == LAST
    Iterations.model_validate(answer)


@pytest.mark.parametrize(
    ("query", "indices", "next_after"),
    [
        ("limit=3", [0, 1, 2], 2),
        ("limit=3&after=2", [3, 4, 5], 5),
        ("limit=3&after=5", [6], None),
        ("limit=7", [0, 1, 2, 3, 4, 5, 6], None),
        ("after=-1&limit=1", [0], 0),
        ("after=6", [], None),
        ("after=9007199254740991", [], None),
        ("newest=true&limit=2", [5, 6], None),
        ("newest=true&limit=5000", [0, 1, 2, 3, 4, 5, 6], None),
    ],
)
def test_iterations_page_by_page(
    service: Service, query: str, indices: list[int], next_after: int | None
) -> None:
    answer = service.json(f"/api/v1/jobs/job-1/iterations?{query}")
    assert [step["index"] for step in answer["iterations"]] == indices
    assert answer["next_after"] == next_after


def test_iterations_have_a_limit_of_their_own(own: Service) -> None:
    many = job_result(id="job-3", iterations=made.steps(501), anomalies=())
    own.results.save(None, [made.update(many, made.START_NS, made.END_NS)])
    answer = own.json("/api/v1/jobs/job-3/iterations")
    assert (len(answer["iterations"]), answer["next_after"]) == (500, 499)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/jobs/job-1/anomalies", [HANG, SLOW]),
        ("/jobs/job-1/anomalies?open=true", [HANG]),
        ("/jobs/job-1/anomalies?kind=slow_iteration", [SLOW]),
        ("/jobs/job-1/anomalies?kind=slow_iteration&open=true", []),
        ("/jobs/job-1/anomalies?limit=1", [HANG]),
        ("/jobs/job-2/anomalies", []),
        ("/anomalies", [HANG, SLOW]),
        ("/anomalies?job=job-1&limit=1", [HANG]),
        ("/anomalies?kind=hang", [HANG]),
        ("/anomalies?job=job-2", []),
        ("/anomalies?job=job-77", []),
    ],
)
def test_anomalies(service: Service, path: str, expected: list[dict[str, object]]) -> None:
    answer = service.json(f"/api/v1{path}")
    assert answer == {"anomalies": [{**anomaly, "job": "job-1"} for anomaly in expected]}
    Anomalies.model_validate(answer)


@pytest.mark.parametrize("part", ["", "/topology", "/groups", "/iterations", "/anomalies"])
@pytest.mark.parametrize(
    "job_id", ["job-77", "%00", "%2e%2e", "a" * 129, "job-1%0a", "%ff", "job%201"]
)
def test_unknown_job(service: Service, job_id: str, part: str) -> None:
    answer = service.ask(f"/api/v1/jobs/{job_id}{part}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_list_takes_no_query_per_job(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def per_job(*_: object, **__: object) -> None:
        raise AssertionError("asked for one job")

    for name in ("jobs", "job", "summary", "detailed", "iterations", "anomalies"):
        monkeypatch.setattr(Results, name, per_job)
    assert len(service.json("/api/v1/jobs")["jobs"]) == 2
    assert service.ask("/metrics").status_code == 200


def tagged(service: Service, path: str) -> str:
    answer = service.ask(path)
    assert answer.status_code == 200
    tag = answer.headers["etag"]
    assert tag.startswith('W/"')
    return tag


@pytest.mark.parametrize("path", ["/api/v1/jobs/job-1", "/api/v1/jobs/job-1/topology"])
def test_what_a_client_has_is_not_sent_again(service: Service, path: str) -> None:
    tag = tagged(service, path)
    assert tagged(service, path) == tag
    for method in ("GET", "HEAD"):
        answer = service.ask(path, method, {"If-None-Match": tag})
        assert answer.status_code == 304
        assert answer.content == b""
        assert answer.headers["etag"] == tag
        assert answer.headers["cache-control"] == "no-cache"
        assert "content-length" not in answer.headers
    other = service.ask(path, headers={"If-None-Match": 'W/"other"'})
    assert (other.status_code, other.headers["etag"]) == (200, tag)
    assert other.content == service.ask(path).content


def test_what_is_known_is_not_read(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ["/api/v1/jobs/job-1", "/api/v1/jobs/job-1/topology"]
    tags = [tagged(service, path) for path in paths]

    def long(*_: object) -> None:
        raise AssertionError("asked for the long part")

    for name in ("job", "jobs", "detailed"):
        monkeypatch.setattr(Results, name, long)
    for path, tag in zip(paths, tags, strict=True):
        assert service.ask(path, headers={"If-None-Match": tag}).status_code == 304


def test_tags_are_each_answer_s_own(service: Service) -> None:
    parts = ["", "/topology"]
    tags = {
        tagged(service, f"/api/v1/jobs/{job}{part}") for job in ("job-1", "job-2") for part in parts
    }
    assert len(tags) == 4


def test_another_run_has_other_tags(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer version may write the same in another way."""
    tag = tagged(service, "/api/v1/jobs/job-1")
    monkeypatch.setattr(conditional, "_RUN", b"another")
    assert tagged(service, "/api/v1/jobs/job-1") != tag


@pytest.mark.parametrize(
    ("change", "whole", "drawn"),
    [
        ({}, True, True),
        ({"period_s": 1.5}, False, True),
        ({"status": "idle"}, False, True),
        ({"evidence": {}}, False, True),
        ({"endpoints": ("10.0.0.1",)}, False, False),
        ({"edges": ()}, False, False),
        ({"ranks": ()}, False, False),
        ({"groups": ()}, False, False),
        ({"iterations": made.steps(8)}, False, True),
        ({"anomalies": (made.OPEN_ANOMALY,)}, True, True),  # one that is there already
        ({"anomalies": (replace(made.OPEN_ANOMALY, end_ns=made.END_NS),)}, False, True),
    ],
)
def test_a_change_is_seen(own: Service, change: dict[str, Any], whole: bool, drawn: bool) -> None:
    paths = {"/api/v1/jobs/job-1": whole, "/api/v1/jobs/job-1/topology": drawn}
    tags = [tagged(own, path) for path in paths]
    job = replace(made.training(), **change)
    own.results.save(None, [made.update(job, made.START_NS, made.END_NS)])
    for (path, same), tag in zip(paths.items(), tags, strict=True):
        answer = own.ask(path, headers={"If-None-Match": tag})
        assert answer.status_code == (304 if same else 200)
        assert (answer.headers["etag"] == tag) == same
        if not same:
            assert answer.content == own.ask(path).content


def test_what_retention_takes_is_seen(own: Service) -> None:
    tag = tagged(own, "/api/v1/jobs/job-1")
    own.results.forget(made.START_NS + 2 * made.SECOND_NS)
    assert own.ask("/api/v1/jobs/job-1", headers={"If-None-Match": tag}).status_code == 200
    own.results.save(None, [made.update(made.ended(), made.START_NS, made.START_NS)])
    tag = tagged(own, "/api/v1/jobs/job-2")
    own.results.forget(made.END_NS)
    assert own.ask("/api/v1/jobs/job-2", headers={"If-None-Match": tag}).status_code == 404
    assert own.ask("/api/v1/jobs/job-2", headers={"If-None-Match": "*"}).status_code == 404


def test_a_tag_stands_for_what_it_is_sent_with(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job changes after its tag was looked up, and before it is read."""
    path, read = "/api/v1/jobs/job-1/topology", Results.detailed

    def change_and_read(results: Results, job_id: str) -> object:
        job = replace(made.training(), edges=())
        results.save(None, [made.update(job, made.START_NS, made.END_NS)])
        return read(results, job_id)

    monkeypatch.setattr(Results, "detailed", change_and_read)
    answer = own.ask(path, headers={"If-None-Match": 'W/"other"'})
    monkeypatch.undo()
    assert answer.headers["etag"] == tagged(own, path)
    assert answer.content == own.ask(path).content
