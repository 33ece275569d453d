from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patterns.claim import claim, weakest

CEILING, NEEDED = st.floats(0.5, 1.0), st.floats(0.1, 1e4)


@given(CEILING, st.integers(0, 10**9), NEEDED)
def test_a_claim_lies_between_even_odds_and_its_ceiling(
    ceiling: float, samples: int, needed: float
) -> None:
    made = claim(ceiling, samples, needed, "what it rests on")
    assert 0.5 <= made.confidence <= round(ceiling, 4)
    assert (made.basis, made.samples) == ("what it rests on", samples)


@given(CEILING, st.integers(0, 1000), st.integers(0, 1000), NEEDED)
def test_more_samples_are_never_less_sure(ceiling: float, a: int, b: int, needed: float) -> None:
    few, many = sorted((a, b))
    assert claim(ceiling, few, needed, "").confidence <= claim(ceiling, many, needed, "").confidence


@pytest.mark.parametrize(
    ("samples", "wanted"), [(0, 0.5), (10, 0.8161), (20, 0.9323), (10_000, 1.0)]
)
def test_the_way_to_the_ceiling(samples: int, wanted: float) -> None:
    # 1 - 1/e of it is gone with the samples needed: 0.5 + 0.5 x 0.6321.
    assert claim(1.0, samples, 10.0, "").confidence == wanted


def test_statements_that_must_all_hold_are_as_sure_as_the_weakest() -> None:
    sure, unsure = claim(0.99, 1000, 1.0, ""), claim(0.7, 1000, 1.0, "")
    assert weakest([sure, unsure]) == weakest(iter([unsure, sure])) == 0.7
    assert weakest([]) == 0.5
