"""What `deploy/grafana` says, and its queries as Grafana would put them.

No Grafana can be had from PyPI, npm or Debian, so none runs here. What is known of it, and of the
Infinity plugin's backend parser, is kept as small as the dashboard needs it: a root selector of
names with dots between; columns that are such names, numbers for places in a list, and `#` for its
length; one filter. Anything else is an error here, so the dashboard cannot grow out of its tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD: Final[dict[str, Any]] = json.loads(
    (DEPLOY / "grafana" / "dashboards" / "ringscope.json").read_text()
)
PANELS: Final[list[dict[str, Any]]] = DASHBOARD["panels"]
VARIABLES: Final = {found["name"]: found for found in DASHBOARD["templating"]["list"]}
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_NANOSECONDS: Final = re.compile(r"\.(\d{6})\d{3}Z$")


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel; `name` is its panel's title and its letter."""

    name: str
    target: dict[str, Any]


def provisioned(kind: str) -> dict[str, Any]:
    """The provisioning file of "datasources" or "dashboards"."""
    text = (DEPLOY / "grafana" / "provisioning" / kind / "ringscope.yaml").read_text()
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def queries(datasource: str) -> Iterator[Query]:
    """Every query of the panels to a kind of datasource."""
    for panel in PANELS:
        for target in panel.get("targets", ()):
            if target["datasource"]["type"] == datasource:
                yield Query(f"{panel['title']} {target['refId']}", target)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its variables replaced; one without a value is a KeyError."""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], text)


def rows(
    client: httpx.Client, target: Mapping[str, Any], values: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The rows that an Infinity query gives, a value for each column's selector."""
    assert (target["type"], target["source"], target["parser"]) == ("json", "url", "backend")
    assert target["url_options"]["method"] == "GET"
    params = {
        param["key"]: filled(param["value"], values) for param in target["url_options"]["params"]
    }
    answer = client.get(filled(target["url"], values), params=params)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    for name in target["root_selector"].split("."):
        found = found[name]
    assert isinstance(found, list)
    made = [
        {
            column["selector"]: _typed(_at(row, column["selector"]), column["type"])
            for column in target["columns"]
        }
        for row in found
    ]
    if "filterExpression" in target:
        wanted = re.fullmatch(r"(\w+) == true", target["filterExpression"])
        assert wanted is not None
        made = [row for row in made if row[wanted[1]]]
    return made


def _at(value: Any, selector: str) -> Any:
    """As gjson finds it; but a name that an object does not have is a KeyError."""
    for name in selector.split("."):
        if value is None:
            return None
        if name == "#":
            value = len(value)
        elif isinstance(value, list):
            value = value[int(name)] if int(name) < len(value) else None
        else:
            value = value[name]
    return value


def _typed(value: Any, kind: str) -> Any:
    """As a cell of its column's type: one that does not fit would be empty in Grafana."""
    if value is None:
        return None
    match kind:
        case "number":
            assert isinstance(value, int | float)
            assert not isinstance(value, bool)
        case "boolean":
            assert isinstance(value, bool)
        case "timestamp":
            return datetime.fromisoformat(_NANOSECONDS.sub(r".\1+00:00", value))
        case "string":
            return json.dumps(value) if isinstance(value, list) else value
        case _:
            raise AssertionError(kind)
    return value
