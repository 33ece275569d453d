from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.schema import DecodeError
from collector.store import Store, StoreSettings, StoreStatus, read, read_tables
from collector.store import parts as parts_module
from collector.store.files import all_files, list_files
from collector.store.parts import GRACE_S
from tests.collector.store import made
from tests.collector.store.made import FOLDERS, SECOND_NS, START_NS

REPOSITORY = Path(__file__).resolve().parents[3]
KEEP = StoreSettings(keep_age_s=None)


def _fill(store: Store, start: int, end: int, step: int = 10) -> None:
    """A row a second, a flush every `step`."""
    for second in range(start, end, step):
        store.append(made.numbered(second, step))
        store.flush()


def _names(directory: Path, kind: str = "flows") -> list[tuple[int, int, bool]]:
    """First and last second, and whether merged."""
    return [
        (
            (file.first_ns - START_NS) // SECOND_NS,
            (file.last_ns - START_NS) // SECOND_NS,
            file.part is None,
        )
        for file in list_files(directory, kind)
    ]


def test_a_slice_that_is_past_becomes_one_file_of_each_kind(tmp_path: Path) -> None:
    exporters = (made.health("10.255.0.1", datagrams=2, sampling_rates=(400,)),)
    bad = DecodeError("10.255.0.1", None, 5, "bad", 1)
    with Store(tmp_path, KEEP) as store:
        for second in range(0, 60 + GRACE_S, 10):
            times = [START_NS + n * SECOND_NS for n in range(second, second + 10)]
            store.append(
                made.telemetry(
                    made.flows(times),
                    made.counters(times),
                    exporters,
                    (bad,),
                    nameless=1,
                    discard_rows=made.discards(times),
                    record_rows=made.records(times),
                )
            )
            assert len(list_files(tmp_path, "flows")) == second // 10
            store.flush()
        before = read(tmp_path)
        store.append(made.numbered(60 + GRACE_S, 1))
        store.flush()
        for kind in FOLDERS:
            assert _names(tmp_path, kind)[0] == (0, 59, True)
            assert sum(merged for *_, merged in _names(tmp_path, kind)) == 1
        for kind, rows in zip(FOLDERS, (60, 60, 60, 60, 2, 1), strict=True):
            assert pq.read_metadata(list_files(tmp_path, kind)[0].path).num_rows == rows
        found = read(tmp_path, None, START_NS + (60 + GRACE_S) * SECOND_NS)
    assert made.rows_of(found.flows, found.exporters) == made.rows_of(
        before.flows, before.exporters
    )
    assert made.rows_of(found.counters, found.exporters) == made.rows_of(
        before.counters, before.exporters
    )
    assert found.exporters == before.exporters
    assert found.errors == before.errors
    assert found.datagrams == before.datagrams == 12 * 3


def test_late_rows_make_a_group_of_their_own(tmp_path: Path) -> None:
    with Store(tmp_path, KEEP) as store:
        _fill(store, 0, 130)
        store.append(made.numbered(1000, 1, [START_NS + 30 * SECOND_NS]))
        store.flush()
        store.append(made.numbered(1001, 1, [START_NS + 30 * SECOND_NS]))
        store.flush()
        _fill(store, 130, 180)
        assert _names(tmp_path)[:3] == [(0, 59, True), (30, 30, False), (30, 30, False)]
        _fill(store, 180, 200)
        assert _names(tmp_path)[:3] == [(0, 59, True), (30, 30, True), (60, 119, True)]
    assert sorted(read(tmp_path).flows.seq.tolist()) == [*range(200), 1000, 1001]


def test_rows_keep_the_order_of_appending(tmp_path: Path) -> None:
    times = [START_NS + n * SECOND_NS for n in (50, 20, 40, 10, 30)]
    with Store(tmp_path, KEEP) as store:
        for n, time_ns in enumerate(times):
            store.append(made.numbered(n, 1, [time_ns]))
            store.flush()
    assert [merged for *_, merged in _names(tmp_path)] == [True]
    assert read(tmp_path).flows.seq.tolist() == [0, 1, 2, 3, 4]


