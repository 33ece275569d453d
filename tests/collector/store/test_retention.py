from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.errors import StoreError
from collector.schema import DecodeError
from collector.store import Store, StoreSettings, read
from collector.store.files import all_files, list_files
from collector.store.retention import SUPERSEDED_S, remove_old
from tests.collector.store import made
from tests.collector.store.made import FOLDERS, SECOND_NS, START_NS


def _size(directory: Path) -> int:
    return sum(file.path.stat().st_size for kind in FOLDERS for file in list_files(directory, kind))


def test_age_counts_from_the_newest_row(tmp_path: Path) -> None:
    """The rows are of 2026, whatever the machine's clock says."""
    settings = StoreSettings(slice_s=60, keep_age_s=300)
    with Store(tmp_path, settings) as store:
        for minute in range(20):
            store.append(made.numbered(minute * 60, 60))
            store.flush()
    # The newest row is of second 1199: the slice with second 899 is the first that stays.
    assert read(tmp_path).flows.seq.tolist() == list(range(840, 1200))
    assert min(file.last_ns for file in list_files(tmp_path, "reports")) >= (
        START_NS + 899 * SECOND_NS
    )


def test_a_restart_remembers_the_newest_row(tmp_path: Path) -> None:
    settings = StoreSettings(slice_s=60, keep_age_s=300)
    with Store(tmp_path, settings) as store:
        store.append(made.numbered(1000, 1))
    with Store(tmp_path, settings) as store:
        store.append(made.numbered(0, 2))  # too late to be kept
    assert read(tmp_path).flows.seq.tolist() == [1000]


def test_the_oldest_go_where_all_are_too_large(tmp_path: Path) -> None:
    unlimited = tmp_path / "all"
    with Store(unlimited, StoreSettings(keep_age_s=None)) as store:
        store.append(made.numbered(0, 1200))
    limit = _size(unlimited) // 2
    limited = tmp_path / "half"
    with Store(limited, StoreSettings(keep_age_s=None, keep_bytes=limit)) as store:
        for minute in range(20):
            store.append(made.numbered(minute * 60, 60))
            store.flush()
            assert _size(limited) <= limit
    kept = read(limited).flows.seq.tolist()
    assert kept == list(range(1200 - len(kept), 1200))
    assert 300 <= len(kept) <= 600


def test_without_limits_nothing_goes(tmp_path: Path) -> None:
    with Store(tmp_path, StoreSettings(keep_age_s=None)) as store:
        store.append(made.numbered(0, 1))
        store.append(made.numbered(1_000_000, 1))
    assert read(tmp_path).flows.seq.tolist() == [0, 1_000_000]


def test_a_file_that_cannot_be_removed_is_told_and_writing_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = StoreSettings(keep_age_s=60)

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    clock = made.Clock()
    with Store(tmp_path, settings, clock) as store:
        store.append(made.numbered(0, 1))
        store.flush()
        clock.now_s = 60.0
        with monkeypatch.context() as context:
            context.setattr(Path, "unlink", refuse)
            store.append(made.numbered(600, 1))
            status = store.flush()
            with pytest.raises(StoreError, match="not permitted"):
                remove_old(tmp_path, FOLDERS, settings, START_NS + 600 * SECOND_NS)
        assert status.error is not None
        assert status.error.endswith("Operation not permitted")
        assert (status.stored_rows, status.lost_rows) == (2, 0)
        store.append(made.numbered(601, 1))
        assert store.flush().error == status.error  # it is not tried at every flush
        clock.now_s = 120.0
        store.append(made.numbered(602, 1))
        assert store.flush().error is None
    assert read(tmp_path).flows.seq.tolist() == [600, 601, 602]


def test_a_file_that_another_writer_removed_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path, StoreSettings(keep_age_s=None)) as store:
        store.append(made.numbered(0, 600))
    files = list_files(tmp_path, "flows")
    os.unlink(files[0].path)
    monkeypatch.setattr("collector.store.retention.all_files", lambda *_: files)
    newest_ns = START_NS + 599 * SECOND_NS
    remove_old(tmp_path, ("flows",), StoreSettings(keep_age_s=120), newest_ns)
    assert list_files(tmp_path, "flows") == files[-3:]


def test_files_are_looked_for_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    clock = made.Clock()

    def look(*arguments: Any) -> int:
        looked.append(clock.now_s)
        return remove_old(*arguments)

    monkeypatch.setattr("collector.store.shelf.remove_old", look)
    with Store(tmp_path, StoreSettings(keep_bytes=10**9), clock) as store:
        for second in range(0, 200, 10):
            clock.now_s = float(second)
            store.append(made.numbered(second, 1))
            store.flush()
        assert looked == [0, 60, 120, 180]


