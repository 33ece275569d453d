"""`python -m bench.demo`: a capture, and the command on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import demo
from bench.captures import Capture, CaptureFailed

COMMAND = """
import sys
print(sys.argv[1:])
sys.exit(int(sys.argv[-1]))
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
    """A project whose command says its arguments and exits by the last; captures asked for."""
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "__init__.py").touch()
    (tmp_path / "api" / "__main__.py").write_text(COMMAND)
    monkeypatch.setattr(demo, "ROOT", tmp_path)
    found: list[tuple[str, int, str]] = []

    def capture(scenario: str, seed: int, level: str) -> Capture:
        found.append((scenario, seed, level))
        if seed < 0:
            raise CaptureFailed("the seed is negative")
        return Capture(scenario, seed, level, tmp_path / "made")

    monkeypatch.setattr(demo, "capture", capture)
    return found


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_command_gets_the_capture_and_says_the_exit_code(
    asked: list[tuple[str, int, str]], tmp_path: Path, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    options = ["dp_tree", "--seed", "7", "--level", "normal", "--keep", str(code)]
    assert demo.main(options) == code
    assert asked == [("dp_tree", 7, "normal")]
    assert str(["demo", str(tmp_path / "made"), "--keep", str(code)]) in capfd.readouterr().out


def test_without_arguments_it_is_the_demo_fabric(asked: list[tuple[str, int, str]]) -> None:
    # The command's last argument is no exit code: a traceback, which exits with 1.
    assert demo.main([]) == 1
    assert asked == [("demo_fabric", 1, "rich")]


def test_no_capture(asked: list[tuple[str, int, str]], capfd: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--seed", "-1"]) == 2
    assert "no capture: the seed is negative" in capfd.readouterr().err


def test_an_unknown_scenario_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        demo.main(["dp_rings"])
    assert exit_info.value.code == 2
    assert "dp_rings" in capfd.readouterr().err
