"""Real programs over a real switch, and what `ringscope analyze` makes of them, by program.

    python bench/testbed.py [CASE...] [--seed N] [--keep FOLDER]

Needs root, Open vSwitch, OpenMPI and more (see CONTRIBUTING.md); `make testbed` runs all cases.
Exits with 1 where something misses although every edge had samples enough. What rests on the length
of steps is not held against ringscope where the program's own clocks say that they were uneven.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bench.accuracy import AnalysisFailed, InvalidDocument
from bench.real import Finding
from tests.testbed.cases import BY_NAME
from tests.testbed.judging import ENOUGH_SAMPLES, STEPS, judge, steady, weakest_edge
from tests.testbed.rooms import inside
from tests.testbed.shell import CommandFailed

CASE_S: Final = 300.0


def outcome(case: str, seed: int, folder: Path) -> list[tuple[Finding, str]]:
    """Run a case and compare: each finding with its mark, "MISSED" where ringscope is wrong."""
    try:
        inside([case, str(seed), str(folder)], seconds=CASE_S)
        found = judge(folder)
    except (CommandFailed, AnalysisFailed, InvalidDocument) as error:
        return [(Finding("run", str(error), False), "MISSED")]
    weakest, even = weakest_edge(folder), steady(json.loads((folder / "truth.json").read_text()))
    excuse = dict.fromkeys(() if even else STEPS, "uneven steps")
    if weakest and weakest < ENOUGH_SAMPLES:
        excuse |= dict.fromkeys((finding.what for finding in found), "few samples")
    if weakest:
        found.append(Finding("samples", f"{weakest} of the weakest edge", True))
    return [(one, "ok" if one.right else excuse.get(one.what, "MISSED")) for one in found]


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cases, or those named; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", nargs="*", metavar="CASE", choices=[*BY_NAME, []])
    parser.add_argument("--seed", type=int, default=1, help="places ranks on hosts")
    parser.add_argument("--keep", type=Path, help="folder for captures, truths and results")
    asked = parser.parse_args(argv)
    table = Table("program", "what", "found", "", box=MARKDOWN)
    right = True
    with tempfile.TemporaryDirectory(prefix="ringscope-testbed-") as scratch:
        for case in asked.cases or list(BY_NAME):
            folder = (asked.keep or Path(scratch)) / f"{case}-{asked.seed}"
            folder.mkdir(parents=True)
            for finding, mark in outcome(case, asked.seed, folder):
                table.add_row(case, finding.what, finding.found, mark)
                right &= mark != "MISSED"
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
