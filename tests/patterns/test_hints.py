"""Hints: micro-batches by bursts, and what labelled captures say of gradients and pipelines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from collector.ingest import ingest
from collector.inventory import read_inventory
from patterns.analyse import analyse_window
from patterns.hints import bursts
from patterns.result import Hint

if TYPE_CHECKING:
    from bench.captures import Capture

RNG_SEED = 3


def phases(middles: NDArray[np.float64], samples: int, width: float) -> NDArray[np.float64]:
    """Samples of bursts of one size around some phases."""
    rng = np.random.default_rng(RNG_SEED)
    return np.asarray(rng.normal(np.repeat(middles, samples), width) % 1.0)


@pytest.mark.parametrize("count", [2, 4, 12, 32])
@pytest.mark.parametrize("width", [0.02, 0.15])
def test_bursts_of_one_size_are_counted(count: int, width: float) -> None:
    middles = 0.1 + 0.7 * np.arange(count) / count
    assert bursts(phases(middles, 60, width * 0.7 / count)) == count


def test_bursts_that_come_unevenly_are_counted() -> None:
    # One forward, one backward: the first come one after the other, the others in turn.
    middles = np.array([0.1, 0.13, 0.16, 0.25, 0.35, 0.45, 0.55])
    assert bursts(phases(middles, 80, 0.003)) == len(middles)


def test_a_burst_across_the_turns_end_is_one() -> None:
    assert bursts(phases(np.arange(5) / 5, 80, 0.01)) == 5


def test_what_comes_all_the_time_has_no_bursts() -> None:
    rng = np.random.default_rng(RNG_SEED)
    found = [bursts(rng.random(2_000)) for _ in range(50)]
    assert found == [None] * 50


def test_bursts_of_unlike_size_are_no_micro_batches() -> None:
    middles = np.array([0.2, 0.4, 0.6])
    uneven = np.concatenate([phases(middles, 60, 0.01), phases(middles[:1], 300, 0.01)])
    assert bursts(uneven) is None


def test_few_samples_have_no_bursts() -> None:
    assert bursts(phases(np.array([0.2, 0.6]), 5, 0.01)) is None
    assert bursts(np.zeros(0)) is None


def said_and_true(made: Capture) -> list[tuple[dict[str, Hint], dict[str, float]]]:
    truth: dict[str, Any] = json.loads(made.truth.read_text())
    analysis = analyse_window(ingest([made.pcap]), read_inventory(made.inventory))
    said = {frozenset(job.endpoints): dict(job.hints) for job in analysis.jobs}
    return [
        (
            said[frozenset(job["endpoints"])],
            {name: hint["value"] for name, hint in job["hints"].items()},
        )
        for job in truth["jobs"]
    ]


@pytest.mark.parametrize(
    ("scenario", "wanted"),
    [
        (
            "tp8_pp4_dp8",
            {"gradient_bytes", "micro_batches", "pipeline_message_bytes", "pipeline_bubble"},
        ),
        (
            "pp_interleaved",
            {"gradient_bytes", "micro_batches", "pipeline_message_bytes", "pipeline_bubble"},
        ),
        ("grad_accumulation", {"micro_batches"}),
        ("dp_ring", {"gradient_bytes"}),
        ("dp_tree", {"gradient_bytes"}),
        ("dp_zero1", {"gradient_bytes"}),
        ("fsdp", {"gradient_bytes"}),
    ],
)
def test_hints_hold_the_truth(
    capture: Callable[..., Capture], scenario: str, wanted: set[str]
) -> None:
    for said, true in said_and_true(capture(scenario, 101, "rich")):
        assert set(said) == wanted
        for name, hint in said.items():
            assert 0.98 * hint.low <= true[name] <= 1.02 * hint.high, (name, hint)
            assert hint.high <= 4.5 * hint.low
            assert hint.claim.confidence <= 0.8
