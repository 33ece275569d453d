"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_PREFIXES: Final = ("", "k", "M", "G", "T", "P")


def human_bytes(volume: float | None) -> str:
    """Bytes with a decimal prefix and three digits, as "1.23 GB"; "?" for None."""
    if volume is None:
        return "?"
    for prefix in _PREFIXES:
        if round(volume, 1) < 1000 or prefix == _PREFIXES[-1]:
            break
        volume /= 1000
    digits = 0 if volume >= 100 or not prefix else 1 if volume >= 10 else 2
    return f"{volume:.{digits}f} {prefix}B"


def human_duration(seconds: float | None) -> str:
    """Seconds with four digits, as "733.2 ms" or "1.276 s"; "?" for None."""
    if seconds is None:
        return "?"
    if seconds < 1:
        return f"{seconds * 1e3:.4g} ms"
    return f"{seconds:.4g} s"


def human_span(seconds: float) -> str:
    """A span of time in its two largest units, as "2 h 3 min" or "45 s"."""
    left = max(round(seconds), 0)
    if left < 60:
        return f"{left} s"
    sizes = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)]
    first = next(nth for nth, (_, size) in enumerate(sizes) if left >= size)
    named = []
    for unit, size in sizes[first : first + 2]:
        count, left = divmod(left, size)
        if count:
            named.append(f"{count} {unit}")
    return " ".join(named)


def human_share(share: float) -> str:
    """A part of a whole with two digits, as "1.8 %"; "under 0.01 %" where that is all."""
    if 0 < share < 1e-4:
        return "under 0.01 %"
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"


def clock_time(time_ns: int) -> str:
    """Time of day in UTC with milliseconds, as "12:19:00.449"."""
    return f"{_utc(time_ns):%H:%M:%S}.{time_ns // 1_000_000 % 1000:03d}"


def calendar_time(time_ns: int) -> str:
    """Date and time of day in UTC, as "2026-11-29 12:19:00"."""
    return f"{_utc(time_ns):%Y-%m-%d %H:%M:%S}"


def _utc(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC)
