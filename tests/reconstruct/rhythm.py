"""Moments of samples of a made-up training job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from collector.schema import FlowBatch
from reconstruct.activity import activity
from reconstruct.bins import BIN_NS
from reconstruct.likeness import Moments
from tests.reconstruct.made import packets

PER_TURN = 50_000  # packets of a connection of `repeated`


def cuts(
    period_s: float, cycles: int, jitter: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Starts of `cycles` turns and the end of the last one; each turn's length varies by itself."""
    lengths = period_s * (1 + jitter * rng.standard_normal(cycles))
    return np.concatenate([[0.0], np.cumsum(lengths)])


def bursts(micro_batches: int) -> list[tuple[float, float, float]]:
    """Start, end (phases of the turn) and weight of each: short ones early, a long one late."""
    short = [0.1 + 0.6 * (m / micro_batches) for m in range(micro_batches)]
    return [*((start, start + 0.03, 1 / 8) for start in short), (0.7, 0.9, 1.0)]


def moments(
    turns: NDArray[np.float64],
    rng: np.random.Generator,
    micro_batches: int = 4,
    samples: int = 60,
) -> NDArray[np.float64]:
    """Sample times, sorted; a burst of weight 1 holds `samples` in each turn."""
    phase = np.concatenate(
        [
            start + (end - start) * rng.random((len(turns) - 1, int(samples * weight)))
            for start, end, weight in bursts(micro_batches)
        ],
        axis=1,
    )
    return np.sort((turns[:-1, None] + phase * np.diff(turns)[:, None]).ravel())


def nanoseconds(time_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Times in seconds as whole nanoseconds."""
    return np.round(time_s * 1e9).astype(np.int64)


def signal(time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Samples per bin from the first to the last."""
    time = nanoseconds(time_s)
    return activity(time, np.ones(len(time)), int(time[0]), int(time[-1]) + 1, BIN_NS)


def repeated(
    turns: NDArray[np.float64],
    src: int,
    dst: int,
    rng: np.random.Generator,
    micro_batches: int = 4,
    per_turn: int = PER_TURN,
) -> FlowBatch:
    """Sampled packets of one connection that repeats the same transfer in every turn."""
    time = moments(turns, rng, micro_batches, samples=40)
    turn = np.searchsorted(turns, time, "right") - 1
    phase = (time - turns[turn]) / np.diff(turns)[turn]
    # Progress rests between bursts, as a connection's does.
    edges = [edge for start, end, _ in bursts(micro_batches) for edge in (start, end)]
    weights = [weight for *_, weight in bursts(micro_batches)]
    gone = np.repeat(np.concatenate([[0.0], np.cumsum(weights)]), 2)[1:-1] / sum(weights)
    seq = ((turn + np.interp(phase, edges, gone)) * per_turn).astype(np.int64) % (1 << 24)
    rate = per_turn * (len(turns) - 1) // len(time)
    return packets(
        nanoseconds(time), src, dst, seq=seq, dest_qp=src * 1000 + dst, sampling_rate=rate
    )


def thinned(
    turns: NDArray[np.float64], rng: np.random.Generator, samples: int = 40
) -> NDArray[np.float64]:
    """Sample times, sorted; one burst a turn, of `samples` in the mean, each drawn by itself."""
    time = moments(turns, rng, 0, 8 * samples)
    return time[rng.random(len(time)) < 1 / 8]


def seen_at(*times_s: NDArray[np.float64]) -> Moments:
    """Moments of one component for each array of sample times."""
    time = np.concatenate([nanoseconds(one) for one in times_s])
    owner = np.repeat(np.arange(len(times_s), dtype=np.int32), [len(one) for one in times_s])
    start, end = int(time.min()), int(time.max()) + 1
    return Moments(owner, time, time, np.ones(len(time)), start, end, 0, len(times_s))
