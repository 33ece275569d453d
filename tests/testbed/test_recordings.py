"""What flow records are held to, on results made by hand."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bench.compare import Document, edges_of
from bench.real import Finding, findings
from tests.testbed import truth
from tests.testbed.cases import DP_PP
from tests.testbed.hosts import place
from tests.testbed.recordings import by_records
from tests.testbed.test_truth import START_NS, S, clocks

REASON = "unknown: flow records last up to 1 s, which hides steps shorter than 2 s"


def true() -> Document:
    job = truth.job("job-0", DP_PP, place(8, 8, 1), [clocks(8)])
    return truth.window(START_NS, START_NS + 9 * S, [job])


def said() -> dict[str, Any]:
    """All that records of the true job can show."""
    result: dict[str, Any] = copy.deepcopy(dict(true()))
    result["telemetry"] = {"flow_records": 900}
    (job,) = result["jobs"]
    job |= {"period_s": None, "iterations": [], "evidence": {"period": {"basis": REASON}}}
    job |= {"confidence": 0.8, "parallelism": dict.fromkeys(job["parallelism"])}
    job["edges"] = [
        {"src": src, "dst": dst, "wire_bytes": 1000, "samples": 100}
        for group in job["groups"]
        for src, dst in sorted(edges_of(group))
    ]
    for group in job["groups"]:
        group["confidence"] = 0.8
        if group["kind"] == "pp":
            group |= {"kind": "unknown", "algorithm": "unknown", "collective": "unknown"}
            group["algorithms"] = []
    return result


def judged(result: Document, teller: str = "softflowd") -> dict[str, Finding]:
    groups = true()["jobs"][0]["groups"]
    bytes_of = {f"{src}>{dst}": 1000 for group in groups for src, dst in edges_of(group)}
    found = findings(true(), result, bytes_of)
    return {one.what: one for one in by_records(teller, true(), result, bytes_of, found)}


def test_what_records_hide_may_be_unknown_where_that_is_said() -> None:
    found = judged(said())
    assert {what for what, one in found.items() if not one.right} == set()
    assert found["groups"].found == "2 of 6 exact, 4 of unknown kind, 0 invented"
    assert found["algorithm"].found == "2 of 6 right, 4 unknown"
    assert found["steps"].found == REASON
    assert found["edge bytes"].found == "16 of 16 said, worst 0.00% off"


@pytest.mark.parametrize(
    ("what", "path", "value"),
    [
        ("jobs", ("endpoints",), ["10.99.0.1"]),
        ("groups", ("groups", 0, "kind"), "tp"),
        ("groups", ("groups", 3, "kind"), "dp"),
        ("algorithm", ("groups", 3, "algorithm"), "tree"),
        ("steps", ("evidence", "period", "basis"), "signal repeats"),
        ("steps", ("iterations",), true()["jobs"][0]["iterations"]),
        ("period", ("period_s",), 2.0),
        ("edge bytes", ("edges", 0, "wire_bytes"), 1030),
        ("edge bytes", ("edges",), []),
        ("claims", ("parallelism",), {"dp": 8, "cp": 1, "confidence": 0.95}),
    ],
)
def test_what_is_said_has_to_be_right(what: str, path: tuple[Any, ...], value: Any) -> None:
    result = said()
    place_of = result["jobs"][0]
    for step in path[:-1]:
        place_of = place_of[step]
    place_of[path[-1]] = value
    assert not judged(result)[what].right


def test_what_the_truth_leaves_open_is_not_false() -> None:
    result = said()
    result["jobs"][0]["parallelism"] = {"cp": 1, "dp": 4, "confidence": 0.95}
    assert judged(result)["claims"].right


def test_no_records_are_no_proof() -> None:
    result = said()
    result["telemetry"]["flow_records"] = 0
    assert not judged(result)["records"].right


def test_sampled_bytes_are_held_to_chance() -> None:
    result = said()
    result["jobs"][0]["edges"][0]["wire_bytes"] = 1390  # four sigmas of 100 samples are 40 %
    assert judged(result, "switch")["edge bytes"].right
    result["jobs"][0]["edges"][0]["wire_bytes"] = 1410
    assert not judged(result, "switch")["edge bytes"].right
