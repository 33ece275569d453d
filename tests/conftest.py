"""Fixtures shared by all tests, and the rule that under RINGSCOPE_REQUIRE=all a skip fails."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
REQUIRE_ALL = os.environ.get("RINGSCOPE_REQUIRE") == "all"


@dataclass(frozen=True, slots=True)
class LabelledCapture:
    """What `python -m fixtures` wrote."""

    folder: Path

    @property
    def pcap(self) -> Path:
        return self.folder / "capture.pcap"

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory.toml"

    @property
    def truth(self) -> Path:
        return self.folder / "truth.json"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared captures; without it the test is skipped."""
    folder = Path(os.environ.get("RINGSCOPE_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no shared captures at {folder} (set RINGSCOPE_SHARED)")
    return folder


@pytest.fixture(scope="session")
def real(shared: Path) -> Path:
    """Captures of a real switch, with truths."""
    return shared / "real"


@pytest.fixture(scope="session")
def capture() -> Callable[..., LabelledCapture]:
    """Makes labelled captures: `capture(scenario, seed=1, level="rich")`.

    They are kept between runs and workers for as long as the sources of `fixtures` stay the same.
    """
    store = Path(tempfile.gettempdir()) / f"ringscope-captures-{os.getuid()}" / _sources_digest()
    store.mkdir(parents=True, exist_ok=True)

    def make(scenario: str, seed: int = 1, level: str = "rich") -> LabelledCapture:
        folder = store / f"{scenario}-{seed}-{level}"
        with (store / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                partial = store / f"{folder.name}.partial"
                shutil.rmtree(partial, ignore_errors=True)
                subprocess.run(
                    [
                        *(sys.executable, "-m", "fixtures", scenario, str(partial)),
                        *("--seed", str(seed), "--level", level),
                    ],
                    cwd=REPOSITORY,
                    check=True,
                )
                partial.rename(folder)
        return LabelledCapture(folder)

    return make


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for source in sorted((REPOSITORY / "fixtures").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    # An xfail is reported as skipped too, but it did run.
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"RINGSCOPE_REQUIRE=all, but: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report
