"""Whether scores are good enough: the thresholds, and what falls short of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import inf
from typing import Any, Final

from bench.claims import Claim
from bench.compare import Judged, Measured, Verdict
from bench.score import CONFIDENT, Score, confident

# What a rich capture must reach, each capture by itself but the last one, which is over all.
ROLE_SHARE: Final = 0.97
BYTES_ERROR: Final = 0.01
PERIOD_ERROR: Final = 0.001
CONFIDENT_SHARE: Final = 0.80

_OPEN: Final = (Verdict.RIGHT, Verdict.IN_CANDIDATES)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """One threshold that one capture misses; scenario "all" where it is over all captures."""

    threshold: str
    scenario: str
    seed: int
    found: str


def summarise(scores: Sequence[Score]) -> Score:
    """All scores as one: counts added, lists joined; scenario "all", seed the number of captures.

    Raises
    ------
    ValueError
        There is no score.
    """
    if not scores:
        raise ValueError("no score to summarise")
    merged: dict[str, Any] = {}
    for field in fields(Score):
        first, *others = (getattr(score, field.name) for score in scores)
        if not isinstance(first, str):
            for other in others:
                first = first + other
        merged[field.name] = first
    return Score(**merged | {"scenario": "all", "seed": len(scores)})


def worst(measured: Iterable[Measured]) -> float | None:
    """Largest relative error, infinite where a number is missing; None for nothing measured."""
    errors = [inf if m.error is None else m.error for m in measured]
    return max(errors, default=None)


def wrong_claims(score: Score, at_least: float = CONFIDENT) -> list[Claim]:
    """Claims that are wrong and carry a confidence of `at_least`."""
    return [c for c in score.claims if not c.right and c.confidence >= at_least]


def overconfident(score: Score) -> list[Shortfall]:
    """Nothing wrong may be said with a confidence of 0.9 or more, at any level."""
    return [
        Shortfall(
            f"nothing wrong at confidence >= {CONFIDENT}",
            score.scenario,
            score.seed,
            f"{c.what} of {c.subject}: said {c.said} at {c.confidence:.2f}, true {c.true}",
        )
        for c in wrong_claims(score)
    ]


def judge(scores: Sequence[Score]) -> list[Shortfall]:
    """All thresholds of rich captures that are missed, in the order of the captures."""
    missed = [shortfall for score in scores for shortfall in _of_capture(score)]
    share = confident(claim for score in scores for claim in score.claims).value
    if share is not None and share < CONFIDENT_SHARE:
        name = f"{CONFIDENT_SHARE:.0%} of right claims at confidence >= {CONFIDENT}"
        missed.append(Shortfall(name, "all", len(scores), f"{share:.1%}"))
    return missed


def _of_capture(score: Score) -> list[Shortfall]:
    found: list[tuple[str, str]] = []
    if not score.jobs.all_exact:
        found.append(("jobs exact", str(score.jobs)))
    found += _unmet("sizes right or in candidates", score.sizes, _OPEN)
    found += _unmet("ring order exact", score.rings, (Verdict.RIGHT,))
    overlap = score.tree_edges
    if overlap.f1 is not None and overlap.f1 < 1.0:
        found.append(("tree edges exact", f"{overlap}"))
    role = score.role.value
    if role is not None and role < ROLE_SHARE:
        found.append((f"roles right for {ROLE_SHARE:.0%} of bytes", f"{role:.1%}"))
    found += _beyond("bytes", score.group_bytes, BYTES_ERROR)
    found += _beyond("period", score.periods, PERIOD_ERROR)
    missed = [Shortfall(name, score.scenario, score.seed, text) for name, text in found]
    return missed + overconfident(score)


def _unmet(
    name: str, judged: Iterable[Judged], accepted: tuple[Verdict, ...]
) -> list[tuple[str, str]]:
    return [
        (name, f"{j.subject}: {j.verdict.value}, true {j.true}, said {j.said}")
        for j in judged
        if j.verdict not in accepted
    ]


def _beyond(name: str, measured: Iterable[Measured], limit: float) -> list[tuple[str, str]]:
    return [
        (
            f"{name} within {limit:.1%}",
            f"{m.subject}: " + ("not said" if m.error is None else f"{m.error:.3%} off"),
        )
        for m in measured
        if m.error is None or m.error > limit
    ]
