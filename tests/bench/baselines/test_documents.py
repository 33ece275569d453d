"""LLMPrism on full records of dense training reaches its published figure, a timeline in 0.3 %."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.baselines.documents import llmprism_document, sampling_rate
from bench.baselines.flow_records import read, sampled
from bench.pairing import pair_documents
from bench.timing import duration_errors
from fixtures.flow_records import write_flow_records
from fixtures.inventory_file import write_inventory
from fixtures.iterations import period_s
from fixtures.runs import count_runs
from fixtures.scenarios import build
from fixtures.trace import Trace
from fixtures.truth import time_text

Json = dict[str, Any]


def truth(trace: Trace) -> Json:
    window = {"start": time_text(0), "end": time_text(round(trace.duration_s * 1e9))}
    jobs = [
        {
            "id": job.name,
            "endpoints": [trace.endpoints[e].address for e in job.endpoints],
            "groups": [],
            "period_s": period_s(job),
            "iterations": [
                {"end": time_text(round(i.end_s * 1e9)), "complete": i.complete}
                for i in job.iterations
            ],
        }
        for job in trace.jobs
    ]
    return {"window": window, "jobs": jobs}


@pytest.mark.parametrize("scenario", ["dp_ring", "dp_tree", "tp8_pp4_dp8"])
def test_dense_training(scenario: str, tmp_path: Path) -> None:
    built = build(scenario, 101, "rich")
    flows, inventory = tmp_path / "flows.parquet", tmp_path / "inventory.toml"
    write_flow_records(flows, built.trace, count_runs(built.trace))
    write_inventory(inventory, built.fabric)
    records, ends = read(flows, inventory)
    true = truth(built.trace)
    pairs, lone = pair_documents(true, llmprism_document(records, ends, true["window"]))
    assert lone == []
    for pair in pairs:
        assert pair.said is not None
        assert set(pair.said["endpoints"]) == set(pair.true["endpoints"])
        assert pair.said["period_s"] == pytest.approx(pair.true["period_s"], rel=0.003)
        errors = list(duration_errors(pair, true["window"]))
        complete = sum(one["complete"] for one in pair.true["iterations"])
        assert len(errors) >= complete - 2
        assert np.mean(errors) < 0.003


def test_nothing_sampled_is_no_job(tmp_path: Path) -> None:
    built = build("dp_ring", 101, "rich")
    flows, inventory = tmp_path / "flows.parquet", tmp_path / "inventory.toml"
    write_flow_records(flows, built.trace, count_runs(built.trace))
    write_inventory(inventory, built.fabric)
    records, ends = read(flows, inventory)
    none = sampled(records, 10**12, np.random.default_rng(1))
    assert len(none) == 0
    assert llmprism_document(none, ends, truth(built.trace)["window"])["jobs"] == []


def test_the_usual_rate_of_the_exporters() -> None:
    exporters = [{"sampling_rates": rates} for rates in ([1000], [], [1000, 4000])]
    assert sampling_rate({"telemetry": {"exporters": exporters}}) == 1000
