"""Why there is no job yet, over REST."""

from __future__ import annotations

import time
from collections import Counter
from typing import Literal

from fastapi import APIRouter
from starlette.responses import Response

from api.errors import ResultsError
from api.http.schemas import Doctor, DoctorFinding
from api.http.sources import CHECKED, From
from api.results.database import Results
from api.service.advice import job_findings
from api.service.doctor import telemetry_findings

router = APIRouter(tags=["health"], dependencies=[CHECKED])


@router.get("/doctor", response_model=Doctor)
def doctor(sources: From) -> Response:
    """What stands in the way of samples and jobs, in the order of a sample's way."""
    account, situation = sources.view.account(), sources.view.situation()
    findings, passable = telemetry_findings(
        account, sources.view.checks(), situation, time.time_ns()
    )
    jobs = _jobs(sources.results)
    if passable:
        rates = [
            rate
            for exporter in account.exporters
            for rate in exporter.sampling_rates
            if exporter.flow_samples
        ]
        findings += job_findings(jobs, situation.doubts, situation.window_s, rates)
    states = {finding.state for finding in findings}
    worst: Literal["ok", "note", "wrong"] = (
        "wrong" if "wrong" in states else "note" if "note" in states else "ok"
    )
    return Doctor(
        state=worst,
        jobs=None if jobs is None else jobs.total(),
        findings=[
            DoctorFinding(step=f.step, state=f.state, text=f.text, advice=f.advice)
            for f in findings
        ],
    ).response()


def _jobs(results: Results) -> Counter[str] | None:
    """Jobs by status, without those that ended; None: no results, of which a check says why."""
    try:
        statuses = Counter(results.statuses())
    except ResultsError:
        return None
    del statuses["ended"]
    return statuses
