"""Hashes of rows: what sorts them quickly where only equality matters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mix(*columns: NDArray[np.unsignedinteger]) -> NDArray[np.uint64]:
    """A 64-bit hash of each row of the columns (splitmix64, Steele et al. 2014)."""
    out = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        out = (out ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out ^= out >> np.uint64(31)
    return out
