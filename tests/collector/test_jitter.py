from __future__ import annotations

import numpy as np
import pytest

from collector.jitter import LEAST, Jitter

MS = 1_000_000


def jitter_of(arrivals_ms: list[float], uptimes_ms: list[int]) -> float | None:
    jitter = Jitter()
    count = len(arrivals_ms)
    jitter.follow(
        1,
        np.arange(count),
        np.zeros(count, np.int64),
        np.array([1_000_000_000 + round(a * MS) for a in arrivals_ms], np.int64),
        np.array(uptimes_ms, np.uint32),
    )
    return jitter.jitter_s(0)


def test_an_even_flow_has_none() -> None:
    times = [37 * n for n in range(50)]
    assert jitter_of([float(t) for t in times], times) == 0.0


def test_it_is_that_of_rfc_3550() -> None:
    rng = np.random.default_rng(1)
    sent = [37 * n for n in range(200)]
    came = [t + float(rng.exponential(3)) for t in sent]
    expected = 0.0
    for nth in range(1, 200):
        apart = (came[nth] - came[nth - 1]) - (sent[nth] - sent[nth - 1])
        expected += (abs(apart) - expected) / 16
    assert jitter_of(came, sent) == pytest.approx(expected / 1e3, rel=1e-4)


def test_an_uptime_in_whole_seconds_tells_nothing() -> None:
    sent = [370 * n for n in range(100)]
    assert jitter_of([float(t) for t in sent], [t // 1000 * 1000 for t in sent]) is None


def test_too_few_tell_nothing_and_a_restart_is_no_delay() -> None:
    sent = [37 * n for n in range(LEAST)]
    assert jitter_of([float(t) for t in sent], sent) is None
    sent = [37 * n for n in range(40)]
    assert jitter_of([float(n * 37) for n in range(80)], sent + sent) == 0.0
