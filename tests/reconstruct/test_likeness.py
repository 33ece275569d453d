from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from reconstruct.likeness import Likeness, likeness, moments
from reconstruct.progress import follow
from tests.reconstruct.made import telemetry
from tests.reconstruct.rhythm import cuts, repeated, seen_at, thinned

RATES = (4, 16, 100)  # samples of a turn


def of_times(*times: NDArray[np.float64]) -> Likeness:
    return likeness(seen_at(*times))


@pytest.mark.parametrize("samples", RATES)
def test_rails_of_one_rhythm_are_alike_by_one_within_the_error(samples: int) -> None:
    wrong = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        turns = cuts(2.1, 20, 0.01, rng)
        found = of_times(*(thinned(turns, rng, samples) for _ in range(4)))
        one, other = np.triu_indices(4, 1)
        wrong.append((1 - found.like[one, other]) / found.error(one, other))
    # `like` ends at 1, so only what it falls short by is seen.
    assert np.quantile(wrong, 0.84) < 1.2
    assert np.max(wrong) < 3


def test_the_error_is_of_the_size_of_what_is_seen() -> None:
    rng = np.random.default_rng(1)
    turns = cuts(2.1, 20, 0.01, rng)
    found = of_times(*(thinned(turns, rng, 30) for _ in range(30)))
    one, other = np.triu_indices(30, 1)
    # One in six falls short of 1 by more than a standard error; reliabilities err in common.
    low = 1 - np.quantile(found.like[one, other], 1 / 6)
    assert 0.3 < low / np.median(found.error(one, other)) < 1.5


def test_more_samples_are_more_reliable_and_err_less() -> None:
    rng = np.random.default_rng(2)
    turns = cuts(2.1, 20, 0.01, rng)
    found = of_times(*(thinned(turns, rng, n) for n in RATES))
    assert np.all(np.diff(found.reliable) > 0)
    faint, clear = found.error(np.array([0, 1]), np.array([1, 2]))
    assert faint > clear
    assert found.error(np.array([1]), np.array([0])) == faint


@pytest.mark.parametrize("second_s", [1.7, 2.1, 4.2])
def test_another_rhythm_is_not_alike(second_s: float) -> None:
    rng = np.random.default_rng(3)
    one, two = cuts(2.1, 20, 0.01, rng), cuts(second_s, 20, 0.01, rng)
    found = of_times(thinned(one, rng), thinned(two + 0.9, rng))
    assert found.like[0, 1] < 0.4


def test_steady_traffic_has_no_rhythm() -> None:
    rng = np.random.default_rng(4)
    found = of_times(np.sort(rng.uniform(0, 40, 4000)), np.sort(rng.uniform(0, 40, 4000)))
    assert found.reliable.max() < 0.1


def test_samples_of_one_moment_are_one_witness() -> None:
    # Ten samples of each datagram tell no more of the rhythm than one does.
    rng = np.random.default_rng(5)
    turns = cuts(2.1, 20, 0.01, rng)
    times = [thinned(turns, rng, 10) for _ in range(2)]
    tenfold = of_times(*(np.repeat(t, 10) for t in times))
    assert np.allclose(tenfold.like, of_times(*times).like)
    assert np.allclose(tenfold.reliable, of_times(*times).reliable)


def test_moments_hold_what_usable_connections_of_components_sent() -> None:
    rng = np.random.default_rng(6)
    turns = cuts(1.1, 10, 0.01, rng)
    batches = [repeated(turns, src, dst, rng) for src, dst in ((1, 2), (2, 1), (3, 4), (5, 6))]
    progress = follow(telemetry(*batches))
    usable = np.array([True, False, True, True])
    component = np.array([0, 0, 1, 1, -1, -1], np.int32)
    seen = moments(progress, usable, component, 2)
    total = np.bincount(progress.bins.connection, progress.bins.samples)
    assert np.bincount(seen.owner, seen.samples).tolist() == [total[0], total[2]]
    assert np.all((seen.start_ns <= seen.first_ns) & (seen.first_ns <= seen.last_ns))
    assert np.all(seen.last_ns < seen.end_ns)
    assert (seen.known_ns, seen.count) == (0, 2)
