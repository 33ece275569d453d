from __future__ import annotations

import csv
import io
import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from api.cli.app import RowFormat
from api.cli.query import run
from collector.store import Store
from tests.collector.store import made
from tests.collector.store.made import START_NS

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rows = made.flows([START_NS + 1, START_NS + 2])
    rows.frame_bytes[:] = [1500, 9000]
    with Store(tmp_path) as writer:
        writer.append(made.telemetry(rows))
    return tmp_path


VALUES = (
    "SELECT time, agent, frame_bytes, sum(frame_bytes) OVER () AS total,"
    " CASE WHEN frame_bytes = 1500 THEN 1.5::DECIMAL(4, 2) END AS half, frame_bytes > 2000 AS big,"
    " 'nan'::DOUBLE AS nan, [time] AS list, date_trunc('day', time) AS day,"
    " '2026-11-29 12:00+02'::TIMESTAMPTZ AS zoned, 170141183460469231731687303715884105727 AS huge"
    " FROM flows ORDER BY time"
)


def test_json_has_every_kind_of_value(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(VALUES, store, RowFormat.JSON) == 0
    first, second = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert first == {
        "time": "2026-11-30T12:19:00.000000001Z",
        "agent": "10.255.0.1",
        "frame_bytes": 1500,
        "total": 10500,
        "half": 1.5,
        "big": False,
        "nan": None,
        "list": "['2026-11-30 12:19:00.000000001']",
        "day": "2026-11-30T00:00:00.000000Z",
        "zoned": "2026-11-29T10:00:00.000000Z",
        "huge": 2**127 - 1,
    }
    assert (second["frame_bytes"], second["half"], second["big"]) == (9000, None, True)


def test_csv_has_a_header_and_quotes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT time, 'a \"b\", c' AS text, NULL AS nothing FROM flows ORDER BY time"
    assert run(sql, store, RowFormat.CSV) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["time", "text", "nothing"],
        ["2026-11-30T12:19:00.000000001Z", 'a "b", c', ""],
        ["2026-11-30T12:19:00.000000002Z", 'a "b", c', ""],
    ]


def test_table_is_for_people(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("SELECT agent, frame_bytes FROM flows", store, RowFormat.TABLE) == 0
    said = capsys.readouterr().out
    for text in ("agent", "frame_bytes", "10.255.0.1", "9000"):
        assert text in said
    assert run("SELECT range AS n FROM range(100000)", store, RowFormat.TABLE) == 0
    said = capsys.readouterr().out
    assert "200 shown" in said
    assert len(said.splitlines()) < 250


def test_json_is_the_default_where_nobody_watches(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("SELECT 1 AS one", store, None) == 0
    assert json.loads(capsys.readouterr().out) == [{"one": 1}]


@pytest.mark.parametrize("rows", [0, 1, 10_000, 25_000])
def test_answers_longer_than_a_chunk_are_whole(
    store: Path, capsys: pytest.CaptureFixture[str], rows: int
) -> None:
    sql = f"SELECT range AS n FROM range({rows}) ORDER BY n"
    assert run(sql, store, RowFormat.JSON) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": n} for n in range(rows)]
    assert run(sql, store, RowFormat.CSV) == 0
    assert capsys.readouterr().out.split() == ["n", *map(str, range(rows))]


@pytest.mark.parametrize("chosen", list(RowFormat))
@pytest.mark.parametrize(
    ("sql", "says"),
    [("SELEC", "syntax error"), ("SELECT 'a'::INTEGER", "Could not"), ("SET threads = 9", "one")],
)
def test_bad_sql_is_said_and_not_done(
    store: Path, capsys: pytest.CaptureFixture[str], chosen: RowFormat, sql: str, says: str
) -> None:
    assert run(sql, store, chosen) == 2
    said = capsys.readouterr()
    assert said.err.startswith("ringscope: ")
    assert says in said.err
    assert "internal error" not in said.err


def test_two_columns_of_one_name_fit_in_csv_only(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("SELECT 1 AS a, 2 AS a", store, RowFormat.JSON) == 2
    said = capsys.readouterr()
    assert (said.out, "'a'" in said.err) == ("", True)
    assert run("SELECT 1 AS a, 2 AS a", store, RowFormat.CSV) == 0
    assert capsys.readouterr().out == "a,a\n1,2\n"


def test_floats_keep_their_digits(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("SELECT pi() AS pi", store, RowFormat.JSON) == 0
    assert json.loads(capsys.readouterr().out) == [{"pi": math.pi}]


def test_no_store_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("SELECT 1", tmp_path / "none", RowFormat.JSON) == 2
    assert capsys.readouterr().err.startswith(f"ringscope: {tmp_path / 'none'}: no store")


def test_a_query_without_end_can_be_interrupted(store: Path) -> None:
    pairs = "range(10000000) a, range(10000000) b"
    sql = f"SELECT count(*) AS n FROM {pairs} WHERE (a.range + b.range) % 7 = 9"
    with subprocess.Popen(
        [sys.executable, "-m", "api", "query", sql, "--store", str(store), "--csv"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "n\n"  # comes before the answer is sought
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=120)
        finally:
            process.kill()
    assert (process.returncode, rest, said) == (-signal.SIGINT, "", "")


def test_interrupts_are_as_before_after_a_query(store: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run("SELECT 1 AS a", store, RowFormat.JSON) == 0
    assert run("SELEC", store, RowFormat.JSON) == 2
    assert signal.getsignal(signal.SIGINT) is before
