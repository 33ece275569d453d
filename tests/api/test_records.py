"""What `analyze` makes of flow records, as a cache exports them of a labelled fabric."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from api.contract import to_contract, validate
from api.offline import analyze, analyze_stored
from bench.captures import Capture
from bench.compare import Verdict
from bench.score import JobCounts, score
from bench.timing import timing
from collector.ingest import ingest
from collector.store import Store
from fixtures.__main__ import main as make


@dataclass(frozen=True, slots=True)
class Made:
    """A folder with samples and records of the same job."""

    folder: Path
    truth: dict[str, Any]

    @property
    def records(self) -> Path:
        return self.folder / "records-1s-sampled.pcap"

    @property
    def endpoints(self) -> set[str]:
        (job,) = self.truth["jobs"]
        return set(job["endpoints"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("records")
    options = ["--seed", "100", "--level", "normal", "--ipfix", "1s-sampled"]
    assert make(["dp_ring", str(folder), *options]) == 0
    return Made(folder, json.loads((folder / "truth.json").read_text()))


def test_records_alone_are_analysed(made: Made) -> None:
    analysis, telemetry = analyze([made.records], made.folder / "inventory.toml")
    document = to_contract(analysis, telemetry)
    validate(document, strict=True)
    told = document["telemetry"]
    assert told["flow_samples"] == 0
    assert told["flow_records"] == sum(x["flow_records"] for x in told["exporters"]) > 0
    assert {(x["protocol"], x["lost_records"], x["state"]) for x in told["exporters"]} == {
        ("ipfix", 0, "ok")
    }
    assert all("domain" in x and "sub_agent" not in x for x in told["exporters"])
    assert told["errors"] == []
    (job,) = document["jobs"]
    assert set(job["endpoints"]) == made.endpoints


def test_a_store_of_records_is_analysed_as_the_capture(made: Made, tmp_path: Path) -> None:
    inventory = made.folder / "inventory.toml"
    with Store(tmp_path) as store:
        store.append(ingest([made.records]))
    stored, telemetry = analyze_stored(tmp_path, inventory=inventory)
    analysis, was = analyze([made.records], inventory)
    assert telemetry.flow_records == was.flow_records
    (found,), (wanted,) = stored.jobs, analysis.jobs
    assert found.endpoints == wanted.endpoints
    assert found.period_s == pytest.approx(wanted.period_s)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_table_of_every_transfer_gives_the_full_result(
    capture: Callable[..., Capture], tmp_path: Path, suffix: str
) -> None:
    made = capture("tp8_pp4_dp8", 100, "normal")
    truth = json.loads(made.truth.read_text())
    table = pq.read_table(made.flows).to_pandas()
    table["start_ns"] += pd.Timestamp(truth["window"]["start"]).value
    path = tmp_path / f"transfers.{suffix}"
    if suffix == "csv":
        table["duration"] = table["duration_ns"] / 1e9
        table["time"] = pd.to_datetime(table["start_ns"], utc=True)
        table[["time", "duration", "src", "dst", "bytes", "protocol"]].to_csv(path, index=False)
    else:
        table.to_parquet(path)
    analysis, telemetry = analyze([path], made.inventory)
    document = to_contract(analysis, telemetry)
    validate(document, strict=True)
    told = timing("table", truth, document)
    assert told.jobs == JobCounts(true=1, exact=1)
    assert (told.missed, told.invented) == (0, 0)
    assert max(told.boundaries) < 0.02
    scored = score(truth, document)
    assert scored.role.value == 1.0
    assert {judged.verdict for judged in scored.algorithms} == {Verdict.RIGHT}
