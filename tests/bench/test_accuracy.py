"""The accuracy command: arguments, exit codes, and what it prints, on a stand-in for analyze."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from bench import accuracy
from bench.accuracy import (
    LEVELS,
    SCENARIOS,
    InvalidDocument,
    arguments,
    check,
    main,
    seed_range,
)
from bench.baselines.documents import SFLOW_RT
from bench.captures import Capture, CaptureFailed
from bench.measure import Run
from fixtures.scenarios import SCENARIOS as EVERY
from tests.bench.documents import document, job, ring

Json = dict[str, Any]
RUN = Run(0, 12.5, 300_000_000, "")


def truth_of(scenario: str, seed: int, level: str) -> Json:
    truth = document(
        job("t", [ring("g", "abcd")]),
        scenario=scenario,
        seed=seed,
        level=level,
        observable={"jobs": {"t": {"samples_per_iteration": 200.0}}},
        export={"timestamps": True},
    )
    for one in truth["jobs"]:
        del one["evidence"]
        for group in one["groups"]:
            del group["evidence"]
    return truth


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Json:
    """What every analysis answers; a test changes it in place before it calls main()."""
    answer = document(job("r", [ring("g", "abcd")]))
    candidates = [{"dp": 4, "tp": 1}, {"dp": 8, "tp": 1}]
    answer["jobs"][0]["parallelism"]["candidates"] = candidates

    def capture(scenario: str, seed: int, level: str, thinned: int) -> Capture:
        if scenario == "broken":
            raise CaptureFailed("broken --seed 1: no such scenario")
        folder = tmp_path / f"{scenario}-{seed}-{thinned}"
        folder.mkdir(exist_ok=True)
        (folder / "truth.json").write_text(json.dumps(truth_of(scenario, seed, level)))
        return Capture(scenario, seed, level, folder)

    monkeypatch.setattr(accuracy, "capture", capture)

    def baselines(made: Capture, thinned: int) -> dict[str, Json]:
        half = document(job("h", [ring("g", "ab")], iterations=[], period_s=None))
        return {"Half": half, SFLOW_RT: {"period_s": 1.5}}

    monkeypatch.setattr(accuracy, "baselines", baselines)
    monkeypatch.setattr(accuracy, "analyse", lambda pcaps, inventory: (answer, RUN))
    return answer


@pytest.mark.parametrize(("text", "seeds"), [("1-3", [1, 2, 3]), ("7", [7]), ("1,5-6", [1, 5, 6])])
def test_seeds(text: str, seeds: list[int]) -> None:
    assert seed_range(text) == seeds


@pytest.mark.parametrize("text", ["", "x", "3-1", "1-", "-1"])
def test_no_seeds(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="as in 1-3"):
        seed_range(text)


@pytest.mark.parametrize("argv", [["--jobs", "0"], ["--thin", "0"], ["--level", "poor"]])
def test_bad_arguments(argv: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        arguments(argv)


def test_right_results_pass(said: Json, capsys: pytest.CaptureFixture[str]) -> None:
    assert said["jobs"]
    assert main(["--scenarios", "dp_ring,dp_tree", "--seeds", "1-2", "--jobs", "2"]) == 0
    printed = capsys.readouterr()
    rows = [line.split("|")[1:-1] for line in printed.out.splitlines() if line.startswith("| dp_")]
    (header,) = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in printed.out.splitlines()
        if "groups F1" in line
    ]
    named = [(row[0].strip(), row[1].strip()) for row in rows]
    assert named == [("dp_ring", "1"), ("dp_ring", "2"), ("dp_tree", "1"), ("dp_tree", "2")]
    assert dict(zip(header[2:], (cell.strip() for cell in rows[0][2:]), strict=True)) == {
        "jobs": "1 / 1",
        "sizes": "5 / 5",
        "candidates": "1 / 2",
        "roles": "100.0 %",
        "groups F1": "1.000",
        "algorithm": "1 / 1",
        "ring order": "1 / 1",
        "stages": "-",
        "tree edges": "-",
        "parents": "-",
        "bytes err": "0.00 %",
        "period err": "0.000 %",
        "boundary err": "0.00 / 0.00 %",
        "aligned": "0.00 / 0.00 %",
        "wrong >= 0.9": "0",
        "right >= 0.9": "100 %",
        "wall s": "12.5",
        "MB": "300",
    }
    assert "passed (4 captures)" in printed.out
    assert printed.err == ""


def test_a_missed_threshold_fails_rich_only(said: Json, capsys: pytest.CaptureFixture[str]) -> None:
    said["jobs"][0]["period_s"] = 1.002
    assert main(["--scenarios", "dp_ring", "--seeds", "5"]) == 1
    printed = capsys.readouterr().out
    assert "| period within 0.1%" in printed
    assert "t: 0.200% off" in printed
    for argv in (["--level", "normal"], ["--level", "starved"], ["--thin", "10"]):
        assert main(["--scenarios", "dp_ring", "--seeds", "5", *argv]) == 0


@pytest.mark.parametrize("level", ["rich", "normal", "starved"])
def test_a_confident_error_fails_every_level(
    said: Json, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said["jobs"][0]["groups"][0]["collective"] = "broadcast"
    assert main(["--scenarios", "dp_ring", "--seeds", "6", "--level", level]) == 1
    printed = capsys.readouterr().out
    assert "collective of r g: said broadcast at 0.95, true all_reduce" in printed


def test_errors_short_of_confident_are_listed(
    said: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    group = said["jobs"][0]["groups"][0]
    group["collective"] = "broadcast"
    group["evidence"] = {"collective": {"confidence": 0.85}}
    assert main(["--scenarios", "dp_ring", "--seeds", "6"]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if "broadcast" in line]
    assert [cell.strip() for cell in listed[0].split("|")[1:-1]] == [
        *("dp_ring", "6", "collective", "r g", "broadcast", "all_reduce", "0.850"),
    ]


def test_a_capture_that_cannot_be_made_fails(
    said: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said["jobs"]
    assert main(["--scenarios", "dp_ring,broken", "--seeds", "1", "--level", "starved"]) == 1
    assert "broken --seed 1: no such scenario" in capsys.readouterr().out


def test_json(said: Json, tmp_path: Path) -> None:
    assert said["jobs"]
    target = tmp_path / "scores.json"
    main(["--scenarios", "dp_ring", "--seeds", "1", "--json", str(target)])
    (outcome,) = json.loads(target.read_text())
    assert outcome["capture"] == ["dp_ring", 1]
    assert outcome["run"]["wall_s"] == 12.5
    assert outcome["score"]["role"] == {"hits": 400.0, "of": 400.0}
    assert outcome["score"]["rings"][0]["verdict"] == "right"


def test_each_part_has_its_own_usual_captures() -> None:
    usual = arguments([])
    assert (usual.levels, usual.scenarios.split(",")) == (["rich"], list(SCENARIOS))
    for part in ("structure", "time"):
        whole = arguments(["--part", part])
        assert (whole.levels, whole.scenarios.split(",")) == (list(LEVELS), list(EVERY))
    one = arguments(["--part", "all", "--level", "normal", "--scenarios", "jitter"])
    assert (one.levels, one.scenarios) == (["normal"], "jitter")


def cells_of(printed: str, first: str) -> list[list[str]]:
    """The other cells of each line of a table that begins with `first`."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
    return [cells[1:] for cells in lines if cells[:1] == [first]]


