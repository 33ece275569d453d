"""What ringscope says of a run, compared with its truth."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bench.accuracy import analyse
from bench.compare import Document
from bench.real import Finding, findings
from bench.score import score
from tests.testbed.clocks import nanoseconds
from tests.testbed.flushing import FRAMES_PCAP, delays
from tests.testbed.recorders import SAMPLERS
from tests.testbed.recordings import by_records, recorder

ENOUGH_SAMPLES: Final = 50  # of an edge, from which on everything has to be right
STEPS: Final = ("period", "boundaries", "live numbers")  # what rests on the length of steps
UNEVEN: Final = 1.2  # of the usual step, which one in twenty may take longer than
HEAVY: Final = 0.05  # of the heaviest edge's bytes: more than acknowledgements and start-up carry
NEAR: Final = 0.3  # of a period: an end that is further away from every true one is none
PAIR: Final = 2
NOTICED_NS: Final = 5_000_000
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
    untold = json.loads((folder / "untold.json").read_text())
    found = [*_truth(truth, matrix), *findings(_as_told(truth, result, untold), result, matrix)]
    found += _boundaries(truth, result)
    if (teller := recorder(folder)) is not None:
        return by_records(teller, truth, result, matrix, found)
    if any(folder.glob(FRAMES_PCAP.format("*"))):
        found.append(_times(folder))
    live = folder / "live.json"
    if live.exists():
        found += judge_service(truth, json.loads(live.read_text()))
    return found


def _as_told(truth: Document, result: Document, untold: Sequence[Sequence[str]]) -> Document:
    """The truth, with what a result says of the kind of groups whose kind the wire does not tell.

    `untold` has the job and the id of each. Where the kind of two members is open, so is what they
    run.
    """
    said = [g for job in result["jobs"] for g in job["groups"]]
    told = copy.deepcopy(dict(truth))
    groups = {(job["id"], g["id"]): g for job in told["jobs"] for g in job["groups"]}
    for group in (groups[job, name] for job, name in untold):
        members, pair = set(group["members"]), len(group["members"]) == PAIR
        for other in said:
            alike = pair or other["algorithm"] == group["algorithm"]
            if set(other["members"]) != members or not alike:
                continue
            group["kind"] = other["kind"]
            if pair and other["kind"] == "unknown":
                group["algorithm"] = other["algorithm"]
                for algorithm in group["algorithms"]:
                    algorithm["algorithm"] = other["algorithm"]
    return told


def _times(folder: Path) -> Finding:
    found = delays(folder)
    middle, late = np.quantile(found.behind_ns / 1e6, (0.5, 0.99))
    text = (
        f"{len(found.behind_ns)} samples {middle:.1f} ms behind (99 %: {late:.0f} ms, at most "
        f"{found.behind_ns.max() / 1e6:.0f} ms); outside their interval {found.outside():.1%}, "
        f"by more than {NOTICED_NS / 1e6:.0f} ms {found.outside(NOTICED_NS):.1%}"
    )
    return Finding("times", text, True)


def judge_service(truth: Document, jobs: Sequence[Document]) -> list[Finding]:
    """What a service concluded in the end, with its numbers of iterations.

    An iteration that was stretched, hidden or killed is one all the same: from the first number
    to the last, each true end has the number after that of the end before.
    """
    endpoints = [set(job["endpoints"]) for job in truth["jobs"]]
    said = [job for job in jobs if set(job["endpoints"]) in endpoints]
    text = f"{len(said)} of {len(endpoints)} exact, {len(jobs) - len(said)} false"
    found = [Finding("live jobs", text, len(said) == len(endpoints) == len(jobs))]
    for job in said:
        true = truth["jobs"][endpoints.index(set(job["endpoints"]))]
        ends = [(i["index"], nanoseconds(i["end"])) for i in job["iterations"] if i["final"]]
        found.append(_numbering(_cuts_ns(true), ends, true["period_s"] * 1e9))
    return found


def _numbering(
    true_ns: Sequence[int], said: Sequence[tuple[int, int]], period_ns: float
) -> Finding:
    if not said:
        return Finding("live numbers", "none said", False)
    number = np.array([index for index, _ in said])
    end = np.array([at for _, at in said])
    true = np.array(true_ns)
    after = np.clip(np.searchsorted(true, end), 1, len(true) - 1)
    nearest = after - (end - true[after - 1] < true[after] - end)
    away = end - true[nearest]
    away -= int(np.median(away))
    told = np.abs(away) <= NEAR * period_ns
    ahead = number[told] - nearest[told]
    slips = [
        f"{step:+d} at {at}"
        for step, at in zip(np.diff(ahead), nearest[told][1:], strict=True)
        if step
    ]
    text = f"{told.sum()} of {len(true)} ends numbered"
    if slips:
        text += f", slips {', '.join(slips)}"
    if not told.all():
        none = zip(number[~told], away[~told] / period_ns, strict=True)
        text += f", {(~told).sum()} ends that are none ("
        text += ", ".join(f"number {index} by {off:+.2f} of a period" for index, off in none) + ")"
    return Finding("live numbers", text, bool(told.all()) and not slips)


def _cuts_ns(job: Document) -> list[int]:
    """All ends of iterations, the first of each run among them."""
    return sorted({nanoseconds(i[side]) for i in job["iterations"] for side in ("start", "end")})


def _truth(truth: Document, matrix: Mapping[str, int]) -> list[Finding]:
    """Whether the edges of the truth are those that carry bytes by the switch's own counters."""
    if not truth["jobs"]:
        return []
    true = {
        f"{src}>{dst}" for job in truth["jobs"] for g in job["groups"] for src, dst in g["edges"]
    }
    heavy = {edge for edge, count in matrix.items() if count > HEAVY * max(matrix.values())}
    text = f"{len(true & heavy)} of {len(true)} edges carry bytes, {len(heavy - true)} others do"
    return [Finding("truth", text, true == heavy)]


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


def steady(truth: Document) -> bool:
    """Whether steps took about as long as each other: what else ran here did not get in the way."""
    spans = [
        nanoseconds(i["end"]) - nanoseconds(i["start"])
        for job in truth["jobs"]
        for i in job["iterations"]
    ]
    return bool(np.quantile(spans, 0.95) <= UNEVEN * np.median(spans)) if spans else True


def weakest_edge(folder: Path) -> int | None:
    """Samples of the edge of the truth that has fewest; None where every packet was counted."""
    if (teller := recorder(folder)) is not None and teller not in SAMPLERS:
        return None
    truth = json.loads((folder / "truth.json").read_text())
    result = json.loads((folder / "result.json").read_text())
    samples = {
        (edge["src"], edge["dst"]): edge["samples"]
        for job in result["jobs"]
        for edge in job.get("edges") or ()
    }
    true = [tuple(e) for job in truth["jobs"] for g in job["groups"] for e in g["edges"]]
    return min((samples.get(edge, 0) for edge in true), default=0)
