"""Bytes that a job's endpoints send to others and to each other."""

from __future__ import annotations

import numpy as np

from reconstruct.binning import bin_slice
from reconstruct.outflow import KEPT, NO_OUTFLOW, STEP_NS, lengthened, outflow, stream_bytes
from reconstruct.progress import follow
from tests.reconstruct.made import HEADERS, MTU, START_NS, exporters_of, packets, telemetry

FRAME = 100 * (MTU + HEADERS)  # bytes that a sample at 1:100 stands for
JOB = [0, 1]


def test_by_steps_of_a_window() -> None:
    at = np.array([0.1, 0.2, 0.7, 1.1]) * 1e9
    flows = packets(at, [0, 0, 1, 2], [1, 9, 9, 0])
    progress = follow(telemetry(flows))
    job = np.flatnonzero(np.isin(progress.endpoints.names, ["10.0.0.0", "10.0.0.1"]))
    found = outflow(progress, job.astype(np.int32))
    assert (np.diff(found.time_ns) == STEP_NS).all()
    assert found.time_ns[0] == progress.window_start_ns
    assert found.inside.tolist() == [FRAME, 0, 0]
    assert found.out.tolist() == [FRAME, FRAME, 0]


def test_slice_by_slice_as_by_the_window() -> None:
    rng = np.random.default_rng(1)
    known = NO_OUTFLOW
    wanted = []
    for n in range(5):
        src, dst = rng.integers(0, 4, 60), rng.integers(4, 8, 60)
        dst[:20] = 1 - src[:20] % 2
        src[:20] %= 2
        start = START_NS + n * STEP_NS
        flows = packets(np.sort(rng.integers(0, STEP_NS, 60)) + n * STEP_NS, src, dst)
        part = bin_slice(flows, exporters_of(flows), start, start + STEP_NS - 1)
        member = np.isin(part.endpoints.names, ["10.0.0.0", "10.0.0.1"])
        ends = member[part.streams.src], member[part.streams.dst]
        known = lengthened(known, part, stream_bytes(part), *ends)
        wanted.append((start, FRAME * 20, FRAME * int((src[20:] < 2).sum())))
    assert list(zip(known.time_ns, known.inside, known.out, strict=True)) == wanted
    again = lengthened(known, part, stream_bytes(part), *ends)
    assert len(again.time_ns) == 1


def test_a_live_job_forgets() -> None:
    flows = packets([0], [0], [9])
    known = NO_OUTFLOW
    for n in range(KEPT + 2):
        start = START_NS + n * STEP_NS
        part = bin_slice(flows, exporters_of(flows), start, start + STEP_NS - 1)
        none = np.zeros(len(part.streams), np.bool_)
        known = lengthened(known, part, stream_bytes(part), none, none)
    assert len(known.time_ns) == len(known.inside) == len(known.out) == KEPT
    assert known.time_ns[0] == START_NS + 2 * STEP_NS
