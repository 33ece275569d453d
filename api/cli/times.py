"""Times and durations as one types them: RFC 3339 with as many digits as results show; 24h."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", re.ASCII)
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def time_ns(text: str) -> int:
    """A time as ns since the epoch.

    Parameters
    ----------
    text
        RFC 3339; the time of day, its seconds and its offset may be left out (midnight, 0, UTC).

    Raises
    ------
    ValueError
        The text is no time.
    """
    match = _TIME.fullmatch(text.strip().upper())
    if match is None:
        raise ValueError(f"{text!r} is no time; one is 2026-11-29T12:00:00Z")
    day, clock, fraction, offset = match.groups()
    zone = "+00:00" if offset in (None, "Z") else offset
    try:
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}")
    except ValueError as error:
        raise ValueError(f"{text!r} is no time: {error}") from error
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = since.days * 86_400 + since.seconds
    return seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def duration_s(text: str) -> float:
    """A duration in seconds, above 0.

    Parameters
    ----------
    text
        A number and its unit: s, m, h or d.

    Raises
    ------
    ValueError
        The text is no duration, or is 0.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    duration = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if duration == 0:
        raise ValueError(f"{text!r} is no duration; one is 24h")
    return duration
