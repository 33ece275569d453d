"""Moments of samples of a made-up training job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reconstruct.activity import activity
from reconstruct.bins import BIN_NS


def cuts(
    period_s: float, cycles: int, jitter: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Starts of `cycles` turns and the end of the last one; each turn's length varies by itself."""
    lengths = period_s * (1 + jitter * rng.standard_normal(cycles))
    return np.concatenate([[0.0], np.cumsum(lengths)])


def moments(
    turns: NDArray[np.float64],
    rng: np.random.Generator,
    micro_batches: int = 4,
    samples: int = 60,
) -> NDArray[np.float64]:
    """Sample times, sorted: short bursts early in each turn, one long burst from 0.7 to 0.9.

    The long burst holds `samples` of each turn, a short one an eighth of that.
    """
    phases = [
        (0.1 + 0.6 * (m / micro_batches) + 0.03 * rng.random((len(turns) - 1, samples // 8)))
        for m in range(micro_batches)
    ]
    phases.append(0.7 + 0.2 * rng.random((len(turns) - 1, samples)))
    phase = np.concatenate(phases, axis=1)
    return np.sort((turns[:-1, None] + phase * np.diff(turns)[:, None]).ravel())


def nanoseconds(time_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Times in seconds as whole nanoseconds."""
    return np.round(time_s * 1e9).astype(np.int64)


def signal(time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Samples per bin from the first to the last."""
    time = nanoseconds(time_s)
    return activity(time, np.ones(len(time)), int(time[0]), int(time[-1]) + 1, BIN_NS)
