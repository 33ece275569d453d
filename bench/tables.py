"""Scores as tables: one row per capture, the reliability of confidences, what fell short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf

import numpy as np
from rich.box import MARKDOWN
from rich.table import Table

from bench.claims import Claim, reliability
from bench.compare import Judged, Verdict
from bench.judge import Shortfall, worst, wrong_claims
from bench.measure import Run
from bench.score import Ratio, Score, confident

NOTHING = "-"  # nothing to score, as opposed to a score of zero


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the accuracy table; `run` is absent in the line of totals."""

    score: Score
    run: Run | None


_COLUMNS = (
    "scenario",
    "seed",
    "jobs",
    "sizes",
    "candidates",
    "roles",
    "groups F1",
    "algorithm",
    "ring order",
    "stages",
    "tree edges",
    "parents",
    "bytes err",
    "period err",
    "boundary err",
    "aligned",
    "wrong >= 0.9",
    "right >= 0.9",
    "wall s",
    "MB",
)


def accuracy_table(rows: Sequence[Row], title: str) -> Table:
    """One line per row.

    Jobs, sizes, algorithm, ring order, stages of chains and parents in trees are "right / all"
    (sizes with "+n" right only among their candidates, "?n" abstained), candidates "possible /
    listed"; errors of bytes and period are the worst ones, of boundaries "median / mean" in percent
    of the period, before and after one constant offset.
    """
    table = plain_table(title, _COLUMNS, left=1)
    for row in rows:
        score = row.score
        jobs = score.jobs
        table.add_row(
            score.scenario,
            str(score.seed),
            f"{jobs.exact} / {jobs.true}" + (f", {jobs.false} false" if jobs.false else ""),
            _judged(score.sizes),
            _counted(score.candidates),
            _percent(score.role.value, 1),
            _number(score.members.f1),
            _judged(score.algorithms),
            _judged(score.rings),
            _judged(score.chains),
            _number(score.tree_edges.f1),
            _judged(score.trees),
            _percent(worst(score.group_bytes), 2),
            _percent(worst(score.periods), 3),
            _spread([e for b in score.boundaries for e in b.raw]),
            _spread([e for b in score.boundaries for e in b.aligned]),
            str(len(wrong_claims(score))),
            _percent(confident(score.claims).value, 0),
            f"{row.run.wall_s:.1f}" if row.run else NOTHING,
            f"{row.run.peak_bytes / 1e6:.0f}" if row.run else NOTHING,
        )
    return table


def reliability_table(claims: Sequence[Claim]) -> Table:
    """Claims by confidence and how many of them are true."""
    table = plain_table(
        "Reliability", ("confidence", "claims", "right", "share right", "mean"), left=1
    )
    for entry in reliability(claims):
        table.add_row(
            f"{entry.low:.1f} to {entry.high:.1f}",
            str(entry.claims),
            str(entry.right),
            _percent(entry.right / entry.claims if entry.claims else None, 1),
            _number(entry.mean_confidence),
        )
    return table


def claims_table(scores: Iterable[Score], at_least: float) -> Table:
    """Every wrong claim with at least this confidence."""
    title = f"Wrong claims with confidence >= {at_least}"
    columns = ("scenario", "seed", "claim", "of", "said", "true", "confidence")
    table = plain_table(title, columns, left=6)
    for score in scores:
        for claim in wrong_claims(score, at_least):
            table.add_row(
                score.scenario,
                str(score.seed),
                claim.what,
                claim.subject,
                _short(claim.said),
                _short(claim.true),
                f"{claim.confidence:.3f}",
            )
    return table


def shortfall_table(shortfalls: Iterable[Shortfall]) -> Table:
    """Every threshold that was missed."""
    table = plain_table("Missed", ("threshold", "scenario", "seed", "found"), left=4)
    for missed in shortfalls:
        table.add_row(
            missed.threshold, missed.scenario, str(missed.seed), _short(missed.found, 110)
        )
    return table


def plain_table(title: str, columns: Sequence[str], left: int) -> Table:
    """A table without rows; all but its first `left` columns hold numbers."""
    table = Table(title=title, title_justify="left", box=MARKDOWN)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=True)
    return table


def _judged(judged: Sequence[Judged]) -> str:
    if not judged:
        return NOTHING
    count = {verdict: sum(j.verdict is verdict for j in judged) for verdict in Verdict}
    text = f"{count[Verdict.RIGHT]}"
    if count[Verdict.IN_CANDIDATES]:
        text += f"+{count[Verdict.IN_CANDIDATES]}"
    text += f" / {len(judged)}"
    return text + (f" ?{count[Verdict.ABSTAINED]}" if count[Verdict.ABSTAINED] else "")


def _counted(ratio: Ratio) -> str:
    return f"{ratio.hits:.0f} / {ratio.of:.0f}" if ratio.of else NOTHING


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def _percent(value: float | None, digits: int) -> str:
    if value is None:
        return NOTHING
    return "missing" if isinf(value) else f"{100 * value:.{digits}f} %"


def _spread(errors: Sequence[float]) -> str:
    if not errors:
        return NOTHING
    return f"{100 * np.median(errors):.2f} / {100 * np.mean(errors):.2f} %"


def _short(text: str, longest: int = 48) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."
