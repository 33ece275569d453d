"""What `analyze` makes of flow records, as a cache exports them of a labelled fabric."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api.contract import to_contract, validate
from api.offline import analyze, analyze_stored
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
