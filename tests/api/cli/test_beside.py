from __future__ import annotations

import copy
from typing import Any

import pytest

from api.cli.beside import Line, Passage, Verdict, agree, compare
from api.cli.times import time_ns
from api.contract import rfc3339, to_contract
from tests.api import made

Document = dict[str, Any]
STRAIGHT = Passage(made.START_NS, made.START_NS)
TREES = (
    {"10.0.0.1": "10.0.0.2", "10.0.0.3": "10.0.0.2", "10.0.0.4": "10.0.0.3"},
    {"10.0.0.2": "10.0.0.3", "10.0.0.4": "10.0.0.3", "10.0.0.1": "10.0.0.4"},
)


def document(**changes: object) -> Document:
    return to_contract(made.analysis(made.job(anomalies=(), **changes)), made.telemetry())


@pytest.fixture
def result() -> Document:
    return document()


@pytest.fixture
def truth(result: Document) -> Document:
    """The same job, with the sizes that the result leaves open."""
    whole = copy.deepcopy(result)
    whole["jobs"][0]["parallelism"].update(dp=4, tp=2)
    return whole


def verdicts(lines: list[Line]) -> dict[str, Verdict]:
    return {line.what: line.verdict for line in lines}


def wrong(truth: Document, result: Document) -> list[str]:
    """What differs; the whole comparison differs exactly where something does."""
    lines = compare(truth, result, STRAIGHT)
    found = [line.what for line in lines if line.verdict is Verdict.WRONG]
    assert agree(lines) == (not found)
    return found


def test_agreement(truth: Document, result: Document) -> None:
    lines = compare(truth, result, STRAIGHT)
    assert lines == [
        Line("job-1", "4 hosts, 8 endpoints", "4 hosts, 8 endpoints, as job-1", Verdict.RIGHT),
        Line(
            "job-1 sizes",
            "dp 4 tp 2 pp 1 cp 1 ep 1",
            "dp ? tp ? pp 1 cp 1 ep 1, the truth is among 2 candidates",
            Verdict.RIGHT,
        ),
        Line(
            "job-1 dp ring ×2",
            "gpu-001 → gpu-003 → gpu-002 → gpu-004",
            "gpu-001 → gpu-003 → gpu-002 → gpu-004",
            Verdict.RIGHT,
        ),
        Line(
            "job-1 bytes (of 2 groups the furthest off)",
            "1.23 GB",
            "1.23 GB (0.00% off)",
            Verdict.RIGHT,
        ),
        Line("job-1 period", "1 s", "1 s (0.000% off)", Verdict.RIGHT),
        Line(
            "job-1 iterations",
            "6 complete",
            "6 complete, 6 of 6 ends found, 0 ms off",
            Verdict.RIGHT,
        ),
    ]
    assert agree(lines)


def test_a_job_with_other_endpoints(truth: Document, result: Document) -> None:
    result["jobs"][0]["endpoints"].pop()
    assert wrong(truth, result) == ["job-1"]


def test_a_job_that_was_missed_and_one_that_was_invented(truth: Document, result: Document) -> None:
    nothing = {**result, "jobs": []}
    assert wrong(truth, nothing) == ["job-1"]
    assert wrong(nothing, result) == ["job-1 of the result"]
    assert wrong(nothing, nothing) == []
    twice = {**result, "jobs": [*result["jobs"], {**result["jobs"][0], "id": "job-7"}]}
    assert wrong(truth, twice) == ["job-7 of the result"]


def test_the_job_with_most_of_the_endpoints_answers(truth: Document, result: Document) -> None:
    part = {**result["jobs"][0], "id": "job-0", "endpoints": ["10.0.0.1"]}
    result["jobs"].insert(0, part)
    assert wrong(truth, result) == ["job-0 of the result"]


def test_sizes(truth: Document, result: Document) -> None:
    said = result["jobs"][0]["parallelism"]
    said["candidates"] = [{"dp": 8, "tp": 1}]
    lines = verdicts(compare(truth, result, STRAIGHT))
    assert lines["job-1 sizes"] is Verdict.OPEN
    said["pp"] = 2
    assert wrong(truth, result) == ["job-1 sizes"]


def test_a_ring_the_other_way_round_or_in_another_order(truth: Document, result: Document) -> None:
    group = result["jobs"][0]["groups"][0]
    group["members"].reverse()
    group["edges"] = [edge[::-1] for edge in group["edges"]]
    assert wrong(truth, result) == ["job-1 dp ring"]
    order = [group["members"][nth] for nth in (0, 2, 1, 3)]
    group["members"] = order
    group["edges"] = [[src, dst] for src, dst in zip(order, order[1:] + order[:1], strict=True)]
    assert wrong(truth, result) == ["job-1 dp ring"]


def test_a_ring_may_be_told_from_any_of_its_members(truth: Document, result: Document) -> None:
    group = result["jobs"][0]["groups"][0]
    group["members"] = group["members"][2:] + group["members"][:2]
    assert wrong(truth, result) == []


