from __future__ import annotations

import pytest

from api.cli import cells

SECOND_NS = 1_000_000_000
SIZES = {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "now"),
        (0.9, "now"),
        (1, "1 s ago"),
        (59, "59 s ago"),
        (130, "2 min ago"),
        (7300, "2 h ago"),
        (200_000, "2 d ago"),
    ],
)
def test_ago(seconds: float, said: str) -> None:
    assert cells.ago(10**18 - round(seconds * SECOND_NS), 10**18) == said


@pytest.mark.parametrize(
    ("period_s", "interval_s", "said"),
    [
        (None, None, "?"),
        (3.2, None, "3.2 s"),
        (3.2, (3.196, 3.204), "3.2 s ± 4 ms"),
        (0.7332, (0.73312, 0.73334), "733.2 ms ± 0.11 ms"),
    ],
)
def test_period(period_s: float | None, interval_s: tuple[float, float] | None, said: str) -> None:
    assert cells.period(period_s, interval_s) == said


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, "one GPU"),
        ({"dp": 8, "tp": None}, "dp 8 tp ?"),
        ({"dp": None, "pp": 4}, "dp ? pp 4"),
        (dict.fromkeys(SIZES), "?"),
    ],
)
def test_sizes(known: dict[str, int | None], said: str) -> None:
    assert cells.sizes({**SIZES, **known}) == said


def test_groups() -> None:
    ring = {"kind": "dp", "algorithm": "ring", "collective": "all_reduce", "count": 8, "size": 4}
    odd = {"kind": "unknown", "algorithm": "unknown", "collective": "x", "count": 1, "size": 2}
    assert cells.groups([ring, odd]) == "8 dp ring of 4, 1 ? ? of 2"
    assert cells.groups([]) == "?"


def test_what_says_nothing_has_no_confidence() -> None:
    assert cells.claimed("?", 0.5).plain == "?"
    assert cells.claimed("3 s", None).plain == "3 s"
    assert cells.claimed("3 s", 0.5).plain == "3 s (0.50)"
    assert cells.sure(None).plain == "?"


def test_spark() -> None:
    assert cells.spark([None, 1.0, 1.0, 1.6, 0.5]) == "·▂▂█▁"
    assert cells.spark([None]) == "·"
    assert cells.spark([]) == ""


@pytest.mark.parametrize(
    ("opened", "whole", "said"), [(0, 0, "-"), (0, 2, "2"), (1, 3, "1 open of 3")]
)
def test_anomaly_count(opened: int, whole: int, said: str) -> None:
    assert cells.anomaly_count({"open": opened, "all": whole}).plain == said
