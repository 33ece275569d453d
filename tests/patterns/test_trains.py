from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from patterns.pauses import Pace
from patterns.trains import Train, find_train

STEPS = 200
BURSTS_S = 0.5  # what all bursts of a turn take


def pace(
    parts: Sequence[float], pauses_s: Sequence[float], seed: int = 1, noise: float = 1e-5
) -> Pace:
    """The pace of a turn: bursts of these volumes, a pause behind each; the last is the outer."""
    rng = np.random.default_rng(seed)
    share = np.cumsum(parts) / sum(parts)
    at = (np.arange(STEPS) + 0.5) / STEPS
    inner = np.array(pauses_s[:-1], np.float64)
    left = (1 - at) * BURSTS_S + (inner * (share[:-1] > at[:, None])).sum(axis=1)
    return Pace(left + noise * rng.standard_normal(STEPS), BURSTS_S + sum(pauses_s), False)


def turned(values: Sequence[float], by: int) -> list[float]:
    return [*values[by:], *values[:by]]


def told(parts: Sequence[float], pauses_s: Sequence[float], by: int, seed: int = 1) -> Train | None:
    return find_train(pace(turned(parts, by), turned(pauses_s, by), seed))


def end_of(parts: Sequence[float], by: int) -> float:
    """Share at which the iteration ends, where the turn is counted from behind part `by` - 1."""
    return 1.0 if by == 0 else float(sum(parts[by:]) / sum(parts))


def zero2(batches: int, units: int, factor: int) -> tuple[list[float], list[float]]:
    """Parameters, then the gradients of each micro-batch behind its forward pass."""
    parts = [float(units), *[float(factor)] * (units * batches)]
    inside = [0.02] * (units - 1)
    pauses = [0.3, *[*inside, 0.25] * (batches - 1), *inside, 0.09]
    return parts, pauses


def fsdp(units: int, factor: int) -> tuple[list[float], list[float]]:
    """Parts gathered one ahead of the forward pass, and of the backward pass with gradients."""
    both = 1 + factor
    parts = [2, *[1] * (units - 2), 2, *[both] * (units - 2), factor, factor]
    pauses = [*[0.03] * (units - 2), 0.08, 0.08, *[0.04] * (units - 2), 0.06, 0.05]
    return [float(p) for p in parts], pauses


@pytest.mark.parametrize("batches", [3, 4, 5])
@pytest.mark.parametrize("factor", [1, 2])
def test_gradients_of_several_micro_batches_end_before_the_parameters(
    batches: int, factor: int
) -> None:
    parts, pauses = zero2(batches, 3, factor)
    for by in range(0, len(parts), 2):
        found = told(parts, pauses, by)
        assert found is not None
        assert found.end.share == pytest.approx(end_of(parts, by), abs=0.01)
        assert f"{batches} micro-batches" in found.basis


@pytest.mark.parametrize("units", [6, 10])
@pytest.mark.parametrize("factor", [1, 2])
def test_a_sharded_step_ends_before_its_first_parameters(units: int, factor: int) -> None:
    parts, pauses = fsdp(units, factor)
    for by in range(len(parts)):
        found = told(parts, pauses, by)
        assert found is not None
        assert found.end.share == pytest.approx(end_of(parts, by), abs=0.01)


def fsdp_accumulated(batches: int, units: int, factor: int) -> tuple[list[float], list[float]]:
    """The same for several micro-batches, of which only the last waits for an optimiser."""
    parts, pauses = fsdp(units, factor)
    # Without a pause, the next micro-batch's first parameters follow at once.
    joined = [*parts[:-1], parts[-1] + parts[0], *parts[1:]]
    for _ in range(batches - 2):
        joined = [*joined[:-1], joined[-1] + parts[0], *parts[1:]]
    inside = [*pauses[:-1]] * batches
    return joined, [*inside, pauses[-1]]


@pytest.mark.parametrize("batches", [2, 3])
@pytest.mark.parametrize("factor", [1, 2])
def test_of_sharded_micro_batches_the_one_with_an_optimisers_pause_is_last(
    batches: int, factor: int
) -> None:
    parts, pauses = fsdp_accumulated(batches, 4, factor)
    for by in range(len(parts)):
        found = told(parts, pauses, by)
        assert found is not None
        assert found.end.share == pytest.approx(end_of(parts, by), abs=0.015)
        assert f"{batches} micro-batches" in found.basis


@pytest.mark.parametrize("batches", [4, 6])
def test_an_optimisers_pause_as_long_as_a_forward_pass_is_told_by_the_parameters(
    batches: int,
) -> None:
    parts, pauses = zero2(batches, 3, factor=2)
    pauses[-1] = 0.25
    for by in range(0, len(parts), 2):
        found = told(parts, pauses, by)
        assert found is not None
        assert found.end.share == pytest.approx(end_of(parts, by), abs=0.01)


@pytest.mark.parametrize("buckets", [1, 2, 4, 9, 16])
def test_buckets_of_one_backward_pass_are_no_train(buckets: int) -> None:
    for by in range(buckets):
        assert told([1.0] * buckets, [*[0.05] * (buckets - 1), 0.4], by) is None


def test_a_last_bucket_of_another_size_is_no_train() -> None:
    for last in (0.3, 0.5, 2.0):
        assert told([*[1.0] * 6, last], [*[0.05] * 6, 0.4], 0) is None


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_noise_is_no_train(seed: int) -> None:
    rng: np.random.Generator = np.random.default_rng(seed)
    left: NDArray[np.float64] = np.sort(rng.random(STEPS))[::-1]
    assert find_train(Pace(left, 1.2, False)) is None


def test_equal_micro_batches_with_equal_pauses_tell_no_end() -> None:
    """Of eight like pauses none is the optimiser's."""
    parts, pauses = [1.0] * 8, [0.2] * 8
    assert told(parts, pauses, 0) is None
