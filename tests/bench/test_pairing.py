"""Pairings against slow twins that try everything."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.pairing import nanoseconds, pair_boundaries, pair_groups, pair_jobs, seconds
from tests.bench.documents import document, job, ring, tree

TIMES = st.lists(st.integers(0, 40), max_size=5).map(sorted)


def cheapest(true: list[int], said: list[int], reach: float) -> float:
    """Smallest cost over all pairings in order: distances, and `reach` per one left alone."""
    costs = []
    for size in range(min(len(true), len(said)) + 1):
        for rows in combinations(true, size):
            for columns in combinations(said, size):
                apart = [abs(t - r) for t, r in zip(rows, columns, strict=True)]
                if all(distance <= reach for distance in apart):
                    alone = len(true) + len(said) - 2 * size
                    costs.append(sum(apart) + reach * alone)
    return min(costs)


@example([13, 19], [1, 3, 8], 10.0)
@example([1, 6, 11], [6, 7, 13, 15], 3.0)
@given(TIMES, TIMES, st.sampled_from([0.5, 3.0, 10.0]))
def test_boundaries_are_paired_at_the_smallest_cost(
    true: list[int], said: list[int], reach: float
) -> None:
    pairs = pair_boundaries(np.array(true, float), np.array(said, float), reach)
    apart = [abs(true[t] - said[r]) for t, r in pairs]
    assert all(distance <= reach for distance in apart)
    for (t0, r0), (t1, r1) in pairwise(pairs):
        assert t0 < t1
        assert r0 < r1
    alone = len(true) + len(said) - 2 * len(pairs)
    assert sum(apart) + reach * alone == pytest.approx(cheapest(true, said, reach))


def test_jobs_of_equal_overlap_go_to_the_closer_one() -> None:
    truth = document(job("t", [ring("g", "abc")]))
    result = document(job("r", [ring("g", "abcxy")]), job("s", [ring("g", "abcx")]))
    assert pair_jobs(truth, result) == [(0, 1)]
    swapped = document(*result["jobs"][::-1])
    assert pair_jobs(truth, swapped) == [(0, 0)]


@pytest.mark.parametrize(
    "other", [ring("h", "ab", "pp"), tree("h", {"a": "b"}, kind="dp")], ids=["kind", "algorithm"]
)
def test_equal_groups_go_by_kind_and_algorithm(other: dict[str, object]) -> None:
    own = ring("g", "ab")
    assert pair_groups([own, other], [other, own]).of_truth == {0: 1, 1: 0}
    assert pair_groups([own, other], [own, other]).of_truth == {0: 0, 1: 1}


def test_kind_counts_more_than_algorithm() -> None:
    true = [ring("g", "ab", "pp"), tree("h", {"a": "b"}, kind="dp")]
    said = [ring("g", "ab", "dp"), tree("h", {"a": "b"}, kind="pp")]
    assert pair_groups(true, said).of_truth == {0: 1, 1: 0}


def test_a_group_left_over_is_judged_by_what_it_overlaps_most() -> None:
    pairs = pair_groups([ring("g", "abcde"), ring("h", "xyz")], [ring("r", "abc"), ring("s", "de")])
    assert pairs.of_truth == {0: 0}
    assert pairs.best == (0, 0)
    assert pair_groups([ring("g", "abc")], [ring("r", "xyz")]).best == (None,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:00.5Z", 500_000_000),
        ("2026-11-29T12:19:00.449747801Z", 1_795_954_740_449_747_801),
    ],
)
def test_times_to_the_nanosecond(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected
    assert seconds(text, text) == 0.0
