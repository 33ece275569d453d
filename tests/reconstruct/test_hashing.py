from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reconstruct.hashing import mix
from tests import naive

U64 = st.integers(0, (1 << 64) - 1)


def test_first_values_are_those_of_splitmix64() -> None:
    # splitmix64 from seed 0 begins with these (Steele et al. 2014; also in Vigna's splitmix64.c).
    first = mix(np.array([0], np.uint64))
    assert [hex(value) for value in first] == ["0xe220a8397b1dcdaf"]
    assert int(mix(np.array([0x9E3779B97F4A7C15], np.uint64))[0]) == 0x6E789E6AA1B965F4


@given(st.lists(st.tuples(U64, U64, U64), min_size=1, max_size=20))
def test_hashes_equal_their_twins(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, np.uint64) for column in zip(*rows, strict=True)]
    assert mix(*columns).tolist() == [naive.mix(row) for row in rows]


def test_narrow_columns_hash_as_wide_ones() -> None:
    narrow = mix(np.array([7, 65535], np.uint16), np.array([1, 2], np.uint32))
    assert narrow.tolist() == [naive.mix((7, 1)), naive.mix((65535, 2))]


def test_addresses_of_a_fabric_stay_apart() -> None:
    # 0 in one column and a small number in another must not meet, whichever way round.
    low, high = (part.ravel() for part in np.meshgrid(np.arange(300), np.arange(300)))
    hashes = mix(low.astype(np.uint64), high.astype(np.uint64))
    assert len(np.unique(hashes)) == 300 * 300
