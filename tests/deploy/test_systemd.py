"""The unit of systemd, checked by systemd's own tools, and what stands beside it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest
import typer.main

from api.cli.app import app
from api.settings import Settings
from api.settings.model import StoreSection
from tests.deploy.dashboard import DEPLOY

UNIT: Final = DEPLOY / "systemd" / "ringscope.service"
PROGRAM: Final = "/opt/ringscope/bin/ringscope"
# 0 is a service that may do nothing, 10 one that may do all; systemd calls up to 2 fine.
MOST_EXPOSED: Final = 2.0
TOML: Final = tomllib.loads((DEPLOY / "ringscope.toml").read_text())


def values(name: str) -> list[str]:
    """All that the unit says under a name."""
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd-analyze is not installed")
    return found


def test_is_a_unit(analyze: str, tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    text = UNIT.read_text()
    assert text.count(PROGRAM) == 1
    unit.write_text(text.replace(PROGRAM, sys.executable))  # it must be there
    checked = subprocess.run([analyze, "verify", unit], capture_output=True, text=True)
    assert [line for line in checked.stderr.splitlines() if UNIT.name in line] == []
    assert checked.returncode == 0


def test_may_do_little(analyze: str) -> None:
    checked = subprocess.run(
        [
            analyze,
            "security",
            "--no-pager",
            "--offline=yes",
            f"--threshold={round(MOST_EXPOSED * 10)}",
            UNIT,
        ],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    assert "Overall exposure level" in checked.stdout


def test_starts_the_service() -> None:
    (command,) = values("ExecStart")
    program, name, option, config = shlex.split(command)
    assert program == PROGRAM
    serve = typer.main.get_group(app).commands[name]
    assert option in {text for parameter in serve.params for text in parameter.opts}
    assert config == "/etc/ringscope/ringscope.toml"
    assert values("Restart") == ["on-failure"]


def test_may_write_where_the_settings_say() -> None:
    (state,) = values("StateDirectory")
    assert TOML["store"]["directory"] == f"/var/lib/{state}"
    (cache,) = values("CacheDirectory")
    assert values("Environment") == [f"NUMBA_CACHE_DIR=/var/cache/{cache}"]
    assert values("ProtectSystem") == ["strict"]


def test_may_compile() -> None:
    assert values("MemoryDenyWriteExecute") == []


def test_its_user_can_be_made(tmp_path: Path) -> None:
    made = shutil.which("systemd-sysusers")
    if made is None:
        pytest.skip("systemd-sysusers is not installed")
    (tmp_path / "etc").mkdir()
    subprocess.run(
        [made, f"--root={tmp_path}", DEPLOY / "systemd" / "ringscope.sysusers"],
        check=True,
        capture_output=True,
    )
    (user,) = (tmp_path / "etc" / "passwd").read_text().splitlines()
    name, *_, home, shell = user.split(":")
    assert values("User") == values("Group") == [name]
    assert home == TOML["store"]["directory"]
    assert shell.endswith("nologin")


def test_the_buffer_that_is_asked_for_is_granted() -> None:
    text = (DEPLOY / "systemd" / "ringscope.sysctl").read_text()
    (granted,) = re.findall(r"^net\.core\.rmem_max = (\d+)$", text, re.MULTILINE)
    asked = Settings(store=StoreSection(directory=Path("/nowhere"))).listen.receive_buffer_bytes
    assert int(granted) == asked
