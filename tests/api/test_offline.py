from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from api.errors import NothingToAnalyze
from api.offline import analyze, analyze_stored
from bench.captures import Capture
from collector.errors import StoreError
from collector.ingest import ingest
from collector.schema import CounterBatch
from collector.store import Store, StoreSettings
from tests.collector.store import made
from tests.collector.store.made import SECOND_NS, START_NS


def test_a_stored_capture_is_analysed_as_the_capture(real: Path, tmp_path: Path) -> None:
    capture, inventory = (real / "mpi-ring" / name for name in ("capture.pcap", "inventory.toml"))
    with Store(tmp_path) as store:
        store.append(ingest([capture]))
    analysis, telemetry = analyze([capture], inventory)
    stored, stored_telemetry = analyze_stored(tmp_path, inventory=inventory)
    assert analysis.jobs
    assert stored == analysis
    assert stored_telemetry.exporters == telemetry.exporters


def test_a_stored_capture_of_many_exporters_is_analysed_as_the_capture(
    capture: Callable[..., Capture], tmp_path: Path
) -> None:
    labelled = capture("dp_ring", level="normal")
    was = ingest([labelled.pcap])
    # In pieces and over a restart, so that no file holds all exporters or all of a slice.
    third = len(was.flows) // 3
    for rows in (slice(0, third), slice(third, 2 * third), slice(2 * third, None)):
        counters = was.counters if rows.stop is None else CounterBatch.empty()
        with Store(tmp_path, StoreSettings(slice_s=10)) as store:
            store.append(replace(was, flows=was.flows.take(rows), counters=counters))
    analysis, _ = analyze([labelled.pcap], labelled.inventory)
    stored, telemetry = analyze_stored(tmp_path, inventory=labelled.inventory)
    assert len(telemetry.exporters) > 1
    assert analysis.jobs
    assert analysis.jobs[0].iterations
    assert stored == analysis


def test_a_window_of_a_store_is_analysed_alone(real: Path, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(ingest([real / "mpi-ring" / "capture.pcap"]))
        store.append(made.numbered(0, 50))
    analysis, telemetry = analyze_stored(tmp_path, START_NS, START_NS + 10 * SECOND_NS)
    assert analysis.jobs == ()
    assert telemetry.flow_samples == 10


def test_nothing_at_that_time_is_said(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(made.numbered(0, 1))
    with pytest.raises(NothingToAnalyze, match="no samples of that time"):
        analyze_stored(tmp_path, START_NS + SECOND_NS)
    with pytest.raises(StoreError, match="no store"):
        analyze_stored(tmp_path / "missing")
