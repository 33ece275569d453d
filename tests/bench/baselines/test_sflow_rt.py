"""sFlow-RT's period on rates whose crossings can be counted."""

from __future__ import annotations

import numpy as np
import pytest

from bench.baselines.sflow_rt import WINDOW, events, period_s, smoothed


def bursts(period: float, busy_s: float, duration_s: float) -> np.ndarray:
    """Times of samples, one a millisecond while the fabric is busy."""
    time_s = np.arange(0.0, duration_s, 0.001)
    return time_s[time_s % period < busy_s]


@pytest.mark.parametrize("period", [1.3, 2.0, 4.7])
def test_one_job_gives_its_period(period: float) -> None:
    time_s = bursts(period, period / 3, 120.0)
    said = period_s(time_s, np.full(len(time_s), 1e6), 120.0)
    assert said == pytest.approx(period, rel=0.01)


def test_two_bursts_a_period_give_half_of_it() -> None:
    time_s = np.concatenate([bursts(3.0, 0.5, 90.0), bursts(3.0, 0.5, 88.0) + 1.5])
    assert period_s(time_s, np.ones(len(time_s)), 90.0) == pytest.approx(1.5, rel=0.01)


def test_two_jobs_give_one_period_that_is_neither() -> None:
    time_s = np.sort(np.concatenate([bursts(2.0, 0.3, 90.0), bursts(3.1, 0.3, 90.0)]))
    said = period_s(time_s, np.ones(len(time_s)), 90.0)
    assert said is not None
    assert min(abs(said - 2.0), abs(said - 3.1)) > 0.2


def test_nothing_is_said_before_the_baseline_is_full() -> None:
    time_s = bursts(2.0, 0.5, WINDOW - 1.0)
    assert period_s(time_s, np.ones(len(time_s)), WINDOW - 1.0) is None
    assert period_s(np.zeros(0), np.zeros(0), 60.0) is None


def test_a_short_dip_arms_nothing() -> None:
    rate = np.where(np.arange(6000) % 200 < 100, 10.0, 0.0)
    crossings = len(events(rate))
    rate[50::200] = 0.0  # a hundredth of a second
    assert len(events(rate)) == crossings


def test_the_rate_is_smoothed() -> None:
    rate = smoothed(np.array([1.0]), np.array([500.0]), 3.0)
    assert rate[:100].max() == 0.0
    assert rate.sum() * 0.01 == pytest.approx(500.0)
    assert rate[110] / rate[100] == pytest.approx(np.exp(-1.0))
