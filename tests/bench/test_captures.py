"""The cache of captures: made once, and again whenever the generator changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import captures
from bench.captures import CaptureFailed, capture, drop_old, fingerprint

GENERATOR = """
import sys, pathlib
folder = pathlib.Path(sys.argv[2])
if sys.argv[1] == "broken":
    sys.exit("nothing of that name")
folder.mkdir()
for name in ("capture.pcap", "inventory.toml", "truth.json"):
    (folder / name).write_text(" ".join(sys.argv[3:]))
with open("made.txt", "a") as log:
    log.write(sys.argv[1] + "\\n")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose generator only writes its arguments, and an empty cache."""
    package = tmp_path / "project" / "fixtures"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(GENERATOR)
    monkeypatch.setattr(captures, "ROOT", package.parent)
    monkeypatch.setattr(captures, "fingerprint", lambda: fingerprint(package))
    monkeypatch.setenv("RINGSCOPE_CACHE", str(tmp_path / "cache"))
    return package.parent


def times_made(project: Path) -> int:
    return len((project / "made.txt").read_text().splitlines())


def test_made_once_per_arguments(project: Path) -> None:
    first = capture("dp_ring", 3, "rich")
    assert first.truth.read_text() == "--seed 3 --level rich --flow-records"
    assert capture("dp_ring", 3, "rich") == first
    assert times_made(project) == 1
    assert capture("dp_ring", 4, "rich").folder != first.folder
    assert times_made(project) == 2


def test_a_changed_source_makes_it_again(project: Path) -> None:
    before = capture("dp_ring", 1, "rich").folder
    (project / "fixtures" / "more.py").write_text("x = 1\n")
    assert capture("dp_ring", 1, "rich").folder != before
    assert times_made(project) == 2


def test_a_failure_says_why_and_leaves_nothing(project: Path) -> None:
    with pytest.raises(CaptureFailed, match=r"broken --seed 1 --level rich: nothing of that name"):
        capture("broken", 1, "rich")
    assert list(captures.cache_folder().glob("*/*")) == []


def test_fingerprint_follows_names_and_contents(tmp_path: Path) -> None:
    seen = {fingerprint(tmp_path)}
    (tmp_path / "a.py").write_text("1")
    seen.add(fingerprint(tmp_path))
    (tmp_path / "a.py").write_text("2")
    seen.add(fingerprint(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    seen.add(fingerprint(tmp_path))
    (tmp_path / "notes.txt").write_text("not a source")
    seen.add(fingerprint(tmp_path))
    assert len(seen) == 4


def test_old_captures_go_but_not_the_current_ones(tmp_path: Path) -> None:
    for name in ("current", "stale", "fresh"):
        (tmp_path / name / "capture").mkdir(parents=True)
    for name in ("current", "stale"):
        os.utime(tmp_path / name, (0, 0))
    drop_old(tmp_path, tmp_path / "current")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "fresh"]


def test_default_cache_is_per_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RINGSCOPE_CACHE", raising=False)
    assert captures.cache_folder().name == f"ringscope-{os.getuid()}"
