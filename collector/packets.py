"""The packets of a capture as columns: what the file formats have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collector.schema import I32, I64, U8, DecodeError

ROWS_PER_BATCH: Final = 1 << 16
# libpcap itself refuses larger ones; a length beyond it means that the file is damaged.
MAX_PACKET_BYTES: Final = 1 << 18
# Forged senders can be without number; beyond this many lines, faults are counted without a name.
_MOST_NAMED: Final = 1_000


@dataclass(frozen=True, slots=True)
class PacketBatch:
    """Captured packets, one row each; columns of shape (n,).

    Attributes
    ----------
    buffer : uint8, shape (m,)
        Holds all packets' bytes.
    offset, length : int64
        Captured bytes of each packet in `buffer`.
    arrival_ns : int64
        Capture time, ns since the epoch; 0 = the capture does not say.
    link : int32
        LINKTYPE_ value of the interface.
    file_offset : int
        Offset in the (unpacked) file of ``buffer[0]``.
    """

    buffer: U8
    offset: I64
    length: I64
    arrival_ns: I64
    link: I32
    file_offset: int


@dataclass(slots=True)
class Faults:
    """Counts what could not be read: per exporter and reason, with the first offset."""

    file: Path | None = None
    _first: dict[tuple[str | None, str], int | None] = field(default_factory=dict)
    _count: Counter[tuple[str | None, str]] = field(default_factory=Counter)

    def note(
        self, reason: str, offset: int | None, count: int = 1, exporter: str | None = None
    ) -> None:
        """Count `reason` so many times; the first `offset` is kept."""
        key = (exporter, reason)
        if key not in self._first and len(self._first) >= _MOST_NAMED:
            key = (None, reason)
        self._first.setdefault(key, offset)
        self._count[key] += count

    def errors(self) -> list[DecodeError]:
        """One `DecodeError` per exporter and reason, in order of first appearance."""
        # A name may hold bytes that are no text; documents hold text only.
        file = None
        if self.file is not None:
            file = str(self.file).encode("utf-8", "backslashreplace").decode("utf-8")
        return [
            DecodeError(exporter, file, offset, reason, self._count[exporter, reason])
            for (exporter, reason), offset in self._first.items()
        ]
