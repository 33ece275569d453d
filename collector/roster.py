"""One numbering over the exporters of several tables, in order of first appearance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collector.schema import I32, I64


class Roster:
    """Numbers exporters that several tables number too; a number never changes.

    Parameters
    ----------
    tables
        How many there are.

    Attributes
    ----------
    entries : list of (table, number)
        By the number here.
    """

    def __init__(self, tables: int) -> None:
        self.entries: list[tuple[int, int]] = []
        self._numbers = [np.zeros(0, np.int32) for _ in range(tables)]

    def grow(self, counts: Sequence[int]) -> None:
        """Number the new ones, where each table has so many by now."""
        for table, count in enumerate(counts):
            known = len(self._numbers[table])
            if count > known:
                first = len(self.entries)
                more = np.arange(first, first + count - known, dtype=np.int32)
                self._numbers[table] = np.concatenate((self._numbers[table], more))
                self.entries += [(table, number) for number in range(known, count)]

    def number(self, table: int, own: NDArray[np.signedinteger]) -> I32:
        """Numbers here of exporters of one table; of shape (n,)."""
        numbers: I32 = self._numbers[table][own]
        return numbers

    def own(self, table: int) -> I64:
        """By the number here the one of a table; -1 = of another. int64, shape (entries,)."""
        out = np.full(len(self.entries), -1, np.int64)
        out[self._numbers[table]] = np.arange(len(self._numbers[table]))
        return out