def test_at_its_limit_a_store_does_not_look_at_every_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0

    def look(*arguments: Any) -> int:
        nonlocal looked
        looked += 1
        return remove_old(*arguments)

    monkeypatch.setattr("collector.store.shelf.remove_old", look)
    limit = 0
    with Store(tmp_path, StoreSettings(keep_age_s=None, keep_bytes=1 << 40)) as store:
        for minute in range(40):
            store.append(made.numbered(minute * 60, 1))
            store.flush()
        limit = _size(tmp_path)
    looked = 0
    settings = StoreSettings(keep_age_s=None, keep_bytes=limit)
    with Store(tmp_path, settings, made.Clock()) as store:
        for minute in range(40, 60):
            store.append(made.numbered(minute * 60, 1))
            store.flush()
            assert _size(tmp_path) <= limit
        assert 4 <= looked <= 12
    assert 35 <= len(read(tmp_path).flows) <= 40


def test_merged_parts_stay_for_those_who_listed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path, StoreSettings(keep_age_s=None), made.Clock()) as store:
        for second in range(0, 60, 10):
            store.append(made.numbered(second, 10))
            store.flush()
        store.append(made.numbered(200, 1))
        store.flush()
    parts = {file.path for file in all_files(tmp_path, "flows") if file.part is not None}
    assert len(parts) == 7
    (merged,) = (file.path for file in list_files(tmp_path, "flows") if file.part is None)
    forget = (tmp_path, ("flows",), StoreSettings(keep_age_s=None), START_NS)
    merged_s = merged.stat().st_mtime
    monkeypatch.setattr("time.time", lambda: merged_s + SUPERSEDED_S - 1)
    assert remove_old(*forget) == sum(f.path.stat().st_size for f in all_files(tmp_path, "flows"))
    assert {file.path for file in all_files(tmp_path, "flows")} == {merged, *parts}
    monkeypatch.setattr("time.time", lambda: merged_s + SUPERSEDED_S)
    assert remove_old(*forget) == sum(f.path.stat().st_size for f in list_files(tmp_path, "flows"))
    assert all_files(tmp_path, "flows") == list_files(tmp_path, "flows")
    assert read(tmp_path).flows.seq.tolist() == [*range(60), 200]


@pytest.mark.parametrize("killed_after", range(8))
def test_parts_go_before_what_stands_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    """Else rows that were forgotten would be back."""
    with Store(tmp_path, StoreSettings(keep_age_s=None)) as store:
        for second in range(6):
            store.append(made.numbered(second, 1, [START_NS + second % 2]))
            store.flush()
    unlink, unlinked = Path.unlink, 0

    def dying(path: Path, missing_ok: bool = False) -> None:
        nonlocal unlinked
        if unlinked == killed_after:
            raise KeyboardInterrupt
        unlinked += 1
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", dying)
    with suppress(KeyboardInterrupt):
        remove_old(tmp_path, ("flows",), StoreSettings(keep_age_s=1), START_NS + 10 * SECOND_NS)
    assert read(tmp_path).flows.seq.tolist() == ([] if unlinked == 7 else list(range(6)))


def test_a_stream_of_garbage_alone_goes_by_age(tmp_path: Path) -> None:
    """Counts and errors of no time: ten minutes are kept, one file each of a minute."""
    clock = made.Clock()
    bad = DecodeError("10.0.0.1", None, None, "not sFlow", 1)
    with Store(tmp_path, StoreSettings(keep_age_s=600), clock) as store:
        for second in range(0, 1800, 20):
            clock.now_s = float(second)
            store.append(made.telemetry(exporters=(), errors=(bad,), nameless=1))
            store.flush()
        for kind in ("reports", "errors"):
            assert 11 <= len(list_files(tmp_path, kind)) <= 18
    found = read(tmp_path)
    assert 30 <= found.datagrams <= 36
    assert found.errors == (replace(bad, count=found.datagrams),)


def test_garbage_after_rows_counts_on_from_them(tmp_path: Path) -> None:
    clock = made.Clock()
    with Store(tmp_path, StoreSettings(), clock) as store:
        store.append(made.numbered(0, 1))
        store.flush()
        clock.now_s = 500.0
        store.append(made.telemetry(exporters=(), nameless=7))
    begin = START_NS + 500 * SECOND_NS
    assert read(tmp_path, begin, begin + 1).datagrams == 7
    assert read(tmp_path, None, begin).datagrams == 0
