"""Limits of structure: what counts as right, and what as wrong where samples are scarce."""

from __future__ import annotations

from typing import Any

import pytest

from bench.limits import each_short, over_all
from bench.score import Ratio, score
from bench.structure_judge import THRESHOLDS
from tests.bench.documents import chain, document, job, ring, tree

Json = dict[str, Any]
GROUPS = [ring("g", "abcd", bytes_per_iteration=900.0), ring("h", "abdc", "tp")]
TRUE = job("t", [*GROUPS, chain("p", "ae"), tree("q", {"b": "a", "c": "a"})])


def short(said: Json, level: str) -> set[str]:
    one = score(document(TRUE, scenario="s", seed=1, level=level), document(said))
    missed = {f.threshold.name for f in over_all(THRESHOLDS, [one], level) if not f.met}
    assert {s.threshold for s in each_short(THRESHOLDS, [one])} == missed
    return missed


def changed(place: int, **changes: Any) -> Json:
    """The truth with another group at a place, said with little confidence."""
    groups = [dict(group) for group in TRUE["groups"]]
    shy = {name: {"confidence": 0.5} for name in ("kind", "algorithm", "order", "collective")}
    groups[place] |= {"evidence": shy, **changes}
    return TRUE | {"groups": groups}


@pytest.mark.parametrize("level", ["rich", "normal", "starved"])
def test_the_truth_falls_short_of_nothing(level: str) -> None:
    assert short(TRUE, level) == set()


@pytest.mark.parametrize(
    ("said", "dense", "starved"),
    [
        (changed(0, kind="unknown"), {"role, by share of bytes"}, set()),
        (
            changed(0, kind="ep"),
            {"role, by share of bytes"},
            {"role right or unknown, by share of bytes"},
        ),
        (changed(2, algorithm="unknown"), {"algorithm"}, set()),
        (changed(2, algorithm="ring"), {"algorithm"}, {"algorithm right or unknown"}),
        (
            TRUE | {"parallelism": TRUE["parallelism"] | {"ep": None}},
            {"sizes exact or in candidates"},
            set(),
        ),
        (
            TRUE | {"parallelism": TRUE["parallelism"] | {"ep": 2, "confidence": 0.5}},
            {"sizes exact or in candidates", "right claims that carry 0.9 or more"},
            {"sizes right or unknown"},
        ),
    ],
    ids=["no kind", "other kind", "no algorithm", "other algorithm", "no size", "other size"],
)
def test_silence_is_good_enough_where_samples_are_scarce(
    said: Json, dense: set[str], starved: set[str]
) -> None:
    assert dense <= short(said, "rich")
    assert short(said, "starved") == starved


def test_a_ring_that_runs_the_other_way_is_wrong() -> None:
    backwards = ring("g", "dcba", bytes_per_iteration=900.0)
    backwards["evidence"] = {"order": {"confidence": 0.5}}
    said = TRUE | {"groups": [backwards, *TRUE["groups"][1:]]}
    assert "ring order and direction" in short(said, "normal")
    assert short(said, "starved") == {"ring order right or unknown"}


def test_confident_errors_count_at_every_level() -> None:
    # One of some 20 confident claims is wrong, then two are.
    name = "claims at 0.9 or more that are true"
    one = changed(3, collective="broadcast", evidence={})
    two = one | {"groups": [one["groups"][0] | {"collective": "broadcast"}, *one["groups"][1:]]}
    assert [name in short(one, level) for level in ("rich", "normal", "starved")] == [
        *(True, True, False)
    ]
    assert name in short(two, "starved")


def test_bytes_of_another_kind_are_misnamed_unless_the_true_one_is_said_too() -> None:
    two = {**GROUPS[0], "id": "x", "kind": "cp"}
    truth = job("t", [GROUPS[0]])
    for groups, wrong in (([two], 900.0), ([GROUPS[0], two], 0.0), ([], 0.0)):
        found = score(document(truth), document(job("r", groups, endpoints=list("abcd"))))
        assert found.misnamed == Ratio(wrong, 900.0)


def test_what_another_group_sends_over_an_edge_misnames_nothing() -> None:
    both = [GROUPS[0], {**GROUPS[0], "id": "x", "kind": "cp"}]
    said = document(job("r", GROUPS[:1], endpoints=list("abcd")))
    assert score(document(job("t", both)), said).misnamed == Ratio(0.0, 1800.0)


def observable(**fields: Any) -> Json:
    """A truth with one group of which this is declared."""
    declared = {"order_decidable": True, "direction_decidable": True, "alternatives": [], **fields}
    seen = {"miss_probability": 0.01, "jobs": {"t": {"groups": {"g": declared}}}}
    return document(TRUE, scenario="s", seed=1, level="rich") | {"observable": seen}


def test_what_truths_declare_unobservable_is_counted() -> None:
    hidden = score(observable(direction_decidable=False, alternatives=["tree"]), document(TRUE))
    apart = {"gap_s": 1.0, "sample_spacing_s": 0.1, "decidable": True}
    shown = score(observable(phases=apart), document(TRUE))
    assert (hidden.undecidable, shown.undecidable) == (Ratio(2, 3), Ratio(0, 4))
    name = "fields unobservable by the truth, of any scenario"
    (both,) = (f for f in over_all(THRESHOLDS, [hidden, shown], "rich") if f.threshold.name == name)
    assert both.found == pytest.approx(2 / 7)
    assert not both.met
