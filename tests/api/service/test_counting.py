"""From which moment of a turn a service counts, where few turns do not show which is the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from api.results.connections import sqlite_url
from api.results.database import Results
from bench.captures import Capture
from tests.api.service.feeding import SECOND_NS, silence, slices_of, true_jobs
from tests.api.service.test_sliding import feed, numbered, sliding

NEAR = 0.05  # of the period


def test_no_iteration_is_counted_from_a_bucket(
    capture: Callable[..., Capture], tmp_path: Path
) -> None:
    """Eight pauses a turn, the optimiser's the shortest: nine turns show buckets only."""
    sharded = capture("dp_zero1", 105, "normal")
    (true,) = true_jobs(json.loads(sharded.truth.read_text()))
    slices = slices_of(sharded.pcap)
    with closing(Results(sqlite_url(tmp_path / "results.sqlite"))) as results:
        feed(sliding(results), [*slices, *silence(slices[-1], 150)])
        (job,) = results.jobs()
        turns = [turn for turn in numbered(results, job.id) if turn.complete]
    assert len(turns) >= len(true.ends_ns) - 1
    late = true.late(np.array([turn.end_ns for turn in turns])) / (true.period_s * SECOND_NS)
    assert np.abs(late).max() < NEAR
