from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.cli.check_config import run
from api.settings.model import names

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in os.environ:
        if variable.upper().startswith("RINGSCOPE_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def written(text: str, name: str = "s.toml") -> Path:
    Path(name).write_text(text)
    return Path(name)


def test_lines_tell_each_value_and_its_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written('[store]\ndirectory = "/data"\n[http]\nlisten = ""\n')
    monkeypatch.setenv("RINGSCOPE_LISTEN__ALLOW", "10.0.0.0/8,fd00::/8")
    monkeypatch.setenv("RINGSCOPE_ANALYSIS__LATENESS_S", "0.5")
    assert run(path, as_json=False) == 0
    said = capsys.readouterr()
    assert said.err == ""
    rows = [line.split(maxsplit=1) for line in said.out.splitlines()]
    told = {key: rest.split("  ", 1) for key, rest in rows}
    assert {key: (value, source.strip()) for key, (value, source) in told.items()} == {
        "listen.udp": ("[::]:6343", "default"),
        "listen.tcp": ("-", "default"),
        "listen.allow": ("10.0.0.0/8, fd00::/8", "RINGSCOPE_LISTEN__ALLOW"),
        "listen.receive_buffer_bytes": ("67108864", "default"),
        "listen.workers": ("1", "default"),
        "store.directory": ("/data", "s.toml:2"),
        "store.hold_s": ("10", "default"),
        "store.keep_age_s": ("86400", "default"),
        "store.keep_bytes": ("-", "default"),
        "store.bins_keep_age_s": ("2592000", "default"),
        "store.bins_keep_bytes": ("-", "default"),
        "analysis.window_s": ("600", "default"),
        "analysis.window_rows": ("4000000", "default"),
        "analysis.lateness_s": ("0.5", "RINGSCOPE_ANALYSIS__LATENESS_S"),
        "analysis.tick_s": ("1", "default"),
        "analysis.inventory": ("-", "default"),
        "results.url": ("sqlite:////data/results.sqlite", "default"),
        "results.keep_age_s": ("7776000", "default"),
        "http.listen": ("-", "s.toml:4"),
        "reports.every_s": ("0", "default"),
        "reports.directory": ("/data/job-reports", "default"),
        "reports.keep": ("100", "default"),
        "log.format": ("text", "default"),
        "log.level": ("info", "default"),
    }


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = written('[store]\ndirectory = "/data"\n[listen]\nallow = ["10.0.0.0/8"]\n')
    monkeypatch.setenv("RINGSCOPE_STORE__KEEP_BYTES", "5")
    assert run(path, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == [f"{section}.{name}" for section in names() for name in names()[section]]
    variable = "RINGSCOPE_STORE__KEEP_BYTES"
    assert told["store.keep_bytes"] == {"value": 5, "source": "environment", "where": variable}
    assert told["listen.allow"] == {"value": ["10.0.0.0/8"], "source": "file", "where": "s.toml:4"}
    assert told["listen.udp"] == {"value": "[::]:6343", "source": "default", "where": None}
    assert told["analysis.inventory"] == {"value": None, "source": "default", "where": None}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ringscope:pa55@db/name",
        "postgresql://u:pa%405@db/name",
        "postgresql://u@db/name?password=pa55&sslmode=require",
        "postgresql://u@db/name?sslpassword=pa55&passfile=pa55",
        "mysql+pymysql://u:pa55@db/name?ssl_key_password=pa55",
    ],
)
def test_secrets_are_hidden(url: str, as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(f'[store]\ndirectory = "/data"\n[results]\nurl = "{url}"\n')
    assert run(path, as_json=as_json) == 0
    said = capsys.readouterr().out
    assert "@db/name" in said
    assert ("pa55" in said, "pa%405" in said, "pa@5" in said) == (False, False, False)
    assert ("sslmode=require" in said) == ("sslmode" in url)


@pytest.mark.parametrize("as_json", [False, True])
def test_every_fault_is_a_line(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    path = written('[store]\ndirectory = "d"\nhold_s = 0\n[log]\nlevel = "loud"\n')
    assert run(path, as_json=as_json) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "ringscope: s.toml:3: store.hold_s: must be above 0",
        "ringscope: s.toml:5: log.level: must be 'debug', 'info', 'warning' or 'error'",
    ]


def test_the_inventory_is_read_too(capsys: pytest.CaptureFixture[str]) -> None:
    path = written('[store]\ndirectory = "d"\n[analysis]\ninventory = "i.toml"\n')
    assert run(path, as_json=False) == 2
    assert capsys.readouterr() == ("", "ringscope: i.toml: No such file or directory\n")
    written('[[hosts]]\nname = "a"\nnics = ["10.0.0.1"]\n', "i.toml")
    assert run(path, as_json=False) == 0


def test_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(None, as_json=False) == 2
    assert capsys.readouterr().err.startswith("ringscope: store.directory: missing: ")
    monkeypatch.setenv("RINGSCOPE_STORE__DIRECTORY", "/data")
    assert run(None, as_json=False) == 0


def test_the_command_accepts_the_example() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "api", "check-config", "deploy/ringscope.toml"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "/var/lib/ringscope/results.sqlite" in result.stdout
