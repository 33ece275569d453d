from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.cli.times import duration_s, time_ns
from api.contract import rfc3339

NOON_NS = 1_795_953_600_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29T12:00:00Z", NOON_NS),
        ("2026-11-29T12:00:00.000000001Z", NOON_NS + 1),
        ("2026-11-29T12:00:00.5Z", NOON_NS + 500_000_000),
        ("2026-11-29t12:00:00z", NOON_NS),
        ("2026-11-29 12:00", NOON_NS),
        ("2026-11-29T14:00:00+02:00", NOON_NS),
        ("2026-11-29", NOON_NS - 12 * 3600 * 1_000_000_000),
        ("1969-12-31T23:59:59.25Z", -750_000_000),
    ],
)
def test_forms(text: str, expected: int) -> None:
    assert time_ns(text) == expected


@pytest.mark.parametrize(
    "text", ["", "now", "12:00", "2026-13-01", "2026-11-29T25:00Z", "2026-11-29T12:00:00.Z", "1e9"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        time_ns(text)


@given(st.integers(0, 2**62))
def test_times_of_results_are_understood(moment_ns: int) -> None:
    assert time_ns(rfc3339(moment_ns)) == moment_ns


@pytest.mark.parametrize(
    ("text", "expected"),
    [("24h", 86_400), ("90s", 90), ("1.5m", 90), (" 30D ", 2_592_000), ("0.001s", 0.001)],
)
def test_durations(text: str, expected: float) -> None:
    assert duration_s(text) == expected


@pytest.mark.parametrize("text", ["", "24", "h", "0s", "0.0h", "-1h", "1e3s", "1h30m", "inf", "1w"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration; one is 24h"):
        duration_s(text)
