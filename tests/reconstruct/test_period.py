from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from reconstruct.bins import BIN_NS
from reconstruct.period import Period, autocorrelation, find_period
from tests import naive
from tests.reconstruct.rhythm import cuts, moments, signal

BIN_S = BIN_NS / 1e9


def period_of(time_s: NDArray[np.float64]) -> float:
    found = find_period(signal(time_s), BIN_S)
    assert found is not None
    return found.seconds


@given(
    st.lists(
        st.integers(0, 50) | st.integers(0, 4000).map(lambda n: n / 8), min_size=2, max_size=60
    ),
    st.integers(0, 59),
)
def test_autocorrelation_equals_its_twin(values: list[float], longest: int) -> None:
    longest = min(longest, len(values) - 1)
    wanted = naive.autocorrelation(values, longest)
    found = autocorrelation(np.array(values, np.float64), longest)
    assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 7.0, 1e9])
def test_a_constant_resembles_nothing(value: float) -> None:
    assert not autocorrelation(np.full(100, value), 20).any()


@given(
    st.sampled_from([0.35, 0.6, 1.0, 1.8, 3.3, 4.1]),
    st.integers(0, 8),
    st.floats(0, 0.003),
    st.integers(0, 2**31),
)
def test_the_period_of_a_busy_job_is_found(
    period_s: float, micro_batches: int, jitter: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    turns = cuts(period_s, 20, jitter, rng)
    found = period_of(moments(turns, rng, micro_batches, samples=400))
    assert found == pytest.approx(np.mean(np.diff(turns)), rel=0.01)


@given(st.floats(0, 1e4), st.integers(0, 100))
def test_moving_a_job_in_time_changes_no_period(shift_s: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    time = moments(cuts(1.1, 15, 0.005, rng), rng)
    edges = np.array([-0.004, 0.0])  # bins begin at the first sample: let them fall elsewhere
    moved = np.concatenate([time[:1] + edges * (shift_s % 1), time[1:]]) + shift_s
    assert period_of(moved) == pytest.approx(period_of(time), rel=0.002)


@given(st.sampled_from([0.5, 0.7, 1.5, 2.0, 3.0, 3.7]), st.integers(0, 100))
def test_stretching_time_stretches_the_period(factor: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    time = moments(cuts(1.05, 15, 0.002, rng), rng, samples=400)
    assert period_of(factor * time) == pytest.approx(factor * period_of(time), rel=0.005)


@given(st.floats(0.01, 100), st.integers(0, 100))
def test_brighter_telemetry_changes_no_period(weight: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    seen = signal(moments(cuts(0.9, 15, 0.005, rng), rng))
    one, more = find_period(seen, BIN_S), find_period(weight * seen, BIN_S)
    assert one is not None
    assert more is not None
    assert more.seconds == pytest.approx(one.seconds)
    assert more.sigmas == pytest.approx(one.sigmas, rel=1e-6)


def test_micro_batches_are_no_iterations() -> None:
    rng = np.random.default_rng(1)
    turns = cuts(2.0, 20, 0.003, rng)
    # Eight bursts a quarter of a second apart; only the last is larger, by gradients.
    phase = (np.arange(8) / 8)[:, None] + 0.06 * rng.random((len(turns) - 1, 8, 40))
    last = 7 / 8 + 0.06 * rng.random((len(turns) - 1, 60))
    phases = np.concatenate([phase.reshape(len(phase), -1), last], axis=1)
    time = np.sort((turns[:-1, None] + phases * np.diff(turns)[:, None]).ravel())
    assert period_of(time) == pytest.approx(2.0, rel=0.005)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1.0, 12.0])
def test_a_constant_has_no_period(value: float) -> None:
    assert find_period(np.full(3000, value), BIN_S) is None


@pytest.mark.parametrize(
    "shape",
    [
        np.arange(3000.0),
        np.repeat([5.0, 0.0], 1500),
        np.repeat([0.0, 5.0, 0.0], [1400, 200, 1400]),
        np.repeat([5.0, 0.0, 5.0, 0.0], [200, 1300, 200, 1300]),
        np.zeros(0),
        np.ones(1),
        np.ones(70),
    ],
    ids=["ramp", "step", "one burst", "two bursts", "empty", "one bin", "too short"],
)
def test_what_does_not_repeat_five_times_has_no_period(shape: NDArray[np.float64]) -> None:
    assert find_period(shape, BIN_S) is None


def test_noise_has_no_period() -> None:
    rng = np.random.default_rng(2)
    found = [
        find_period(rng.poisson(rng.uniform(0.05, 5), 3000).astype(np.float64), BIN_S)
        for _ in range(60)
    ]
    assert sum(one is not None for one in found) <= 1


def test_a_period_says_how_far_it_stands_out() -> None:
    rng = np.random.default_rng(3)
    turns = cuts(1.1, 20, 0.003, rng)
    clear = find_period(signal(moments(turns, rng, samples=200)), BIN_S)
    alone = moments(turns, rng, samples=40)
    hidden = find_period(
        signal(np.sort(np.concatenate([alone, rng.uniform(0, turns[-1], 9 * len(alone))]))), BIN_S
    )
    assert clear is not None
    assert clear.sigmas > 10
    assert clear.similarity > 0.8
    assert hidden is None or hidden.sigmas < clear.sigmas / 2


def wrong_by(period_s: float, jitter: float, samples: int, seeds: range) -> list[float]:
    """How far off the periods found in like jobs are, as shares."""
    out = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        turns = cuts(period_s, 38, jitter, rng)
        found = period_of(moments(turns, rng, micro_batches=1, samples=samples))
        out.append(found / float(np.mean(np.diff(turns))) - 1)
    return out


def test_no_length_of_the_period_is_favoured() -> None:
    for period_s in (1.3, 2.6, 5.27):
        assert np.abs(wrong_by(period_s, 0.005, 30, range(20))).max() < 0.01


def test_few_samples_do_not_double_the_period() -> None:
    """Wide smoothing shows most of few samples, and twice the period is smoothed wider."""
    for period_s in (0.9, 1.5, 4.0):
        assert np.abs(wrong_by(period_s, 0.001, 12, range(20))).max() < 0.05


def beats(turns: int, micro_batches: int, seed: int) -> NDArray[np.float64]:
    """Sample times of turns of 5 s: even micro-batches over all of it, the first a heavy one."""
    rng = np.random.default_rng(seed)
    starts = 5.0 * (np.arange(turns * micro_batches) / micro_batches)
    heavy = np.where(np.arange(len(starts)) % micro_batches == 0, 160, 40)
    at = np.repeat(starts, heavy)
    return np.sort(at + rng.random(len(at)) * 5.0 / micro_batches * 0.4)


def found_period(time_s: NDArray[np.float64]) -> Period:
    found = find_period(signal(time_s), BIN_S)
    assert found is not None
    return found


@pytest.mark.parametrize("buckets", [5, 7, 12])
@pytest.mark.parametrize("pause", [0.3, 0.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_buckets_of_a_job_that_stops_for_checkpoints_are_no_iterations(
    buckets: int, pause: float, seed: int
) -> None:
    """Gradients leave in as many bursts; the stops make one iteration like the next less often."""
    rng = np.random.default_rng(seed)
    starts = 5.0 * np.arange(26) + 17.0 * (np.arange(26) // 8) + rng.normal(0, 0.02, 26)
    at = np.linspace(0, 5.0 * (1 - pause), buckets)
    bursts = (starts[:, None] + at).ravel()
    time_s = np.sort(np.concatenate([begin + rng.uniform(0, 0.12, 60) for begin in bursts]))
    assert found_period(time_s).seconds == pytest.approx(5.0, rel=0.01)


@pytest.mark.parametrize("turns", [3, 4])
@pytest.mark.parametrize("micro_batches", [8, 10])
def test_a_beat_inside_a_longer_cycle_is_said_to_be_one(turns: int, micro_batches: int) -> None:
    """The cycle is seen too few times to be the period, yet more alike at it than at the beat."""
    found = found_period(beats(turns, micro_batches, seed=1))
    assert found.seconds == pytest.approx(5.0 / micro_batches, rel=0.02)
    assert found.longer > 1.5


@pytest.mark.parametrize("turns", [12, 40])
def test_a_cycle_seen_often_enough_hides_no_longer_one(turns: int) -> None:
    found = found_period(beats(turns, 4, seed=2))
    assert found.seconds == pytest.approx(5.0, rel=0.01)
    assert found.longer < 1.1


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("cycles", [6, 9, 30])
def test_a_plain_beat_hides_no_longer_cycle(seed: int, cycles: int) -> None:
    rng = np.random.default_rng(seed)
    found = found_period(moments(cuts(1.1, cycles, 0.01, rng), rng))
    assert found.seconds == pytest.approx(1.1, rel=0.02)
    assert found.longer < 1.2
