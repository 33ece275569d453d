"""Whether groups, roles, algorithms and sizes are good enough: limits by level, over all captures.

Where samples are scarce, being silent is good enough and being wrong is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bench.compare import Judged, Verdict
from bench.limits import Threshold, by_level
from bench.score import CONFIDENT, Overlap, Ratio, Score, confident

Judgements = Callable[[Score], tuple[Judged, ...]]

GOOD: Final = frozenset({Verdict.RIGHT, Verdict.IN_CANDIDATES})
BAD: Final = frozenset({Verdict.WRONG, Verdict.REVERSED})


def right_share(scores: Sequence[Score], of: Judgements) -> float | None:
    """``right or in candidates / all``."""
    judged = [j for score in scores for j in of(score)]
    return sum(j.verdict in GOOD for j in judged) / len(judged) if judged else None


def not_wrong_share(scores: Sequence[Score], of: Judgements) -> float | None:
    """``all but the wrong / all``: what was not said is not wrong."""
    judged = [j for score in scores for j in of(score)]
    return 1 - sum(j.verdict in BAD for j in judged) / len(judged) if judged else None


def role_share(scores: Sequence[Score]) -> float | None:
    """Share of the bytes whose edge is in a group of the true kind."""
    return sum((score.role for score in scores), Ratio()).value


def role_not_wrong(scores: Sequence[Score]) -> float | None:
    """Share of the bytes whose edge is in no group of another kind alone."""
    wrong = sum((score.misnamed for score in scores), Ratio()).value
    return None if wrong is None else 1 - wrong


def tree_f1(scores: Sequence[Score]) -> float | None:
    """F1 of trees' edges, over all trees."""
    return sum((score.tree_edges for score in scores), Overlap()).f1


def tree_precision(scores: Sequence[Score]) -> float | None:
    """Share of the stated trees' edges that are true."""
    return sum((score.tree_edges for score in scores), Overlap()).precision


def confident_truth(scores: Sequence[Score]) -> float | None:
    """``|right claims with confidence >= 0.9| / |claims with confidence >= 0.9|``."""
    held = [c.right for score in scores for c in score.claims if c.confidence >= CONFIDENT]
    return sum(held) / len(held) if held else None


def confident_share(scores: Sequence[Score]) -> float | None:
    """``|right claims with confidence >= 0.9| / |right claims|``."""
    return confident(claim for score in scores for claim in score.claims).value


def undecidable(scores: Sequence[Score]) -> float | None:
    """Share of a scenario's fields that its truth declares unobservable, the most of any."""
    fields: dict[str, Ratio] = {}
    for score in scores:
        fields[score.scenario] = fields.get(score.scenario, Ratio()) + score.undecidable
    return max((f.value for f in fields.values() if f.value is not None), default=None)


def _sizes(score: Score) -> tuple[Judged, ...]:
    return score.sizes


def _algorithms(score: Score) -> tuple[Judged, ...]:
    return score.algorithms


def _rings(score: Score) -> tuple[Judged, ...]:
    return score.rings


_DENSE: Final = by_level(0.99, 0.97, None)
_SCARCE: Final = by_level(None, None, 1.0)

THRESHOLDS: Final[tuple[Threshold[Score], ...]] = (
    Threshold("sizes exact or in candidates", partial(right_share, of=_sizes), _DENSE, True),
    Threshold("sizes right or unknown", partial(not_wrong_share, of=_sizes), _SCARCE, True),
    Threshold("role, by share of bytes", role_share, _DENSE, True),
    Threshold("role right or unknown, by share of bytes", role_not_wrong, _SCARCE, True),
    Threshold("algorithm", partial(right_share, of=_algorithms), _DENSE, True),
    Threshold(
        "algorithm right or unknown", partial(not_wrong_share, of=_algorithms), _SCARCE, True
    ),
    Threshold("ring order and direction", partial(right_share, of=_rings), _DENSE, True),
    Threshold("ring order right or unknown", partial(not_wrong_share, of=_rings), _SCARCE, True),
    Threshold("tree edges, F1", tree_f1, _DENSE, True),
    Threshold("tree edges that are true", tree_precision, _SCARCE, True),
    Threshold(
        "claims at 0.9 or more that are true", confident_truth, by_level(0.98, 0.98, 0.95), True
    ),
    Threshold(
        "right claims that carry 0.9 or more", confident_share, by_level(0.9, 0.75, None), True
    ),
    Threshold(
        "fields unobservable by the truth, of any scenario",
        undecidable,
        by_level(0.05, None, None),
    ),
)
