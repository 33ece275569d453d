"""Tables of transfers: every way a column may be written, and what of a bad table is still read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.errors import CaptureError, NothingReadError
from collector.ingest import ingest
from collector.packets import Faults
from collector.records import RecordBatch
from collector.transfers import is_table, read_transfers
from tests.collector import encode as e

START_NS = 1_790_000_000_123_456_789
HEADER = "time,duration,source,destination,bytes"
ROW = "1790000000.5,0.25,10.0.0.1,10.0.0.2,8192"


def read(path: Path) -> tuple[RecordBatch, list[tuple[str, int]]]:
    faults = Faults(path)
    rows = RecordBatch.concat(list(read_transfers(path, faults)))
    return rows, [(error.reason, error.count) for error in faults.errors()]


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_row_is_a_record_of_its_payload_and_headers(tmp_path: Path) -> None:
    rows, faults = read(written(tmp_path / "a.csv", HEADER, ROW))
    assert faults == []
    assert (rows.start_ns[0], rows.end_ns[0]) == (
        1_790_000_000_500_000_000,
        1_790_000_000_750_000_000,
    )
    assert (rows.src_lo[0], rows.dst_lo[0]) == (0xFFFF_0A00_0001, 0xFFFF_0A00_0002)
    # Two packets of 4,096 bytes, each behind IPv4, UDP, BTH and ICRC.
    assert (rows.packets[0], rows.bytes[0]) == (2, 8192 + 2 * 44)
    assert (rows.protocol[0], rows.dst_port[0], rows.sampling_rate[0]) == (17, 4791, 1)
    assert (rows.vni[0], rows.vlan[0], rows.dscp[0]) == (0xFFFF_FFFF, 0xFFFF, 0xFF)


@pytest.mark.parametrize(
    ("names", "time", "duration"),
    [
        ("time_ns,duration_ns", START_NS, 250_000_000),
        ("time_us,duration_ms", START_NS // 1000, 250),
        ("Start Time,Duration_s", START_NS / 1e9, 0.25),
        ("timestamp,duration", START_NS, 250_000_000),  # ns by its size, and so the duration
        ("timestamp,duration", START_NS // 1000, 250_000),
        ("timestamp,duration", START_NS // 1_000_000, 250),
        ("timestamp,duration", "2026-09-21T14:13:20.123456789Z", 0.25),
        ("timestamp,duration", "2026-09-21 16:13:20.123456789+02:00", 0.25),
        ("start,end", "2026-09-21T14:13:20.123456789Z", "2026-09-21T14:13:20.373456789Z"),
        ("start,end", START_NS / 1e9, START_NS / 1e9 + 0.25),
    ],
)
def test_times_in_every_unit(tmp_path: Path, names: str, time: Any, duration: Any) -> None:
    path = tmp_path / "a.csv"
    rows, faults = read(
        written(path, f"{names},src,dst,size", f"{time},{duration},10.0.0.1,10.0.0.2,1")
    )
    assert faults == []
    assert abs(int(rows.start_ns[0]) - START_NS) < 1_000_000
    assert abs(int(rows.end_ns[0] - rows.start_ns[0]) - 250_000_000) < 1_000
    if "ns" in names:
        assert int(rows.start_ns[0]) == START_NS


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_quotes_gzip_and_a_byte_order_mark(tmp_path: Path, delimiter: str) -> None:
    text = f'{HEADER}\n"1790000000.5","0.25","fd00::1","fd00::2","8192"\r\n'
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.replace(",", delimiter).encode()))
    assert is_table(path)
    rows, faults = read(path)
    assert faults == []
    assert rows.dst_hi[0] == 0xFD00 << 48
    assert rows.bytes[0] == 8192 + 2 * 64


def test_parquet_of_typed_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "time": pa.array([START_NS, None], pa.timestamp("ns", "UTC")),
            "duration": pa.array([250_000_000, 1], pa.duration("ns")),
            "source": pa.array(["10.0.0.1", "10.0.0.1"]).dictionary_encode(),
            "destination": pa.array(["10.0.0.2", "10.0.0.2"]),
            "bytes": pa.array([8192, 1], pa.uint64()),
            "packets": pa.array([8, None], pa.int32()),
            "protocol": pa.array(["TCP", "udp"]),
            "source_port": pa.array([1234, None], pa.int32()),
            "vni": pa.array([0, 7], pa.int64()),
            "note": pa.array(["x", "y"]),
        }
    )
    pq.write_table(table, path)
    rows, faults = read(path)
    assert len(rows) == 1
    assert (rows.start_ns[0], rows.end_ns[0]) == (START_NS, START_NS + 250_000_000)
    assert (rows.protocol[0], rows.src_port[0], rows.dst_port[0]) == (6, 1234, 0)
    assert (rows.packets[0], rows.bytes[0]) == (8, 8192 + 8 * 52)
    assert rows.vni[0] == 0xFFFF_FFFF  # no tunnel
    assert faults == [("rows without times, addresses or bytes that can be; the first is row 2", 1)]


def test_what_cannot_be_read_is_counted_and_loses_nothing_else(tmp_path: Path) -> None:
    bad = [
        "never,0.25,10.0.0.1,10.0.0.2,1",
        "1790000000.5,-1,10.0.0.1,10.0.0.2,1",
        "1790000000.5,0.25,host-1,10.0.0.2,1",
        "1790000000.5,0.25,10.0.0.1,,1",
        "1790000000.5,0.25,10.0.0.1,10.0.0.2,-5",
        "1790000000.5,0.25,10.0.0.1,10.0.0.2,99999999999999999999999",
        "nan,inf,10.0.0.1,10.0.0.2,1",
        "1e300,0.25,10.0.0.1,10.0.0.2,1",
        "1790000000.5,0.25,10.0.0.\xe9,10.0.0.2,1",
    ]
    path = tmp_path / "a.csv"
    path.write_bytes(
        "\n".join([HEADER, ROW, *bad, "1,2,3", ROW, "1,2,3,4,5,6", ROW]).encode("latin-1")
    )
    rows, faults = read(path)
    assert len(rows) == 3
    assert faults == [
        ("lines that have not 5 columns; the first is line 12", 2),
        ("rows without times, addresses or bytes that can be; the first is row 2", len(bad)),
    ]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("time,duration,source,destination", "without the column bytes or size"),
        ("time,source,destination,bytes", "without the column duration"),
        ("time,start,duration,source,destination,bytes", "'time' and 'start' both tell the start"),
    ],
)
def test_columns_that_make_no_table(tmp_path: Path, header: str, reason: str) -> None:
    path = written(tmp_path / "a.csv", header, "1,2,3,4,5,6")
    assert is_table(path)
    with pytest.raises(CaptureError, match=reason):
        read(path)
    with pytest.raises(NothingReadError, match=reason):
        ingest([path])


def test_other_files_are_no_tables(tmp_path: Path) -> None:
    assert not is_table(written(tmp_path / "notes.txt", "bytes of a source"))
    assert not is_table(tmp_path)
    assert not is_table(tmp_path / "absent.csv")
    assert is_table(written(tmp_path / "a.csv", HEADER))
    rows, faults = read(tmp_path / "a.csv")
    assert (len(rows), faults) == (0, [("no transfer in this table", 1)])


@pytest.mark.parametrize("kept", [4, 100, 400])
def test_a_parquet_file_that_ends_early(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"time": [1.0], "duration": [1.0], "bytes": [1]}), path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CaptureError):
        read(path)


@pytest.mark.parametrize(
    "time", ["2300-01-01T00:00:00", "9999-12-31T23:59:59", "0001-01-01T00:00:00", "1e400", ""]
)
def test_times_beyond_all_bounds_are_counted(tmp_path: Path, time: str) -> None:
    good = "2026-09-21T14:13:20Z,0.25,10.0.0.1,10.0.0.2,8192"
    rows, faults = read(written(tmp_path / "a.csv", HEADER, good, f"{time},1,10.0.0.1,10.0.0.2,1"))
    assert (len(rows), [count for _, count in faults]) == (1, [1])


def test_times_of_coarse_units_beyond_all_bounds_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "time": pa.array([START_NS // 1000, 253_402_300_799_000_000], pa.timestamp("us")),
            "duration": pa.array([250_000, 1 << 62], pa.duration("us")),
            "source": ["10.0.0.1", "x" * 100_000],
            "destination": ["10.0.0.2", "10.0.0.2"],
            "bytes": [1, 1],
        }
    )
    pq.write_table(table, path)
    rows, faults = read(path)
    assert (len(rows), [count for _, count in faults]) == (1, [1])
    assert rows.end_ns[0] - rows.start_ns[0] == 250_000_000


def test_a_duration_has_the_unit_of_the_times(tmp_path: Path) -> None:
    header = "start_ns,duration,source,destination,bytes"
    rows, _ = read(written(tmp_path / "a.csv", header, f"{START_NS},5000,10.0.0.1,10.0.0.2,1"))
    assert rows.end_ns[0] - rows.start_ns[0] == 5000


def test_an_open_quote_is_counted_by_its_lines(tmp_path: Path) -> None:
    lines = [HEADER, ROW, '"' + ROW, *[ROW] * 50]
    rows, faults = read(written(tmp_path / "a.csv", *lines))
    assert len(rows) + sum(count for _, count in faults) == len(lines) - 1


def test_exporters_of_captures_keep_their_numbers_beside_tables(tmp_path: Path) -> None:
    table = written(tmp_path / "a.csv", HEADER, ROW)
    pcap = tmp_path / "a.pcap"
    frame = e.packet(e.datagram(e.flow_sample(e.timestamp(START_NS)), agent="10.9.9.9"))
    pcap.write_bytes(e.pcap([(START_NS, frame)]))
    told = ingest([table, pcap])
    assert [told.exporters[number].agent for number in told.flows.exporter] == ["10.9.9.9"]
    assert [told.exporters[number].agent for number in told.records.exporter] == ["tables"]


def test_tables_are_parts_of_one_beside_captures_that_fail(tmp_path: Path) -> None:
    tables = [written(tmp_path / f"{n}.csv", HEADER, ROW) for n in (1, 2)]
    broken = written(tmp_path / "notes.txt", "no capture at all")
    done: list[tuple[int, int]] = []
    told = ingest([*tables, broken, tables[0]], lambda *at: done.append(at))
    assert (told.flow_records, len(told.records), told.datagrams) == (2, 2, 0)
    (exporter,) = told.exporters
    assert (exporter.agent, exporter.protocol, exporter.state) == ("tables", "table", "ok")
    assert exporter.flow_records == 2
    assert [error.file for error in told.errors] == [str(broken)]
    assert done
