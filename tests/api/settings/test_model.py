"""The model, and the page and the example that must say the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from api.settings import HostPort, Settings, load
from api.settings.model import StoreSection, names, value_of
from collector.link import SFLOW_PORT
from collector.store import StoreSettings
from collector.udp import RECEIVE_BUFFER_BYTES

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "docs" / "settings.md"
EXAMPLE = REPOSITORY / "deploy" / "ringscope.toml"
KEYS = [f"{section}.{name}" for section, listed in names().items() for name in listed]
DERIVED = {
    "results.url": "`results.sqlite` in `store.directory`",
    "reports.directory": "`job-reports` in `store.directory`",
}


def plain(value: object) -> Any:
    if isinstance(value, tuple):
        return [str(each) for each in value]
    return str(value) if isinstance(value, HostPort | Path) else value


def settings(**sections: Any) -> Settings:
    return Settings(store=StoreSection(directory=Path("/data")), **sections)


def test_the_page_tells_of_every_setting() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `")
    ]
    assert [row[0].strip("`") for row in rows] == KEYS
    defaults = settings()
    for key, variable, default, meaning in rows:
        name = key.strip("`")
        assert variable.strip("`") == "RINGSCOPE_" + name.upper().replace(".", "__")
        assert len(meaning) > 10, name
        if name == "store.directory":
            assert default == "none, must be said"
        elif value_of(defaults, name) is None:
            assert default == DERIVED.get(name, "none"), name
        else:
            said = tomllib.loads(f"value = {default.strip('`')}")["value"]
            assert said == plain(value_of(defaults, name)), name


def test_the_example_can_be_used() -> None:
    assert load(EXAMPLE).store.directory == Path("/var/lib/ringscope")


def test_the_example_shows_every_key_and_its_default(tmp_path: Path) -> None:
    whole = tmp_path / "whole.toml"
    whole.write_text(re.sub(r"^# (?=[a-z_]+ = )", "", EXAMPLE.read_text(), flags=re.MULTILINE))
    shown = tomllib.loads(whole.read_text())
    assert {section: set(table) for section, table in shown.items()} == {
        section: set(listed) for section, listed in names().items()
    }
    load(whole)
    defaults = settings()
    for key in set(KEYS) - {"listen.allow", "store.directory"}:
        section, _, name = key.partition(".")
        default = value_of(defaults, key)
        assert default is None or shown[section][name] == plain(default), key


def test_defaults_are_those_of_the_parts() -> None:
    defaults, parts = settings(), StoreSettings()
    assert defaults.listen.udp.port == SFLOW_PORT
    assert defaults.listen.receive_buffer_bytes == RECEIVE_BUFFER_BYTES
    assert defaults.store.hold_s == parts.hold_s
    assert defaults.store.keep_age_s == parts.keep_age_s
    assert defaults.store.keep_bytes == parts.keep_bytes


def test_what_is_made_of_other_settings() -> None:
    made = settings()
    assert made.results_url == "sqlite:////data/results.sqlite"
    assert made.reports_directory == Path("/data/job-reports")
    said = settings(results={"url": "sqlite://"}, reports={"directory": "/r"})
    assert (said.results_url, said.reports_directory) == ("sqlite://", Path("/r"))


@pytest.mark.parametrize("name", ["a b", "a?b=c", "a%20b", "ü#x", "a@b:c"])
def test_the_database_stands_in_any_directory(name: str) -> None:
    from sqlalchemy.engine import make_url

    made = Settings(store=StoreSection(directory=Path("/data") / name))
    assert make_url(made.results_url).database == f"/data/{name}/results.sqlite"


def test_settings_do_not_change() -> None:
    made = settings()
    with pytest.raises(ValidationError, match="frozen"):
        made.store.hold_s = 1.0
    with pytest.raises(ValidationError, match="frozen"):
        made.log = made.log


def test_settings_by_hand_do_not_ask_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGSCOPE_LOG__LEVEL", "debug")
    assert settings().log.level == "info"


def test_a_password_is_not_in_the_representation() -> None:
    made = settings(results={"url": "postgresql://u:pa55@h/d"})
    assert "pa55" in made.results_url
    assert "pa55" not in repr(made)
