from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store.files import Workplace, all_files, list_files
from tests.collector.store.made import FOLDERS


def _publish(place: Workplace, first_ns: int, last_ns: int) -> None:
    place.partial().write_bytes(b"rows")
    place.publish("flows", first_ns, last_ns, place.new_group(), 0)


def test_files_are_listed_by_time_then_as_written(tmp_path: Path) -> None:
    place = Workplace.open(tmp_path, FOLDERS)
    for span in ((5, 6), (-(2**63), 2**63 - 1), (5, 9), (-3, 0)):
        _publish(place, *span)
    place.close()
    listed = list_files(tmp_path, "flows")
    assert [(file.first_ns, file.last_ns, file.group) for file in listed] == [
        (-(2**63), 2**63 - 1, 1),
        (-3, 0, 3),
        (5, 6, 0),
        (5, 9, 2),
    ]
    assert {file.path.read_bytes() for file in listed} == {b"rows"}


def test_a_merged_file_stands_for_the_parts_of_its_group_and_no_others(tmp_path: Path) -> None:
    mine, other = (Workplace.open(tmp_path, ("flows", "bins")) for _ in range(2))
    for place, kind, group, part in (
        (mine, "flows", 3, 0),
        (mine, "flows", 3, 11),
        (mine, "flows", 4, 0),
        (mine, "flows", 33, 0),
        (other, "flows", 3, 0),
        (mine, "bins", 3, 0),
    ):
        place.partial().touch()
        place.publish(kind, 5, 6, group, part)
    before = list_files(tmp_path, "flows")
    assert len(before) == 5
    mine.partial().touch()
    path = mine.publish("flows", 5, 6, 3, None)
    listed = list_files(tmp_path, "flows")
    assert [(file.writer == before[0].writer, file.group, file.part) for file in listed] == [
        (True, 3, None),
        (True, 4, 0),
        (True, 33, 0),
        (False, 3, 0),
    ]
    assert listed[0].path == path
    assert len(all_files(tmp_path, "flows")) == 6
    assert len(list_files(tmp_path, "bins")) == 1
    mine.close()
    other.close()


def test_what_is_not_ours_is_not_listed(tmp_path: Path) -> None:
    Workplace.open(tmp_path, FOLDERS).close()
    for name in ("notes.txt", "1_2_x_0.parquet", "1_2.parquet", ".1_2_0123456789abcdef01234567_0"):
        (tmp_path / "flows" / name).touch()
    assert list_files(tmp_path, "flows") == []
    assert list_files(tmp_path / "missing", "flows") == []


def test_leftovers_of_the_dead_are_removed_and_the_living_are_left(tmp_path: Path) -> None:
    living = Workplace.open(tmp_path, FOLDERS)
    living.partial().write_bytes(b"half a file")
    dead = tmp_path / ".writing-0123456789abcdef01234567"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "3.parquet").write_bytes(b"half")
    without_lock = tmp_path / ".writing-0123456789abcdef01234568"
    without_lock.mkdir()
    Workplace.open(tmp_path, FOLDERS).close()
    assert not dead.exists()
    assert not without_lock.exists()
    living.publish("flows", 1, 2, living.new_group(), 0)
    living.close()
    assert [file.path.read_bytes() for file in list_files(tmp_path, "flows")] == [b"half a file"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FOLDERS)


def test_two_writers_never_take_one_name(tmp_path: Path) -> None:
    places = [Workplace.open(tmp_path, FOLDERS) for _ in range(3)]
    for place in places:
        _publish(place, 1, 2)
        _publish(place, 1, 2)
        place.close()
    assert len(list_files(tmp_path, "flows")) == 6


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StoreError, match=f"^{file}: "):
        Workplace.open(file, FOLDERS)
    (tmp_path / "flows").touch()
    with pytest.raises(StoreError, match=f"^{tmp_path}: "):
        Workplace.open(tmp_path, FOLDERS)


def test_a_folder_without_leave_to_write_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(StoreError, match="Permission denied"):
        Workplace.open(tmp_path, FOLDERS)
