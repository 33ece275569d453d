from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.keys import KeyTable

_word = st.integers(0, 3) | st.integers(0, 2**64 - 1)
_key = st.tuples(_word, _word, _word)


@given(st.lists(st.lists(_key, max_size=40), max_size=6))
def test_numbers_follow_first_appearance_over_many_calls(
    batches: list[list[tuple[int, ...]]],
) -> None:
    table, expected = KeyTable(), dict[tuple[int, ...], int]()
    for batch in batches:
        rows = np.array(batch, np.uint64).reshape(-1, 3)
        numbers = table.number(*(np.ascontiguousarray(column) for column in rows.T))
        assert numbers.tolist() == [expected.setdefault(key, len(expected)) for key in batch]
    assert len(table) == len(expected)
    assert [tuple(key) for key in table.keys.tolist()] == list(expected)


def test_many_keys_that_share_all_but_one_word() -> None:
    # Addresses of one subnet, ports of one switch: the shape of real keys.
    count = 200_000
    table = KeyTable()
    zeros = np.zeros(count, np.uint64)
    numbers = table.number(zeros, np.arange(count, dtype=np.uint64) << np.uint64(8), zeros)
    assert np.array_equal(numbers, np.arange(count))


def test_a_full_table_takes_no_more_keys() -> None:
    table, zeros = KeyTable(most=3), np.zeros(6, np.uint64)
    third = np.array([7, 8, 7, 9, 5, 6], np.uint64)
    assert table.number(zeros, zeros, third).tolist() == [0, 1, 0, 2, 3, 3]
    assert table.number(zeros, zeros, third).tolist() == [0, 1, 0, 2, 3, 3]
    assert table.keys[:, 2].tolist() == [7, 8, 9]
    many = np.arange(100_000, dtype=np.uint64)
    assert table.number(many, many, many).tolist() == [3] * 100_000
    assert len(table) == 3


def test_nobody_can_know_which_keys_share_a_slot() -> None:
    # The hash is public: without a secret, keys could be sent that all fall into one slot.
    keys = np.arange(1000, dtype=np.uint64)
    slots = []
    for _ in range(2):
        table = KeyTable()
        table.number(keys, keys, keys)
        slots.append(table._slots.tolist())
    assert slots[0] != slots[1]
