"""Round numbers for axes: of durations, and of times of day."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

_NS: Final = 1_000_000_000
# Times of day that people count in, in seconds; beyond the last, whole multiples of it.
_TIME_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * n for n in (1, 2, 5, 10, 15, 30)),
    *(3_600 * n for n in (1, 2, 3, 6, 12)),
    *(86_400 * n for n in (1, 2, 7, 14, 28)),
)


def duration_ticks(low_s: float, high_s: float, most: int) -> list[float]:
    """Round durations from `low_s` to `high_s`, at most `most` of them, as 0.5, 1.0, 1.5.

    Raises
    ------
    ValueError
        `high_s` is not above `low_s`.
    """
    if not high_s > low_s:
        raise ValueError(f"no axis from {low_s} to {high_s}")
    coarse = (high_s - low_s) / most
    power = 10.0 ** floor(log10(coarse))
    step = power * next(n for n in (1, 2, 5, 10, 20) if n * power * most > high_s - low_s)
    first, last = ceil(low_s / step), floor(high_s / step)
    return [n * step for n in range(first, last + 1)]


def duration_labels(ticks: list[float]) -> list[str]:
    """Durations in one unit, with as many digits as tell them apart, as "0.95 s", "1.00 s"."""
    gap = min((above - below for below, above in pairwise(ticks)), default=ticks[0] or 1.0)
    unit, scale = ("s", 1.0) if max(ticks) >= 1 else ("ms", 1e3)
    digits = max(0, -floor(log10(gap * scale) + 1e-9))
    return [f"{tick * scale:.{digits}f} {unit}" for tick in ticks]


def time_ticks(start_ns: int, end_ns: int, most: int) -> list[int]:
    """Round times of day in UTC from start to end, at most `most` of them, in ns."""
    span_s = (end_ns - start_ns) / _NS
    longest = _TIME_STEPS_S[-1]
    step_s = next(
        (step for step in _TIME_STEPS_S if step * most > span_s),
        longest * ceil(span_s / (longest * most) + 1e-9),
    )
    step_ns = step_s * _NS
    first = -(-start_ns // step_ns)
    return [n * step_ns for n in range(first, end_ns // step_ns + 1)]


def time_label(time_ns: int, span_ns: int) -> str:
    """A time on an axis of `span_ns`: with seconds, or with its day, where that matters."""
    pattern = "%H:%M:%S" if span_ns < 3_600 * _NS else "%H:%M"
    if span_ns >= 86_400 * _NS:
        pattern = "%m-%d %H:%M"
    return f"{datetime.fromtimestamp(time_ns // _NS, UTC):{pattern}}"
