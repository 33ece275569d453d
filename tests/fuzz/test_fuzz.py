from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import naive
from tests.collector import seeds
from tests.fuzz.check import check

ROOT = Path(__file__).resolve().parents[2]


def fuzz(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_the_harness_runs_on_seeds_and_damage() -> None:
    run = fuzz("--once", NUMBA_DISABLE_JIT="1")
    assert (run.returncode, run.stderr) == (0, "")
    assert "checked" in run.stdout


def test_compiled_kernels_are_not_fuzzed() -> None:
    run = fuzz("--once", NUMBA_DISABLE_JIT="0")
    assert run.returncode == 2
    assert "NUMBA_DISABLE_JIT=1" in run.stderr


def test_a_disagreement_with_the_twin_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = seeds.datagrams()[0]
    check(data)
    read = naive.decode
    monkeypatch.setattr(naive, "decode", lambda data: read(data) | {"sub_agent": 1})
    with pytest.raises(AssertionError):
        check(data)
