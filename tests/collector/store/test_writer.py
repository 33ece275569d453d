from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.store import Store, StoreSettings, StoreStatus, read
from collector.store import writer as writer_module
from collector.store.files import list_files
from tests.collector.store import made
from tests.collector.store.made import FOLDERS, SECOND_NS, START_NS

REPOSITORY = Path(__file__).resolve().parents[3]
TIMES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(START_NS - 300 * SECOND_NS, START_NS + 300 * SECOND_NS),
    st.integers(-3, 3).map(lambda n: START_NS + n * 60 * SECOND_NS),
)


@settings(max_examples=25)
@given(
    batches=st.lists(st.tuples(st.lists(TIMES, max_size=12), st.booleans()), max_size=5),
    slice_s=st.integers(1, 100_000),
)
def test_rows_in_are_rows_out_whatever_their_times_and_order(
    batches: list[tuple[list[int], bool]], slice_s: int
) -> None:
    given_rows: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        with Store(directory, StoreSettings(slice_s=slice_s, keep_age_s=None)) as store:
            for seed, (times, flush) in enumerate(batches):
                batch = made.telemetry(made.flows(times, 0, seed), made.counters(times, 0, seed))
                given_rows += made.rows_of(batch.flows, batch.exporters)
                given_rows += made.rows_of(batch.counters, batch.exporters)
                store.append(batch)
                if flush:
                    store.flush()
        found = read(directory)
        stored = made.rows_of(found.flows, found.exporters)
        stored += made.rows_of(found.counters, found.exporters)
        assert Counter(stored) == Counter(given_rows)
        for file in list_files(directory, "flows"):
            times = np.asarray(pq.read_table(file.path)["time_ns"]).view(np.int64).tolist()
            assert len({time // (slice_s * SECOND_NS) for time in times}) == 1
            assert (min(times), max(times)) == (file.first_ns, file.last_ns)


def test_rows_within_a_slice_keep_the_order_of_appending(tmp_path: Path) -> None:
    times = [START_NS + second * SECOND_NS for second in (0, 5, 1, 61, 3, 62, 2)]
    with Store(tmp_path) as store:
        store.append(made.numbered(0, 7, times))
    assert read(tmp_path).flows.seq.tolist() == [0, 1, 2, 4, 6, 3, 5]


def test_late_rows_go_into_further_files_of_their_slice(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(made.numbered(0, 120))
        store.flush()
        before = {file.path: file.path.read_bytes() for file in list_files(tmp_path, "flows")}
        store.append(made.numbered(900, 1, [START_NS + 30 * SECOND_NS]))
        store.flush()
        after = list_files(tmp_path, "flows")
    assert len(after) == len(before) + 1 == 3
    assert all(path.read_bytes() == content for path, content in before.items())
    found = read(tmp_path, START_NS + 30 * SECOND_NS, START_NS + 31 * SECOND_NS)
    assert found.flows.seq.tolist() == [30, 900]


def test_rows_are_held_no_longer_than_told(tmp_path: Path) -> None:
    clock = made.Clock()
    with Store(tmp_path, StoreSettings(hold_s=10), clock) as store:
        assert store.append(made.numbered(0, 2)) == StoreStatus(2, 0, 0, None)
        clock.now_s = 9.9
        assert store.append(made.numbered(2, 2)) == StoreStatus(4, 0, 0, None)
        assert len(read(tmp_path).flows) == 0
        clock.now_s = 10.0
        assert store.append(made.numbered(4, 1)) == StoreStatus(0, 5, 0, None)
        assert len(read(tmp_path).flows) == 5
        clock.now_s = 19.9
        assert store.append(made.numbered(5, 1)).held_rows == 1


def test_rows_are_held_no_more_than_memory_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_HELD_ROWS", 100)
    with Store(tmp_path, StoreSettings(hold_s=1e9)) as store:
        assert store.append(made.numbered(0, 99)).held_rows == 99
        assert store.append(made.numbered(99, 1)) == StoreStatus(0, 100, 0, None)


def test_nothing_appended_writes_nothing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(made.telemetry(exporters=()))
        store.flush()
    assert [file for kind in FOLDERS for file in list_files(tmp_path, kind)] == []


def test_a_reader_beside_a_writer_sees_whole_batches(tmp_path: Path) -> None:
    batches, rows = 40, 500
    done = threading.Event()
    seen: list[list[int]] = []

    def watch() -> None:
        while not done.is_set():
            found = read(tmp_path)
            assert found.errors == ()
            seen.append(found.flows.seq.tolist())

    with Store(tmp_path) as store:
        reader = threading.Thread(target=watch)
        reader.start()
        for nth in range(batches):
            # All of one slice, so that a flush is one file.
            store.append(made.numbered(nth * rows, rows, [START_NS + nth] * rows))
            store.flush()
        done.set()
        reader.join()
    seen.append(read(tmp_path).flows.seq.tolist())
    assert all(found == list(range(len(found))) for found in seen)
    assert all(len(found) % rows == 0 for found in seen)
    assert len(seen[-1]) == batches * rows


WRITER = """
import sys
from pathlib import Path
from collector.store import Store, StoreSettings
from tests.collector.store import made

store = Store(Path(sys.argv[1]), StoreSettings(slice_s=5))
first = int(sys.argv[2])
while True:
    store.append(made.numbered(first, 40))
    first += 40
    store.flush()
    print(first, flush=True)
"""


def test_killed_at_any_moment_the_store_is_readable_and_has_what_was_flushed(
    tmp_path: Path,
) -> None:
    draw = random.Random(11)
    flushed = 0
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(flushed)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for _ in range(draw.randint(1, 12)):
                flushed = int(process.stdout.readline())
            # Somewhere within the flushes that follow.
            threading.Event().wait(draw.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            told = process.stdout.read().splitlines()
            flushed = int(told[-1]) if told else flushed
        found = read(tmp_path)
        assert found.errors == ()
        rows = sorted(found.flows.seq.tolist())
        # What was told as flushed is there, once; of the flush that was cut short, whole files.
        assert rows[:flushed] == list(range(flushed))
        assert len(rows) - flushed <= 40
        flushed = len(rows)
    assert len(list(tmp_path.glob(".writing-*"))) == 1
    Store(tmp_path).close()
    assert list(tmp_path.glob(".writing-*")) == []


def test_a_full_disk_loses_rows_counts_them_and_goes_on(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk: both fail a write in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store(tmp_path) as store:
        store.append(made.numbered(0, 100, [START_NS] * 100))
        assert store.flush() == StoreStatus(0, 100, 0, None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
        try:
            store.append(made.numbered(100, 100, [START_NS] * 100))
            status = store.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (status.held_rows, status.stored_rows, status.lost_rows) == (0, 100, 100)
        assert status.error is not None
        assert status.error.startswith(f"{tmp_path}/")
        assert "File too large" in status.error
        store.append(made.numbered(200, 100, [START_NS] * 100))
        assert store.flush() == StoreStatus(0, 200, 100, None)
    found = read(tmp_path)
    assert found.errors == ()
    assert found.flows.seq.tolist() == [*range(100), *range(200, 300)]
    assert list(tmp_path.glob(".writing-*")) == []


@pytest.mark.parametrize("missing", ["flows", ".writing-*"])
def test_folders_taken_away_are_told(tmp_path: Path, missing: str) -> None:
    with Store(tmp_path) as store:
        (folder,) = tmp_path.glob(missing)
        folder.rename(tmp_path / "away")
        store.append(made.numbered(0, 5))
        status = store.flush()
        assert (status.stored_rows, status.lost_rows) == (0, 5)
        assert status.error is not None
        assert os.strerror(2) in status.error
