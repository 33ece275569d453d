from __future__ import annotations

import pytest

from api.reports.units import clock_time, human_bytes, human_duration


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        (None, "?"),
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.00 kB"),
        (999_960, "1.00 MB"),
        (12_345_678, "12.3 MB"),
        (1.5e18, "1500 PB"),
    ],
)
def test_bytes(volume: float | None, text: str) -> None:
    assert human_bytes(volume) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.0002, "0.2 ms"), (0.73284, "732.8 ms"), (1.27624, "1.276 s"), (75.0, "75 s")],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert human_duration(seconds) == text


def test_clock_keeps_milliseconds() -> None:
    assert clock_time(1_796_041_140_049_999_999) == "12:19:00.049"
