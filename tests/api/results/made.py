"""Records made by hand, as an analysis would save them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from api.results.database import Results
from api.results.records import JobRecord, JobUpdate, Tally, WindowRecord
from patterns.result import Anomaly, Iteration, Subject
from tests.api.made import SECOND_NS, START_NS

# What a hostile network or scheduler may put into a name.
HOSTILE: Final = (
    "nul\x00inside",
    "half a pair \ud800",
    "\udfff\ud800",
    "quotes ' \" and \\ backslash \\u0000",
    "'; DROP TABLE jobs; --",
    "rtl \u202e and é 漢 \U0001f600",
    "%s %(id)s :id {id}",
    "",
)


def record(
    job_id: str = "job-0",
    *,
    status: str = "training",
    first_s: int = 0,
    last_s: int = 600,
    name: str | None = None,
) -> JobRecord:
    return JobRecord(
        id=job_id,
        document={"id": job_id, "status": status, "name": name, "period_s": 1.25},
        state={"turns": last_s},
        window_start_ns=START_NS,
        window_end_ns=START_NS + last_s * SECOND_NS,
        first_seen_ns=START_NS + first_s * SECOND_NS,
        last_seen_ns=START_NS + last_s * SECOND_NS,
    )


def long_record(job_id: str = "job-0", *, volume: int = 7, turns: int = 600) -> JobRecord:
    """With two groups of one kind, one of another, a rank and an edge."""
    ring = {"kind": "dp", "algorithm": "ring", "collective": "all_reduce", "members": ["a", "b"]}
    groups: list[dict[str, Any]] = [{"id": "dp-0", **ring}, {"id": "dp-1", **ring}]
    groups.append({**ring, "id": "dp-2", "members": ["a", "b", "c"]})
    document = {
        "id": job_id,
        "status": "training",
        "groups": groups,
        "ranks": [{"endpoint": "a", "host": None}],
        "edges": [{"src": "a", "dst": "b", "bytes": volume}],
        "period_s": 1.25,
    }
    return replace(record(job_id), document=document, state={"turns": turns})


def tallies(results: Results) -> dict[str, Tally]:
    return {summary.id: summary.tally for summary in results.summaries()}


def iterations(
    indices: Iterable[int], *, final: bool = True, complete: bool = True, volume: float | None = 5e9
) -> tuple[Iteration, ...]:
    """Of one second each: the one of index 7 begins after 7 seconds."""
    return tuple(
        Iteration(
            index,
            START_NS + index * SECOND_NS,
            START_NS + (index + 1) * SECOND_NS,
            volume,
            complete,
            final,
        )
        for index in indices
    )


def anomaly(
    anomaly_id: str = "slow-5", *, start_s: int = 5, end_s: int | None = 6, kind: str = "straggler"
) -> Anomaly:
    return Anomaly(
        id=anomaly_id,
        kind=kind,
        severity="warning",
        start_ns=START_NS + start_s * SECOND_NS,
        end_ns=None if end_s is None else START_NS + end_s * SECOND_NS,
        verdict="host",
        subjects=(Subject("endpoint", "10.0.0.1"), Subject("host", "gpu-001")),
        summary="rank 0 is 0.1 s late",
        evidence={"lag_s": 0.1, "samples": 900, "basis": "progress"},
        confidence=0.9,
    )


def update(
    of: JobRecord,
    final: Sequence[Iteration] = (),
    provisional: Sequence[Iteration] = (),
    anomalies: Sequence[Anomaly] = (),
) -> JobUpdate:
    return JobUpdate(of, tuple(final), tuple(provisional), tuple(anomalies))


def window(end_s: int = 600) -> WindowRecord:
    return WindowRecord(
        start_ns=START_NS,
        end_ns=START_NS + end_s * SECOND_NS,
        telemetry={"datagrams": 3, "errors": []},
        unassigned={"bytes": 12, "endpoints": [], "by_class": {}},
    )
