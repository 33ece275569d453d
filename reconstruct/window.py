"""`Window`: the newest slices, as many as may be kept in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reconstruct.merging import merge
from reconstruct.slices import Slice

FINE: Final = 10  # so many slices become one when twice as many stand at the end of the window


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
        self._coarse: list[Slice] = []
        self._fine: list[Slice] = []

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
            self._coarse, self._fine = [], []
        self._fine.append(part)
        if len(self._fine) >= 2 * FINE:
            self._coarse.append(merge(self._fine[:FINE]))
            self._fine = self._fine[FINE:]
        while len(self.slices()) > 1 and self._too_much():
            (self._coarse or self._fine).pop(0)

    def slices(self, since_ns: int | None = None) -> Sequence[Slice]:
        """The slices that reach beyond a moment, in order; None: all."""
        held = [*self._coarse, *self._fine]
        return held if since_ns is None else [part for part in held if part.end_ns > since_ns]

    def _too_much(self) -> bool:
        oldest = (self._coarse or self._fine)[0]
        return oldest.end_ns < self.end_ns - self._length_ns or self.rows > self._most_rows
