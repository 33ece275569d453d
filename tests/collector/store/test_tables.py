from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.errors import StoreError
from collector.store import Store, StoreSettings, StoreStatus, TableStore, read, read_tables
from collector.store import tables as tables_module
from collector.store.files import list_files
from tests.collector.store import made
from tests.collector.store.made import SECOND_NS

SCHEMA = pa.schema(
    {
        "time_ns": pa.timestamp("ns"),
        "n": pa.uint64(),
        "seq": pa.float64(),  # a name that samples have too, as something else
        "edge": pa.dictionary(pa.int32(), pa.string()),
        "ends": pa.list_(pa.struct({"port": pa.uint16(), "share": pa.float32()})),
    }
)
START_NS = made.START_NS + 60 * SECOND_NS  # where a slice of ten minutes begins
KEEP = StoreSettings(slice_s=600, keep_age_s=None)


def _table(first: int, rows: int) -> pa.Table:
    """Rows that can be told apart: `n` counts from `first`, one a second."""
    numbers = range(first, first + rows)
    return pa.table(
        {
            "time_ns": [START_NS + n * SECOND_NS for n in numbers],
            "n": numbers,
            "seq": [n / 8 if n % 5 else None for n in numbers],
            "edge": pa.array([f"edge {n % 3 + first}" for n in numbers]).dictionary_encode(),
            "ends": [[{"port": n % 7, "share": n / 2}] * (n % 3) for n in numbers],
        },
        schema=SCHEMA,
    )


def _append(store: TableStore, first: int, rows: int) -> StoreStatus:
    last = first + rows - 1
    return store.append(
        _table(first, rows), START_NS + first * SECOND_NS, START_NS + last * SECOND_NS
    )


def _numbers(directory: Path, start_ns: int | None = None, end_ns: int | None = None) -> list[int]:
    tables, errors = read_tables(directory, "bins", SCHEMA, start_ns, end_ns)
    assert errors == []
    return [n for *_, table in tables for n in table["n"].to_pylist()]


