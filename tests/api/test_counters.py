"""What `ringscope analyze` makes of interface counters alone, of a labelled fleet."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.cli.analyze import run
from api.contract import validate
from api.offline import analyze_stored
from collector.ingest import ingest
from collector.store import Store
from fixtures import fleets
from fixtures.table import FLEETS

SMALL = "counters_only"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the counters of three jobs on 24 hosts."""
    folder = tmp_path_factory.mktemp("counters")
    small = replace(FLEETS[SMALL], jobs=3, hosts=24, window_s=120.0, period_s=(4.0, 9.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FLEETS, SMALL, small)
        fleets.write_fleet(folder, SMALL, 102, "rich")
    return folder


def test_a_fleet_of_counters_is_analysed(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert run([made / "capture.pcap"], made / "inventory.toml", out, None, strict=True) == 0
    document: dict[str, Any] = json.loads(out.read_text())
    validate(document, strict=True)
    truth = json.loads((made / "truth.json").read_text())
    told = document["telemetry"]
    assert (told["flow_samples"], told["flow_records"]) == (0, 0)
    assert told["counter_samples"] > 20_000
    assert {exporter["state"] for exporter in told["exporters"]} == {"counters_only"}
    wanted = {frozenset(job["endpoints"]): job for job in truth["jobs"]}
    found = {frozenset(job["endpoints"]): job for job in document["jobs"]}
    assert set(found) == set(wanted)
    for endpoints, job in found.items():
        assert set(job["hosts"]) == set(wanted[endpoints]["hosts"])
        assert job["period_s"] == pytest.approx(wanted[endpoints]["period_s"], rel=0.005)
        assert (job["groups"], job["iterations"]) == ([], [])
        assert set(job["parallelism"]["basis"]) == {"dp", "tp", "pp", "cp", "ep"}


def test_a_store_of_counters_is_analysed_as_the_capture(made: Path, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(ingest([made / "capture.pcap"]))
    analysis, _ = analyze_stored(tmp_path, inventory=made / "inventory.toml")
    truth = json.loads((made / "truth.json").read_text())
    assert {job.hosts for job in analysis.jobs} == {
        tuple(sorted(job["hosts"])) for job in truth["jobs"]
    }
