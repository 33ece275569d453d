"""A service made by hand: its counters, and what its results database holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
from fastapi import FastAPI

from api.contract import job_document, telemetry_document, unassigned_document
from api.http.app import create_app
from api.results.database import Results
from api.results.records import JobRecord, JobUpdate, WindowRecord
from api.service.account import Account, Check, Situation
from api.service.doubts import NO_DOUBTS
from collector.schema import ClockHealth, ExporterHealth, ExporterNote, TimeBasis
from patterns.result import Anomaly, Iteration, JobResult, Parallelism, Subject
from tests.api import made

START_NS: Final = made.START_NS
SECOND_NS: Final = made.SECOND_NS
DAY_NS: Final = 86_400 * SECOND_NS
END_NS: Final = START_NS + 8 * SECOND_NS

ACCOUNT: Final = Account(
    started_ns=START_NS - DAY_NS,
    datagrams=1001,
    payload_bytes=1_200_345,
    kernel_drops=3,
    backlog_drops=4,
    refused_datagrams=5,
    receiver_deaths=1,
    flow_samples=4006,
    flow_records=0,
    counter_samples=207,
    decode_errors=8,
    rows_stored=4100,
    rows_held=90,
    rows_lost=23,
    late_samples=11,
    window_start_ns=START_NS,
    window_end_ns=END_NS,
    window_rows=512,
    analysis_lag_s=3.25,
    ticks=77,
    analysis_s=6.5,
    exporters=(
        ExporterHealth(
            *("10.255.0.1", 7, "sflow5", 900, 4000, 200, 2, 8, (1000, 2000)),
            *(TimeBasis.INTERPOLATED, "ok"),
            duplicate_datagrams=1,
            lost_samples=12,
            dropped_samples=30,
            expected_samples=5000,
            pooled_samples=3990,
            due_samples=8000,
            counted_samples=4000,
            discard_samples=6,
            restarts=1,
            clock=ClockHealth(
                *(-3.204, 0.000_02, "hops", 5387, "", -3.2045, 1.25, 0.000_31),
            ),
            notes=(
                ExporterNote(START_NS, "restarted", "its agent started again: its uptime fell"),
                ExporterNote(
                    END_NS,
                    "rate_changed",
                    "sampling rate of a port changed: 1:1,000 -> 1:2,000",
                    64,
                ),
            ),
        ),
        ExporterHealth(
            "2001:db8::9", 0, "sflow5", 101, 0, 7, 0, 0, (), TimeBasis.ARRIVAL, "counters_only"
        ),
    ),
)
WELL: Final = (
    Check("listener", True, ""),
    Check("store", True, ""),
    Check("results", True, ""),
    Check("analysis", True, ""),
)
SITUATION: Final = Situation(
    listen="[::]:6343",
    allowed=(),
    window_s=600.0,
    lateness_s=3.0,
    hosts=4,
    switches=(("leaf-1", "10.255.0.1"),),
    errors=(),
    headers=(4006, 0, 0, 0, 0, 0, 0, 0),
    transports=(0, 1000, 0, 3006, 0, 0),
    doubts=NO_DOUBTS,
)
OPEN_ANOMALY: Final = Anomaly(
    id="hang-1",
    kind="hang",
    severity="critical",
    start_ns=START_NS + 7 * SECOND_NS,
    end_ns=None,
    verdict="host",
    subjects=(Subject("host", "gpu-003"), Subject("job", "job-1")),
    summary="nothing is sent since 12:19:07",
    evidence={"silent_s": 1.5},
    confidence=0.8,
)


class View:
    """The service's own account; tests change its members."""

    def __init__(self) -> None:
        self.now = ACCOUNT
        self.states: tuple[Check, ...] = WELL
        self.told = SITUATION

    def account(self) -> Account:
        return self.now

    def checks(self) -> tuple[Check, ...]:
        return self.states

    def situation(self) -> Situation:
        return self.told


def training() -> JobResult:
    """Seven iterations, the last two provisional; one anomaly over, one open."""
    job = made.job()
    steps = tuple(replace(step, final=step.index < 5) for step in job.iterations)
    return replace(job, iterations=steps, anomalies=(*job.anomalies, OPEN_ANOMALY))


def ended() -> JobResult:
    """A job of the day before, with a hostile name and little known of it."""
    return made.job(
        id="job-2",
        name='<b>"quoted"\\\n',
        user="ada",
        source="slurm",
        status="ended",
        hosts=("gpu-009",),
        endpoints=("10.0.0.9", "10.0.1.9"),
        started_at_ns=START_NS - DAY_NS,
        ended_at_ns=START_NS - DAY_NS + 60 * SECOND_NS,
        confidence=0.5,
        evidence={},
        parallelism=Parallelism(None, None, None, None, None, (), {}, 0.0),
        groups=(),
        ranks=(),
        edges=(),
        period_s=None,
        period_ci_s=None,
        iterations=(),
        anomalies=(),
    )


def update(job: JobResult, first_seen_ns: int, last_seen_ns: int) -> JobUpdate:
    document = job_document(job)
    del document["iterations"], document["anomalies"]
    record = JobRecord(job.id, document, {}, START_NS, END_NS, first_seen_ns, last_seen_ns)
    return JobUpdate(
        record,
        final=tuple(step for step in job.iterations if step.final),
        provisional=tuple(step for step in job.iterations if not step.final),
        anomalies=job.anomalies,
    )


def window() -> WindowRecord:
    whole = made.analysis()
    return WindowRecord(
        START_NS,
        END_NS,
        telemetry_document(made.telemetry()),
        unassigned_document(whole.unassigned),
    )


def fill(results: Results) -> None:
    """The training job, and the one that ended the day before."""
    results.save(
        window(),
        [
            update(training(), START_NS, END_NS - SECOND_NS),
            update(ended(), START_NS - DAY_NS, START_NS - DAY_NS + 60 * SECOND_NS),
        ],
    )


def steps(count: int, first: int = 0) -> tuple[Iteration, ...]:
    """Final iterations of one second."""
    return tuple(
        Iteration(n, START_NS + n * SECOND_NS, START_NS + (n + 1) * SECOND_NS, 5e9, True, True)
        for n in range(first, first + count)
    )


class Service:
    """An application over a results database, and a client that asks it without a network."""

    def __init__(self, results: Results, reports_dir: Path | None = None) -> None:
        self.results = results
        self.view = View()
        self.app: FastAPI = create_app(results, self.view, reports_dir)

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """An answer; an exception of the application is raised here."""

        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(once())

    def json(self, path: str, status: int = 200) -> Any:
        answer = self.ask(path)
        assert answer.status_code == status, answer.text
        problem = 400 <= status < 600 and status != 503
        assert answer.headers["content-type"] == (
            "application/problem+json" if problem else "application/json"
        )
        return json.loads(answer.content)
