"""Columns of many dtypes and one length, where the kernel gives memory out fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_MANY_ROWS: Final = 1 << 14
_LINE_BYTES: Final = 64


def zeroed(columns: Mapping[str, np.dtype[np.generic]], rows: int) -> dict[str, NDArray[Any]]:
    """Zeroed columns of so many rows.

    Many rows get one stretch of memory for all columns: NumPy asks for huge pages from 4 MiB on,
    and of small ones the kernel gives out so slowly that decoding would wait for it half the time.
    """
    if rows < _MANY_ROWS:
        return {name: np.zeros(rows, kind) for name, kind in columns.items()}
    ends = np.cumsum([_whole_lines(rows * kind.itemsize) for kind in columns.values()]).tolist()
    memory = np.zeros(ends[-1], np.uint8)
    return {
        name: memory[start : start + rows * kind.itemsize].view(kind)
        for (name, kind), start in zip(columns.items(), [0, *ends], strict=False)
    }


def _whole_lines(size: int) -> int:
    return -(-size // _LINE_BYTES) * _LINE_BYTES
