"""Real programs over a real switch: what `make testbed` prints for all of them, asserted for some.

What rests on the length of steps is held to the programs' clocks where these say that steps were
alike. On a busy machine they are not, and no test depends on that.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.testbed.gloo import PYTHON
from tests.testbed.judging import ENOUGH_SAMPLES, STEPS, judge, steady, weakest_edge
from tests.testbed.rooms import inside

PROGRAMS = (
    "ovs-vswitchd",
    "mpirun",
    "mpicc",
    "tcpdump",
    "ethtool",
    "tcpreplay",
    "setpriv",
    "unshare",
    "softflowd",
)
SHORT = (
    "mpi-ring",
    "gloo-dp-pp",
    "parameter-server",
    "roce-ring",
    "restarted-exporter",
    "records-softflowd-ring",
)
CASE_S = 300.0  # a case that hangs is ended; they take up to a minute


@pytest.fixture(scope="module", autouse=True)
def _able() -> None:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"needs root and {', '.join(missing) or 'nothing else'}")
    if not PYTHON.exists():
        pytest.skip(f"no torch at {PYTHON} (make testbed-short)")


@pytest.mark.parametrize("case", SHORT)
def test_case(case: str, tmp_path: Path) -> None:
    inside([case, "2", str(tmp_path)], seconds=CASE_S)
    missed = {finding.what: finding.found for finding in judge(tmp_path) if not finding.right}
    truth = json.loads((tmp_path / "truth.json").read_text())
    result = json.loads((tmp_path / "result.json").read_text())
    # A median of forty steps is known to its interval, and that is what is held to.
    missed.pop("period", None)
    if not steady(truth):
        for what in STEPS:
            missed.pop(what, None)
    assert missed == {}
    for true, said in zip(truth["jobs"], result["jobs"], strict=True):
        weakest = weakest_edge(tmp_path)
        assert weakest is None or weakest >= ENOUGH_SAMPLES
        if said["period_s"] is not None:  # else its reason was judged
            low, high = said["period_ci_s"]
            assert low <= true["period_s"] <= high or not steady(truth)
