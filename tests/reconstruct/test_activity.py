from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reconstruct.activity import PROMPT_NS, activity, prompt, timed
from reconstruct.bins import ProgressBins
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


def test_what_is_known_exactly_is_not_mixed_with_what_is_nearly_so() -> None:
    """Flow records of a burst: their ends, and all else where the record happened to be short."""
    turns = 1_000_000_000 * np.arange(12)
    length = np.where(np.arange(12) % 3, 60_000_000, 40_000_000)
    bins = ProgressBins(
        connection=np.zeros(36, np.int32),
        first_ns=np.repeat(turns, 3),
        last_ns=np.stack([turns, turns + length, turns + length], axis=1).ravel(),
        first_seq=np.zeros(36, np.int64),
        last_seq=np.zeros(36, np.int64),
        slack_ns=np.stack([0 * length, length, 0 * length], axis=1).ravel(),
        samples=np.tile(np.array([1, 40, 1], np.int32), 12),
        scaled_bytes=np.zeros(36),
        retransmitted=np.zeros(36, np.int32),
        marks=np.zeros(36, np.int32),
    )
    rows, time_ns, known_ns = timed(bins, np.arange(36))
    assert bins.samples[rows].tolist() == [1] * 24
    assert time_ns.tolist() == np.stack([turns, turns + length], axis=1).ravel().tolist()
    assert known_ns == 0
