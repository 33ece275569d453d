"""Notes: what happened to an exporter and when, told once however often it happens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from collector.schema import ExporterNote

MOST_OF_ONE: Final = 16  # newest, of one exporter
MOST: Final = 1 << 13  # of all: forged datagrams can make something happen in each


class Notes:
    """Notes by exporter and key; one that comes again counts."""

    def __init__(self) -> None:
        self._notes: defaultdict[int, dict[Hashable, ExporterNote]] = defaultdict(dict)
        self._held = 0

    def add(self, exporter: int, key: Hashable, note: ExporterNote) -> None:
        """Take note of something; of equal keys the newest text and time stay.

        Parameters
        ----------
        exporter
            Its number.
        key
            What makes two notes of one exporter the same, beside their kind.
        """
        of_one = self._notes[exporter]
        before = of_one.pop((note.kind, key), None)
        if before is not None:
            note = replace(note, count=before.count + note.count)
            self._held -= 1
        elif len(of_one) == MOST_OF_ONE:
            of_one.pop(next(iter(of_one)))
            self._held -= 1
        if self._held < MOST:
            of_one[note.kind, key] = note  # at the end: the oldest is the first to go
            self._held += 1

    def of(self, exporter: int) -> tuple[ExporterNote, ...]:
        """The notes of one exporter, oldest first."""
        return tuple(self._notes[exporter].values()) if exporter in self._notes else ()
