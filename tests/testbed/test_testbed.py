"""Real programs over a real switch: what `make testbed` prints for all of them, asserted for some.

The period is held to its interval here: turns of a loop on a busy machine differ by a tenth.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.testbed.gloo import PYTHON
from tests.testbed.judging import ENOUGH_SAMPLES, judge, weakest_edge
from tests.testbed.rooms import inside

PROGRAMS = ("ovs-vswitchd", "mpirun", "mpicc", "tcpdump", "ethtool", "iperf3", "unshare")
SHORT = ("mpi-ring", "mpi-double-tree", "gloo-dp-pp", "parameter-server")
CASE_S = 240.0  # a case that hangs is ended; they take some 30 s


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
    missed = [finding for finding in judge(tmp_path) if not finding.right]
    assert [finding for finding in missed if finding.what != "period"] == []
    truth = json.loads((tmp_path / "truth.json").read_text())
    result = json.loads((tmp_path / "result.json").read_text())
    for true, said in zip(truth["jobs"], result["jobs"], strict=True):
        low, high = said["period_ci_s"]
        assert low <= true["period_s"] <= high
        assert weakest_edge(tmp_path) >= ENOUGH_SAMPLES
