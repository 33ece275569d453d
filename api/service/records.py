"""Live jobs as records of the results database, and back after a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from api.contract import job_document, rfc3339
from api.results.records import Document, JobRecord, JobUpdate, WindowRecord
from patterns.findings.restart import found_restarts
from patterns.findings.slow_iteration import slow_iterations
from patterns.live import LiveJob
from patterns.numbering import KEPT, Numbering
from patterns.result import Anomaly, Iteration
from patterns.rhythm import median_period
from reconstruct.jobs import Candidate
from reconstruct.period import Period

if TYPE_CHECKING:
    from api.results.database import Results

FEWEST_COUNTED: Final = 5  # complete iterations, before their median is the period


def update_of(job: LiveJob, before: Document | None, saved: int, window: WindowRecord) -> JobUpdate:
    """What is to be stored of a job.

    Parameters
    ----------
    job
        With a name.
    before
        Its document as it was stored last: all there is of a job that was not studied since a
        restart.
    saved
        Its iterations from this number on are not stored yet.
    window
        The window that was analysed.
    """
    return JobUpdate(
        record=JobRecord(
            id=job.id,
            document=_document(job, before),
            state=_state(job),
            window_start_ns=window.start_ns,
            window_end_ns=window.end_ns,
            first_seen_ns=job.first_seen_ns,
            last_seen_ns=job.last_seen_ns,
        ),
        final=tuple(i for i in job.numbering.iterations if i.index >= saved),
        provisional=job.provisional,
        anomalies=_anomalies(job, saved),
    )


def restored(results: Results) -> list[tuple[LiveJob, Document]]:
    """The jobs that had not ended when the service did, and their documents.

    Raises
    ------
    ResultsError
    """
    known = results.summaries("training", "idle", "hung")
    return [
        (_restored(record, Numbering(tuple(_finals(results, record.id)))), record.document)
        for summary in known
        if (record := results.job(summary.id)) is not None
    ]


def _document(job: LiveJob, before: Document | None) -> Document:
    """The job with what is known of the whole of its life."""
    ended_ns = job.last_seen_ns if job.status == "ended" else None
    if job.result is None:
        if before is None:
            raise ValueError("a job that was never studied has nothing to be told")
        ended = None if ended_ns is None else rfc3339(ended_ns)
        return {**before, "status": job.status, "ended_at": ended}
    period_s, interval = job.result.period_s, job.result.period_ci_s
    counted = [i for i in job.numbering.iterations if i.complete]
    if len(counted) >= FEWEST_COUNTED:
        period_s, interval = median_period(counted)
    document = job_document(
        replace(
            job.result,
            id=job.id,
            status=job.status,
            ended_at_ns=ended_ns,
            period_s=period_s,
            period_ci_s=interval,
        )
    )
    del document["iterations"], document["anomalies"]
    return document


def _anomalies(job: LiveJob, saved: int) -> tuple[Anomaly, ...]:
    """Restarts of late, and findings among the iterations that are not stored yet."""
    again = found_restarts(job.id, job.breaks)
    if job.beat is None or job.beat.known_ns:  # times that are not good say nothing of one of them
        return tuple(again)
    iterations = job.numbering.iterations
    new = {i.start_ns for i in iterations if i.index >= saved}
    samples = job.beat.samples_per_turn * len(iterations)
    slow = slow_iterations(job.id, iterations, samples, job.flow)
    return (*again, *(a for a in slow if a.start_ns in new))


def _state(job: LiveJob) -> Document:
    return {
        "endpoints": sorted(job.endpoints),
        "keys": [int(key) for key in job.keys],
        "period_s": job.period_s,
        "firm": job.firm,
        "rhythm": [
            job.found.rhythm,
            job.found.components,
            job.found.reliable,
            job.found.sure,
        ],
    }


def _restored(record: JobRecord, numbering: Numbering) -> LiveJob:
    state = record.state
    rhythm, components, reliable, *doubt = state["rhythm"]  # earlier versions kept three
    nothing = np.zeros(0, np.int32)
    return LiveJob(
        id=record.id,
        endpoints=frozenset(state["endpoints"]),
        keys=np.array(state["keys"], np.uint64),
        found=Candidate(
            endpoints=nothing,
            connections=nothing,
            period=Period(state["period_s"], 0.0, 0.0, 0.0),
            turns_ns=np.zeros(0, np.int64),
            known_ns=0,
            rhythm=rhythm,
            components=components,
            reliable=reliable,
            sure=doubt[0] if doubt else 1.0,
        ),
        sightings=0,
        first_seen_ns=record.first_seen_ns,
        last_seen_ns=record.last_seen_ns,
        firm=state["firm"],
        numbering=numbering,
    )


def _finals(results: Results, job_id: str) -> list[Iteration]:
    newest = results.iterations(job_id, limit=2 * KEPT, newest=True)
    return [i for i in newest if i.final][-KEPT:]
