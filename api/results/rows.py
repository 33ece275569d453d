"""Between records and rows."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final

from sqlalchemy import Row

from api.results.records import Document, JobRecord, Summary, Tally, WindowRecord
from api.results.summary import long_part, summarized
from patterns.result import Anomaly, Iteration, Subject

Values = dict[str, str | int | float | bool | None]

_THE_ONE_ROW: Final = 1
_DIGEST_BYTES: Final = 16


def escaped(text: str) -> str:
    """A text as a column may hold it, whatever is in it.

    Names come from the network and may hold NUL, which PostgreSQL refuses, or lone surrogates,
    which no encoding takes. So they are stored as the inside of a JSON string: ASCII without
    control characters, and unchanged where it is that already and has no quote or backslash.
    """
    return json.dumps(text)[1:-1]


def unescaped(text: str) -> str:
    """What `escaped` was given."""
    return str(json.loads(f'"{text}"'))


def job_row(record: JobRecord) -> Values:
    """All columns of a job but those that are counted, and the digest.

    Raises
    ------
    TypeError
        The short part of the document is no JSON.
    """
    return {
        "id": escaped(record.id),
        "status": escaped(record.document["status"]),
        "first_seen_ns": int(record.first_seen_ns),
        "last_seen_ns": int(record.last_seen_ns),
        "window_start_ns": int(record.window_start_ns),
        "window_end_ns": int(record.window_end_ns),
        "summary": json.dumps(summarized(record.document)),
    }


def details_row(record: JobRecord) -> Values:
    """The row of `DETAILS`.

    Raises
    ------
    TypeError
        The long part of the document, or the state, is no JSON.
    """
    return {
        "job_id": escaped(record.id),
        "document": json.dumps(long_part(record.document)),
        "state": json.dumps(record.state),
    }


def digest(details: Values) -> str:
    """A text that is another one for another row of `DETAILS`."""
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    for name in ("document", "state"):
        # Both are ASCII without line breaks, so no two pairs are joined to the same bytes.
        hashed.update(f"{details[name]}\n".encode())
    return hashed.hexdigest()


def job_record(row: Row[Any]) -> JobRecord:
    """The record of a whole row of `JOBS` with that of `DETAILS`."""
    return JobRecord(
        id=unescaped(row.id),
        document={**json.loads(row.summary), **json.loads(row.document)},
        state=json.loads(row.state),
        window_start_ns=row.window_start_ns,
        window_end_ns=row.window_end_ns,
        first_seen_ns=row.first_seen_ns,
        last_seen_ns=row.last_seen_ns,
    )


def summary(row: Row[Any]) -> Summary:
    """The summary of a row of `listing.SUMMARIES`."""
    return Summary(
        id=unescaped(row.id),
        document=json.loads(row.summary),
        digest=row.digest,
        first_seen_ns=row.first_seen_ns,
        last_seen_ns=row.last_seen_ns,
        tally=Tally(
            iterations=row.complete_iterations,
            next_index=row.next_index,
            last=None if row.job_id is None else iteration(row),
            anomalies_open=row.anomalies - row.anomalies_ended,
            anomalies=row.anomalies,
        ),
    )


def iteration_row(job: str, iteration: Iteration, *, final: bool) -> Values:
    """The row of an iteration of the job with this escaped id."""
    return {
        "job_id": job,
        "index": int(iteration.index),
        "start_ns": int(iteration.start_ns),
        "end_ns": int(iteration.end_ns),
        "bytes": None if iteration.bytes is None else float(iteration.bytes),
        "complete": bool(iteration.complete),
        "final": final,
    }


def iteration(row: Row[Any]) -> Iteration:
    """The iteration of a row with at least its columns."""
    # By mapping, as a row is a tuple and so has an `index` of its own.
    columns = row._mapping
    return Iteration(
        index=columns["index"],
        start_ns=columns["start_ns"],
        end_ns=columns["end_ns"],
        bytes=columns["bytes"],
        complete=columns["complete"],
        final=columns["final"],
    )


def anomaly_row(job: str, anomaly: Anomaly) -> Values:
    """The row of an anomaly of the job with this escaped id.

    Raises
    ------
    TypeError
        The evidence is no JSON.
    """
    document: Document = {
        "severity": anomaly.severity,
        "verdict": anomaly.verdict,
        "subjects": [[subject.type, subject.id] for subject in anomaly.subjects],
        "summary": anomaly.summary,
        "evidence": dict(anomaly.evidence),
        "confidence": anomaly.confidence,
    }
    return {
        "job_id": job,
        "id": escaped(anomaly.id),
        "kind": escaped(anomaly.kind),
        "start_ns": int(anomaly.start_ns),
        "end_ns": None if anomaly.end_ns is None else int(anomaly.end_ns),
        "document": json.dumps(document),
    }


def anomaly(row: Row[Any]) -> Anomaly:
    """The anomaly of a whole row of `ANOMALIES`."""
    document = json.loads(row.document)
    return Anomaly(
        id=unescaped(row.id),
        kind=unescaped(row.kind),
        severity=document["severity"],
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        verdict=document["verdict"],
        subjects=tuple(Subject(*subject) for subject in document["subjects"]),
        summary=document["summary"],
        evidence=document["evidence"],
        confidence=document["confidence"],
    )


def window_row(window: WindowRecord) -> Values:
    """The one row of `WINDOW`.

    Raises
    ------
    TypeError
        Telemetry or unassigned is no JSON.
    """
    return {
        "id": _THE_ONE_ROW,
        "start_ns": int(window.start_ns),
        "end_ns": int(window.end_ns),
        "telemetry": json.dumps(window.telemetry),
        "unassigned": json.dumps(window.unassigned),
    }


def window_record(row: Row[Any]) -> WindowRecord:
    """The record of the row of `WINDOW`."""
    return WindowRecord(
        start_ns=row.start_ns,
        end_ns=row.end_ns,
        telemetry=json.loads(row.telemetry),
        unassigned=json.loads(row.unassigned),
    )
