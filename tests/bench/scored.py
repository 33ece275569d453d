"""Documents scored, and what the scores come to."""

from __future__ import annotations

from typing import Any

from bench.compare import Judged, Measured, Verdict
from bench.score import Score, score
from tests.bench.documents import document, job

Json = dict[str, Any]


def verdicts(judged: tuple[Judged, ...]) -> list[Verdict]:
    return [j.verdict for j in judged]


def errors(measured: tuple[Measured, ...]) -> list[float | None]:
    return [m.error for m in measured]


def scored(true_groups: list[Json], said_groups: list[Json]) -> Score:
    return score(document(job("t", true_groups)), document(job("r", said_groups)))