def test_what_a_writer_leaves_is_merged_at_its_end(tmp_path: Path) -> None:
    for run in range(3):
        with Store(tmp_path, KEEP) as store:
            _fill(store, run * 20, run * 20 + 20)
    assert _names(tmp_path) == [(0, 19, True), (20, 39, True), (40, 59, True)]


def test_exporters_whose_numbers_differ_from_part_to_part(tmp_path: Path) -> None:
    one, two, three = (made.health(f"10.255.0.{n}") for n in (1, 2, 3))
    given_rows = []
    with Store(tmp_path, KEEP) as store:
        for n, exporters in enumerate(((one, two), (two, one), (three, two), (one, two, three))):
            times = [START_NS + n] * 60
            batch = made.telemetry(
                made.flows(times, [0, 1] * 30, n), made.counters(times, 1, n), exporters
            )
            given_rows += made.rows_of(batch.flows, exporters)
            store.append(batch)
            store.flush()
    assert _names(tmp_path) == [(0, 0, True)]
    found = read(tmp_path)
    assert made.rows_of(found.flows, found.exporters) == sorted(given_rows)


def test_many_row_groups_are_merged_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.store.parquet._ROWS_PER_GROUP", 16)
    with Store(tmp_path, KEEP) as store:
        for first, rows in ((0, 5), (5, 40), (45, 16), (61, 2)):
            store.append(made.numbered(first, rows, [START_NS] * rows))
            store.flush()
    (file,) = list_files(tmp_path, "flows")
    metadata = pq.read_metadata(file.path)
    groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert groups == [16, 16, 16, 15]
    assert read(tmp_path).flows.seq.tolist() == list(range(63))


