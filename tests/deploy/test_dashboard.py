"""The dashboard as Grafana would read it: what refers to something refers to what is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

from tests.deploy.dashboard import DASHBOARD, PANELS, VARIABLES, provisioned

WIDTH: Final = 24
# Of Grafana itself, of a data link, or of a query.
BUILT_IN: Final = {"__rate_interval", "__url_time_range", "__value"}
_VARIABLE: Final = re.compile(r"\$\{?(\w+)")
FILLED: Final = [panel for panel in PANELS if panel["type"] != "row"]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _datasources(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if "datasource" in value:
            yield value["datasource"]["type"], value["datasource"]["uid"]
        for inner in value.values():
            yield from _datasources(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _datasources(inner)


def test_panels_have_ids_and_titles_of_their_own() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    for panel in FILLED:
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters)) != [], panel["title"]


def test_panels_do_not_overlap() -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in PANELS]
    for title, at in places:
        assert 0 <= at["x"] < at["x"] + at["w"] <= WIDTH, title
        assert at["h"] > 0, title
    for (one, a), (other, b) in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, (one, other)


def test_datasources_are_provisioned() -> None:
    document = provisioned("datasources")
    assert document["apiVersion"] == 1
    known = {(source["type"], source["uid"]) for source in document["datasources"]}
    assert len(known) == len(document["datasources"])
    assert set(_datasources(DASHBOARD)) == known
    # A panel's queries all go to its own source.
    for panel in FILLED:
        assert set(_datasources(panel["targets"])) == set(_datasources(panel)), panel["title"]


def test_the_provider_reads_a_folder() -> None:
    document = provisioned("dashboards")
    (provider,) = document["providers"]
    assert document["apiVersion"] == 1
    assert provider["type"] == "file"
    assert provider["options"]["path"].startswith("/")


def test_variables_exist_and_are_used() -> None:
    used = {name for text in _strings(PANELS) for name in _VARIABLE.findall(text)}
    assert used - BUILT_IN == set(VARIABLES)
    for variable in VARIABLES.values():
        # A path of the API has room for one job.
        assert not variable["multi"]
        assert not variable["includeAll"]


def test_links_lead_to_this_dashboard() -> None:
    links = [text for text in _strings(PANELS) if text.startswith("/d/")]
    assert len(links) == 2
    for link in links:
        assert link == f"/d/{DASHBOARD['uid']}?${{__url_time_range}}&var-job=${{__value.raw}}"


def test_columns_are_put_in_order() -> None:
    """Infinity's backend parser sorts columns by name, and names them by their selectors."""
    tables = [panel for panel in FILLED if "transformations" in panel]
    assert {panel["title"] for panel in FILLED if panel["type"] == "table"} < {
        panel["title"] for panel in tables
    }
    for panel in tables:
        (target,), (transformation,) = panel["targets"], panel["transformations"]
        assert {column["text"] for column in target["columns"]} == {""}
        selectors = [column["selector"] for column in target["columns"]]
        assert transformation["id"] == "organize"
        options = transformation["options"]
        shown = [name for name in selectors if name not in options["excludeByName"]]
        assert options["indexByName"] == {name: place for place, name in enumerate(shown)}
        assert set(options["excludeByName"]) | set(options["renameByName"]) <= set(selectors)
        titles = [options["renameByName"].get(name, name) for name in shown]
        assert len(set(titles)) == len(titles), panel["title"]
        for override in panel["fieldConfig"]["overrides"]:
            assert override["matcher"]["options"] in titles, panel["title"]
        for sort in panel["options"].get("sortBy", ()):
            assert sort["displayName"] in titles, panel["title"]


def test_nothing_of_one_installation_is_in_it() -> None:
    assert "id" not in DASHBOARD  # Grafana gives it one
    assert re.search(r"https?://|\d+\.\d+\.\d+\.\d+", json.dumps(DASHBOARD)) is None
