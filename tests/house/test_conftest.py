"""The rule that a skip fails under RINGSCOPE_REQUIRE=all, tried on a suite of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
SUITE = """
import pytest
def test_runs(): pass
def test_skips(): pytest.skip("no captures here")
@pytest.mark.xfail(reason="known")
def test_known_to_fail(): assert False
"""
SKIPPED_MODULE = """
import pytest
pytest.skip("not this module", allow_module_level=True)
"""


@pytest.mark.parametrize(
    ("require", "outcome"),
    [
        ("", {"passed": 1, "skipped": 2, "xfailed": 1}),
        ("all", {"passed": 1, "failed": 1, "error": 1, "xfailed": 1}),
    ],
)
def test_skip_fails_where_all_is_required(
    tmp_path: Path, require: str, outcome: dict[str, int]
) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "test_module.py").write_text(SKIPPED_MODULE)
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--continue-on-collection-errors",
            "-p",
            "no:cacheprovider",
        ],
        cwd=tmp_path,
        env={**os.environ, "RINGSCOPE_REQUIRE": require},
        capture_output=True,
        text=True,
    )
    summary = run.stdout.splitlines()[-1]
    assert {
        name: count for name, count in outcome.items() if f"{count} {name}" in summary
    } == outcome
    assert ("RINGSCOPE_REQUIRE=all, but: Skipped: no captures here" in run.stdout) == bool(require)