def test_a_merge_takes_no_more_than_memory_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And large parts are left as they are: there is little to win."""
    monkeypatch.setattr(parts_module, "_MOST_BYTES", 11_000)  # some 65 rows
    with Store(tmp_path, KEEP) as store:
        for first, rows in ((0, 30), (30, 30), (60, 70), (130, 200), (330, 30), (360, 30)):
            store.append(made.numbered(first, rows, [START_NS + first] * rows))
            store.flush()
            store.flush()
        store.append(made.numbered(1000, 1))
        store.flush()
        store.append(made.numbered(1001, 1))
        store.flush()
        files = list_files(tmp_path, "flows")
        assert [(file.first_ns - START_NS, file.part is None) for file in files[:4]] == [
            (0, True),
            (60, False),
            (130, False),
            (330, True),
        ]
    assert read(tmp_path).flows.seq.tolist() == [*range(390), 1000, 1001]


def test_parts_of_a_group_are_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "_MOST_PARTS", 4)
    with Store(tmp_path, KEEP) as store:
        _fill(store, 0, 10, 1)
        assert _names(tmp_path)[:2] == [(0, 3, True), (4, 7, True)]
    assert read(tmp_path).flows.seq.tolist() == list(range(10))


def test_a_flush_merges_so_much_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "_MERGES_PER_FLUSH", 2)
    monkeypatch.setattr(parts_module, "GRACE_S", 500)
    with Store(tmp_path, KEEP) as store:
        for _ in range(2):
            store.append(made.numbered(0, 300))  # five slices
            store.flush()
        merged = []
        for second in range(1000, 1004):
            store.append(made.numbered(second, 1))
            store.flush()
            merged.append(sum(merged for *_, merged in _names(tmp_path)))
    assert merged == [2, 4, 5, 5]
    assert sorted(read(tmp_path).flows.seq.tolist()) == sorted(
        [*range(300), *range(300), *range(1000, 1004)]
    )


def test_groups_beyond_what_is_remembered_stay_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "_MOST_GROUPS", 3)
    with Store(tmp_path, KEEP) as store:
        for _ in range(2):
            store.append(made.numbered(0, 20, [START_NS + n * 60 * SECOND_NS for n in range(20)]))
            store.flush()
    assert sum(merged for *_, merged in _names(tmp_path)) <= 3
    assert sorted(read(tmp_path).flows.seq.tolist()) == sorted([*range(20), *range(20)])


def test_a_disk_that_is_full_only_leaves_slices_unmerged(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk: it takes the parts, not what they make."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = 2_000
    with Store(tmp_path, KEEP) as store:
        for n in range(3):
            store.append(made.numbered(n * rows, rows, [START_NS + n] * rows))
            store.flush()
        size = max(file.path.stat().st_size for file in list_files(tmp_path, "flows"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            store.append(made.numbered(90_000, 1, [START_NS + 1000 * SECOND_NS]))
            status = store.flush()
            store.append(made.numbered(90_001, 1, [START_NS + 1000 * SECOND_NS]))
            assert store.flush() == StoreStatus(0, 3 * rows + 2, 0, None, status.merge_error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert status == StoreStatus(
            0, 3 * rows + 1, 0, None, f"{tmp_path / 'flows'}: File too large"
        )
        assert [merged for *_, merged in _names(tmp_path)] == [False] * 5
        assert [merged for *_, merged in _names(tmp_path, "reports")] == [True, False, False]
    found = read(tmp_path)
    assert found.flows.seq.tolist() == [*range(3 * rows), 90_000, 90_001]
    assert found.errors == ()
    assert list(tmp_path.glob(".writing-*")) == []


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_part_that_cannot_be_read_leaves_its_group_unmerged(tmp_path: Path, damage: str) -> None:
    with Store(tmp_path, KEEP) as store:
        _fill(store, 0, 60, 20)
        _, second, _ = list_files(tmp_path, "flows")
        if damage == "missing":
            second.path.unlink()
        else:
            second.path.write_bytes(second.path.read_bytes()[:300])
        store.append(made.numbered(500, 1))
        status = store.flush()
        assert (status.error, status.lost_rows) == (None, 0)
        assert status.merge_error is not None
        assert status.merge_error.startswith(f"{tmp_path / 'flows'}: ")
        store.append(made.numbered(501, 1))
        store.flush()
        assert not any(merged for *_, merged in _names(tmp_path)[:-2])
    found = read(tmp_path)
    assert found.flows.seq.tolist() == [*range(20), *range(40, 60), 500, 501]
    assert len(found.errors) == (damage == "damaged")


SECONDS = st.one_of(st.integers(0, 600), st.integers(-100_000, 100_000))


@settings(max_examples=10)
@given(
    batches=st.lists(st.lists(SECONDS, max_size=6), max_size=14),
    slice_s=st.sampled_from([1, 7, 60, 600]),
    superseded_s=st.sampled_from([0.0, 600.0]),
)
def test_every_row_is_there_once_after_every_flush(
    batches: list[list[int]], slice_s: int, superseded_s: float
) -> None:
    clock = made.Clock()
    appended: list[tuple[Any, ...]] = []
    datagrams = 0
    counted = made.health("10.255.0.1", datagrams=1)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("collector.store.retention.SUPERSEDED_S", superseded_s)
        directory = Path(folder)
        writer_settings = StoreSettings(slice_s=slice_s, keep_age_s=None)
        store = Store(directory, writer_settings, clock)
        for seed, seconds in enumerate(batches):
            times = [START_NS + second * SECOND_NS for second in seconds]
            batch = made.telemetry(
                made.flows(times, 0, seed), made.counters(times, 0, seed), (counted,)
            )
            appended += made.rows_of(batch.flows, batch.exporters)
            appended += made.rows_of(batch.counters, batch.exporters)
            datagrams += 1
            store.append(batch)
            clock.now_s += 61
            assert store.flush().merge_error is None
            _holds(directory, appended, datagrams)
        store.close()
        _holds(directory, appended, datagrams)
        if superseded_s == 0:
            assert all(all_files(directory, k) == list_files(directory, k) for k in FOLDERS)


def _holds(directory: Path, appended: list[tuple[Any, ...]], datagrams: int) -> None:
    found = read(directory)
    stored = made.rows_of(found.flows, found.exporters)
    stored += made.rows_of(found.counters, found.exporters)
    assert Counter(stored) == Counter(appended)
    assert (found.errors, found.datagrams) == ((), datagrams)


class Killed(BaseException):
    """Nothing of the writer runs after this."""


@contextmanager
def _dying_at(call: int) -> Iterator[list[str]]:
    """Every step that changes the disk counts; the one numbered `call` does not happen."""
    steps: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (Path, "rename"),
            (Path, "unlink"),
            (os, "fsync"),
            (pq.ParquetWriter, "write_table"),
        ):
            patch.setattr(owner, name, _step(getattr(owner, name), name, steps, call))
        yield steps


def _step(real: Any, name: str, steps: list[str], call: int) -> Any:
    def step(*arguments: Any, **named: Any) -> Any:
        if len(steps) == call:
            raise Killed
        steps.append(name)
        return real(*arguments, **named)

    return step


def test_killed_at_any_step_of_a_flush_each_row_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush that writes, merges a slice, and removes the parts of the one merged before."""
    monkeypatch.setattr("collector.store.retention.SUPERSEDED_S", 0.0)
    call = 0
    while True:
        directory = tmp_path / str(call)
        clock = made.Clock()
        store = Store(directory, KEEP, clock)
        _fill(store, 0, 180, 30)
        clock.now_s = 61.0
        store.append(made.numbered(180, 10))
        with _dying_at(call) as steps:
            try:
                store.flush()
                survived = True
            except Killed:
                survived = False
        for _ in range(2):
            found = read(directory)
            assert found.errors == ()
            rows = found.flows.seq.tolist()
            assert rows in ([*range(180)], [*range(190)])
            # Another writer comes, which removes what the dead one left to remove.
            Store(directory, KEEP).close()
        if survived:
            break
        call += 1
    assert {"rename", "unlink", "fsync", "write_table"} == set(steps)
    assert call > 20