def test_rows_in_are_rows_out_merged_and_not(tmp_path: Path) -> None:
    with TableStore(tmp_path, "bins", SCHEMA, KEEP) as store:
        for first in range(0, 800, 50):
            _append(store, first, 50)
            store.flush()
        assert [file.part is None for file in list_files(tmp_path, "bins")] == [True] + [False] * 4
    found, errors = read_tables(tmp_path, "bins", SCHEMA)
    assert errors == []
    assert [(first - START_NS) // SECOND_NS for first, *_ in found] == [0, 600]
    assert [(last - START_NS) // SECOND_NS for _, last, _ in found] == [599, 799]
    rows = [row for *_, table in found for row in table.to_pylist()]
    assert rows == [row for first in range(0, 800, 50) for row in _table(first, 50).to_pylist()]
    assert all(table.schema.equals(SCHEMA) for *_, table in found)


def test_a_table_stays_whole_and_goes_where_its_last_row_does(tmp_path: Path) -> None:
    """Merged parts of one slice reach into another's time, and hide none of its parts."""
    settings = StoreSettings(slice_s=60, keep_age_s=None)
    with TableStore(tmp_path, "bins", SCHEMA, settings) as store:
        for first, rows in ((50, 5), (40, 30), (55, 2), (45, 20), (300, 1)):
            _append(store, first, rows)
            store.flush()
        files = list_files(tmp_path, "bins")
        assert [(f.group, f.part is None) for f in files] == [(1, True), (0, True), (2, False)]
    expected = [*range(40, 70), *range(45, 65), *range(50, 57), 300]
    assert _numbers(tmp_path) == expected


def test_a_window_takes_what_reaches_into_it(tmp_path: Path) -> None:
    with TableStore(tmp_path, "bins", SCHEMA, KEEP) as store:
        for first in (0, 600, 1200):
            _append(store, first, 600)
    starts = [START_NS + n * SECOND_NS for n in (0, 600, 1200)]
    assert _numbers(tmp_path, starts[1], starts[2]) == list(range(600, 1200))
    assert _numbers(tmp_path, starts[1], starts[2] + 1) == list(range(600, 1800))
    assert _numbers(tmp_path, starts[1] - SECOND_NS, starts[2]) == list(range(1200))
    assert _numbers(tmp_path, None, starts[0]) == []
    assert _numbers(tmp_path, starts[2]) == list(range(1200, 1800))


def test_rows_are_held_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = made.Clock()
    with TableStore(tmp_path, "bins", SCHEMA, StoreSettings(hold_s=10), clock) as store:
        assert _append(store, 0, 5) == StoreStatus(5, 0, 0, None)
        clock.now_s = 9.0
        assert _append(store, 5, 5) == StoreStatus(10, 0, 0, None)
        clock.now_s = 10.0
        assert store.append(SCHEMA.empty_table(), 0, 0) == StoreStatus(0, 10, 0, None)
        clock.now_s = 19.0
        assert _append(store, 10, 5) == StoreStatus(5, 10, 0, None)
        monkeypatch.setattr(tables_module, "MOST_HELD_BYTES", 1_000)
        assert _append(store, 15, 50) == StoreStatus(0, 65, 0, None)
        assert _append(store, 65, 1).held_rows == 1


def test_age_and_bytes_of_each_kind_are_its_own(tmp_path: Path) -> None:
    day = 86_400
    bins = TableStore(tmp_path, "bins", SCHEMA, StoreSettings(slice_s=600, keep_age_s=30 * day))
    with Store(tmp_path, StoreSettings(keep_age_s=day, keep_bytes=1_000_000)) as store, bins:
        for nth in range(40):
            store.append(made.numbered(nth * day, 2))
            _append(bins, nth * day, 2)
            store.flush()
            bins.flush()
    assert [n // day for n in _numbers(tmp_path)] == [n for n in range(9, 40) for _ in range(2)]
    assert [n // day for n in read(tmp_path).flows.seq.tolist()] == [38, 38, 39, 39]
    with TableStore(tmp_path, "bins", SCHEMA, StoreSettings(keep_bytes=1)):
        pass
    assert _numbers(tmp_path) == []
    assert len(read(tmp_path).flows) == 4


def test_a_full_disk_loses_rows_counts_them_and_goes_on(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with TableStore(tmp_path, "bins", SCHEMA, KEEP) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
        try:
            _append(store, 0, 10)
            status = store.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert status == StoreStatus(0, 0, 10, f"{tmp_path / 'bins'}: File too large")
        _append(store, 10, 10)
        assert store.flush() == StoreStatus(0, 10, 10, None)
    assert _numbers(tmp_path) == list(range(10, 20))


@pytest.mark.parametrize("name", ["flows", "errors", "", ".bins", "a/b", "..", "Bins", "x" * 65])
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"^name: "):
        TableStore(tmp_path, name, SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_appended_is_refused(tmp_path: Path) -> None:
    with TableStore(tmp_path, "bins", SCHEMA) as store:
        with pytest.raises(ValueError, match=r"^table: "):
            store.append(_table(0, 1).drop_columns(["n"]), 0, 0)
        for span in ((1, 0), (0, 2**63), (-(2**63) - 1, 0)):
            with pytest.raises(ValueError, match=r"^first_ns, last_ns: "):
                store.append(_table(0, 1), *span)
        assert store.status.held_rows == 0


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with TableStore(tmp_path, "bins", SCHEMA, KEEP) as store:
        for first in (0, 600, 1200):
            _append(store, first, 2)
    damaged, other, _ = (file.path for file in list_files(tmp_path, "bins"))
    damaged.write_bytes(b"PAR1")
    pq.write_table(pa.table({"n": [1]}), other)
    found, errors = read_tables(tmp_path, "bins", SCHEMA)
    assert [table["n"].to_pylist() for *_, table in found] == [[1200, 1201]]
    assert [error.file for error in errors] == [str(damaged), str(other)]
    assert errors[0].reason.startswith("damaged: ")
    assert errors[1].reason == "written by another version: other columns"


def test_a_kind_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    assert read_tables(tmp_path, "bins", SCHEMA) == ([], [])
    (tmp_path / "bins").touch()
    with pytest.raises(StoreError, match="^" + str(tmp_path / "bins")):
        read_tables(tmp_path, "bins", SCHEMA)


def _before_opening(
    monkeypatch: pytest.MonkeyPatch, nth: int, event: Callable[[Path], None]
) -> None:
    """Let something happen before the nth file of a reader is opened."""
    opened, real = 0, pq.ParquetFile

    def late(path: Path) -> pq.ParquetFile:
        nonlocal opened
        opened += 1
        if opened == nth:
            event(path)
        return real(path)

    monkeypatch.setattr(pq, "ParquetFile", late)


@pytest.mark.parametrize("nth", [1, 2, 3, 7])
def test_a_reader_that_listed_parts_that_are_gone_lists_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    monkeypatch.setattr("collector.store.retention.SUPERSEDED_S", 0.0)
    store = TableStore(tmp_path, "bins", SCHEMA, KEEP)
    for first in range(0, 480, 60):
        _append(store, first, 60)
        if first < 420:
            store.flush()
    with monkeypatch.context() as patch:

        def merge(_: Path) -> None:
            patch.undo()
            store.close()  # which writes the eighth table too

        _before_opening(patch, nth, merge)
        assert _numbers(tmp_path) == list(range(480))
    assert _numbers(tmp_path) == list(range(480))


def test_a_reader_gives_up_on_files_that_always_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TableStore(tmp_path, "bins", SCHEMA, KEEP) as store:
        _append(store, 0, 2)
        _append(store, 600, 2)
    files = list_files(tmp_path, "bins")
    files[1].path.unlink()
    monkeypatch.setattr(tables_module, "list_files", lambda *_: files)
    found, errors = read_tables(tmp_path, "bins", SCHEMA)
    assert [table["n"].to_pylist() for *_, table in found] == [[0, 1]]
    assert [(error.file, error.reason) for error in errors] == [
        (str(files[1].path), "it went while others were read")
    ]


def test_readers_beside_a_writer_that_merges_see_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.store.retention.SUPERSEDED_S", 0.1)
    monkeypatch.setattr("collector.store.shelf._FORGET_S", 0.0)
    monkeypatch.setattr("collector.store.parts.GRACE_S", 1)
    done = threading.Event()
    seen: list[list[int]] = []

    def watch() -> None:
        while not done.is_set():
            seen.append(_numbers(tmp_path))

    settings = StoreSettings(slice_s=60, keep_age_s=None)
    reader = threading.Thread(target=watch)
    with TableStore(tmp_path, "bins", SCHEMA, settings) as store:
        reader.start()
        for first in range(0, 600, 10):
            _append(store, first, 10)
            store.flush()
        done.set()
        reader.join()
    assert len(seen) > 1
    assert all(numbers == list(range(len(numbers))) for numbers in seen)
    assert _numbers(tmp_path) == list(range(600))