@pytest.mark.parametrize("member", ["kind", "algorithm"])
def test_kind_and_algorithm(truth: Document, result: Document, member: str) -> None:
    group = result["jobs"][0]["groups"][0]
    group[member] = "unknown"
    lines = compare(truth, result, STRAIGHT)
    assert agree(lines)
    assert verdicts(lines)["job-1 dp ring"] is not Verdict.WRONG
    assert Verdict.OPEN in {line.verdict for line in lines}
    group[member] = {"kind": "ep", "algorithm": "tree"}[member]
    assert "job-1 dp ring" in wrong(truth, result)


def test_a_group_that_was_missed_and_one_that_was_invented(
    truth: Document, result: Document
) -> None:
    gone = truth["jobs"][0]["groups"].pop()
    assert wrong(truth, result) == ["job-1 dp ring"]
    truth["jobs"][0]["groups"].append(gone)
    result["jobs"][0]["groups"].pop()
    assert wrong(truth, result) == ["job-1 dp ring"]


def test_a_chain_from_its_last_stage() -> None:
    right = document(groups=(made.chain_group([0, 2, 1, 3], 0),))
    assert wrong(right, document(groups=(made.chain_group([0, 2, 1, 3], 0),))) == []
    assert wrong(right, document(groups=(made.chain_group([3, 1, 2, 0], 0),))) == ["job-1 pp chain"]


def test_a_tree_by_its_edges() -> None:
    members = tuple(made.address(host, 0) for host in range(4))
    right = document(groups=(made.tree_group(TREES, members),))
    # The same edges, told of with other roots, draw the same traffic.
    assert wrong(right, document(groups=(made.tree_group(TREES[::-1], members),))) == []
    assert wrong(right, document(groups=(made.tree_group(TREES[:1], members),))) == [
        "job-1 dp tree"
    ]


def test_numbers(truth: Document, result: Document) -> None:
    truth["jobs"][0]["period_s"] = 1.01
    truth["jobs"][0]["groups"][0]["bytes_per_iteration"] = 2e9
    assert wrong(truth, result) == [
        "job-1 bytes (of 2 groups the furthest off)",
        "job-1 period",
    ]
    result["jobs"][0]["period_s"] = None
    for group in result["jobs"][0]["groups"]:
        group["bytes_per_iteration"] = None
    lines = compare(truth, result, STRAIGHT)
    assert agree(lines)
    assert [line.what for line in lines if line.verdict is Verdict.OPEN] == [
        "job-1 bytes (of 2 groups the furthest off)",
        "job-1 period",
    ]


def test_ends_of_iterations(truth: Document, result: Document) -> None:
    steps = result["jobs"][0]["iterations"]
    whole = copy.deepcopy(steps)
    end_ns = time_ns(whole[3]["end"])
    steps[3]["end"] = rfc3339(end_ns + 19_000_000)
    assert wrong(truth, result) == []
    steps[3]["end"] = rfc3339(end_ns + 21_000_000)
    assert wrong(truth, result) == ["job-1 iterations"]
    steps[:] = [*whole[:3], *whole[4:]]
    assert wrong(truth, result) == ["job-1 iterations"]
    # The first and the last may be missing: the capture shows little of what parts them.
    steps[:] = whole[2:-1]
    assert wrong(truth, result) == []
    steps[:] = whole[:1]
    assert wrong(truth, result) == ["job-1 iterations"]
    steps[:] = [*whole, {**whole[3], "end": rfc3339(end_ns + 500_000_000)}]
    assert wrong(truth, result) == ["job-1 iterations"]


def test_the_iteration_that_the_capture_cut_off_has_an_end_too(
    truth: Document, result: Document
) -> None:
    first = result["jobs"][0]["iterations"][0]
    assert not first["complete"]
    first["complete"] = True
    assert wrong(truth, result) == []
    first["end"] = rfc3339(time_ns(first["end"]) - 100_000_000)
    assert wrong(truth, result) == ["job-1 iterations"]


def test_what_ends_behind_the_capture_is_not_judged(truth: Document, result: Document) -> None:
    until_ns = time_ns(truth["window"]["end"])
    step = result["jobs"][0]["iterations"][-1]
    result["jobs"][0]["iterations"].append({**step, "end": rfc3339(until_ns + 1)})
    assert wrong(truth, result) == []
    result["jobs"][0]["iterations"][-1]["end"] = rfc3339(until_ns - 1)
    assert wrong(truth, result) == ["job-1 iterations"]


def test_a_replay_at_another_time_and_speed(truth: Document, result: Document) -> None:
    start_ns, later_ns = made.START_NS, made.START_NS + 77 * made.SECOND_NS
    job = result["jobs"][0]
    job["period_s"] /= 2
    for step in job["iterations"]:
        step["end"] = rfc3339(later_ns + (time_ns(step["end"]) - start_ns) // 2)
    assert agree(compare(truth, result, Passage(start_ns, later_ns, 2.0)))
    step = job["iterations"][3]
    step["end"] = rfc3339(time_ns(step["end"]) + 19_000_000)  # 3.8 % of this shorter period
    assert agree(compare(truth, result, Passage(start_ns, later_ns, 2.0)))
    lines = compare(truth, result, Passage(start_ns, later_ns))
    assert {line.what for line in lines if line.verdict is Verdict.WRONG} == {
        "job-1 period",
        "job-1 iterations",
    }
