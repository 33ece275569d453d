from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collector.schema import Transport
from reconstruct.bins import Progress
from reconstruct.edges import measure
from reconstruct.jobs import Candidate
from reconstruct.rounds import TCP_BITS, unrolled
from reconstruct.unwrap import unwrap
from tests.reconstruct.made import START_NS, S, Stream, progress_of
from tests.reconstruct.test_edges import any_job

TURNS, PERIOD_S = 22, 2.0
STEPS = 3
SEGMENT = 8948
ROUND = 1 << TCP_BITS


def stepped(per_turn: float, samples: int, seed: int = 1) -> Progress:
    """TCP connections that send `per_turn` bytes a turn, a third of them in each step of it."""
    rng = np.random.default_rng(seed)
    total = TURNS * per_turn
    streams = []
    for number in range(12):
        step = number % STEPS
        sent = np.sort(rng.random(samples) * total)
        turn, gone = np.divmod(sent / per_turn, 1.0)
        time = (turn + 0.4 + (step + gone) * 0.15 + rng.normal(0, 0.002, samples)) * PERIOD_S
        order = np.argsort(time)
        raw = ((sent + rng.integers(ROUND))[order] % ROUND).astype(np.uint32)
        one = np.zeros(samples, np.int32)
        position = unwrap(one, raw, np.full(samples, TCP_BITS, np.uint8))
        fields = {
            "transport": Transport.TCP,
            "unit_bytes": 1,
            "mean_payload": SEGMENT,
            "mean_frame": SEGMENT + 66,
            "scaled_bytes": total / samples * (SEGMENT + 66) / SEGMENT,
            "verbs": 0,
        }
        streams.append(Stream(number, number + 1, (time[order] * S).astype(int), position, fields))
    return progress_of(*streams)


def job_of(progress: Progress) -> Candidate:
    return replace(
        any_job(),
        endpoints=np.arange(len(progress.endpoints), dtype=np.int32),
        connections=np.arange(len(progress.connections), dtype=np.int32),
        turns_ns=START_NS + (np.arange(TURNS + 1) * PERIOD_S * S).astype(np.int64),
    )


@pytest.mark.parametrize("gigabytes", [3.0, 9.1, 21.3])
def test_volumes_are_told_though_counters_go_round_between_samples(gigabytes: float) -> None:
    progress = stepped(gigabytes * 1e9, samples=90)
    job = job_of(progress)
    flows = measure(unrolled(progress, job), job)
    assert flows.bytes_per_turn / 1e9 == pytest.approx(np.full(12, gigabytes), rel=0.01)
    assert flows.error.max() < 0.006


def test_where_samples_do_not_tell_the_count_stands_with_its_error() -> None:
    progress = stepped(60e9, samples=20)
    job = job_of(progress)
    flows = measure(unrolled(progress, job), job)
    assert flows.bytes_per_turn / 1e9 == pytest.approx(np.full(12, 60.0), rel=0.5)
    assert flows.error.min() > 0.1


def test_counters_that_cannot_go_round_unseen_are_left_as_they_are() -> None:
    progress = stepped(0.5e9, samples=90)
    assert unrolled(progress, job_of(progress)) is progress
