"""Tuples of columns that grow: what kernels keep one row per stream, source or exporter in."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Columns = TypeVar("Columns", bound=tuple[Any, ...])


def extended(columns: Columns, more: Columns) -> Columns:
    """Named tuples of arrays, one behind the other."""
    made: Any = type(columns)
    longer: Columns = made(*(np.concatenate(pair) for pair in zip(columns, more, strict=True)))
    return longer
