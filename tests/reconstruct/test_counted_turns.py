"""Turns from bytes by time."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.counted_turns import find_turns
from tests.reconstruct.polled import F64, bursts

WIDTH_S = 0.1


def by_bin(job: F64) -> F64:
    """As counters polled at moments of their own show it."""
    return np.asarray(np.convolve(job.reshape(-1, 10).sum(axis=1), np.ones(2) / 2, "same"))


@pytest.mark.parametrize(
    ("period_s", "lasting"),
    [
        (2.3, [(0.1, 0.3)]),
        (6.0, [(0.1, 0.3)]),
        (8.0, [(0.0, 0.2), (0.5, 0.15)]),
        (20.0, [(0.0, 0.1), (0.2, 0.1), (0.45, 0.3)]),
    ],
)
def test_the_period_is_found(period_s: float, lasting: list[tuple[float, float]]) -> None:
    turns = find_turns(by_bin(bursts(period_s, lasting, 5)), WIDTH_S)
    assert turns is not None
    assert np.median(np.diff(turns.ends_s)) == pytest.approx(period_s, rel=0.005)
    assert turns.similarity > 0.9


def test_the_period_scales_with_time() -> None:
    signal = by_bin(bursts(6.0, [(0.1, 0.3), (0.6, 0.1)], 5))
    once, twice = find_turns(signal, WIDTH_S), find_turns(signal, 2 * WIDTH_S)
    assert once is not None
    assert twice is not None
    np.testing.assert_allclose(twice.ends_s, 2 * once.ends_s)


def test_turns_end_where_the_burst_before_the_pause_ends_that_varies() -> None:
    # Steps wait at their ends, which is not where their longest pause is.
    lasting = [(0.0, 0.1), (0.7, 0.15)]
    turns = find_turns(by_bin(bursts(12.0, lasting, 8, jitter=0.02)), WIDTH_S)
    assert turns is not None
    rng = np.random.default_rng(8)
    starts = [float(rng.uniform(-12.0, 0))]
    while starts[-1] < 300:
        starts.append(starts[-1] + 12.0 * (1 + 0.02 * rng.standard_normal()))
    ends = np.array(starts) + 0.85 * 12.0
    off = turns.ends_s - ends[np.abs(ends[:, None] - turns.ends_s).argmin(axis=0)]
    # All but the last bytes of the burst are through.
    np.testing.assert_allclose(off, -0.1 * 0.15 * 12.0, atol=0.15)
    assert len(turns.ends_s) >= 24


def test_what_is_no_cycle_has_no_turns() -> None:
    rng = np.random.default_rng(9)
    assert find_turns(rng.exponential(1.0, 3000), WIDTH_S) is None
    once = np.zeros(3000)
    once[700:1900] = 1.0
    assert find_turns(once, WIDTH_S) is None
    assert find_turns(np.zeros(3000), WIDTH_S) is None


def test_fewer_than_five_turns_are_none() -> None:
    assert find_turns(by_bin(bursts(80.0, [(0.1, 0.3)], 5)), WIDTH_S) is None
