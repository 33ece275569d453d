"""Run a command and measure what it takes: wall time and peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The peak that Linux reports for a child begins with its parent's at the moment of the fork, so a
# bare interpreter (some 10 MB) stands between this process and the one that is measured.
_BETWEEN: Final = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
with open(int(sys.argv[1]), "w") as report:
    report.write(str(peak))
sys.exit(code if code >= 0 else 128 - code)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What a command took and said; `peak_bytes` is the largest resident set of its process."""

    code: int
    wall_s: float
    peak_bytes: int
    errors: str


def run_measured(command: Sequence[str], folder: Path) -> Run:
    """Run `command` in `folder` to its end; its standard output goes nowhere."""

    read, write = os.pipe()
    begun = time.perf_counter()
    with os.fdopen(read) as report:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _BETWEEN, str(write), *command],
                cwd=folder,
                pass_fds=(write,),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        finally:
            os.close(write)
        wall_s = time.perf_counter() - begun
        peak_kib = report.read()
    return Run(done.returncode, wall_s, int(peak_kib or 0) * 1024, done.stderr.strip())
