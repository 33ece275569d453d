from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconstruct.unwrap import fell_behind, unwrap
from tests import naive

PSN, TCP = 24, 32
TURN = 1 << PSN


def positions(seq: list[int], width: int = PSN, connection: list[int] | None = None) -> list[int]:
    """`unwrap` of one connection, or of several that stand together."""
    owner = np.zeros(len(seq), np.int32) if connection is None else np.array(connection, np.int32)
    return list(unwrap(owner, np.array(seq, np.uint32), np.full(len(seq), width, np.uint8)))


@pytest.mark.parametrize(
    ("seq", "wanted"),
    [
        ([7], [7]),
        ([7, 7], [7, 7]),
        ([TURN - 1, 0], [TURN - 1, TURN]),
        ([0, TURN - 1], [0, -1]),
        ([5, TURN - 3], [5, -3]),
        ([0, 3 * TURN // 4], [0, 3 * TURN // 4]),
        ([0, 3 * TURN // 4 + 1], [0, 1 - TURN // 4]),
        ([1, TURN // 2, 1, TURN // 2, 1], [1, TURN // 2, TURN + 1, 3 * TURN // 2, 2 * TURN + 1]),
    ],
)
def test_positions_by_hand(seq: list[int], wanted: list[int]) -> None:
    assert positions(seq) == wanted


def test_each_connection_begins_at_its_raw_value() -> None:
    assert positions([TURN - 1, 3, TURN - 1, 3], connection=[0, 0, 4, 4]) == [
        *(TURN - 1, TURN + 3),
        *(TURN - 1, TURN + 3),
    ]


def test_each_row_has_a_turn_of_its_own_width() -> None:
    end = (1 << 32) - 1
    out = unwrap(
        np.array([0, 0, 1, 1], np.int32),
        np.array([end, 1, TURN - 1, 1], np.uint32),
        np.array([TCP, TCP, PSN, PSN], np.uint8),
    )
    assert out.tolist() == [end, end + 2, TURN - 1, TURN + 1]


@given(
    st.integers(0, (1 << 32) - 1),
    st.lists(st.floats(-0.2499, 0.7499), max_size=40),
    st.sampled_from([PSN, TCP]),
)
def test_wrapping_is_undone(start: int, steps: list[float], width: int) -> None:
    turn = 1 << width
    true = np.cumsum([start % turn, *(int(step * turn) for step in steps)])
    assert positions((true % turn).tolist(), width) == true.tolist()


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        # Around the ends of a turn and of its quarters, where a step is read the other way.
        st.one_of(
            st.integers(0, TURN - 1),
            st.builds(
                lambda quarter, off: (quarter * TURN // 4 + off) % TURN,
                st.integers(0, 3),
                st.integers(-2, 2),
            ),
        ),
    ),
    max_size=60,
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@given(ROWS)
def test_unwrapping_equals_its_twin(rows: list[tuple[int, int]]) -> None:
    owner, seq = [who for who, _ in rows], [value for _, value in rows]
    assert positions(seq, PSN, owner) == naive.unwrap(owner, seq, [PSN] * len(rows))


def test_unwrapping_equals_its_twin_over_many_turns() -> None:
    rng = np.random.default_rng(1)
    for width in (PSN, TCP):
        owner = np.sort(rng.integers(0, 20, 3000)).tolist()
        seq = rng.integers(0, 1 << width, 3000).tolist()
        assert positions(seq, width, owner) == naive.unwrap(owner, seq, [width] * 3000)
    assert max(b - a for a, b in pairwise(positions(seq, TCP))) > 1 << 31


def behind(position: list[int], window: int, connection: list[int] | None = None) -> list[bool]:
    owner = [0] * len(position) if connection is None else connection
    return list(
        fell_behind(
            np.array(owner, np.int32),
            np.array(position, np.int64),
            np.full(len(position), window, np.int64),
        )
    )


def test_only_beyond_the_window_is_behind() -> None:
    assert behind([0, 100, 90, 89, 100, 101], 10) == [False, False, False, True, False, False]


def test_the_highest_position_counts_and_not_the_one_before() -> None:
    assert behind([0, 100, 50, 51, 120], 10) == [False, False, True, True, False]


def test_a_connection_does_not_fall_behind_another() -> None:
    assert behind([100, 0, 200, 0], 10, [0, 1, 1, 2]) == [False] * 4


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(-(1 << 40), 1 << 40) | st.integers(-5, 5)),
        max_size=40,
    ).map(lambda rows: sorted(rows, key=lambda row: row[0])),
    st.integers(0, 4),
)
def test_falling_behind_equals_its_twin(rows: list[tuple[int, int]], window: int) -> None:
    owner, position = [who for who, _ in rows], [at for _, at in rows]
    assert behind(position, window, owner) == naive.fell_behind(
        owner, position, [window] * len(rows)
    )


def test_kernels_take_no_rows() -> None:
    assert positions([]) == []
    assert behind([], 3) == []
