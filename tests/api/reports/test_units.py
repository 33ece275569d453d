from __future__ import annotations

import pytest

from api.reports.units import (
    clock_time,
    human_bytes,
    human_duration,
    human_share,
    human_span,
)


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h"),
        (7_384, "2 h 3 min"),
        (90_061, "1 d 1 h"),
        (86_461, "1 d"),
    ],
)
def test_span(seconds: float, text: str) -> None:
    assert human_span(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (5e-5, "under 0.01 %"), (0.000183, "0.018 %"), (0.0184, "1.8 %"), (0.25, "25 %")],
)
def test_share(share: float, text: str) -> None:
    assert human_share(share) == text
