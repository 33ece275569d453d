from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.contract import rfc3339, schema, to_contract, validate
from api.errors import ContractViolation
from collector.schema import DecodeError
from tests.api import made

Document = dict[str, Any]


@pytest.fixture
def result() -> Document:
    errors = (DecodeError("10.255.0.1", "a.pcap", 24, "sample runs past the datagram", 3),)
    return to_contract(made.analysis(made.job()), made.telemetry(errors))


def test_schema_is_valid_itself() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_packaged_schema_is_the_documented_one() -> None:
    documented = Path(__file__).parents[2] / "docs" / "schema" / "result.schema.json"
    assert json.loads(documented.read_text()) == schema()


def test_result_fits_both_strictnesses_and_survives_json(result: Document) -> None:
    parsed = json.loads(json.dumps(result, allow_nan=False))
    assert parsed == result
    validate(parsed)
    validate(parsed, strict=True)


def test_result_says_what_analysis_said(result: Document) -> None:
    assert result["window"]["start"] == "2026-11-30T12:19:00.449747801Z"
    assert result["telemetry"]["decode_errors"] == 3
    assert result["telemetry"]["errors"] == [
        {
            "exporter": "10.255.0.1",
            "file": "a.pcap",
            "offset": 24,
            "reason": "sample runs past the datagram",
            "count": 3,
        }
    ]
    assert result["telemetry"]["roce"] == {"opcodes": {"0x06": 2, "0x0a": 1}, "queue_pairs": 3}
    assert result["telemetry"]["exporters"][0]["time_basis"] == "exporter"
    (job,) = result["jobs"]
    assert job["parallelism"]["dp"] is None
    assert job["parallelism"]["candidates"] == [{"dp": 4, "tp": 2}, {"dp": 8}]
    assert job["groups"][0]["members"] == ["10.0.0.1", "10.0.0.3", "10.0.0.2", "10.0.0.4"]
    assert job["groups"][0]["edges"][-1] == ["10.0.0.4", "10.0.0.1"]
    assert job["groups"][0]["bytes_per_iteration"] == 1_234_000_000
    assert job["iterations"][1]["duration_s"] == 1.0
    assert job["iterations"][0]["bytes"] is None
    assert job["anomalies"][0]["subjects"] == [{"type": "job", "id": "job-1"}]
    assert result["unassigned"]["by_class"]["storage"] == 1_400_000


def test_tree_parents_are_kept() -> None:
    members = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    tree = made.tree_group([{members[1]: members[0], members[2]: members[0]}], members)
    document = to_contract(made.analysis(made.job(groups=(tree,))), made.telemetry())
    validate(document, strict=True)
    channel = document["jobs"][0]["groups"][0]["algorithms"][0]["channels"][0]
    assert channel["parent"] == {"10.0.0.2": "10.0.0.1", "10.0.0.3": "10.0.0.1"}
    assert channel["order"] is None


def test_empty_window_fits() -> None:
    validate(to_contract(made.analysis(), made.telemetry()), strict=True)


def _set(*path: str | int, value: object) -> Callable[[Document], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_set("schema_version", value=2), "$.schema_version"),
        (_set("surprise", value=1), "$"),
        (_set("window", "start", value="2026-11-30T12:19:00Z"), "$.window.start"),
        (_set("window", "end", value="2026-11-30T12:19:00.449747801+01:00"), "$.window.end"),
        (_set("jobs", 0, "colour", value="red"), "$.jobs[0]"),
        (_set("jobs", 0, "status", value="busy"), "$.jobs[0].status"),
        (_set("jobs", 0, "period_s", value=0), "$.jobs[0].period_s"),
        (_set("jobs", 0, "confidence", value=1.2), "$.jobs[0].confidence"),
        (_set("jobs", 0, "parallelism", "dp", value=0), "$.jobs[0].parallelism.dp"),
        (_set("jobs", 0, "parallelism", "sp", value=2), "$.jobs[0].parallelism"),
        (_set("jobs", 0, "groups", 0, "kind", value="fsdp"), "$.jobs[0].groups[0].kind"),
        (_set("jobs", 0, "groups", 0, "algorithm", value="nvls"), "$.jobs[0].groups[0].algorithm"),
        (
            _set("jobs", 0, "groups", 0, "edges", 0, value=["10.0.0.1"]),
            "$.jobs[0].groups[0].edges[0]",
        ),
        (_set("jobs", 0, "anomalies", 0, "kind", value="odd"), "$.jobs[0].anomalies[0].kind"),
        (_set("telemetry", "datagrams", value=-1), "$.telemetry.datagrams"),
        (_set("telemetry", "roce", "opcodes", value={"6": 1}), "$.telemetry.roce.opcodes"),
        (_set("unassigned", "by_class", value={"web": 1}), "$.unassigned.by_class"),
    ],
)
def test_violation_is_named(
    result: Document, change: Callable[[Document], None], where: str
) -> None:
    change(result)
    for strict in (False, True):
        with pytest.raises(ContractViolation) as caught:
            validate(result, strict=strict)
        assert caught.value.where == where
        assert str(caught.value).startswith(f"{where}: ")


@pytest.mark.parametrize(
    "change",
    [
        _set("scenario", value="dp_ring"),
        _set("seed", value=1),
        _set("level", value="rich"),
        _set("observable", value={}),
        _set("jobs", 0, "framework", value="gloo"),
        _set("jobs", 0, "iterations", 0, "comm_start", value="2026-11-30T12:19:00.449747801Z"),
        _set("jobs", 0, "edges", 0, "bytes_per_iteration", value=7.5),
    ],
)
def test_truth_may_say_more_than_a_result(
    result: Document, change: Callable[[Document], None]
) -> None:
    change(result)
    validate(result)
    with pytest.raises(ContractViolation):
        validate(result, strict=True)


def test_result_must_say_everything(result: Document) -> None:
    """Every member that `to_contract` writes is asked for, unless the root asks for it already."""
    optional = {"flow_samples", "counter_samples", "datagrams", "decode_errors"}  # of an exporter
    for path in _members(result):
        pruned = copy.deepcopy(result)
        holder: Any = pruned
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        if path[-1] in optional and "exporters" in path:
            continue
        with pytest.raises(ContractViolation):
            validate(pruned, strict=True)


def _members(document: Document) -> list[tuple[str | int, ...]]:
    """Paths of all members whose names the contract fixes, lists by their first item."""
    free = {
        "evidence",
        "basis",
        "coordinates",
        "phases",
        "by_class",
        "opcodes",
        "candidates",
        "hints",
    }
    found: list[tuple[str | int, ...]] = []

    def walk(value: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                found.append((*path, name))
                if name not in free:
                    walk(inner, (*path, name))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            walk(value[0], (*path, 0))

    walk(document, ())
    return found


@given(st.integers(0, 2**62))
def test_times_keep_every_nanosecond(time_ns: int) -> None:
    text = rfc3339(time_ns)
    seconds = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
    assert int(seconds.timestamp()) * 10**9 + int(text[20:29]) == time_ns
    assert len(text) == 30


def test_truths_of_real_captures_fit(real: Path) -> None:
    truths = sorted(real.glob("*/truth.json"))
    assert len(truths) == 4
    for path in truths:
        validate(json.loads(path.read_text()))
