from __future__ import annotations

import numpy as np
import pytest

from collector.inventory import Inventory
from patterns.analyse import analyse_window
from patterns.result import JobResult
from tests.patterns.drawn import cycle
from tests.reconstruct.made import telemetry
from tests.reconstruct.rhythm import cuts, repeated


def job_of_rails(rails: int, turns: int) -> JobResult:
    """A job of rings that keep one rhythm; nobody knows which host an endpoint is on."""
    rng = np.random.default_rng(1)
    cut = cuts(1.1, turns, 0.005, rng)
    edges = [edge for n in range(rails) for edge in cycle(range(10 * n, 10 * n + 4))]
    batches = [repeated(cut, src, dst, rng, 1) for src, dst in edges]
    [job] = analyse_window(telemetry(*batches), Inventory()).jobs
    return job


def test_parts_in_step_for_a_few_turns_are_not_one_job_for_certain() -> None:
    few, many = job_of_rails(2, 6), job_of_rails(2, 60)
    assert len(few.endpoints) == len(many.endpoints) == 8
    assert few.confidence <= 0.85 < many.confidence
    assert "not told for certain" in few.evidence["endpoints"].basis
    assert "not told for certain" not in many.evidence["endpoints"].basis


def test_one_part_needs_no_step_to_be_one_job() -> None:
    assert job_of_rails(1, 6).confidence == pytest.approx(0.98, abs=0.01)
