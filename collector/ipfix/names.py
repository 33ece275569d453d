"""Names of flows: what tells one from another, as two words."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from collector.schema import U64

_MOST_COLUMNS = 16


class Names:
    """Hashes by a secret of this process, so that nobody can make two flows have one name."""

    def __init__(self) -> None:
        factors = [secrets.randbits(64) | 1 for _ in range(_MOST_COLUMNS)]
        self._factors = np.array(factors, np.uint64)

    def of(self, key: Sequence[U64]) -> tuple[U64, U64]:
        """Two words for each row of at most 16 columns that together name a flow."""
        first = np.zeros(len(key[0]), np.uint64)
        second = first.copy()
        for column, factor in zip(key, self._factors, strict=False):
            first = _mix(first ^ column, factor)
            second = _mix(second ^ (column + factor), factor ^ np.uint64(0x5555_5555_5555_5554))
        return first, second


def _mix(words: U64, factor: np.uint64) -> U64:
    mixed: U64 = (words ^ (words >> np.uint64(31))) * factor
    mixed ^= mixed >> np.uint64(29)
    return mixed
