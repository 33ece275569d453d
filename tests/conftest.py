"""Fixtures shared by all tests, and the rule that under RINGSCOPE_REQUIRE=all a skip fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from api.cli.kernels import find_place

if TYPE_CHECKING:
    from bench.captures import Capture

find_place()  # before anything compiled is imported
# Run in the background of a shell, tests would inherit that interrupts are ignored, and hang.
signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parents[1]
# The first call of a kernel compiles it, and the machine may be busy: no test is held to a clock.
settings.register_profile("ringscope", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ringscope")

REQUIRE_ALL = os.environ.get("RINGSCOPE_REQUIRE") == "all"


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
def capture() -> Callable[..., Capture]:
    """Makes labelled captures: `capture(scenario, seed=1, level="rich")`, or takes them from the
    cache that the benchmarks use too.
    """
    # A suite of its own (tests/house) uses this file without the project around it.
    from bench.captures import capture as cached

    def make(scenario: str, seed: int = 1, level: str = "rich") -> Capture:
        return cached(scenario, seed, level)

    return make


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
