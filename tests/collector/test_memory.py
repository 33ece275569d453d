from __future__ import annotations

import numpy as np
import pytest

from collector.memory import zeroed
from collector.schema import COLUMNS


@pytest.mark.parametrize("rows", [0, 1, 100, 20_000, 20_001])
def test_columns_are_zeroed_whole_and_apart(rows: int) -> None:
    columns = zeroed(COLUMNS, rows)
    assert {name: column.dtype for name, column in columns.items()} == COLUMNS
    for number, column in enumerate(columns.values()):
        assert column.shape == (rows,)
        assert column.flags.c_contiguous
        assert column.flags.aligned
        assert column.flags.writeable
        assert not column.any()
        column.fill(number % 100 + 1)
    for number, column in enumerate(columns.values()):
        assert (column == number % 100 + 1).all()  # no other column was written over it


def test_many_rows_lie_in_one_stretch() -> None:
    bases = {id(column.base) for column in zeroed(COLUMNS, 1 << 16).values()}
    assert len(bases) == 1
    assert all(column.base is None for column in zeroed(COLUMNS, 100).values())
    assert zeroed({"one": np.dtype("u1")}, 1 << 16)["one"].nbytes == 1 << 16
