"""A job's document, as REST answers and the database holds it, back as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from api.contract import Document
from patterns.result import (
    Algorithm,
    Anomaly,
    Channel,
    Claim,
    Edge,
    EdgeVolume,
    Group,
    Hint,
    Iteration,
    JobResult,
    Parallelism,
    Rank,
    Subject,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS: Final = len("2026-11-30T12:19:00")


def read_time(text: str) -> int:
    """A time of the contract in ns since the epoch.

    Examples
    --------
    >>> read_time('2026-11-30T12:19:00.449747801Z')
    1796041140449747801
    """
    since = datetime.fromisoformat(f"{text[:_SECONDS]}+00:00") - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + int(text[_SECONDS + 1 : -1])


def read_job(
    document: Document, iterations: Sequence[Iteration], anomalies: Sequence[Anomaly]
) -> JobResult:
    """The contract's job as values.

    Parameters
    ----------
    document
        A job that is valid by the contract's "result_job"; its own iterations and anomalies are
        not read.
    iterations, anomalies
        Those of the job, in the order of time.
    """
    interval = document["period_ci_s"]
    return JobResult(
        id=document["id"],
        name=document["name"],
        user=document["user"],
        source=document["source"],
        status=document["status"],
        hosts=tuple(document["hosts"]),
        endpoints=tuple(document["endpoints"]),
        started_at_ns=_time_or_none(document["started_at"]),
        ended_at_ns=_time_or_none(document["ended_at"]),
        confidence=document["confidence"],
        evidence=_claims(document["evidence"]),
        parallelism=_parallelism(document["parallelism"]),
        groups=tuple(map(_group, document["groups"])),
        ranks=tuple(map(_rank, document["ranks"])),
        edges=tuple(map(_volume, document["edges"])),
        period_s=document["period_s"],
        period_ci_s=None if interval is None else (interval[0], interval[1]),
        iterations=tuple(iterations),
        anomalies=tuple(anomalies),
        contradictions=tuple(document["contradictions"]),
        hints={
            name: Hint(hint["value"], hint["low"], hint["high"], _claim(hint))
            for name, hint in document.get("hints", {}).items()  # older ones have none
        },
    )


def read_iteration(document: Document) -> Iteration:
    """One of the contract's "iterations"."""
    return Iteration(
        index=document["index"],
        start_ns=read_time(document["start"]),
        end_ns=read_time(document["end"]),
        bytes=document["bytes"],
        complete=document["complete"],
        final=document["final"],
    )


def read_anomaly(document: Document) -> Anomaly:
    """One of the contract's "anomalies"."""
    return Anomaly(
        id=document["id"],
        kind=document["kind"],
        severity=document["severity"],
        start_ns=read_time(document["start"]),
        end_ns=_time_or_none(document["end"]),
        verdict=document["verdict"],
        subjects=tuple(Subject(each["type"], each["id"]) for each in document["subjects"]),
        summary=document["summary"],
        evidence=document["evidence"],
        confidence=document["confidence"],
    )


def _parallelism(document: Document) -> Parallelism:
    return Parallelism(
        dp=document["dp"],
        tp=document["tp"],
        pp=document["pp"],
        cp=document["cp"],
        ep=document["ep"],
        candidates=tuple(document["candidates"]),
        basis=document["basis"],
        confidence=document["confidence"],
    )


def _group(document: Document) -> Group:
    return Group(
        id=document["id"],
        kind=document["kind"],
        members=tuple(document["members"]),
        edges=_edges(document["edges"]),
        bytes_per_iteration=document["bytes_per_iteration"],
        collective=document["collective"],
        algorithm=document["algorithm"],
        algorithms=tuple(map(_algorithm, document["algorithms"])),
        confidence=document["confidence"],
        evidence=_claims(document["evidence"]),
    )


def _algorithm(document: Document) -> Algorithm:
    return Algorithm(
        algorithm=document["algorithm"],
        variant=document["variant"],
        collective=document["collective"],
        share=document["share"],
        channels=tuple(
            Channel(
                order=None if channel["order"] is None else tuple(channel["order"]),
                parent=channel["parent"],
                edges=_edges(channel["edges"]),
            )
            for channel in document["channels"]
        ),
    )


def _rank(document: Document) -> Rank:
    return Rank(
        endpoint=document["endpoint"],
        host=document["host"],
        coordinates=document["coordinates"],
        lag_s=document["lag_s"],
        phases=document["phases"],
    )


def _volume(document: Document) -> EdgeVolume:
    return EdgeVolume(
        src=document["src"],
        dst=document["dst"],
        bytes=document["bytes"],
        wire_bytes=document["wire_bytes"],
        bytes_by_count=document["bytes_by_count"],
        samples=document["samples"],
        retransmitted_samples=document["retransmitted_samples"],
    )


def _edges(edges: Sequence[Sequence[str]]) -> tuple[Edge, ...]:
    return tuple((src, dst) for src, dst in edges)


def _claims(claims: Mapping[str, Any]) -> dict[str, Claim]:
    return {name: _claim(claim) for name, claim in claims.items()}


def _claim(claim: Mapping[str, Any]) -> Claim:
    return Claim(claim["confidence"], claim["basis"], claim["samples"])


def _time_or_none(text: str | None) -> int | None:
    return None if text is None else read_time(text)
