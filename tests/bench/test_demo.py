from __future__ import annotations

import copy
from typing import Any

import pytest

from api.contract import to_contract
from bench.compare import Verdict
from bench.demo import compare, missed
from tests.api import made

Document = dict[str, Any]


@pytest.fixture
def result() -> Document:
    return to_contract(made.analysis(made.job(anomalies=())), made.telemetry())


@pytest.fixture
def truth(result: Document) -> Document:
    """The same job, with the sizes that the result leaves open."""
    document = copy.deepcopy(result)
    document["jobs"][0]["parallelism"].update(dp=4, tp=2)
    return document


def test_agreement(truth: Document, result: Document) -> None:
    lines = list(compare(truth, result))
    verdicts = {line.what: line.verdict for line in lines}
    assert verdicts == {
        "job job-1": Verdict.RIGHT,
        "job-1 dp": Verdict.IN_CANDIDATES,
        "job-1 tp": Verdict.IN_CANDIDATES,
        "job-1 pp": Verdict.RIGHT,
        "job-1 cp": Verdict.RIGHT,
        "job-1 ep": Verdict.RIGHT,
        "job-1 dp ring ×2": Verdict.RIGHT,
        "job-1 period": Verdict.RIGHT,
        "job-1 dp-0 bytes (of 2 groups the furthest off)": Verdict.RIGHT,
    }
    (ring,) = [line for line in lines if "ring" in line.what]
    assert ring.true == "gpu-001 → gpu-003 → gpu-002 → gpu-004"
    assert missed(truth, result, "rich") == []


def test_reversed_ring_and_wrong_numbers_are_marked(truth: Document, result: Document) -> None:
    group = truth["jobs"][0]["groups"][0]
    group["members"].reverse()
    group["edges"] = [edge[::-1] for edge in group["edges"]]
    channel = group["algorithms"][0]["channels"][0]
    channel["order"] = group["members"]
    channel["edges"] = group["edges"]
    truth["jobs"][0]["period_s"] = 1.01
    group["bytes_per_iteration"] = 2e9
    lines = list(compare(truth, result))
    rings = [line.verdict for line in lines if line.what == "job-1 dp ring"]
    assert rings == [Verdict.REVERSED, Verdict.RIGHT]
    verdicts = {line.what: line.verdict for line in lines}
    assert verdicts["job-1 period"] is Verdict.WRONG
    assert verdicts["job-1 dp-0 bytes (of 2 groups the furthest off)"] is Verdict.WRONG
    assert missed(truth, result, "rich")


def test_missed_and_invented_jobs_are_shown(truth: Document, result: Document) -> None:
    nothing = {**result, "jobs": []}
    (line,) = compare(truth, nothing)
    assert (line.said, line.verdict) == ("none", Verdict.MISSING)
    (line,) = compare(nothing, result)
    assert (line.true, line.verdict) == ("none", Verdict.WRONG)
    assert missed(truth, nothing, "rich")


def test_no_job_where_there_is_none(result: Document) -> None:
    nothing = {**result, "jobs": []}
    (line,) = compare(nothing, nothing)
    assert line.verdict is Verdict.RIGHT
    assert missed(nothing, nothing, "rich") == []
