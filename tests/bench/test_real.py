"""What `bench.real` demands of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import real
from bench.real import findings
from tests.bench.documents import document, job, ring

Json = dict[str, Any]
MATRIX = {"a>b": 1000.0, "b>c": 1000.0, "c>a": 1000.0, "a>c": 10.0}


def volumes(**wire: float) -> list[Json]:
    return [
        {"src": name[0], "dst": name[1], "bytes": 1.0, "wire_bytes": volume}
        for name, volume in wire.items()
    ]


def missed(said: Json) -> set[str]:
    found = findings(document(job("t", [ring("g", "abc")])), document(said), MATRIX)
    assert {f.what for f in found} == {
        *("jobs", "groups", "algorithm", "order", "edges", "period", "edge bytes")
    }
    return {f.what for f in found if not f.right}


def result(order: str = "abc", **changes: Any) -> Json:
    return job("r", [ring("g", order)], edges=volumes(ab=990.0, bc=1010.0, ca=1019.0)) | changes


def test_right() -> None:
    assert missed(result()) == set()
    assert missed(result("bca")) == set()


def test_direction() -> None:
    edges = volumes(ac=10.0, cb=10.0, ba=10.0)
    assert missed(result("cba", edges=edges)) == {"order", "edges", "edge bytes"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"period_s": 1.0049}, set()),
        ({"period_s": 1.0051}, {"period"}),
        ({"period_s": None}, {"period"}),
        ({"edges": volumes(ab=1000.0, bc=1000.0, ca=1021.0)}, {"edge bytes"}),
        ({"edges": volumes(ab=1000.0, bc=1000.0)}, {"edge bytes"}),
        ({"edges": []}, {"edge bytes"}),
    ],
)
def test_limits(changes: Json, expected: set[str]) -> None:
    assert missed(result(**changes)) == expected


def test_a_group_too_many() -> None:
    said = result()
    said["groups"].append(ring("h", "ab", "pp"))
    assert missed(said) == {"groups", "edges"}


def test_no_job_expected() -> None:
    assert [f.right for f in findings(document(), document(), {})] == [True]
    assert [f.right for f in findings(document(), document(result()), {})] == [False]


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RINGSCOPE_SHARED", str(tmp_path))
    assert real.main(["one"]) == 2
    assert f"no such folder: {tmp_path / 'real' / 'one'}" in capsys.readouterr().err
    (tmp_path / "real" / "one").mkdir(parents=True)
    for right, code, mark in ((True, 0, "ok"), (False, 1, "MISSED")):
        found = [real.Finding("jobs", "1 of 1", right)]
        monkeypatch.setattr(real, "compare", lambda folder, found=found: found)
        assert real.main(["one"]) == code
        row = capsys.readouterr().out.splitlines()[-2].split("|")[1:-1]
        assert [cell.strip() for cell in row] == ["one", "jobs", "1 of 1", mark]
