"""`ringscope analyze` against captures of a real switch with known answers.

    python bench/real.py

Reads ``$RINGSCOPE_SHARED/real`` (default ``../shared/real``): per folder a capture, an inventory,
`truth.json` and `matrix.json`, the true frame bytes between ranks by the switch's own counters.
Exits with 1 where something misses.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bench.accuracy import AnalysisFailed, InvalidDocument, analyse
from bench.captures import ROOT
from bench.compare import Document, Edge, Verdict, edges_of, relative_error
from bench.score import score

CAPTURES: Final = ("ddp8-ring", "mpi-ring", "dp4-pp2", "iperf-only")
PERIOD_ERROR: Final = 0.005
EDGE_ERROR: Final = 0.02


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was compared: what, how it came out, and whether that is good enough."""

    what: str
    found: str
    right: bool


def shared_folder() -> Path:
    """Where the shared captures are: ``$RINGSCOPE_SHARED``, else beside the project."""
    chosen = os.environ.get("RINGSCOPE_SHARED")
    return Path(chosen) if chosen else ROOT.parent / "shared"


def compare(folder: Path) -> list[Finding]:
    """Analyse the capture in `folder` and compare it with what is known.

    Raises
    ------
    bench.accuracy.AnalysisFailed, bench.accuracy.InvalidDocument
        There is no result to compare.
    """
    pcaps = sorted(folder.glob("capture.pcap*"))
    result, _ = analyse(pcaps, folder / "inventory.toml")
    truth = json.loads((folder / "truth.json").read_text())
    matrix = json.loads((folder / "matrix.json").read_text())
    return findings(truth, result, matrix)


def findings(truth: Document, result: Document, matrix: Mapping[str, float]) -> list[Finding]:
    """Jobs, groups, algorithm, order with direction, period and edge bytes, each by `bench.score`.

    Parameters
    ----------
    matrix : frame bytes over the whole capture by "source>destination".
    """
    s = score(truth, result)
    jobs = f"{s.jobs.exact} of {s.jobs.true} exact, {s.jobs.false} false"
    found = [Finding("jobs", jobs, s.jobs.all_exact)]
    if not truth["jobs"]:
        return found
    groups = f"{s.groups_exact.hits:.0f} of {s.groups_exact.of:.0f} exact"
    exact = s.groups_exact.value == 1.0 and not s.groups_invented
    found.append(Finding("groups", f"{groups}, {s.groups_invented} invented", exact))
    for what, judged in (("algorithm", s.algorithms), ("order", s.rings), ("stages", s.chains)):
        right = sum(j.verdict is Verdict.RIGHT for j in judged)
        if judged:
            found.append(Finding(what, f"{right} of {len(judged)} right", right == len(judged)))
    found.append(_directions(truth, result))
    for period in s.periods:
        off = "not said" if period.error is None else f"{period.error:.3%} off"
        within = period.error is not None and period.error <= PERIOD_ERROR
        found.append(Finding("period", off, within))
    found.append(_edge_bytes(truth, result, matrix))
    return found


def _directions(truth: Document, result: Document) -> Finding:
    true, said = _group_edges(truth), _group_edges(result)
    text = f"{len(true & said)} of {len(true)} as the data flows, {len(said - true)} invented"
    return Finding("edges", text, true == said)


def _edge_bytes(truth: Document, result: Document, matrix: Mapping[str, float]) -> Finding:
    said = {
        (edge["src"], edge["dst"]): edge["wire_bytes"]
        for job in result["jobs"]
        for edge in job.get("edges") or ()
    }
    errors = [
        relative_error(said.get((src, dst)), matrix[f"{src}>{dst}"])
        for src, dst in sorted(_group_edges(truth))
    ]
    known = [error for error in errors if error is not None]
    text = f"{len(known)} of {len(errors)} said"
    if known:
        text += f", worst {max(known):.2%} off"
    right = len(known) == len(errors) and max(known) <= EDGE_ERROR
    return Finding("edge bytes", text, right)


def _group_edges(document: Document) -> set[Edge]:
    return {e for job in document["jobs"] for group in job["groups"] for e in edges_of(group)}


def main(argv: Sequence[str] | None = None) -> int:
    """Compare all captures, or those named; the exit code."""
    names = list(sys.argv[1:] if argv is None else argv) or list(CAPTURES)
    table = Table("capture", "what", "found", "", box=MARKDOWN)
    right = True
    for name in names:
        folder = shared_folder() / "real" / name
        if not folder.is_dir():
            print(f"no such folder: {folder} (set RINGSCOPE_SHARED)", file=sys.stderr)
            return 2
        try:
            found = compare(folder)
        except (AnalysisFailed, InvalidDocument) as error:
            found = [Finding("analysis", str(error), False)]
        for finding in found:
            mark = "ok" if finding.right else "MISSED"
            table.add_row(name, finding.what, finding.found, mark)
            right &= finding.right
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
