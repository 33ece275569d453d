"""Every query of the dashboard to the REST API, asked of a real server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx
import pytest

from tests.deploy.dashboard import VARIABLES, Query, queries, rows

BEGAN: Final = datetime(2026, 11, 30, 12, 19, 0, 449747, tzinfo=UTC)
QUERIES: Final = {query.name: query for query in queries("yesoreyeram-infinity-datasource")}


def _after(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


JOB_1: Final = {
    "id": "job-1",
    "name": None,
    "user": None,
    "status": "training",
    "confidence": 0.96,
    "hosts.#": 4,
    "endpoints.#": 8,
    "parallelism.dp": None,
    "parallelism.tp": None,
    "parallelism.pp": 1,
    "parallelism.cp": 1,
    "parallelism.ep": 1,
    "period_s": 1.0,
    "last_iteration.duration_s": 1.0,
    "iterations": 4,
    "anomalies.open": 1,
    "first_seen": BEGAN,
    "last_seen": _after(7),
}
JOB_2: Final = {
    "id": "job-2",
    "name": '<b>"quoted"\\\n',
    "user": "ada",
    "status": "ended",
    "confidence": 0.5,
    "hosts.#": 1,
    "endpoints.#": 2,
    "parallelism.dp": None,
    "parallelism.tp": None,
    "parallelism.pp": None,
    "parallelism.cp": None,
    "parallelism.ep": None,
    "period_s": None,
    "last_iteration.duration_s": None,
    "iterations": 0,
    "anomalies.open": 0,
    "first_seen": _after(-86_400),
    "last_seen": _after(-86_340),
}
JOB_3: Final = {
    "id": "job-3",
    "name": "llama-70b",
    "user": "ada",
    "status": "training",
    "confidence": 0.875,
    "hosts.#": 2,
    "endpoints.#": 4,
    "parallelism.dp": 2,
    "parallelism.tp": 2,
    "parallelism.pp": 1,
    "parallelism.cp": 1,
    "parallelism.ep": 1,
    "period_s": 2.5,
    "last_iteration.duration_s": 2.5,
    "iterations": 3,
    "anomalies.open": 0,
    "first_seen": _after(1),
    "last_seen": _after(8),
}
HANG: Final = {
    "start": _after(7),
    "end": None,
    "job": "job-1",
    "kind": "hang",
    "severity": "critical",
    "verdict": "host",
    "subjects.0.type": "host",
    "subjects.0.id": "gpu-003",
    "confidence": 0.8,
    "summary": "nothing is sent since 12:19:07",
}
SLOW: Final = {
    "start": _after(4.4),
    "end": _after(5.95),
    "job": "job-1",
    "kind": "slow_iteration",
    "severity": "warning",
    "verdict": "undecided",
    "subjects.0.type": "job",
    "subjects.0.id": "job-1",
    "confidence": 0.95,
    "summary": "iteration 5 took 1.55 s, 55 % longer than usual",
}
EXPORTERS: Final = [
    {
        "agent": "10.255.0.1",
        "sub_agent": 7,
        "state": "ok",
        "time_basis": "interpolated",
        "sampling_rates": "[1000, 2000]",
        "datagrams": 900,
        "flow_samples": 4000,
        "counter_samples": 200,
        "lost_datagrams": 2,
        "lost_samples": 12,
        "dropped_samples": 30,
        "clock_offset_s": -3.204,
        "restarts": 1,
        "decode_errors": 8,
    },
    {
        "agent": "2001:db8::9",
        "sub_agent": 0,
        "state": "counters_only",
        "time_basis": "arrival",
        "sampling_rates": "[]",
        "datagrams": 101,
        "flow_samples": 0,
        "counter_samples": 7,
        "lost_datagrams": 0,
        "lost_samples": 0,
        "dropped_samples": 0,
        "clock_offset_s": None,
        "restarts": 0,
        "decode_errors": 0,
    },
]
DURATIONS_S: Final = (0.4, 1.0, 1.01, 0.99, 1.0, 1.55, 1.0)
ENDS: Final = tuple(_after(sum(DURATIONS_S[: n + 1])) for n in range(7))
ITERATIONS: Final = [
    {
        "index": n,
        "start": ENDS[n - 1] if n else BEGAN,
        "end": ENDS[n],
        "duration_s": DURATIONS_S[n],
        "bytes": 5_000_000_000 if n else None,
        "complete": n > 0,
        "final": n < 5,
    }
    for n in range(7)
]
EXPECTED: Final[dict[str, list[dict[str, Any]]]] = {
    "All jobs A": [JOB_2, JOB_1, JOB_3],
    "Every iteration A": [
        {"end": ENDS[n], "duration_s": DURATIONS_S[n], "complete": True} for n in range(1, 7)
    ],
    "Iterations A": ITERATIONS,
    "Anomalies of all jobs A": [HANG, SLOW],
    "All exporters A": EXPORTERS,
}


def test_all_are_expected() -> None:
    assert list(QUERIES) == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_gives_the_right_rows(client: httpx.Client, name: str) -> None:
    found = rows(client, QUERIES[name].target, {"job": "job-1"})
    assert found == EXPECTED[name]
    assert [list(row) for row in found] == [list(row) for row in EXPECTED[name]]


@pytest.mark.parametrize("query", QUERIES.values(), ids=lambda query: query.name)
def test_is_answered_where_nothing_is_known(client: httpx.Client, query: Query) -> None:
    assert isinstance(rows(client, query.target, {"job": "job-2"}), list)


def test_jobs_to_choose_from(client: httpx.Client) -> None:
    query: Mapping[str, Any] = VARIABLES["job"]["query"]
    assert query["queryType"] == "infinity"
    found = rows(client, query["infinityQuery"], {})
    assert [row["id"] for row in found] == ["job-2", "job-1", "job-3"]
