"""When the jobs of a fleet send: every transfer of every iteration, drawn ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.fleet_jobs import MICRO_BATCHES, Job

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

JITTER: Final = 0.01  # of an iteration's length; sigma, at most three of them
SPREAD: Final = 0.01  # of the burst, by which connections begin late and are done early
FORWARD_SHARE: Final = 1 / 3  # of the computing
TRANSFER_SHARE: Final = 0.3  # of one forward step, in which its result is on the wire
WANDER: Final = 0.05  # of one forward step, by which a transfer may come late

TRANSFER: Final = np.dtype(
    [
        ("connection", "i4"),
        ("start_s", "f8"),
        ("end_s", "f8"),  # when the last packet leaves
        ("packets", "i8"),
        ("before", "i8"),  # packets of this connection in earlier transfers
    ]
)


def draw_ends(job: Job, duration_s: float, rng: np.random.Generator) -> F64:
    """Ends of a job's iterations.

    Returns
    -------
    float64, shape (n,)
        Seconds since the fleet's start, ascending: the first at or before 0, the last at or after
        `duration_s`. A longer fleet begins as a shorter one does.
    """
    before_s = job.period_s * (2 + rng.random())  # so many seconds of the past hold an end
    count = int(duration_s / job.period_s * 1.05) + 5
    off = np.clip(rng.standard_normal(count), -3, 3)
    ends = np.cumsum(job.period_s * (1 + JITTER * off)) - before_s
    ends = ends[np.searchsorted(ends, 0.0, "right") - 1 :]
    return np.asarray(ends[: np.searchsorted(ends, duration_s) + 1], np.float64)


def draw_transfers(
    jobs: Sequence[Job], ends: Sequence[F64], rng: np.random.Generator
) -> NDArray[np.void]:
    """All transfers of all jobs.

    Parameters
    ----------
    ends
        Of each job's iterations, as `draw_ends` gives them.

    Returns
    -------
    dtype `TRANSFER`, shape (n,), sorted by start
    """
    drawn = [
        part
        for job, of_job in zip(jobs, ends, strict=True)
        for part in (_bursts(job, of_job, rng), _micro_batches(job, of_job, rng))
    ]
    transfers = np.concatenate(drawn)
    transfers = transfers[np.lexsort((transfers["start_s"], transfers["connection"]))]
    total = np.cumsum(transfers["packets"]) - transfers["packets"]
    first = np.flatnonzero(np.diff(transfers["connection"], prepend=-1))
    lengths = np.diff(first, append=len(transfers))
    transfers["before"] = total - np.repeat(total[first], lengths)
    return transfers[np.argsort(transfers["start_s"], kind="stable")]


def _bursts(job: Job, ends: F64, rng: np.random.Generator) -> NDArray[np.void]:
    """Gradients: every connection sends at a steady pace, and the last is done at the end."""
    flows = [flow for flow in job.flows if flow.step == 0]
    shape = (len(ends) - 1, len(flows))
    late = rng.uniform(0, SPREAD, shape)
    early = rng.uniform(0, SPREAD, shape)
    early -= early.min(axis=1, keepdims=True)
    end = ends[1:, None]
    return _table(
        [flow.connection for flow in flows],
        [flow.packets for flow in flows],
        end - job.burst_s * (1 - late),
        end - job.burst_s * early,
    )


def _micro_batches(job: Job, ends: F64, rng: np.random.Generator) -> NDArray[np.void]:
    """Pipeline: all micro-batches forward from stage to stage, then all of them back (GPipe)."""
    flows = [flow for flow in job.flows if flow.step]
    start = ends[:-1] + job.optimiser_s
    computing = ends[1:] - job.burst_s - start
    slots = MICRO_BATCHES + job.stages - 1
    forward = computing * FORWARD_SHARE / slots
    backward = computing * (1 - FORWARD_SHARE) / slots
    batch = np.arange(MICRO_BATCHES)
    begins = []
    for flow in flows:
        if flow.step > 0:  # stage step - 1 is done with batch i after step + i slots
            begins.append(start[:, None] + forward[:, None] * (flow.step + batch))
        else:
            turn = start[:, None] + computing[:, None] * FORWARD_SHARE
            begins.append(turn + backward[:, None] * (job.stages + flow.step + batch))
    if not flows:
        return np.empty(0, TRANSFER)
    # (iterations, flows * batches)
    begin = np.stack(begins, axis=1).reshape(len(ends) - 1, -1)
    begin += forward[:, None] * rng.uniform(0, WANDER, begin.shape)
    return _table(
        np.repeat([flow.connection for flow in flows], MICRO_BATCHES),
        np.repeat([flow.packets for flow in flows], MICRO_BATCHES),
        begin,
        begin + TRANSFER_SHARE * forward[:, None],
    )


def _table(
    connection: Sequence[int] | I64, packets: Sequence[int] | I64, start_s: F64, end_s: F64
) -> NDArray[np.void]:
    """Rows of shape (iterations, transfers of one) as one table."""
    table = np.zeros(start_s.shape, TRANSFER)
    table["connection"] = connection
    table["packets"] = packets
    table["start_s"] = start_s
    table["end_s"] = end_s
    return table.ravel()
