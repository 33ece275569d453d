from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api.cli import analyze as command
from api.cli.app import Format
from api.cli.exit import TRACEBACK
from api.contract import validate
from api.errors import NothingToAnalyze
from collector.errors import InventoryError
from collector.schema import DecodeError
from tests.api import made

STDOUT = Path("-")
BROKEN = (DecodeError("10.255.0.1", "a.pcap", 1234, "unknown version 9", 2),)


@pytest.fixture
def analyzer(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[DecodeError, ...]], None]:
    """Replaces the analysis by a job made by hand, with the errors given."""

    def use(errors: tuple[DecodeError, ...]) -> None:
        answer = made.analysis(made.job()), made.telemetry(errors)
        monkeypatch.setattr(command, "analyze", lambda *_: answer)

    return use


def _run(output: Path = STDOUT, chosen: Format | None = None, strict: bool = False) -> int:
    return command.run([Path("a.pcap")], None, output, chosen, strict=strict)


@pytest.mark.parametrize(
    ("errors", "strict", "code"),
    [((), False, 0), ((), True, 0), (BROKEN, False, 0), (BROKEN, True, 1)],
)
def test_exit_code(
    analyzer: Callable[[tuple[DecodeError, ...]], None],
    capsys: pytest.CaptureFixture[str],
    errors: tuple[DecodeError, ...],
    strict: bool,
    code: int,
) -> None:
    analyzer(errors)
    assert _run(strict=strict) == code
    said = capsys.readouterr()
    validate(json.loads(said.out), strict=True)  # written in every one of these cases
    expected = "ringscope: a.pcap: offset 1234: exporter 10.255.0.1: unknown version 9 (2 times)\n"
    assert said.err == (expected if errors else "")


def test_many_errors_do_not_flood_the_terminal(
    analyzer: Callable[[tuple[DecodeError, ...]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    analyzer(tuple(DecodeError(None, None, n, "bad") for n in range(500)))
    _run()
    assert len(capsys.readouterr().err.splitlines()) == 11


@pytest.mark.parametrize(
    "error",
    [
        NothingToAnalyze("a.pcap: no telemetry datagrams found"),
        InventoryError(Path("i.toml"), "hosts[1].nics[0]", "10.0.0.1 stands twice"),
    ],
)
def test_nothing_done(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: Exception,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(command, "analyze", fail)
    assert _run(tmp_path / "out.json") == 2
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == f"ringscope: {error}\n"


@pytest.mark.parametrize(
    ("name", "chosen", "starts"),
    [
        ("r.json", None, "{"),
        ("r.html", None, "<!doctype html>"),
        ("r.txt", None, "ringscope  1 job"),
        ("r", None, "{"),
        ("r.json", Format.TEXT, "ringscope  1 job"),
    ],
)
def test_format_follows_the_option_then_the_suffix(
    analyzer: Callable[[tuple[DecodeError, ...]], None],
    tmp_path: Path,
    name: str,
    chosen: Format | None,
    starts: str,
) -> None:
    analyzer(())
    assert _run(tmp_path / name, chosen) == 0
    assert (tmp_path / name).read_text().startswith(starts)


def test_output_replaces_whole_files_and_leaves_nothing_beside(
    analyzer: Callable[[tuple[DecodeError, ...]], None], tmp_path: Path
) -> None:
    analyzer(())
    output = tmp_path / "r.json"
    output.write_text("old")
    assert _run(output) == 0
    validate(json.loads(output.read_text()), strict=True)
    assert list(tmp_path.iterdir()) == [output]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(output.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("place", ["missing/r.json", "folder"])
def test_output_that_cannot_be_written(
    analyzer: Callable[[tuple[DecodeError, ...]], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    place: str,
) -> None:
    analyzer(())
    (tmp_path / "folder").mkdir()
    assert _run(tmp_path / place) == 2
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]
    assert capsys.readouterr().err.startswith(f"ringscope: {tmp_path / place}: ")


def test_output_to_what_is_no_file_is_written_to_it(
    analyzer: Callable[[tuple[DecodeError, ...]], None], tmp_path: Path
) -> None:
    analyzer(())
    pipe, target, link = tmp_path / "pipe", tmp_path / "target.json", tmp_path / "link.json"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as reader:
        read = reader.submit(pipe.read_text, encoding="utf-8")
        assert _run(pipe) == 0
    validate(json.loads(read.result()), strict=True)
    assert pipe.is_fifo()
    target.touch()
    link.symlink_to(target)
    assert _run(link) == 0
    assert link.is_symlink()
    validate(json.loads(target.read_text()), strict=True)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError("Unable to allocate 9 TiB"), "not enough memory for these captures: Unable"),
        (ZeroDivisionError("by 0"), "internal error: ZeroDivisionError: by 0 (test_analyze.py:"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_a_fault_of_our_own_is_one_line_and_not_done(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    says: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.delenv(TRACEBACK, raising=False)
    monkeypatch.setattr(command, "analyze", fail)
    assert _run() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ringscope: {says}")
    assert said.count("\n") == 1


def test_a_fault_of_our_own_shows_itself_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setenv(TRACEBACK, "1")
    monkeypatch.setattr(command, "analyze", fail)
    with pytest.raises(ZeroDivisionError):
        _run()
