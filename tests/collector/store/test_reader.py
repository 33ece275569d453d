from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.errors import StoreError
from collector.ingest import ingest
from collector.records import RecordTime
from collector.schema import ABSENT, COLUMNS, COUNTER_COLUMNS, LATER, DecodeError, TimeBasis
from collector.store import Store, StoreSettings, read
from collector.store.rows import KINDS
from tests.collector.store import made
from tests.collector.store.made import SECOND_NS, START_NS


def test_a_real_capture_comes_back_as_it_was_ingested(real: Path, tmp_path: Path) -> None:
    was = ingest([real / "mpi-ring" / "capture.pcap"])
    with Store(tmp_path) as store:
        store.append(was)
    found = read(tmp_path)
    for name, kind in COLUMNS.items():
        column = getattr(found.flows, name)
        assert column.dtype == kind, name
        np.testing.assert_array_equal(column, getattr(was.flows, name), name)
    for name, kind in COUNTER_COLUMNS.items():
        column = getattr(found.counters, name)
        assert column.dtype == kind, name
        np.testing.assert_array_equal(column, getattr(was.counters, name), name)
    assert replace(found, flows=was.flows, counters=was.counters) == was


def test_every_value_of_every_column_comes_back(tmp_path: Path) -> None:
    """With two exporters whose numbers differ from batch to batch, and over a restart."""
    one, two = made.health("10.255.0.1", 4_294_967_295), made.health("2001:db8::1", 7)
    times = [START_NS + n * SECOND_NS for n in range(200)]
    first = made.telemetry(
        made.flows(times, [0, 1] * 100, seed=1),
        made.counters(times, [0, 1] * 100, 1),
        (one, two),
        discard_rows=made.discards(times, [1, 0] * 100, 3),
        record_rows=made.records(times, [1, 0] * 100, 5),
    )
    second = made.telemetry(
        made.flows(times, [1, 1] * 100, seed=2),
        made.counters(times, [0, 0] * 100, 2),
        (two, one),
        discard_rows=made.discards(times, [0, 1] * 100, 4),
        record_rows=made.records(times, [0, 1] * 100, 6),
    )
    for batch in (first, second):
        with Store(tmp_path) as store:
            store.append(batch)
    found = read(tmp_path)
    for kind in KINDS:
        rows, once, again = (
            made.rows_of(getattr(each, kind), each.exporters) for each in (found, first, second)
        )
        assert rows == sorted(once + again), kind


def test_files_without_columns_that_came_later_are_read(tmp_path: Path) -> None:
    was = made.flows([START_NS, START_NS + 1])
    with Store(tmp_path) as store:
        store.append(made.telemetry(was, made.counters([START_NS]), (made.health("10.255.0.1"),)))
    made.without_columns(tmp_path / "flows", LATER)
    found = read(tmp_path)
    assert not found.errors
    for name, kind in COLUMNS.items():
        column = getattr(found.flows, name)
        assert column.dtype == kind, name
        if name in LATER:
            assert column.tolist() == [ABSENT.get(name, 0)] * 2, name
        else:
            np.testing.assert_array_equal(column, getattr(was, name), name)
    made.without_columns(tmp_path / "flows", ("seq",))
    assert [error.reason for error in read(tmp_path).errors] == [
        "written by another version: other columns"
    ]


def test_counts_of_batches_add_up(tmp_path: Path) -> None:
    rows = made.flows([START_NS, START_NS + 1, START_NS + 2], 0)
    rows.time_basis[:] = [TimeBasis.EXPORTER, TimeBasis.EXPORTER, TimeBasis.ARRIVAL]
    rows.sampling_rate[:] = 400
    noisy = made.health(
        "10.255.0.1",
        datagrams=5,
        lost_datagrams=2,
        counter_samples=4,
        decode_errors=1,
        duplicate_datagrams=3,
        lost_samples=70,
        discard_samples=8,
        unknown_samples=9,
        sampling_rates=(400, 800),
    )
    quiet = made.health("10.255.0.2", datagrams=1)
    bad = DecodeError("10.255.0.1", "a.pcap", 17, "cut short", 1)
    with Store(tmp_path) as store:
        store.append(made.telemetry(rows, None, (noisy, quiet), (bad,), nameless=2))
        store.flush()
        later = replace(bad, offset=400, count=5)
        store.append(made.telemetry(made.flows([START_NS + 3]), None, (noisy,), (later,)))
    found = read(tmp_path)
    assert found.exporters == (
        replace(
            noisy,
            flow_samples=4,
            datagrams=10,
            lost_datagrams=4,
            counter_samples=8,
            decode_errors=2,
            duplicate_datagrams=6,
            lost_samples=140,
            discard_samples=16,
            unknown_samples=18,
            time_basis=found.exporters[0].time_basis,
            state="ok",
        ),
        quiet,
    )
    assert found.exporters[0].time_basis is TimeBasis.EXPORTER
    assert found.errors == (replace(bad, count=6),)
    assert (found.datagrams, found.flow_samples, found.counter_samples) == (13, 4, 8)
    assert (found.lost_datagrams, found.decode_errors) == (4, 6)


