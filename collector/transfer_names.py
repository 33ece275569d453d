"""How columns of a table of transfers may be called."""

from __future__ import annotations

from typing import Final

UNITS_NS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "start": ("time", "start", "start_time", "timestamp"),
    "end": ("end", "end_time"),
    "duration": ("duration",),
    "source": ("source", "src", "source_ip", "src_ip"),
    "destination": ("destination", "dst", "destination_ip", "dst_ip"),
    "bytes": ("bytes", "size"),
    "packets": ("packets",),
    "protocol": ("protocol", "proto"),
    "source_port": ("source_port", "src_port"),
    "destination_port": ("destination_port", "dst_port"),
    "vni": ("vni",),
}


class TableError(ValueError):
    """Columns that make no table of transfers."""


def plain(name: str) -> tuple[str, str | None]:
    """A column's name in small letters, and the unit that it ends on; None: it names none.

    Examples
    --------
    >>> plain("Start_NS")
    ('start', 'ns')
    >>> plain("bytes")
    ('bytes', None)
    """
    lower = name.strip().strip("\"'").strip().lower().replace(" ", "_").replace("-", "_")
    base, _, unit = lower.rpartition("_")
    return (base, unit) if base and unit in UNITS_NS else (lower, None)


def known_names(names: list[str]) -> int:
    """How many of these columns are of a table of transfers."""
    called = {name for names in NAMES.values() for name in names}
    return sum(plain(name)[0] in called for name in names)
