"""What a command took is that command's, not ours."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.measure import run_measured


def test_peak_memory_is_the_commands_own(tmp_path: Path) -> None:
    ours = bytearray(400_000_000)
    ours[::4096] = b"x" * len(ours[::4096])
    small = run_measured([sys.executable, "-c", "pass"], tmp_path)
    large = run_measured([sys.executable, "-c", "x = b'x' * 200_000_000"], tmp_path)
    assert 0 < small.peak_bytes < 100_000_000
    assert 200_000_000 < large.peak_bytes < 300_000_000


def test_exit_code_errors_and_folder(tmp_path: Path) -> None:
    script = "import os, sys; print(os.getcwd(), file=sys.stderr); print('out'); sys.exit(3)"
    run = run_measured([sys.executable, "-c", script], tmp_path)
    assert (run.code, run.errors) == (3, str(tmp_path))
    assert run.wall_s > 0


def test_a_killed_command_has_failed(tmp_path: Path) -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run_measured([sys.executable, "-c", script], tmp_path).code == 128 + 9
