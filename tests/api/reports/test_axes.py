from __future__ import annotations

import pytest

from api.reports.axes import duration_labels, duration_ticks, time_label, time_ticks
from tests.api.made import SECOND_NS

NOON_NS = 1_796_040_000 * SECOND_NS  # 2026-11-30 12:00:00


@pytest.mark.parametrize(
    ("low_s", "high_s", "most", "labels"),
    [
        (0.0, 1.8, 5, ["0.0 s", "0.5 s", "1.0 s", "1.5 s"]),
        (0.95, 1.06, 5, ["0.95 s", "1.00 s", "1.05 s"]),
        (0.7, 0.8, 5, ["700 ms", "750 ms", "800 ms"]),
        (0.0101, 0.0109, 5, ["10.2 ms", "10.4 ms", "10.6 ms", "10.8 ms"]),
        (0.0, 300.0, 5, ["0 s", "100 s", "200 s", "300 s"]),
    ],
)
def test_durations(low_s: float, high_s: float, most: int, labels: list[str]) -> None:
    assert duration_labels(duration_ticks(low_s, high_s, most)) == labels


def test_at_most_so_many_durations_and_at_least_one() -> None:
    for nth in range(1, 200):
        ticks = duration_ticks(0.37, 0.37 + 0.0137 * nth, 5)
        assert 1 <= len(ticks) <= 5
        assert len(set(duration_labels(ticks))) == len(ticks)
    with pytest.raises(ValueError, match="no axis"):
        duration_ticks(1.0, 1.0, 5)


@pytest.mark.parametrize(
    ("span_s", "labels"),
    [
        (16, ["12:00:00", "12:00:05", "12:00:10", "12:00:15"]),
        (200, ["12:00:00", "12:01:00", "12:02:00", "12:03:00"]),
        (4 * 3600, ["12:00", "14:00", "16:00"]),
        (3 * 86_400, ["12-01 00:00", "12-02 00:00", "12-03 00:00"]),
    ],
)
def test_times(span_s: int, labels: list[str]) -> None:
    span_ns = span_s * SECOND_NS
    ticks = time_ticks(NOON_NS, NOON_NS + span_ns, 4)
    assert [time_label(tick, span_ns) for tick in ticks] == labels


def test_at_most_so_many_times() -> None:
    for power in range(31):
        span_ns = round(1.93**power * SECOND_NS)
        assert len(time_ticks(NOON_NS + 123, NOON_NS + 123 + span_ns, 8)) <= 8
