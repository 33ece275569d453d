"""What ringscope says of a run, compared with its truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np

from bench.accuracy import analyse
from bench.compare import Document
from bench.real import Finding, findings
from bench.score import score

ENOUGH_SAMPLES: Final = 50  # of an edge, from which on everything has to be right
BOUNDARY_ERROR: Final = 0.05  # of the period, the median after one constant offset


def judge(folder: Path) -> list[Finding]:
    """Analyse the capture in `folder` and compare it with what is known.

    Raises
    ------
    bench.accuracy.AnalysisFailed, bench.accuracy.InvalidDocument
        There is no result to compare.
    """
    result, _ = analyse([folder / "capture.pcap"], folder / "inventory.toml")
    (folder / "result.json").write_text(json.dumps(result, indent=1))
    truth = json.loads((folder / "truth.json").read_text())
    matrix = json.loads((folder / "matrix.json").read_text())
    return [*findings(truth, result, matrix), *_boundaries(truth, result)]


def _boundaries(truth: Document, result: Document) -> list[Finding]:
    out = []
    for found in score(truth, result).boundaries:
        # Iterations at either end of a run are cut by it, and are no errors.
        aligned = [error for error in found.aligned if error < 1.0]
        if not aligned:
            out.append(Finding("boundaries", "none said", False))
            continue
        error = float(np.median(aligned))
        text = (
            f"{error:.2%} off (offset {found.offset_s * 1e3:+.0f} ms), "
            f"{found.missed} missed, {found.invented} invented"
        )
        out.append(Finding("boundaries", text, error <= BOUNDARY_ERROR))
    return out


def weakest_edge(folder: Path) -> int:
    """Samples of the edge of the truth that has fewest."""
    truth = json.loads((folder / "truth.json").read_text())
    result = json.loads((folder / "result.json").read_text())
    samples = {
        (edge["src"], edge["dst"]): edge["samples"]
        for job in result["jobs"]
        for edge in job.get("edges") or ()
    }
    true = [tuple(e) for job in truth["jobs"] for g in job["groups"] for e in g["edges"]]
    return min((samples.get(edge, 0) for edge in true), default=0)
