"""What is installed: exactly the four packages and one command that trusts no current folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = {"collector", "reconstruct", "patterns", "api"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path) -> Path:
    folder = wheel.parent / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_wheel_holds_exactly_the_four_packages(unpacked: Path) -> None:
    (metadata,) = unpacked.glob("ringscope-*.dist-info")
    assert {path.name for path in unpacked.iterdir()} == {*PACKAGES, metadata.name}
    assert (metadata / "licenses" / "LICENSE").is_file()


def test_wheel_holds_every_file_of_them(unpacked: Path) -> None:
    listed = [
        path.relative_to(REPOSITORY)
        for package in sorted(PACKAGES)
        for path in (REPOSITORY / package).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    ]
    assert len(listed) > len(PACKAGES)
    assert [path for path in listed if not (unpacked / path).is_file()] == []


def test_wheel_carries_the_schema_itself_not_a_link(unpacked: Path) -> None:
    installed = unpacked / "api" / "result.schema.json"
    documented = REPOSITORY / "docs" / "schema" / "result.schema.json"
    assert not installed.is_symlink()
    assert json.loads(installed.read_text()) == json.loads(documented.read_text())


def test_command_is_not_fooled_by_the_current_folder(unpacked: Path, tmp_path: Path) -> None:
    """A script as pip writes it, started where stray folders have the packages' names."""
    entry = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]
    module, function = entry["ringscope"].split(":")
    script = tmp_path / "bin" / "ringscope"
    script.parent.mkdir()
    script.write_text(f"from {module} import {function}\n{function}()\n")
    for name in PACKAGES:
        stray = tmp_path / "work" / name
        stray.mkdir(parents=True)
        (stray / "__init__.py").write_text("raise SystemExit('stray package imported')\n")
    run = subprocess.run(
        [sys.executable, str(script), "analyze", "no-such.pcap"],
        cwd=tmp_path / "work",
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
    )
    assert "no-such.pcap" in run.stderr
    assert "stray" not in run.stderr
    assert run.returncode == 2
