"""Reading settings from where they are said, and remembering where that was."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from api.errors import ApiError
from api.settings.model import PREFIX, Settings, conflicts, names

_KEY: Final = r"[A-Za-z0-9_-]+"
_TABLE_LINE: Final = re.compile(rf"\s*\[\s*({_KEY})\s*\]", re.ASCII)
_VALUE_LINE: Final = re.compile(rf"\s*({_KEY})\s*(?:\.\s*({_KEY})\s*)?=", re.ASCII)


class SettingsError(ApiError):
    """Settings that cannot be used.

    Parameters
    ----------
    faults
        All there are, each with its source, its key and a reason; a line of the message each.
    """

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was said.

    Attributes
    ----------
    source
        What kind of place.
    where
        FILE:LINE (the line where it can be told), the variable, or "command line".
    """

    source: Literal["file", "environment", "option"]
    where: str


def load(path: Path | None, overrides: Mapping[str, object] = MappingProxyType({})) -> Settings:
    """Read settings from a file, the environment and the command line.

    Parameters
    ----------
    path
        TOML file; None: there is none.
    overrides
        Key ("store.directory") -> value, from options; None: that option was not used.

    Raises
    ------
    SettingsError
        The file cannot be read, a key is unknown, or a value cannot be used; tells of all.
    """
    return load_with_origins(path, overrides)[0]


def load_with_origins(
    path: Path | None, overrides: Mapping[str, object] = MappingProxyType({})
) -> tuple[Settings, Mapping[str, Origin]]:
    """Read settings as `load` does.

    Returns
    -------
    Settings
    Mapping
        Key ("store.directory") -> where its value was said, for every key that is not default.
    """
    said = _Said()
    if path is not None:
        said.add_file(path)
    said.add_environment()
    for key, value in overrides.items():
        if value is not None:
            said.add(key, value, Origin("option", "command line"))
    settings = said.settings(path)
    return settings, said.origins


@dataclass(slots=True)
class _Said:
    """What was said so far; of two that say one key, the later stays."""

    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, key: str, value: object, origin: Origin) -> None:
        self.values[key] = value
        self.origins[key] = origin

    def add_file(self, path: Path) -> None:
        try:
            text = path.read_text("utf-8-sig")  # editors of some put a mark in front
            document = tomllib.loads(text)
        except OSError as error:
            raise SettingsError((f"{path}: {error.strerror or error}",)) from error
        except UnicodeDecodeError as error:
            raise SettingsError((f"{path}: offset {error.start}: not UTF-8 text",)) from error
        except (ValueError, RecursionError) as error:  # also a number or a nesting without end
            raise SettingsError((f"{path}: not TOML: {error}",)) from error
        lines = _lines(text)
        known = names()

        def where(key: str) -> str:
            return f"{path}:{lines[key]}" if key in lines else str(path)

        for section, table in document.items():
            if section not in known:
                self.faults.append(
                    f"{where(section)}: {section}: unknown section; known are {', '.join(known)}"
                )
            elif not isinstance(table, dict):
                self.faults.append(f"{where(section)}: {section}: must be a table: [{section}]")
            else:
                for key, value in ((f"{section}.{name}", table[name]) for name in table):
                    self.add(key, value, Origin("file", where(key)))

    def add_environment(self) -> None:
        known = names()
        for variable in sorted(os.environ):
            section, nested, _ = variable.upper().removeprefix(PREFIX).partition("__")
            # Without "__" it may be anybody's: Kubernetes makes RINGSCOPE_PORT of a service's name.
            if (
                variable.upper().startswith(PREFIX)
                and nested
                and section not in map(str.upper, known)
            ):
                self.faults.append(
                    f"{variable}: {section.lower()}: unknown section; known are {', '.join(known)}"
                )
        for section, table in EnvSettingsSource(Settings)().items():
            if not isinstance(table, dict):
                first = f"{PREFIX}{section}__{known[section][0]}".upper()
                self.faults.append(
                    f"{PREFIX}{section.upper()}: {section}: its keys are set one by one: {first}"
                )
                continue
            for key, value in ((f"{section}.{name}", table[name]) for name in table):
                self.add(key, value, Origin("environment", _variable(key)))

    def settings(self, path: Path | None) -> Settings:
        """All of it together.

        Raises
        ------
        SettingsError
            There are faults, found here or before.
        """
        settings, errors = _validated(self.values)
        wrong = {".".join(map(str, error["loc"][:2])) for error in errors}
        self.faults.extend(self._fault(error, path) for error in errors)
        if settings is None:
            # What does not fit together is sought among the rest, to tell of all faults at once.
            rest = {key: value for key, value in self.values.items() if key not in wrong}
            valid, _ = _validated({"store.directory": "unknown"} | rest)
        else:
            valid = settings
        found = {} if valid is None else conflicts(valid)
        for pair, text in found.items():
            if wrong.isdisjoint(pair):
                key = next(key for key in pair if key in self.origins)  # defaults fit each other
                self.faults.append(f"{self.origins[key].where}: {key}: {text}")
        if settings is None or self.faults:
            raise SettingsError(tuple(self.faults))
        return settings

    def _fault(self, error: Any, path: Path | None) -> str:
        section, name, *rest = map(str, error["loc"])
        key = f"{section}.{name}"
        if error["type"] == "missing":
            file = "" if path is None else f"{path}, "
            return f"{key}: missing: say it by {file}{_variable(key)} or an option"
        index = "".join(f"[{each}]" for each in rest)
        return f"{self.origins[key].where}: {key}{index}: {_reason(error, section)}"


def _validated(values: Mapping[str, object]) -> tuple[Settings | None, list[Any]]:
    """The settings, or what pydantic has against them."""
    nested: dict[str, dict[str, object]] = {section: {} for section in names()}
    for key, value in values.items():
        section, _, name = key.partition(".")
        nested[section][name] = value
    try:
        return Settings.model_validate(nested), []
    except ValidationError as error:
        return None, [dict(each) for each in error.errors(include_url=False, include_input=False)]


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", "__").upper()


def _lines(text: str) -> dict[str, int]:
    """Lines of sections and keys of a TOML text, as far as they are written one to a line."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TABLE_LINE.match(line):
            section = header[1]
            lines.setdefault(section, number)
        elif found := _VALUE_LINE.match(line):
            lines.setdefault(".".join(filter(None, (section, found[1], found[2]))), number)
    return lines


def _reason(error: Any, section: str) -> str:
    """What pydantic found, in our words."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown key; known are {', '.join(names()[section])}"
    if kind == "value_error":
        return str(context["error"])
    words = {
        "greater_than": "must be above {gt}",
        "greater_than_equal": "must be at least {ge}",
        "less_than_equal": "must be at most {le:g}",
        "literal_error": "must be {expected}",
        "float_type": "must be a number",
        "float_parsing": "must be a number",
        "int_type": "must be a whole number",
        "int_parsing": "must be a whole number",
        "int_from_float": "must be a whole number",
        "tuple_type": "must be a list",
    }
    return words[kind].format(**context) if kind in words else str(error["msg"])
