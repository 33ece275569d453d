"""Tuples of columns that grow: what kernels keep one row per stream, source or exporter in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Columns = TypeVar("Columns", bound=tuple[Any, ...])


def joined(parts: Sequence[Columns]) -> Columns:
    """Named tuples of arrays, one behind the other; at least one."""
    made: Any = type(parts[0])
    whole: Columns = made(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return whole


def taken(columns: Columns, index: NDArray[Any] | slice) -> Columns:
    """Rows of a named tuple of arrays, by index, mask or slice."""
    made: Any = type(columns)
    rows: Columns = made(*(column[index] for column in columns))
    return rows
