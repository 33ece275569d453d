"""How sure a statement is.

A statement has a ceiling, what its kind of evidence is worth at best, and approaches it with the
number of samples that it rests on. Ceilings are choices and stand here with their reasons; the
reliability table of `bench/accuracy.py` says how well they hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from patterns.result import Claim

SHAPE_CEILING: Final = 0.99  # a shape through all members with no edge left over
AMBIGUOUS_CEILING: Final = 0.75  # two shapes draw this picture
INFERRED_CEILING: Final = 0.8  # an edge was not seen and is taken from the shape
MESSAGES_CEILING: Final = 0.79  # message lengths alone: no public capture confirms them
ROLE_CEILING: Final = 0.97  # kind from shape and rhythm together
WEAK_ROLE_CEILING: Final = 0.7  # kind from shape alone


def claim(ceiling: float, samples: int, needed: float, basis: str) -> Claim:
    """A claim that reaches its ceiling as samples grow.

    Parameters
    ----------
    ceiling : float
        Confidence with endless samples.
    samples : int
        Samples of the weakest link that decides.
    needed : float
        Samples at which 1 - 1/e of the way from even odds (0.5) to the ceiling is gone.
    basis : str
    """
    confidence = 0.5 + (ceiling - 0.5) * (1 - math.exp(-samples / needed))
    return Claim(round(confidence, 4), basis, samples)


def weakest(claims: Iterable[Claim]) -> float:
    """Confidence of statements that must all hold."""
    return min((c.confidence for c in claims), default=0.5)