WRITER = """
import sys
from pathlib import Path
import pyarrow as pa
from collector.store import Store, StoreSettings, TableStore, parts, retention, shelf
from tests.collector.store import made

# Everything happens at every flush, with as little grace as a listing takes.
parts.GRACE_S, retention.SUPERSEDED_S, shelf._FORGET_S = 2, 0.5, 0.0
directory, first = Path(sys.argv[1]), int(sys.argv[2])
settings = StoreSettings(slice_s=60, hold_s=0)
store = Store(directory, settings)
bins = TableStore(directory, "bins", pa.schema({"n": pa.int64()}), settings)
while True:
    store.append(made.numbered(first, 20))
    span = (made.START_NS + n * made.SECOND_NS for n in (first, first + 19))
    bins.append(pa.table({"n": range(first, first + 20)}), *span)
    first += 20
    print(first, flush=True)
"""


def test_killed_while_it_merges_a_writer_leaves_each_row_once(tmp_path: Path) -> None:
    draw = random.Random(5)
    schema = pa.schema({"n": pa.int64()})
    flushed = 0
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(flushed)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for _ in range(draw.randint(5, 20)):
                told = int(process.stdout.readline())
                if draw.random() < 0.3:  # beside the writer at work
                    rows = read(tmp_path).flows.seq.tolist()
                    assert rows == list(range(len(rows)))
                    assert len(rows) >= told
            os.kill(process.pid, signal.SIGKILL)
            lines = process.stdout.read().splitlines()
            flushed = int(lines[-1]) if lines else told
        found, (tables, errors) = read(tmp_path), read_tables(tmp_path, "bins", schema)
        assert (found.errors, errors) == ((), [])
        rows = found.flows.seq.tolist()
        numbers = [n for *_, table in tables for n in table["n"].to_pylist()]
        # What was told is there, once; then that of the append that was cut short, or nothing.
        assert rows in (list(range(flushed)), list(range(flushed + 20)))
        assert numbers in (list(range(flushed)), list(range(flushed + 20)))
        # Go on where both are, as the one that is behind would otherwise have a hole.
        if len(rows) != len(numbers):
            flushed = _level(tmp_path, schema, len(rows), len(numbers))
        else:
            flushed = len(rows)
    kinds = ("flows", "bins")
    assert all(any(f.part is None for f in list_files(tmp_path, kind)) for kind in kinds)


def _level(directory: Path, schema: pa.Schema, rows: int, numbers: int) -> int:
    """Append to the bins what was cut short; rows are written first, so they are ahead."""
    from collector.store import TableStore

    assert rows == numbers + 20
    span = (START_NS + n * SECOND_NS for n in (numbers, rows - 1))
    with TableStore(directory, "bins", schema, KEEP) as bins:
        bins.append(pa.table({"n": range(numbers, rows)}), *span)
    return rows