def test_structure_is_held_to_limits_over_all_captures(
    said: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said["jobs"]
    argv = ["--part", "structure", "--scenarios", "dp_ring,jitter", "--seeds", "1"]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert cells_of(printed, "role, by share of bytes") == [
        ["100 %", "99 %", "100 %", "97 %", "100 %", "reported"]
    ]
    assert cells_of(printed, "sizes right or unknown") == [
        ["100 %", "reported", "100 %", "reported", "100 %", "100 %"]
    ]
    assert "Side by side" not in printed
    assert "passed (6 captures)" in printed


def test_what_is_not_said_falls_short_where_samples_are_dense(
    said: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    said["jobs"][0]["groups"][0]["kind"] = "unknown"
    argv = ["--part", "structure", "--scenarios", "dp_ring,broken", "--seeds", "1"]
    assert main([*argv, "--level", "normal"]) == 1
    printed = capsys.readouterr().out
    assert cells_of(printed, "role, by share of bytes") == [
        ["dp_ring", "1", "normal: 0 %"],
        ["0 % (short)", "97 %"],
    ]
    assert "normal: broken --seed 1: no such scenario" in printed
    assert main([*argv[:3], "dp_ring", *argv[4:], "--level", "starved"]) == 0


def test_times_beside_baselines(said: Json, capsys: pytest.CaptureFixture[str]) -> None:
    assert said["jobs"]
    argv = ["--part", "time", "--scenarios", "dp_ring", "--seeds", "1-2"]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
    rows = [cells for cells in lines if cells[:1] == ["dp_ring"]]
    assert rows[:3] == [
        ["dp_ring", "ringscope", "2 / 2", *["0.000 %"] * 3, "8", "0", "0", "0"],
        ["dp_ring", "Half", "0 / 2", "missing", "-", "-", "8", "0", "0", "8"],
        ["dp_ring", "sFlow-RT", "-", "50.000 %", *["-"] * 6],
    ]
    assert len(rows) == 3 * len(LEVELS)
    (exact,) = [cells for cells in lines if cells[:1] == ["jobs exact"]]
    assert exact == ["jobs exact", "100 %", "100 %", "100 %", "99 %", "100 %", "95 %"]
    assert "right >= 0.9" not in printed
    assert "passed (6 captures)" in printed


def test_what_falls_short_is_named(said: Json, capsys: pytest.CaptureFixture[str]) -> None:
    said["jobs"][0]["period_s"] = 1.002
    argv = ["--part", "time", "--scenarios", "dp_ring", "--seeds", "5"]
    assert main([*argv, "--level", "starved"]) == 0
    assert main([*argv, "--level", "normal"]) == 1
    printed = capsys.readouterr().out
    assert "normal: 0.2 %" in printed
    assert "0.2 % (short)" in printed


def test_both_parts(said: Json, capsys: pytest.CaptureFixture[str]) -> None:
    assert said["jobs"]
    assert main(["--part", "all", "--scenarios", "dp_ring", "--seeds", "1", "--level", "rich"]) == 0
    printed = capsys.readouterr().out
    assert "right >= 0.9" in printed
    assert "Side by side, rich" in printed


def test_a_capture_that_cannot_be_made_fails_the_times(
    said: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said["jobs"]
    argv = ["--part", "time", "--scenarios", "dp_ring,broken", "--seeds", "1", "--level", "rich"]
    assert main(argv) == 1
    assert "rich: broken --seed 1: no such scenario" in capsys.readouterr().out


def test_documents_are_checked_against_the_schema() -> None:
    truth = truth_of("dp_ring", 1, "rich")
    check(truth, "document")
    with pytest.raises(InvalidDocument, match=r"not a valid result: \$"):
        check(truth, "result")
    truth["jobs"][0]["groups"][0]["kind"] = "pipeline"
    with pytest.raises(InvalidDocument, match=r"\$\.jobs\[0\]\.groups\[0\]\.kind: 'pipeline'"):
        check(truth, "document")
