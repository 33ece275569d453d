"""Hashes of rows: what sorts them quickly where only equality matters."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_POINT_BITS: Final = (
    16  # 48 are left for connections: of a million, some two would be taken for one
)


def mix(*columns: NDArray[np.unsignedinteger]) -> NDArray[np.uint64]:
    """A 64-bit hash of each row of the columns (splitmix64, Steele et al. 2014)."""
    out = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        out = (out ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out ^= out >> np.uint64(31)
    return out


def stream_keys(connection: NDArray[np.uint64], point: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys of streams that sort as their connections' keys do.

    Parameters
    ----------
    connection, point : uint64[n]
        Hashes; a connection has few points.
    """
    low = np.uint64((1 << _POINT_BITS) - 1)
    return np.asarray((connection & ~low) | (point & low))
