"""Each threshold is met on its edge and missed just beyond it."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from bench.judge import judge, overconfident, summarise, worst, wrong_claims
from bench.score import JobCounts, Overlap, Ratio, Score, score
from tests.bench.documents import document, job, ring, tree

Json = dict[str, Any]
A = {"b": "c", "c": "a", "d": "c"}


def scored(said: Json, true: Json | None = None) -> Score:
    truth = document(true or job("t", [ring("g", "abcd")]), scenario="s", seed=7, level="rich")
    return score(truth, document(said))


def missed(said: Json, true: Json | None = None) -> set[str]:
    found = judge([scored(said, true)])
    assert all((s.scenario, s.seed) in (("s", 7), ("all", 1)) for s in found)
    return {s.threshold.split(" ")[0] for s in found}


def test_a_right_result_misses_nothing() -> None:
    assert missed(job("r", [ring("g", "abcd")])) == set()


def test_no_job_where_none_is_misses_nothing() -> None:
    assert judge([score(document(), document())]) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"endpoints": ["a", "b", "c"]}, {"jobs"}),
        ({"period_s": 1.0009}, set()),
        ({"period_s": 1.0011}, {"period"}),
        ({"period_s": None}, {"period"}),
    ],
)
def test_thresholds_of_a_job(changes: Json, expected: set[str]) -> None:
    # Said with little confidence, so that only the threshold itself is tested.
    said = job("r", [ring("g", "abcd")], confidence=0.8, **changes)
    assert missed(said) - {"80%"} == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bytes_per_iteration": 403.9}, set()),
        ({"bytes_per_iteration": 404.1}, {"bytes"}),
        ({"bytes_per_iteration": None}, {"bytes"}),
        ({"kind": "unknown"}, {"roles"}),
        ({"algorithm": "unknown"}, {"ring"}),
    ],
)
def test_thresholds_of_a_group(changes: Json, expected: set[str]) -> None:
    said = job("r", [ring("g", "abcd")])
    said["groups"][0] |= changes
    assert missed(said) == expected


@pytest.mark.parametrize(("right", "expected"), [(970.0, set()), (969.0, {"roles"})])
def test_roles_for_97_percent_of_bytes(right: float, expected: set[str]) -> None:
    true = [
        ring("g", "abcd", bytes_per_iteration=right),
        ring("h", "abdc", "tp", bytes_per_iteration=1000.0 - right),
    ]
    said = [true[0], true[1] | {"kind": "unknown"}]
    assert missed(job("r", said), job("t", true)) - {"sizes"} == expected


def test_sizes_left_open_are_met_by_candidates_only() -> None:
    said = job("r", [ring("g", "abcd")])
    said["parallelism"] |= {"tp": None, "dp": None}
    assert missed(said) == {"sizes"}
    said["parallelism"]["candidates"] = [{"tp": 1, "dp": 4}, {"tp": 4, "dp": 1}]
    assert missed(said) == set()


def test_a_reversed_ring_misses_its_order() -> None:
    evidence = {"order": {"confidence": 0.5}}
    assert missed(job("r", [ring("g", "dcba", evidence=evidence)])) == {"ring", "roles"}


def test_a_tree_with_one_edge_wrong() -> None:
    said = tree("g", {"b": "c", "c": "a", "d": "a"}, evidence={"order": {"confidence": 0.5}})
    assert missed(job("r", [said]), job("t", [tree("g", A)])) == {"tree", "roles"}


@pytest.mark.parametrize(("confidence", "wrong"), [(0.9, 1), (0.89, 0)])
def test_a_confident_error(confidence: float, wrong: int) -> None:
    evidence = {"collective": {"confidence": confidence}}
    said = job("r", [ring("g", "abcd", collective="broadcast", evidence=evidence)])
    assert len(overconfident(scored(said))) == wrong
    assert missed(said) == ({"nothing"} if wrong else set())
    assert len(wrong_claims(scored(said), 0.8)) == 1


def test_the_confident_share_is_over_all_captures() -> None:
    sure = scored(job("r", [ring("g", "abcd")]))
    shy_job = job("r", [ring("g", "abcd", confidence=0.5)], confidence=0.5)
    shy_job["parallelism"]["confidence"] = 0.5
    shy = scored(shy_job)
    assert [s.threshold for s in judge([sure, shy])] == ["80% of right claims at confidence >= 0.9"]
    assert judge([sure] * 4 + [shy]) == []  # 4 of 5: 80 %


def test_summarise_adds_counts_and_joins_lists() -> None:
    one = scored(job("r", [ring("g", "abcd")]))
    two = score(document(), document(job("r", [ring("g", "xyz")])))
    total = summarise([one, two])
    assert (total.scenario, total.seed) == ("all", 2)
    assert total.jobs == JobCounts(1, 1, 0, 1)
    assert total.members == Overlap(6, 6, 9)
    assert total.role == Ratio(400.0, 400.0)
    assert total.groups_invented == 1
    assert total.claims == one.claims + two.claims
    with pytest.raises(ValueError, match="no score"):
        summarise([])


def test_worst_error_of_a_missing_number_is_infinite() -> None:
    assert worst([]) is None
    said = [ring("g", "abcd", bytes_per_iteration=440.0)]
    assert worst(scored(job("r", said)).group_bytes) == pytest.approx(0.1)
    said[0]["bytes_per_iteration"] = None
    assert worst(scored(job("r", said)).group_bytes) == inf
