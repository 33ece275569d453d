from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from api.errors import QueryFailed
from api.query import ask
from collector.addresses import from_text
from collector.errors import StoreError
from collector.records import ABSENT_U64, RecordTime
from collector.schema import (
    ABSENT_U8,
    ABSENT_U16,
    ABSENT_U32,
    LATER,
    TIMES,
    Encapsulation,
    PortState,
    TimeBasis,
    Transport,
)
from collector.store import Store
from collector.store.files import list_files
from collector.store.rows import KINDS
from tests.collector.store import made
from tests.collector.store.made import START_NS

ADDRESSES = ["10.0.0.1", "255.255.255.255", "2001:db8::1", "::1", "::fffe:0:1", "fe80::1:2"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Six flows, two counters and four notices of dropped packets."""
    rows = made.flows([START_NS + n for n in range(6)], [0, 1] * 3)
    for n, text in enumerate(ADDRESSES):
        rows.src_hi[n], rows.src_lo[n] = from_text(text)
    rows.dst_hi[:] = rows.dst_lo[:] = 0
    rows.seq[:] = [0, 1, 2, 3, 4, ABSENT_U32]
    rows.opcode[:] = [0, ABSENT_U8] * 3
    rows.vlan[:] = [0, ABSENT_U16] * 3
    rows.sampling_rate[:] = [0, 400] * 3
    rows.transport[:] = [Transport.ROCEV2, Transport.TCP] * 3
    rows.time_basis[:] = TimeBasis.EXPORTER
    rows.input_state[:] = PortState.INTERNAL
    rows.direction[:] = [0, 1, 2] * 2
    discards = made.discards([START_NS + n for n in range(4)])
    discards.reason[:] = [0, 258, 300, 258]
    exporters = (made.health("10.255.0.1", 7), made.health("2001:db8::ff", 0))
    directory = tmp_path / "it's a store"
    with Store(directory) as writer:
        counters = made.counters([START_NS, START_NS + 1], 1)
        writer.append(made.telemetry(rows, counters, exporters, discard_rows=discards))
    return directory


def _rows(directory: Path, sql: str) -> list[tuple[object, ...]]:
    with ask(directory, sql) as answer:
        return answer.fetchall()


def test_addresses_are_text(store: Path) -> None:
    found = _rows(store, "SELECT src, dst FROM flows ORDER BY time")
    assert found == [(text, None) for text in ADDRESSES]


def test_many_addresses_at_once_are_each_their_own(tmp_path: Path) -> None:
    rows = made.flows([START_NS] * 5000)
    rows.src_hi[:] = 0x2001_0DB8 << 32
    rows.src_lo[:] = np.arange(5000) % 50 + 1
    rows.seq[:] = np.arange(5000)
    with Store(tmp_path) as writer:
        writer.append(made.telemetry(rows))
    found = _rows(tmp_path, "SELECT src FROM flows ORDER BY seq")
    assert found == [(f"2001:db8::{n % 50 + 1:x}",) for n in range(5000)]


def test_exporters_and_enumerations_are_text_and_absent_is_null(store: Path) -> None:
    columns = (
        "agent, sub_agent, exporter_protocol, transport, time_basis, input_state, direction, seq,"
        " opcode, vlan, sampling_rate"
    )
    found = _rows(store, f"SELECT {columns} FROM flows ORDER BY time")
    one, two = ("10.255.0.1", 7, "sflow5", "rocev2"), ("2001:db8::ff", 0, "sflow5", "tcp")
    rest = ("exporter", "internal")
    assert found == [
        (*one, *rest, "unknown", 0, 0, 0, None),
        (*two, *rest, "received", 1, None, None, 400),
        (*one, *rest, "sent", 2, 0, 0, None),
        (*two, *rest, "unknown", 3, None, None, 400),
        (*one, *rest, "received", 4, 0, 0, None),
        (*two, *rest, "sent", None, None, None, 400),
    ]


def test_times_are_timestamps_with_all_their_digits(store: Path) -> None:
    (row,) = _rows(
        store,
        "SELECT max(time) > '2026-11-29 12:00:00', epoch_ns(max(time)) - epoch_ns(min(time)),"
        " epoch_ns(min(time)) FROM flows",
    )
    assert row == (True, 5, START_NS)
    assert _rows(store, "SELECT epoch_ns(time) FROM counters ORDER BY 1") == [
        (START_NS,),
        (START_NS + 1,),
    ]


def test_why_packets_were_dropped_is_text(store: Path) -> None:
    found = _rows(store, "SELECT reason, detail FROM discards ORDER BY time")
    assert found == [
        ("net_unreachable", None),
        ("acl", "ttl_value_is_too_small"),
        ("reason_300", r"\xFF\x01"),
        ("acl", "x" * 64),
    ]


def test_records_are_rows_of_their_own(tmp_path: Path) -> None:
    rows = made.records([START_NS, START_NS + 1])
    rows.src_hi[:], rows.src_lo[:] = from_text("10.0.0.1")
    rows.start_ns[:] = START_NS - 5
    rows.bytes[:] = [ABSENT_U64, 1 << 40]
    rows.dscp[:] = [ABSENT_U8, 0]
    rows.sampling_rate[:] = [0, 64]
    rows.time_basis[:] = [RecordTime.UPTIME, RecordTime.EXPORT]
    exporters = (made.health("10.255.0.1", 4_294_967_295, protocol="netflow9"),)
    with Store(tmp_path) as writer:
        writer.append(made.telemetry(exporters=exporters, record_rows=rows))
    found = _rows(
        tmp_path,
        "SELECT agent, sub_agent, exporter_protocol, src, bytes, dscp, sampling_rate, time_basis,"
        " epoch_ns(time), epoch_ns(start) FROM records ORDER BY time",
    )
    exporter = ("10.255.0.1", 4_294_967_295, "netflow9", "10.0.0.1")
    assert found == [
        (*exporter, None, None, None, "uptime", START_NS, START_NS - 5),
        (*exporter, 1 << 40, 0, 64, "export", START_NS + 1, START_NS - 5),
    ]


def test_views_have_every_column(store: Path) -> None:
    renamed = {"exporter": ["agent", "sub_agent", "exporter_protocol"]}
    for address in ("src", "dst", "outer_src", "outer_dst"):
        renamed |= {f"{address}_hi": [address], f"{address}_lo": []}
    renamed |= {name: [name.removesuffix("_ns")] for name in TIMES}
    renamed["end_ns"] = ["time"]
    for view, batch in KINDS.items():
        wanted = [new for name in batch.KINDS for new in renamed.get(name, [name])]
        assert [row[0] for row in _rows(store, f"DESCRIBE {view}")] == wanted


def test_columns_that_came_later_are_null_in_files_before(store: Path) -> None:
    made.without_columns(store / "flows", LATER)
    assert _rows(store, "SELECT DISTINCT inner_vlan, encapsulation, outer_src FROM flows") == [
        (None, None, None)
    ]
    with Store(store) as writer:  # beside a file that has them
        rows = made.flows([START_NS + 9])
        rows.encapsulation[:], rows.inner_vlan[:] = Encapsulation.VXLAN, 7
        writer.append(made.telemetry(rows, made.counters([]), (made.health("10.255.0.1", 7),)))
    assert _rows(
        store, "SELECT encapsulation, inner_vlan, count(*) FROM flows GROUP BY ALL ORDER BY 3"
    ) == [("vxlan", 7, 1), (None, None, 6)]


def test_an_empty_store_answers(tmp_path: Path) -> None:
    Store(tmp_path).close()
    assert _rows(tmp_path, "SELECT count(*), max(src) FROM flows") == [(0, None)]
    assert _rows(tmp_path, "SELECT count(*) FROM counters") == [(0,)]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM flows", "nothing"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT CAST('a' AS INTEGER)", "Could not convert"),
        ("", "one statement"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("CREATE TABLE t AS SELECT 1", "one statement"),
        ("DROP VIEW flows", "one statement"),
        ("SET memory_limit = '100GB'", "one statement"),
        ("COPY flows TO '{store}/flows/x.csv'", "one statement"),
        ("ATTACH '{store}/x.db'", "one statement"),
        ("INSTALL httpfs", "one statement"),
        ("SELECT * FROM read_csv('/etc/passwd')", "Permission"),
        ("SELECT * FROM read_text('{outside}')", "Permission"),
        ("SELECT * FROM '{outside}'", "outside"),
        ("SELECT * FROM glob('/etc/*')", "Permission"),
        ("SELECT * FROM read_text('{store}/../outside.txt')", "Permission"),
        ("SELECT * FROM read_parquet('https://example.org/x.parquet')", "Error"),
        ("SELECT * FROM writer", "writer"),
        ("SELECT count(*) FROM (SELECT random() FROM range(400000000) ORDER BY 1)", "Memory"),
    ],
)
def test_what_is_refused(store: Path, tmp_path: Path, sql: str, says: str) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("not for queries")
    before = sorted(tmp_path.rglob("*"))
    quoted = str(store).replace("'", "''")
    sql = sql.replace("{store}", quoted).replace("{outside}", str(outside))
    with pytest.raises(QueryFailed, match=says):
        _rows(store, sql)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        _rows(tmp_path, "SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_what_is_merged_meanwhile_is_counted_once(tmp_path: Path) -> None:
    """The files that the answer was asked of are still there."""
    with Store(tmp_path) as writer:
        for second in range(0, 60, 10):
            writer.append(made.numbered(second, 10))
            writer.flush()
        with ask(tmp_path, "SELECT count(*), count(DISTINCT seq) FROM flows") as answer:
            writer.append(made.numbered(1000, 1))
            writer.flush()
            assert len(list_files(tmp_path, "flows")) == 2
            assert answer.fetchall() == [(60, 60)]
        found = _rows(tmp_path, "SELECT count(*), count(DISTINCT seq) FROM flows")
        assert found == [(61, 61)]
