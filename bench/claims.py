"""Everything a result states with a confidence, and whether the truth agrees.

A null, an "unknown" or an absent order is no claim. A statement without any confidence is taken as
said with certainty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from bench.compare import (
    Document,
    Verdict,
    compare_order,
    orders_of,
    parents_of,
    relative_error,
    states_order,
)
from bench.pairing import GroupPairs, anomalies_of, first_subject, pair_anomalies

KINDS: Final = ("dp", "tp", "pp", "cp", "ep")
# A stated period is right within this relative error; as a claim, not as a score.
PERIOD_RIGHT: Final = 0.01
BINS: Final = (0.0, 0.5, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of a result.

    `what` is one of job, size, members, kind, algorithm, order, collective, period, anomaly;
    `subject` says of what: job and group ids of the result.
    """

    what: str
    subject: str
    said: str
    true: str
    confidence: float
    right: bool


def claims_of(said_job: Document, true_job: Document | None, pairs: GroupPairs) -> list[Claim]:
    """All claims of one result job against its truth job (None: there is none, all are wrong)."""
    return [
        *_about_job(said_job, true_job),
        *_about_groups(said_job, true_job, pairs),
        *_about_anomalies(said_job, true_job),
    ]


def _about_job(said: Document, true: Document | None) -> Iterator[Claim]:
    name = said["id"]
    confidence = _stated(said.get("confidence"))
    endpoints = set(said["endpoints"])
    real = set(true["endpoints"]) if true else set()
    yield Claim(
        "job",
        name,
        f"{len(endpoints)} endpoints",
        f"{len(real)} endpoints, {len(endpoints & real)} in common",
        confidence,
        endpoints == real,
    )
    sizes = said.get("parallelism") or {}
    for kind in KINDS:
        size = sizes.get(kind)
        if size is not None:
            actual = true["parallelism"].get(kind) if true else None
            yield Claim(
                "size",
                f"{name} {kind}",
                str(size),
                str(actual),
                _stated(sizes.get("confidence"), confidence),
                size == actual,
            )
    if said.get("period_s") is not None:
        actual = true.get("period_s") if true else None
        error = relative_error(said["period_s"], actual)
        yield Claim(
            "period",
            name,
            f"{said['period_s']:.6g} s",
            "none" if actual is None else f"{actual:.6g} s",
            _evidence(said, "period", confidence),
            error is not None and error < PERIOD_RIGHT,
        )


def _about_groups(said: Document, true: Document | None, pairs: GroupPairs) -> Iterator[Claim]:
    confidence = _stated(said.get("confidence"))
    for group, best in zip(said["groups"], pairs.best, strict=True):
        real = true["groups"][best] if true and best is not None else {}
        fallback = _stated(group.get("confidence"), confidence)
        for what, says, actual, right in _statements(group, real):
            yield Claim(
                what,
                f"{said['id']} {group['id']}",
                says,
                actual,
                _evidence(group, what, fallback),
                right,
            )


def _statements(group: Document, real: Document) -> Iterator[tuple[str, str, str, bool]]:
    """What a group states: name, said, true, whether right; `real` is empty where none is."""
    members = real.get("members", ())
    same = set(group["members"]) == set(members)
    yield "members", _listed(group["members"]), _listed(members), same
    for what in ("kind", "algorithm", "collective"):
        if group[what] != "unknown":
            actual = real.get(what, "none")
            yield what, group[what], actual, group[what] == actual
    if states_order(group):
        right = compare_order(real, group) is Verdict.RIGHT
        yield "order", _order(group), _order(real), right


def _about_anomalies(said: Document, true: Document | None) -> Iterator[Claim]:
    found, real = anomalies_of(said), anomalies_of(true)
    period = (true.get("period_s") if true else None) or 0.0
    answers = {column: row for row, column in pair_anomalies(real, found, period)}
    for index, anomaly in enumerate(found):
        row = answers.get(index)
        actual = f"{real[row]['kind']} of {first_subject(real[row])}" if row is not None else "none"
        right = row is not None and first_subject(real[row]) == first_subject(anomaly)
        yield Claim(
            "anomaly",
            f"{said['id']} {anomaly.get('id', index)}",
            f"{anomaly['kind']} of {first_subject(anomaly)}",
            actual,
            _stated(anomaly.get("confidence"), _stated(said.get("confidence"))),
            right,
        )


def _stated(confidence: float | None, fallback: float = 1.0) -> float:
    return fallback if confidence is None else float(confidence)


def _evidence(holder: Document, what: str, fallback: float) -> float:
    evidence: Mapping[str, Any] = (holder.get("evidence") or {}).get(what) or {}
    return _stated(evidence.get("confidence"), fallback)


def _order(group: Document) -> str:
    if group.get("algorithm") == "tree":
        return " | ".join(
            ", ".join(f"{child}<{parent}" for child, parent in sorted(tree))
            for tree in sorted(parents_of(group), key=sorted)
        )
    return " | ".join(">".join(order) for order in orders_of(group))


def _listed(members: Sequence[str]) -> str:
    return f"{len(members)}: {' '.join(sorted(members))}"


@dataclass(frozen=True, slots=True)
class Bin:
    """Claims with ``low <= confidence < high`` (the last bin includes 1) and how many are true."""

    low: float
    high: float
    claims: int
    right: int
    mean_confidence: float | None


def reliability(claims: Iterable[Claim]) -> tuple[Bin, ...]:
    """The reliability table: claims by confidence bin, `BINS`."""
    held = list(claims)
    bins = []
    for low, high in pairwise(BINS):
        inside = [c for c in held if low <= c.confidence < high or c.confidence == high == 1.0]
        mean = sum(c.confidence for c in inside) / len(inside) if inside else None
        bins.append(Bin(low, high, len(inside), sum(c.right for c in inside), mean))
    return tuple(bins)
