from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reconstruct.activity import PROMPT_NS, activity, prompt
from tests import naive
from tests.reconstruct.made import Stream, progress_of

SAMPLES = st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 4)), max_size=30)


@given(SAMPLES, st.integers(0, 40), st.integers(0, 40), st.integers(1, 7))
def test_sums_by_bin_equal_their_twin(
    samples: list[tuple[int, int]], start: int, length: int, width: int
) -> None:
    time, weight = [t for t, _ in samples], [float(w) for _, w in samples]
    made = activity(np.array(time, np.int64), np.array(weight), start, start + length, width)
    assert made.tolist() == naive.activity(time, weight, start, start + length, width)


def test_absolute_times_lose_nothing() -> None:
    start = 1_767_225_600_000_000_000
    time = start + np.array([-1, 0, 9, 10, 29, 30], np.int64)
    assert activity(time, np.ones(6), start, start + 30, 10).tolist() == [2.0, 1.0, 1.0]


def test_rows_whose_time_is_uncertain_are_not_prompt() -> None:
    slack = np.array([0, PROMPT_NS, PROMPT_NS + 1, 900_000_000])
    progress = progress_of(Stream(0, 1, range(4), range(4), {"slack_ns": slack}))
    assert prompt(progress.bins).tolist() == [True, True, False, False]
