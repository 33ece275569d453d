from __future__ import annotations

import pytest

from collector import notes
from collector.notes import MOST_OF_ONE, Notes
from collector.schema import ExporterNote


def note(time_ns: int, kind: str = "restarted", count: int = 1) -> ExporterNote:
    return ExporterNote(time_ns, kind, f"at {time_ns}", count)


def test_what_comes_again_counts_and_is_the_newest() -> None:
    held = Notes()
    held.add(3, None, note(1))
    held.add(3, None, note(2, "moved"))
    held.add(3, "other", note(3))
    held.add(3, None, note(9, count=2))
    assert held.of(3) == (note(2, "moved"), note(3), note(9, count=3))
    assert held.of(4) == ()


def test_the_oldest_of_one_exporter_go() -> None:
    held = Notes()
    for n in range(MOST_OF_ONE + 5):
        held.add(0, n, note(n))
    assert [n.time_ns for n in held.of(0)] == list(range(5, MOST_OF_ONE + 5))


def test_all_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "MOST", 6)
    held = Notes()
    for n in range(10):
        held.add(n, None, note(n))
    assert sum(len(held.of(n)) for n in range(10)) == 6
    held.add(0, None, note(20))
    assert held.of(0) == (note(20, count=2),)
