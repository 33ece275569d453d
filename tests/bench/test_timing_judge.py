"""Every limit is met on its edge and missed just beyond it."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from bench.compare import Measured
from bench.limits import each_short, over_all, written
from bench.score import JobCounts
from bench.timing import Timing
from bench.timing_judge import THRESHOLDS, bytes_error, median_error, period_error


def one(
    scenario: str = "s", level: str = "rich", timestamps: bool = True, **changes: Any
) -> Timing:
    fields: dict[str, Any] = {"jobs": JobCounts(1, 1), "iterations": 1000} | changes
    return Timing("m", scenario, 1, level, timestamps, **fields)


def off(*errors: float | None) -> tuple[Measured, ...]:
    return tuple(Measured("x", 1.0, None, error) for error in errors)


def short(timing: Timing) -> list[str]:
    return [
        f.threshold.name.partition(",")[0]
        for f in over_all(THRESHOLDS, [timing], timing.level)
        if not f.met
    ]


def test_nothing_falls_short_of_nothing() -> None:
    assert short(one(jobs=JobCounts(), iterations=0)) == []
    assert each_short(THRESHOLDS, [one()]) == []


@pytest.mark.parametrize(
    ("level", "held", "broken", "name"),
    [
        ("rich", {"jobs": JobCounts(200, 200)}, {"jobs": JobCounts(200, 199)}, "jobs exact"),
        ("normal", {"jobs": JobCounts(200, 198)}, {"jobs": JobCounts(200, 197)}, "jobs exact"),
        ("starved", {"jobs": JobCounts(200, 190)}, {"jobs": JobCounts(200, 189)}, "jobs exact"),
        ("starved", {}, {"jobs": JobCounts(1, 1, false=1)}, "false jobs"),
        ("rich", {"group_bytes": off(0.005)}, {"group_bytes": off(0.0051)}, "bytes per iteration"),
        ("starved", {"group_bytes": off(0.05)}, {"group_bytes": off(None)}, "bytes per iteration"),
        (
            "rich",
            {"periods": off(0.0005)},
            {"periods": off(0.00051)},
            "period error (median over scenarios)",
        ),
        (
            "normal",
            {"periods": off(0.001)},
            {"periods": off(0.0011)},
            "period error (median over scenarios)",
        ),
        (
            "starved",
            {"periods": off(0.005)},
            {"periods": off(None)},
            "period error (median over scenarios)",
        ),
        ("rich", {"held": (0.005,)}, {"held": (0.0051,)}, "boundary p95"),
        ("normal", {"held": (0.01,)}, {"held": (0.011,)}, "boundary p95"),
        ("rich", {}, {"missed": 1}, "missed or invented iterations"),
        ("normal", {"missed": 1, "invented": 1}, {"invented": 3}, "missed or invented iterations"),
        ("starved", {"missed": 20}, {"missed": 21}, "missed or invented iterations"),
    ],
)
def test_edges(level: str, held: dict[str, Any], broken: dict[str, Any], name: str) -> None:
    assert short(one(level=level, **held)) == []
    assert short(one(level=level, **broken)) == [name]
    assert [
        s.threshold.partition(",")[0] for s in each_short(THRESHOLDS, [one(level=level, **broken)])
    ] == [name]


def test_boundaries_without_timestamps_have_a_limit_of_their_own() -> None:
    assert short(one(timestamps=False, held=(0.03,))) == []
    assert short(one(timestamps=False, held=(0.031,))) == ["boundary p95"]


def test_boundaries_of_starved_captures_are_only_reported() -> None:
    assert short(one(level="starved", held=(0.4,))) == []


def test_a_twentieth_of_the_boundaries_may_be_far_off() -> None:
    assert short(one(held=(0.001,) * 96 + (0.5,) * 4)) == []
    assert short(one(held=(0.001,) * 94 + (0.5,) * 6)) == ["boundary p95"]


def test_scenarios_count_once_however_many_jobs_they_have() -> None:
    many = [
        one("a", periods=off(*[0.5] * 9)),
        one("b", periods=off(0.1)),
        one("c", periods=off(0.2)),
    ]
    assert period_error(many) == 0.2
    assert bytes_error([*many, one("d")]) is None


def test_what_was_not_said_is_as_wrong_as_can_be() -> None:
    assert median_error(off(0.1, None, None)) == inf
    assert median_error(off(0.1, 0.2, None)) == 0.2
    assert median_error(()) is None


def test_figures_as_text() -> None:
    share, count = THRESHOLDS[0], THRESHOLDS[1]
    assert [written(x, share) for x in (None, inf, 0.0123456, 1.0)] == [
        "-",
        "missing",
        "1.23 %",
        "100 %",
    ]
    assert written(2.0, count) == "2"
