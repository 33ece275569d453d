from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from reconstruct import lockstep
from reconstruct.dwells import find_cuts, find_cycle
from reconstruct.lockstep import Walk

BURST_BYTES, GATHER_BYTES = 1000.0, 600.0


@dataclass(frozen=True, slots=True)
class Job:
    """What a job's connections sent, and when: bursts, each behind a pause.

    `begin_s` and `bytes` are those of bursts, `turns_s` the begins of iterations.
    """

    begin_s: NDArray[np.float64]
    bytes: NDArray[np.float64]
    turns_s: NDArray[np.float64]

    @property
    def edges(self) -> NDArray[np.float64]:
        return np.concatenate([[0.0], np.cumsum(self.bytes)])

    def when(self, place: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds at which places (in bytes) were passed; a burst of `BURST_BYTES` takes 0.2 s."""
        burst = np.minimum(np.searchsorted(self.edges, place, "right") - 1, len(self.bytes) - 1)
        return self.begin_s[burst] + (place - self.edges[burst]) / BURST_BYTES * 0.2


def accumulating(iterations: int, batches: int, rng: np.random.Generator) -> Job:
    """Parameters, then gradients of micro-batches behind pauses that wander by a twentieth."""
    sizes = np.tile([GATHER_BYTES, *[BURST_BYTES] * batches], iterations)
    pauses = np.tile([0.1, 0.35, *[0.2] * (batches - 1)], iterations)
    pauses *= 1 + 0.05 * rng.standard_normal(len(pauses))
    lasts = sizes / BURST_BYTES * 0.2
    begin = np.cumsum(pauses + lasts) - lasts
    return Job(begin, sizes, begin[:: batches + 1])


def alike(turns: int, rng: np.random.Generator) -> Job:
    """Bursts of one kind, one every 0.4 s."""
    begin = np.cumsum(0.2 * (1 + 0.05 * rng.standard_normal(turns)) + 0.2) - 0.2
    return Job(begin, np.full(turns, BURST_BYTES), begin)


def period_s(batches: int) -> float:
    return 0.1 + 0.12 + 0.35 + 0.2 + 0.4 * (batches - 1)


def walk(job: Job, rows_per_burst: float, rng: np.random.Generator) -> Walk:
    """The way of the job's connections by samples at random places."""
    total = job.edges[-1]
    place = np.sort(rng.uniform(0, total, int(rows_per_burst * len(job.bytes))))
    time = np.rint(job.when(place) * 1e9).astype(np.int64)
    return Walk(time, place / total, 0.1, (time - time[0]).astype(np.float64))


def usual_s(turns_ns: NDArray[np.int64] | NDArray[np.float64]) -> float:
    return float(np.median(np.diff(turns_ns))) / 1e9


@pytest.mark.parametrize("batches", [1, 3, 8])
def test_a_cycle_is_found_where_each_of_its_beats_wanders(batches: int) -> None:
    rng = np.random.default_rng(batches)
    job = accumulating(20, batches, rng)
    found = find_cycle([walk(job, 20, rng)], None)
    assert found is not None
    assert found.period.seconds == pytest.approx(period_s(batches), rel=0.05)
    assert usual_s(found.turns_ns) == pytest.approx(usual_s(job.turns_s * 1e9), rel=0.05)


def test_bursts_that_are_all_alike_are_the_cycle() -> None:
    rng = np.random.default_rng(3)
    found = find_cycle([walk(alike(60, rng), 20, rng)], None)
    assert found is not None
    assert found.period.seconds == pytest.approx(0.4, rel=0.05)


def test_a_cycle_that_is_known_is_not_told_again() -> None:
    rng = np.random.default_rng(4)
    job = accumulating(20, 4, rng)
    assert find_cycle([walk(job, 20, rng)], np.rint(job.turns_s * 1e9).astype(np.int64)) is None


def test_a_beat_that_was_taken_for_the_cycle_gives_way_to_it() -> None:
    rng = np.random.default_rng(5)
    job = accumulating(20, 4, rng)
    beats = np.rint(job.begin_s[job.bytes == BURST_BYTES] * 1e9).astype(np.int64)
    found = find_cycle([walk(job, 20, rng)], beats)
    assert found is not None
    assert found.period.seconds == pytest.approx(period_s(4), rel=0.05)


def test_a_part_of_a_cycle_is_no_cycle_though_it_repeats_well() -> None:
    """Eight micro-batches alike, and parameters: an eighth of the volume is nearly a turn."""
    rng = np.random.default_rng(6)
    job = accumulating(20, 8, rng)
    known = np.rint(job.turns_s[::2] * 1e9).astype(np.int64)
    found = find_cycle([walk(job, 20, rng)], known)
    assert found is None or found.period.seconds == pytest.approx(period_s(8), rel=0.05)


def test_a_cycle_seen_too_few_times_is_not_told_and_neither_is_its_beat() -> None:
    rng = np.random.default_rng(7)
    assert find_cycle([walk(accumulating(4, 8, rng), 30, rng)], None) is None


@pytest.mark.parametrize("seed", range(5))
def test_what_is_sent_at_random_moments_has_no_cycle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, 30_000_000_000, 3000))
    gone = np.linspace(0, 1, len(time))
    assert find_cycle([Walk(time, gone, 0.1, (time - time[0]).astype(np.float64))], None) is None


def test_what_never_pauses_has_no_cycle() -> None:
    time = np.arange(3000) * 10_000_000
    gone = np.linspace(0, 1, len(time))
    assert find_cycle([Walk(time, gone, 0.1, time.astype(np.float64))], None) is None


def test_cuts_lie_in_the_longest_dwell() -> None:
    rng = np.random.default_rng(8)
    job = accumulating(20, 4, rng)
    cuts = find_cuts([walk(job, 20, rng)], np.rint((job.turns_s + 0.9) * 1e9).astype(np.int64))
    assert cuts is not None
    first = job.begin_s[job.bytes == BURST_BYTES][::4]
    before = first - cuts[:, None] / 1e9
    inside = ((before > -0.02) & (before < 0.42)).any(axis=1)
    assert len(cuts) >= 19
    assert inside.mean() > 0.9


def test_stops_are_no_dwells() -> None:
    rng = np.random.default_rng(11)
    job = alike(24, rng)
    late = np.where(np.arange(24) >= 12, 60.0, 0.0)
    stopped = Job(job.begin_s + late, job.bytes, job.turns_s + late)
    plain, with_stop = walk(job, 30, rng), walk(stopped, 30, rng)
    begin = int((stopped.begin_s[11] + 0.25) * 1e9)
    stop = np.array([[begin, begin + 60_000_000_000]])
    [cut] = lockstep._over_one_time([with_stop], stop)
    assert cut.busy_ns[-1] == pytest.approx(plain.busy_ns[-1], rel=0.02)
    found = find_cycle([cut], None)
    assert found is not None
    assert found.period.seconds == pytest.approx(0.4, rel=0.06)
