"""Runs of a job, by the connections that it has in each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reconstruct.bins import Progress
from reconstruct.restarts import restarts, undisturbed
from tests.reconstruct.made import START_NS, S, Stream, progress_of

RING = [(0, 1), (1, 2), (2, 0)]


def run(begin_s: float, end_s: float, pairs: Sequence[tuple[int, int]] = RING) -> list[Stream]:
    """Connections that send all of that time."""
    time = np.arange(int(begin_s * S), int(end_s * S), S // 20)
    return [Stream(src, dst, time, np.arange(len(time)) * 100) for src, dst in pairs]


def found(progress: Progress) -> list[tuple[float, float]]:
    """In seconds from the start; samples lie 0.05 s apart."""
    every = np.arange(len(progress.connections), dtype=np.int32)
    seconds = (restarts(progress, every) - START_NS) / S
    return [(round(stopped + 0.05, 3), resumed) for stopped, resumed in seconds.tolist()]


def test_a_job_that_was_started_again() -> None:
    assert found(progress_of(*run(0, 10), *run(13, 20))) == [(10.0, 13.0)]


def test_each_of_several_restarts() -> None:
    progress = progress_of(*run(0, 5), *run(6, 12), *run(12.5, 20))
    assert found(progress) == [(5.0, 6.0), (12.0, 12.5)]


def test_ranks_do_not_stop_at_one_moment() -> None:
    staggered = [*run(0, 10, RING[:1]), *run(0, 9, RING[1:2]), *run(0, 9.5, RING[2:])]
    assert found(progress_of(*staggered, *run(13, 20))) == [(10.0, 13.0)]


def test_a_heartbeat_may_go_on() -> None:
    beat = Stream(0, 2, np.arange(4) * 6 * S, np.arange(4))
    assert found(progress_of(*run(0, 10), *run(13, 20), beat)) == [(10.0, 13.0)]


def test_a_pause_is_no_restart() -> None:
    time = np.concatenate([np.arange(0, 10, 0.05), np.arange(13, 20, 0.05)])
    stream = [Stream(*pair, (time * S).astype(np.int64), np.arange(len(time))) for pair in RING]
    assert found(progress_of(*stream)) == []


def test_other_pairs_are_another_job_or_a_start() -> None:
    assert found(progress_of(*run(0, 3, [(0, 1), (0, 2)]), *run(4, 20, [(1, 2), (2, 0)]))) == []


def test_connections_of_few_samples_begin_and_end_by_chance() -> None:
    one = [Stream(*pair, [S, 2 * S], [0, 1]) for pair in RING]
    other = [Stream(*pair, [4 * S, 5 * S], [0, 1]) for pair in RING]
    assert found(progress_of(*one, *other)) == []


def test_nothing_is_no_restart() -> None:
    assert restarts(progress_of(*run(0, 1)), np.zeros(0, np.int32)).shape == (0, 2)


def test_iterations_that_a_restart_leaves_whole() -> None:
    """One ends as the job stops, one begins as it goes on: nothing ends there."""
    breaks = np.array([[2_000, 5_000]])
    begin = np.array([0, 1_000, 1_010, 2_500, 5_000, 5_200, 6_100])
    end = np.array([1_000, 2_010, 5_000, 6_000, 6_000, 6_100, 7_000])
    assert undisturbed(begin, end, breaks).tolist() == [
        *(True, True, False, False, False, True, True)
    ]
    assert undisturbed(begin, end, np.zeros((0, 2), np.int64)).all()
