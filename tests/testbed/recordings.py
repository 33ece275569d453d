"""What flow records can show of a run: what samples give, less what records hide, and that said."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.compare import Document, Judged, Verdict, edges_of, relative_error
from bench.pairing import pair_documents
from bench.real import EDGE_ERROR, Finding
from bench.score import CONFIDENT, score
from tests.testbed.recorders import RECORDER, SAMPLERS

SIGMAS: Final = 4.0  # of chance, where some packets were counted for all
STEPS: Final = ("period", "boundaries")
# Two that send to each other draw a ring, a tree and two stages: when they do tells which.
OPEN: Final = frozenset({Verdict.RIGHT, Verdict.ABSTAINED})


def recorder(folder: Path) -> str | None:
    """What told of flows in the case that is in `folder`; None = the switch sampled packets."""
    told = folder / RECORDER
    return json.loads(told.read_text())["recorder"] if told.exists() else None


def by_records(
    teller: str,
    truth: Document,
    result: Document,
    matrix: Mapping[str, int],
    found: Sequence[Finding],
) -> list[Finding]:
    """Findings of a run that `teller` told of, from those that samples would be held to.

    Jobs, groups, rings and edges have to be right as they are from samples. What pairs do, and all
    of steps, may be unknown, with a reason for the latter; what is said has to be right. Bytes are
    held to what chance leaves of them. And nothing false may be said with confidence.
    """
    scores = score(truth, result)
    judged = {"algorithm": scores.algorithms, "stages": scores.chains}
    left = [one for one in found if one.what not in (*STEPS, *judged, "groups", "edge bytes")]
    told = result["telemetry"]["flow_records"]
    left.append(Finding("records", f"{told} told", told > 0))
    if truth["jobs"]:
        left.append(_groups(truth, result))
    left += [_open(what, verdicts) for what, verdicts in judged.items() if verdicts]
    pairs, _ = pair_documents(truth, result)
    said = [(pair.true, pair.said) for pair in pairs if pair.said is not None]
    if all(job["period_s"] is None for _, job in said):
        left += [_unknown(job) for _, job in said]
    else:
        left += [one for one in found if one.what in STEPS]
    if said:
        left.append(_edge_bytes(truth, result, matrix, by_chance=teller in SAMPLERS))
    # Of a loop over MPI the truth knows no sizes; what it leaves open is no measure.
    sure = [c for c in scores.claims if c.confidence >= CONFIDENT and c.true != str(None)]
    false = [c for c in sure if not c.right]
    text = "; ".join(f"{c.what} of {c.subject}: {c.said}, is {c.true}" for c in false)
    return [*left, Finding("claims", text or "none false with 0.9 or more", not false)]


def _groups(truth: Document, result: Document) -> Finding:
    """Groups by members and edges; of what kind they are may be unknown."""
    true, said = ({_drawn(g): g["kind"] for g in _groups_of(d)} for d in (truth, result))
    exact = sum(said.get(drawn) == kind for drawn, kind in true.items())
    unknown = sum(said.get(drawn) == "unknown" != kind for drawn, kind in true.items())
    text = f"{exact} of {len(true)} exact" + (f", {unknown} of unknown kind" if unknown else "")
    text += f", {len(said.keys() - true.keys())} invented"
    return Finding("groups", text, said.keys() == true.keys() and exact + unknown == len(true))


def _drawn(group: Document) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    return frozenset(group["members"]), frozenset(edges_of(group))


def _groups_of(document: Document) -> list[Document]:
    """All groups of all jobs."""
    return [group for job in document["jobs"] for group in job["groups"]]


def _open(what: str, judged: Sequence[Judged]) -> Finding:
    right = sum(one.verdict is Verdict.RIGHT for one in judged)
    unknown = sum(one.verdict is Verdict.ABSTAINED for one in judged)
    text = f"{right} of {len(judged)} right" + (f", {unknown} unknown" if unknown else "")
    return Finding(what, text, all(one.verdict in OPEN for one in judged))


def _unknown(job: Document) -> Finding:
    """What is said of steps that records hide."""
    reason = job["evidence"]["period"]["basis"]
    return Finding("steps", reason, reason.startswith("unknown: ") and not job["iterations"])


def _edge_bytes(
    truth: Document, result: Document, matrix: Mapping[str, int], *, by_chance: bool
) -> Finding:
    edges = {edge for group in _groups_of(truth) for edge in edges_of(group)}
    said = {
        (edge["src"], edge["dst"]): edge
        for job in result["jobs"]
        for edge in job.get("edges") or ()
        if (edge["src"], edge["dst"]) in edges
    }
    worst, right = 0.0, len(said) == len(edges)
    for (src, dst), edge in said.items():
        off = relative_error(edge["wire_bytes"], matrix[f"{src}>{dst}"]) or 0.0
        chance = SIGMAS / math.sqrt(edge["samples"]) if by_chance else 0.0
        worst, right = max(worst, off), right and off <= max(EDGE_ERROR, chance)
    text = f"{len(said)} of {len(edges)} said, worst {worst:.2%} off"
    return Finding("edge bytes", text, right)
