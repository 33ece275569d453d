from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store import Store, StoreSettings, read
from collector.store.files import KINDS, list_files
from collector.store.retention import remove_old
from tests.collector.store import made
from tests.collector.store.made import SECOND_NS, START_NS


def _size(directory: Path) -> int:
    return sum(file.path.stat().st_size for kind in KINDS for file in list_files(directory, kind))


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

    with Store(tmp_path, settings) as store:
        store.append(made.numbered(0, 1))
        store.flush()
        with monkeypatch.context() as context:
            context.setattr(Path, "unlink", refuse)
            store.append(made.numbered(600, 1))
            status = store.flush()
            with pytest.raises(StoreError, match="not permitted"):
                remove_old(tmp_path, settings, START_NS + 600 * SECOND_NS)
        assert status.error is not None
        assert status.error.endswith("Operation not permitted")
        assert (status.stored_rows, status.lost_rows) == (2, 0)
        store.append(made.numbered(601, 1))
        assert store.flush().error is None
    assert read(tmp_path).flows.seq.tolist() == [600, 601]


def test_a_file_that_another_writer_removed_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path, StoreSettings(keep_age_s=None)) as store:
        store.append(made.numbered(0, 600))
    files = list_files(tmp_path, "flows")
    os.unlink(files[0].path)
    monkeypatch.setattr(
        "collector.store.retention.list_files",
        lambda _, kind: files if kind == "flows" else [],
    )
    newest_ns = START_NS + 599 * SECOND_NS
    remove_old(tmp_path, StoreSettings(keep_age_s=120), newest_ns)
    assert list_files(tmp_path, "flows") == files[-3:]