def test_records_say_how_their_exporter_fares(tmp_path: Path) -> None:
    rows = made.records([START_NS, START_NS + 1, START_NS + 2], [0, 0, 1])
    rows.sampling_rate[:] = [0, 100, 0]
    rows.time_basis[:] = [RecordTime.ABSOLUTE, RecordTime.UPTIME, RecordTime.EXPORT]
    told, untold = (
        made.health(agent, 9, protocol="ipfix", lost_records=3, sampling_rates=rates)
        for agent, rates in (("10.255.0.1", (100,)), ("10.255.0.2", ()))
    )
    with Store(tmp_path) as store:
        store.append(made.telemetry(exporters=(told, untold), record_rows=rows))
    found = read(tmp_path, START_NS, START_NS + 2)
    assert (len(found.records), found.flow_records) == (2, 2)
    found = read(tmp_path)
    assert found.flow_records == 3
    assert [
        (e.protocol, e.state, e.flow_records, e.lost_records, e.time_basis) for e in found.exporters
    ] == [
        ("ipfix", "ok", 2, 3, TimeBasis.EXPORTER),
        ("ipfix", "rate_unknown", 1, 3, TimeBasis.ARRIVAL),
    ]


def test_a_window_holds_its_start_and_not_its_end(tmp_path: Path) -> None:
    with Store(tmp_path, StoreSettings(slice_s=7)) as store:
        store.append(made.numbered(0, 100))
    found = read(tmp_path, START_NS + 10 * SECOND_NS, START_NS + 20 * SECOND_NS)
    assert found.flows.seq.tolist() == list(range(10, 20))
    assert read(tmp_path, START_NS + 95 * SECOND_NS).flows.seq.tolist() == list(range(95, 100))
    assert read(tmp_path, None, START_NS + 1).flows.seq.tolist() == [0]
    assert len(read(tmp_path, START_NS + 1000 * SECOND_NS).flows) == 0


def test_reports_and_errors_outside_the_window_do_not_count(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for minute in (0, 5):
            first = START_NS + minute * 60 * SECOND_NS
            counted = made.health(f"10.255.0.{minute}", datagrams=1 + minute)
            bad = DecodeError(None, None, None, f"bad at {minute}", 1)
            store.append(made.telemetry(made.flows([first]), None, (counted,), (bad,)))
    found = read(tmp_path, START_NS + 60 * SECOND_NS, START_NS + 600 * SECOND_NS)
    assert [exporter.agent for exporter in found.exporters] == ["10.255.0.5"]
    assert [error.reason for error in found.errors] == ["bad at 5"]
    assert found.datagrams == 6


def test_errors_of_no_time_are_kept(tmp_path: Path) -> None:
    bad = DecodeError("10.0.0.1", None, None, "not sFlow", 3)
    with Store(tmp_path) as store:
        store.append(made.telemetry(exporters=(), errors=(bad,), nameless=3))
    found = read(tmp_path)
    assert found.errors == (bad,)
    assert (found.datagrams, found.exporters, len(found.flows)) == (3, (), 0)


def test_a_damaged_file_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    with Store(tmp_path, StoreSettings(slice_s=60)) as store:
        store.append(made.numbered(0, 60))
        store.append(made.numbered(60, 60))
    damaged = sorted((tmp_path / "flows").iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:200])
    found = read(tmp_path)
    assert found.flows.seq.tolist() == list(range(60, 120))
    (error,) = found.errors
    assert error.file == str(damaged)
    assert error.reason.startswith("damaged: ")
    assert found.decode_errors == 1


def test_a_file_with_other_columns_is_told(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(made.numbered(0, 3))
    (path,) = (tmp_path / "flows").iterdir()
    pq.write_table(pq.read_table(path).drop_columns(["seq"]), path)
    found = read(tmp_path)
    assert [error.reason for error in found.errors] == ["written by another version: other columns"]
    assert len(found.flows) == 0


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(StoreError, match="no store"):
            read(directory)


def test_a_file_that_retention_takes_away_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path, StoreSettings(slice_s=60)) as store:
        store.append(made.numbered(0, 120))
    oldest = sorted((tmp_path / "flows").iterdir())[0]
    opened = pq.ParquetFile

    def open_late(path: Path) -> object:
        oldest.unlink(missing_ok=True)
        return opened(path)

    monkeypatch.setattr(pq, "ParquetFile", open_late)
    found = read(tmp_path)
    assert found.flows.seq.tolist() == list(range(60, 120))
    assert found.errors == ()


def test_files_are_compressed_and_typed_for_other_programs(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(made.numbered(0, 3))
    (path,) = (tmp_path / "flows").iterdir()
    parquet = pq.ParquetFile(path)
    assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"
    assert parquet.schema_arrow.field("time_ns").type == pa.timestamp("ns")
    assert parquet.read().column("exporter").to_pylist() == ["10.255.0.1 0 sflow5"] * 3
