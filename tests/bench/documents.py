"""Small truths and results by hand, for the tests of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    """RFC 3339 text of so many seconds (microsecond steps) after the documents' window began."""
    return f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%f}000Z"


def cycle(order: Sequence[str]) -> list[list[str]]:
    return [[src, dst] for src, dst in zip(order, [*order[1:], order[0]], strict=True)]


def both_ways(pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    return [list(edge) for a, b in pairs for edge in ((a, b), (b, a))]


def group(
    name: str,
    kind: str,
    algorithm: str,
    members: Sequence[str],
    edges: list[list[str]],
    channels: list[Json],
    changes: Json,
) -> Json:
    collective = "send_recv" if algorithm == "chain" else "all_reduce"
    entry = {
        "algorithm": algorithm,
        "variant": None,
        "collective": collective,
        "share": 1.0,
        "channels": channels,
    }
    return {
        "id": name,
        "kind": kind,
        "members": list(members),
        "edges": edges,
        "bytes_per_iteration": 100.0 * len(edges),
        "collective": collective,
        "algorithm": algorithm,
        "algorithms": [entry],
        "confidence": 0.95,
        "evidence": {},
    } | changes


def ring(name: str, order: Sequence[str], kind: str = "dp", **changes: Any) -> Json:
    edges = cycle(order)
    channels: list[Json] = [{"order": list(order), "parent": None, "edges": edges}]
    return group(name, kind, "ring", order, edges, channels, changes)


def chain(name: str, stages: Sequence[str], kind: str = "pp", **changes: Any) -> Json:
    edges = both_ways(list(pairwise(stages)))
    channels: list[Json] = [{"order": list(stages), "parent": None, "edges": edges}]
    return group(name, kind, "chain", stages, edges, channels, changes)


def tree(name: str, *parents: Mapping[str, str], kind: str = "dp", **changes: Any) -> Json:
    pairs = {tuple(sorted(link)) for parent in parents for link in parent.items()}
    edges = both_ways([(a, b) for a, b in sorted(pairs)])
    members = sorted({name for pair in pairs for name in pair})
    channels: list[Json] = [
        {"order": None, "parent": dict(parent), "edges": both_ways(list(parent.items()))}
        for parent in parents
    ]
    return group(name, kind, "tree", members, edges, channels, changes)


def iterations(ends: Sequence[float], period: float) -> list[Json]:
    return [
        {"index": i, "start": at(end - period), "end": at(end), "complete": True}
        for i, end in enumerate(ends)
    ]


def job(name: str, groups: list[Json], **changes: Any) -> Json:
    endpoints = sorted({member for g in groups for member in g["members"]})
    dp = max((len(g["members"]) for g in groups if g["kind"] == "dp"), default=1)
    pp = max((len(g["members"]) for g in groups if g["kind"] == "pp"), default=1)
    return {
        "id": name,
        "hosts": endpoints,
        "endpoints": endpoints,
        "confidence": 0.95,
        "evidence": {},
        "parallelism": {
            "dp": dp,
            "tp": 1,
            "pp": pp,
            "cp": 1,
            "ep": 1,
            "candidates": [],
            "confidence": 0.95,
        },
        "groups": groups,
        "edges": [],
        "period_s": 1.0,
        "iterations": iterations([2.0, 3.0, 4.0, 5.0], 1.0),
        "anomalies": [],
    } | changes


def document(*jobs: Json, **changes: Any) -> Json:
    window = {"start": at(0), "end": at(10)}
    return {"schema_version": 1, "window": window, "jobs": list(jobs)} | changes


def anomaly(kind: str, subject: str, start: float, end: float | None, **changes: Any) -> Json:
    return {
        "id": f"{kind}-{start}",
        "kind": kind,
        "start": at(start),
        "end": None if end is None else at(end),
        "verdict": "host",
        "subjects": [{"type": "host", "id": subject}],
        "confidence": 0.8,
    } | changes
