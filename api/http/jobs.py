"""Jobs over REST: summaries, whole jobs, and their groups, iterations and anomalies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from api.contract import Document, anomaly_document, iteration_document, rfc3339
from api.http.conditional import NOT_MODIFIED, Known, entity_tag, is_known, not_modified
from api.http.schemas import (
    Anomalies,
    AnomalyCount,
    AnomalyKind,
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
from api.results.records import JobRecord, Summary

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
    "groups",
)
_MISSING: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "no job has this id"}}

JobId = Annotated[str | None, Query(pattern=_ID)]
Limit = Annotated[int, Query(ge=1, le=_MOST)]
JobLimit = Annotated[
    int,
    Query(
        ge=1,
        le=_MOST,
        description="At most so many jobs: first those that have not ended, then those that were"
        " first seen last. Where there are as many, there may be more.",
    ),
]

_Found = TypeVar("_Found")

router = APIRouter(tags=["jobs"], dependencies=[CHECKED])


@router.get("/jobs", response_model=Jobs)
def jobs(sources: From, status: Status | None = None, limit: JobLimit = _LIMIT) -> Response:
    """Jobs in short, in the order in which they were first seen."""
    statuses = () if status is None else (status,)
    found = sources.results.summaries(*statuses, limit=limit)
    return Jobs(jobs=[_summary(summary) for summary in found]).response()


@router.get("/jobs/{job_id}", response_model=Job, responses=_MISSING | NOT_MODIFIED)
def job(sources: From, job_id: str, known: Known = None) -> Response:
    """One job, as the contract has it, with its newest iterations and anomalies."""
    return _unless_known(
        sources.results,
        job_id,
        known,
        lambda summary: {**_up_to_date(summary.document), **_newest(sources.results, summary.id)},
        JSONResponse,
    )


@router.get("/jobs/{job_id}/topology", response_model=Topology, responses=_MISSING | NOT_MODIFIED)
def job_topology(sources: From, job_id: str, known: Known = None) -> Response:
    """Who talks to whom in a job, and what for."""
    return _unless_known(
        sources.results,
        job_id,
        known,
        lambda summary: {"id": summary.id, "endpoints": summary.document["endpoints"]},
        lambda parts: topology(parts).response(),
    )


@router.get("/jobs/{job_id}/groups", response_model=Groups, responses=_MISSING)
def job_groups(sources: From, job_id: str) -> Response:
    """The groups of a job, as the contract has them."""
    _, long = _or_missing(sources.results.detailed, job_id)
    return Groups(job=job_id, groups=long["groups"]).response()


@router.get("/jobs/{job_id}/iterations", response_model=Iterations, responses=_MISSING)
def job_iterations(
    sources: From,
    job_id: str,
    after: Annotated[int | None, Query(ge=-1, le=_GREATEST_INDEX)] = None,
    limit: Limit = _LIMIT,
    newest: bool = False,
) -> Response:
    """Iterations of a job by rising index: the first after `after`, or the newest."""
    _or_missing(sources.results.summary, job_id)
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
    _or_missing(sources.results.summary, job_id)
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
    return {**_up_to_date(record.document), **_newest(results, record.id)}


def _up_to_date(document: Document) -> Document:
    """A job with the members that an older version did not store."""
    return document if "hints" in document else {**document, "hints": {}}


def _newest(results: Results, job_id: str) -> Document:
    iterations = results.iterations(job_id, limit=NEWEST, newest=True)
    anomalies = results.anomalies(job_id, limit=NEWEST)
    return {
        "iterations": [iteration_document(iteration) for iteration in iterations],
        "anomalies": [anomaly_document(anomaly) for _, anomaly in reversed(anomalies)],
    }


def _or_missing(find: Callable[[str], _Found | None], job_id: str) -> _Found:
    found = find(job_id) if re.fullmatch(_ID, job_id) else None
    if found is None:
        raise HTTPException(404, "no job has this id")
    return found


def _unless_known(
    results: Results,
    job_id: str,
    known: Known,
    short: Callable[[Summary], Document],
    answer: Callable[[Document], Response],
) -> Response:
    """An answer made from a job's groups, ranks and edges, unless the client has it already.

    Parameters
    ----------
    known
        What the client has.
    short
        What else the answer is made from.
    answer
        Makes it from both.
    """
    if known:
        summary = _or_missing(results.summary, job_id)
        tag = entity_tag(short(summary), summary.digest)
        if is_known(tag, known):
            return not_modified(tag)
    # All of it anew: a tag must never stand for something else than what it is sent with.
    summary, long = _or_missing(results.detailed, job_id)
    parts = short(summary)
    response = answer({**parts, **long})
    response.headers["ETag"] = entity_tag(parts, summary.digest)
    return response


def _summary(summary: Summary) -> JobSummary:
    document, tally = summary.document, summary.tally
    period = document["evidence"].get("period")
    return JobSummary(
        **{name: document[name] for name in _SHARED},
        first_seen=rfc3339(summary.first_seen_ns),
        last_seen=rfc3339(summary.last_seen_ns),
        period_confidence=None if period is None else period["confidence"],
        iterations=tally.iterations,
        last_iteration=None if tally.last is None else iteration_document(tally.last),
        anomalies=AnomalyCount(open=tally.anomalies_open, all=tally.anomalies),
    )


def _anomalies(
    results: Results, job: str | None, kind: str | None, open_only: bool, limit: int
) -> Response:
    found = results.anomalies(job, kind=kind, open_only=open_only, limit=limit)
    return Anomalies(
        anomalies=[{**anomaly_document(anomaly), "job": owner} for owner, anomaly in found]
    ).response()
