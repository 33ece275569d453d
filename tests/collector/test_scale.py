from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.scale import Scale, _least_squares, one_scale


@given(
    true=st.lists(st.integers(-1000, 1000), min_size=2, max_size=8),
    seed=st.integers(0, 1000),
)
def test_least_squares_gives_back_what_fits(true: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = len(true)
    chain = [(i, i + 1) for i in range(size - 1)]
    more = [(int(a), int(b)) for a, b in rng.integers(0, size, (4, 2)) if a != b]
    ends = np.array(chain + more, np.int64)
    values = np.array(true, np.float64)
    apart = values[ends[:, 0]] - values[ends[:, 1]]
    offset, error = _least_squares(ends, apart, rng.uniform(1, 10, len(ends)), size)
    assert np.allclose(offset, values - values.mean(), atol=1e-6)
    assert (error > 0).all()


# By arrival the clock of 5 is nearer to ours than that of 4.
NEAR = np.array([[0, 0, 0, 0, 9.0, 1.0, 0]] * 2)


def test_islands_have_scales_of_their_own() -> None:
    ends = np.array([(0, 1), (1, 2), (4, 5)])
    apart = np.array([5.0, -3.0, 8.0])
    scale = one_scale(7, ends, apart, np.ones(3), np.array([10, 20, 30]), NEAR)
    # 0 and 1 are 5 apart, 1 and 2 are 3: the median is 2. Of 4 and 5 the nearer to us is right.
    assert np.allclose(scale.offset_ns[[0, 1, 2, 4, 5]], [2.0, -3.0, 0.0, 8.0, 0.0])
    assert np.isnan(scale.offset_ns[[3, 6]]).all()
    assert scale.samples.tolist() == [10, 30, 20, 0, 30, 30, 0]
    wide = scale.widened(9)
    assert np.isnan(wide.offset_ns[7:]).all()
    assert wide.samples.tolist() == [*scale.samples.tolist(), 0, 0]


def test_islands_are_set_against_the_largest_where_no_delay_puts_them() -> None:
    """Two rails whose leaves share no connection; the clocks of the second are 115 ms ahead."""
    true = 1e6 * np.array([0.0, -7.0, 12.0, 115.0, 113.0, 111.0])
    ends = np.array([(0, 1), (1, 2), (3, 4), (4, 5), (0, 2)])
    apart = true[ends[:, 0]] - true[ends[:, 1]]
    delay = 1e6 * np.array([0.3, 4.0, 0.9, 0.5, 2.0, 9.0])
    for unknown in ([], [1], [3], [0, 3, 4]):
        bounds = np.stack((true - delay, true + 3e6))
        bounds[0, unknown], bounds[1, unknown] = -np.inf, np.inf
        scale = one_scale(6, ends, apart, np.full(5, 1e3), np.ones(5, np.int64), bounds)
        assert np.abs(scale.offset_ns - true).max() < 8e6
        assert (scale.error_ns[3:] >= 2e6).all()


def told(true_ms: list[float], pairs: list[tuple[int, int]], delay_ms: float = 0.4) -> Scale:
    """Of clocks that are ahead by this, and pairs that share connections."""
    true = 1e6 * np.array(true_ms)
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    apart = true[ends[:, 0]] - true[ends[:, 1]]
    bounds = np.stack((true - 1e6 * delay_ms, true + 1e5 - 1e6 * delay_ms))
    errors, samples = np.full(len(ends), 1e3), np.ones(len(ends), np.int64)
    return one_scale(len(true), ends, apart, errors, samples, bounds)


def test_clocks_that_share_nothing_are_set_against_the_largest_part() -> None:
    """Leaves of rails, each of which sees its own rail only."""
    scale = told([0.0, 2.0, -3.0, 210.0, 1.0], [(0, 1), (1, 2)])
    assert scale.offset_ns[3] == pytest.approx(210e6, abs=2e6)
    assert np.isnan(scale.offset_ns[4])  # what delays explain is left alone
    assert scale.samples.tolist() == [1, 2, 1, 0, 0]


def test_without_bounds_nothing_is_set_by_arrival() -> None:
    ends = np.array([(0, 1), (2, 3)])
    bounds = np.array([[-np.inf, 0.0, 0.0, -np.inf, 0.0], [np.inf] * 5])
    scale = one_scale(5, ends, np.zeros(2), np.full(2, 1e3), np.ones(2, np.int64), bounds)
    assert scale.offset_ns[:4].tolist() == [0.0] * 4
    assert np.isnan(scale.offset_ns[4])


def test_where_clocks_scatter_arrivals_say_where_the_scale_stands() -> None:
    true = [150.0, 320.0, -60.0, 80.0, 190.0]
    scale = told(true, [(0, 1), (1, 2), (2, 3), (3, 4)])
    assert scale.offset_ns == pytest.approx(1e6 * np.array(true), abs=1e6)
    assert (scale.error_ns > 1e6).all()


@pytest.mark.parametrize("true_ms", [[1.0, 0.0, -1.0, 0.5], [150.0, 320.0, -60.0]])
def test_a_delay_that_all_share_is_no_clock_s(true_ms: list[float]) -> None:
    """Clocks that agree are right; and no scatter explains so much."""
    pairs = [(n, n + 1) for n in range(len(true_ms) - 1)]
    scale = told(true_ms, pairs, delay_ms=45.0 if len(true_ms) > 3 else 4_000.0)
    assert scale.offset_ns == pytest.approx(1e6 * (np.array(true_ms) - np.median(true_ms)))


@pytest.mark.parametrize(
    ("least", "most"),
    [
        ([0, 0, -400, -400], [1, 1, 0, 0]),
        ([0, 0, 19, 19], [1, 1, 20, 20]),
        ([-np.inf] * 4, [0] * 4),
    ],
)
def test_islands_that_delays_explain_stay_where_they_are(
    least: list[float], most: list[float]
) -> None:
    ends = np.array([(0, 1), (2, 3)])
    scale = one_scale(
        4, ends, np.zeros(2), np.full(2, 1e3), np.ones(2, np.int64), 1e6 * np.array((least, most))
    )
    assert np.abs(scale.offset_ns).max() < 1.0


def test_an_error_is_that_of_repeated_draws() -> None:
    rng = np.random.default_rng(2)
    ends = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    error = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    drawn = [_least_squares(ends, rng.normal(0, error), error, 4)[0] for _ in range(4000)]
    assert np.allclose(np.std(drawn, axis=0), _least_squares(ends, error, error, 4)[1], rtol=0.1)
