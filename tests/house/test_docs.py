"""The documents name what there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from collector.records import RECORD_ABSENT, RECORD_COLUMNS
from collector.schema import ABSENT, COLUMNS, HeaderState

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")],
    key=lambda path: path.relative_to(REPOSITORY).parts,
)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _requirements() -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        listed += extra
    names = {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in listed}
    return names - {project["name"]}


def _table() -> dict[str, list[str]]:
    rows = {}
    for line in (REPOSITORY / "docs" / "dependencies.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 3:
            rows[cells[0]] = cells
    rows.pop("package", None)
    return rows


def test_dependencies_and_their_table_agree() -> None:
    assert set(_table()) == _requirements()


def test_every_dependency_has_a_reason_and_a_licence() -> None:
    for name, (_, reason, licence) in _table().items():
        assert len(reason) > 10, name
        assert licence, name


def test_every_dependency_is_locked() -> None:
    locked = (REPOSITORY / "constraints.txt").read_text().lower().replace("_", "-")
    missing = {name for name in _requirements() if f"\n{name}==" not in locked}
    assert missing == set()


def test_gpl_stays_out_of_what_is_installed() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    installed = {re.split(r"[<>=]", requirement)[0] for requirement in project["dependencies"]}
    assert {name for name in installed if "GPL" in _table()[name][2]} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), target


def test_architecture_names_every_room() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text()
    for package in ("collector", "reconstruct", "patterns", "api", "fixtures", "bench"):
        for path in sorted((REPOSITORY / package).iterdir()):
            if path.name.startswith("_") or path.suffix not in {".py", ""}:
                continue
            name = path.name if path.suffix else f"{path.name}/"
            assert f"`{name}`" in text, f"{package}/{name}"


def _columns_of(*, samples: bool) -> dict[str, list[str]]:
    """The rows of the tables of columns, of samples or else of records, by column."""
    text = (REPOSITORY / "docs" / "protocols.md").read_text()
    before, _, behind = text.partition("## What a flow record says")
    rows: dict[str, list[str]] = {}
    for line in (before if samples else behind).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            rows |= {name.strip("` "): cells for name in cells[0].split(",")}
    return rows


def test_protocols_say_where_every_column_of_a_sample_comes_from() -> None:
    rows = _columns_of(samples=True)
    for name in COLUMNS:
        assert name in rows, name
        _, element, unit, absent = rows[name]
        lower = name.endswith("_lo")  # its row is that of the upper half
        assert bool(element) is not lower, name
        assert unit, name
        assert bool(absent) is not lower, name
        if name in ABSENT:
            assert str(ABSENT[name]) in absent, name
    assert set(rows) == set(COLUMNS)


def test_protocols_say_where_every_column_of_a_record_comes_from() -> None:
    rows = _columns_of(samples=False)
    for name in RECORD_COLUMNS:
        _, *said = rows[name]
        assert all(said), name
        if name in RECORD_ABSENT:
            absent = RECORD_ABSENT[name]
            assert (str(absent) if absent < 1 << 63 else "2^64 - 1") in said[2], name
    assert set(rows) == set(RECORD_COLUMNS)


def test_protocols_name_every_state_of_a_header() -> None:
    text = (REPOSITORY / "docs" / "protocols.md").read_text()
    for state in HeaderState:
        assert f"| {state.name} |" in text, state.name
