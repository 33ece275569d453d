"""Jobs over REST: summaries, whole jobs, and their groups, iterations and anomalies."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from api.contract import Document, anomaly_document, iteration_document, rfc3339
from api.http.schemas import (
    Anomalies,
    AnomalyCount,
    AnomalyKind,
    GroupCount,
    Groups,
    Iterations,
    Job,
    Jobs,
    JobSummary,
    Status,
    Topology,
)
from api.http.sources import CHECKED, From
from api.http.topology import topology
from api.results.database import Results
from api.results.records import JobRecord, Tally

NEWEST: Final = 100  # iterations and anomalies that a whole job shows
_LIMIT: Final = 500
_MOST: Final = 5000
_GREATEST_INDEX: Final = 2**53 - 1  # beyond it, a script in a browser cannot count
_ID: Final = r"^[A-Za-z0-9._:-]{1,128}$"
# Members of a summary that are the contract's.
_SHARED: Final = (
    "id",
    "name",
    "user",
    "source",
    "status",
    "confidence",
    "hosts",
    "endpoints",
    "period_s",
    "period_ci_s",
    "parallelism",
)
_MISSING: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "no job has this id"}}

JobId = Annotated[str | None, Query(pattern=_ID)]
Limit = Annotated[int, Query(ge=1, le=_MOST)]

router = APIRouter(tags=["jobs"], dependencies=[CHECKED])


@router.get("/jobs", response_model=Jobs)
def jobs(sources: From, status: Status | None = None) -> Response:
    """Every job, in the order in which they were first seen."""
    records = sources.results.jobs()
    tallies = sources.results.tallies()
    return Jobs(
        jobs=[
            _summary(record, tallies[record.id])
            for record in records
            # One without a tally has been forgotten in this moment.
            if record.id in tallies and status in (None, record.document["status"])
        ]
    ).response()


@router.get("/jobs/{job_id}", response_model=Job, responses=_MISSING)
def job(sources: From, job_id: str) -> Response:
    """One job, as the contract has it, with its newest iterations and anomalies."""
    return JSONResponse(whole_job(sources.results, _record(sources.results, job_id)))


@router.get("/jobs/{job_id}/topology", response_model=Topology, responses=_MISSING)
def job_topology(sources: From, job_id: str) -> Response:
    """Who talks to whom in a job, and what for."""
    return topology(_record(sources.results, job_id).document).response()


@router.get("/jobs/{job_id}/groups", response_model=Groups, responses=_MISSING)
def job_groups(sources: From, job_id: str) -> Response:
    """The groups of a job, as the contract has them."""
    groups = _record(sources.results, job_id).document["groups"]
    return Groups(job=job_id, groups=groups).response()


@router.get("/jobs/{job_id}/iterations", response_model=Iterations, responses=_MISSING)
def job_iterations(
    sources: From,
    job_id: str,
    after: Annotated[int | None, Query(ge=-1, le=_GREATEST_INDEX)] = None,
    limit: Limit = _LIMIT,
    newest: bool = False,
) -> Response:
    """Iterations of a job by rising index: the first after `after`, or the newest."""
    _record(sources.results, job_id)
    # One more than asked for: whether there is one, says whether to ask on.
    wanted = limit if newest else limit + 1
    found = sources.results.iterations(job_id, after=after, limit=wanted, newest=newest)
    return Iterations(
        job=job_id,
        iterations=[iteration_document(iteration) for iteration in found[:limit]],
        next_after=found[limit - 1].index if len(found) > limit else None,
    ).response()


@router.get("/jobs/{job_id}/anomalies", response_model=Anomalies, responses=_MISSING)
def job_anomalies(
    sources: From,
    job_id: str,
    kind: AnomalyKind | None = None,
    open_only: Annotated[bool, Query(alias="open")] = False,
    limit: Limit = _LIMIT,
) -> Response:
    """Anomalies of a job, newest first."""
    _record(sources.results, job_id)
    return _anomalies(sources.results, job_id, kind, open_only, limit)


@router.get("/anomalies", response_model=Anomalies)
def anomalies(
    sources: From,
    job: JobId = None,
    kind: AnomalyKind | None = None,
    open_only: Annotated[bool, Query(alias="open")] = False,
    limit: Limit = _LIMIT,
) -> Response:
    """Anomalies of all jobs, newest first."""
    return _anomalies(sources.results, job, kind, open_only, limit)


def whole_job(results: Results, record: JobRecord) -> Document:
    """The contract's job, with its newest iterations and anomalies, the last one last."""
    iterations = results.iterations(record.id, limit=NEWEST, newest=True)
    anomalies = results.anomalies(record.id, limit=NEWEST)
    return {
        **record.document,
        "iterations": [iteration_document(iteration) for iteration in iterations],
        "anomalies": [anomaly_document(anomaly) for _, anomaly in reversed(anomalies)],
    }


def _record(results: Results, job_id: str) -> JobRecord:
    record = results.job(job_id) if re.fullmatch(_ID, job_id) else None
    if record is None:
        raise HTTPException(404, "no job has this id")
    return record


def _summary(record: JobRecord, tally: Tally) -> JobSummary:
    document = record.document
    period = document["evidence"].get("period")
    last = tally.last
    return JobSummary(
        **{name: document[name] for name in _SHARED},
        first_seen=rfc3339(record.first_seen_ns),
        last_seen=rfc3339(record.last_seen_ns),
        period_confidence=None if period is None else period["confidence"],
        groups=_counted(document["groups"]),
        iterations=tally.iterations,
        last_iteration=None if last is None else iteration_document(last),
        anomalies=AnomalyCount(open=tally.anomalies_open, all=tally.anomalies),
    )


def _counted(groups: list[Document]) -> list[GroupCount]:
    counts = Counter(
        (group["kind"], group["algorithm"], group["collective"], len(group["members"]))
        for group in groups
    )
    return [
        GroupCount(kind=kind, algorithm=algorithm, collective=collective, count=count, size=size)
        for (kind, algorithm, collective, size), count in counts.items()
    ]


def _anomalies(
    results: Results, job: str | None, kind: str | None, open_only: bool, limit: int
) -> Response:
    found = results.anomalies(job, kind=kind, open_only=open_only, limit=limit)
    return Anomalies(
        anomalies=[{**anomaly_document(anomaly), "job": owner} for owner, anomaly in found]
    ).response()
