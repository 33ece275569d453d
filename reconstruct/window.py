"""`Window`: the newest slices, as many as may be kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from reconstruct.merging import merge
from reconstruct.slices import Slice

MERGED: Final = 6  # so many slices become one when twice as many of their length are there
LEVELS: Final = 3  # of length: a window of an hour is some dozens of slices


class Window:
    """Slices of a sliding window, bounded by age and rows.

    Parameters
    ----------
    length_ns
        How far the window reaches back from its newest slice.
    most_rows
        Rows of bins to keep; a row takes some 70 bytes. The newest slice is always kept.
    """

    def __init__(self, length_ns: int, most_rows: int) -> None:
        self._length_ns = length_ns
        self._most_rows = most_rows
        self._levels: list[list[Slice]] = [[] for _ in range(LEVELS)]  # the longest, oldest first

    @property
    def rows(self) -> int:
        """Rows of bins held."""
        return sum(len(part.bins) for part in self.slices())

    @property
    def start_ns(self) -> int:
        """Start of the oldest slice; 0 where there is none."""
        return min((part.start_ns for part in self.slices()), default=0)

    @property
    def end_ns(self) -> int:
        """End of the newest slice; 0 where there is none."""
        return max((part.end_ns for part in self.slices()), default=0)

    def add(self, part: Slice) -> None:
        """Append the next slice.

        One that does not lie behind the last comes from a clock that stepped back: times before
        and after do not go together, so the window begins anew.
        """
        if part.start_ns <= self.end_ns and self.slices():
            self._levels = [[] for _ in range(LEVELS)]
        if not len(part.bins):  # a silence of any length is one slice
            start_ns = max(part.start_ns, part.end_ns + 1 - self._length_ns)
            part = replace(part, start_ns=start_ns)
        self._levels[-1].append(part)
        for longer, level in zip(self._levels[-2::-1], self._levels[:0:-1], strict=True):
            if len(level) >= 2 * MERGED:
                longer.append(merge(level[:MERGED]))
                del level[:MERGED]
        while len(self.slices()) > 1 and self._too_much():
            next(level for level in self._levels if level).pop(0)

    def slices(self, since_ns: int | None = None) -> Sequence[Slice]:
        """The slices that reach beyond a moment, in order; None: all."""
        held = [part for level in self._levels for part in level]
        return held if since_ns is None else [part for part in held if part.end_ns > since_ns]

    def _too_much(self) -> bool:
        oldest = self.slices()[0]
        return oldest.end_ns < self.end_ns - self._length_ns or self.rows > self._most_rows
