"""Every PromQL expression of the dashboard, asked of a real VictoriaMetrics."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from api.results.connections import sqlite_url
from api.results.database import Results
from tests.api.http.made import Service
from tests.deploy import made
from tests.deploy.dashboard import Query, filled, queries
from tests.deploy.victoria import Victoria, running

SCRAPES: Final = 9
SCRAPED: Final = {"job": "ringscope", "instance": "127.0.0.1:8080"}
VALUES: Final = {"job": "job-3", "__rate_interval": f"{4 * made.EVERY_S}s"}

Series = tuple[dict[str, str], float]
JOB_1: Final = {"train_job": "job-1"}
JOB_3: Final = {"train_job": "job-3"}
# By panel and query: the labels and the value of each series at the last scrape.
EXPECTED: Final[dict[str, list[Series]]] = {
    "Service A": [({**SCRAPED, "__name__": "up"}, 1)],
    "Jobs now A": [({"status": "hung"}, 0), ({"status": "idle"}, 1), ({"status": "training"}, 1)],
    "Anomalies open A": [({}, 1)],
    "Exporters A": [({}, 2)],
    "Analysis lag A": [({}, 3.25)],
    "Step time A": [
        ({**SCRAPED, **JOB_1}, 1.0),
        ({**SCRAPED, **JOB_3, "name": "llama-70b"}, 2.5),
    ],
    "Iterations a minute A": [(JOB_1, 0), (JOB_3, 4)],
    "Now A": [({**SCRAPED, **JOB_3, "__name__": "ringscope_job_period_seconds"}, 2.5)],
    "Now B": [({**SCRAPED, **JOB_3, "__name__": "ringscope_job_last_iteration_seconds"}, 2.5)],
    "Now C": [({**SCRAPED, **JOB_3, "__name__": "ringscope_job_hosts"}, 2)],
    "Now D": [({**SCRAPED, **JOB_3, "__name__": "ringscope_job_anomalies_open"}, 0)],
    "Samples a second A": [({"type": "counter"}, 7), ({"type": "flow"}, 100)],
    "What gets lost inside, a second A": [
        ({"where": "backlog"}, 2),
        ({"where": "kernel"}, 1),
        ({"where": "refused"}, 0),
    ],
    "What gets lost inside, a second B": [({}, 3)],
    "What gets lost inside, a second C": [({}, 5)],
    "What gets lost inside, a second D": [({}, 4)],
    "Datagrams lost on the way, by exporter A": [({"exporter": "10.255.0.1"}, 2)],
    "Analysis lag and load A": [
        ({**SCRAPED, "__name__": "ringscope_analysis_lag_seconds"}, 3.25),
    ],
    "Analysis lag and load B": [(SCRAPED, 0.25)],
    "Exporters by state A": [
        ({"state": "counters_only"}, 1),
        ({"state": "moved"}, 0),
        ({"state": "ok"}, 1),
        ({"state": "rate_unknown"}, 0),
        ({"state": "silent"}, 0),
        ({"state": "templates_missing"}, 0),
    ],
    "Rows A": [({}, 90)],
    "Rows B": [({}, 512)],
}
QUERIES: Final = list(queries("prometheus"))


class History:
    """Nine scrapes of a service in a VictoriaMetrics; one job of it idles now and then."""

    def __init__(self, victoria: Victoria, service: Service) -> None:
        self.victoria = victoria
        # Some minutes ago: too near to now or too far from it, not all is kept or seen.
        self.start_s = int(time.time()) // made.EVERY_S * made.EVERY_S - 300
        made.fill(service.results)
        for scrape in range(SCRAPES):
            service.view.now = made.account(scrape)
            made.save(service.results, "training" if scrape % 2 else "idle", 3 + scrape)
            time_s = self.start_s + scrape * made.EVERY_S
            # `up` is the scraper's own, not of the page.
            victoria.take(service.ask("/metrics").text + "up 1\n", time_s, SCRAPED)
        victoria.settle()

    @property
    def end_s(self) -> int:
        """The last scrape's time."""
        return self.start_s + (SCRAPES - 1) * made.EVERY_S


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    folder: Path = tmp_path_factory.mktemp("history")
    results = Results(sqlite_url(folder / "results.sqlite"))
    with running(folder) as victoria:
        yield History(victoria, Service(results))
    results.close()


def _sorted(series: list[Series]) -> list[Series]:
    return sorted(series, key=lambda one: sorted(one[0].items()))


def test_all_are_expected() -> None:
    assert [query.name for query in QUERIES] == list(EXPECTED)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_gives_the_right_series(history: History, query: Query) -> None:
    expression = filled(query.target["expr"], VALUES)
    if query.target["instant"]:
        found = [
            (series["metric"], float(series["value"][1]))
            for series in history.victoria.instant(expression, history.end_s)
        ]
    else:
        # From where a rate has its samples.
        points = history.victoria.range(
            expression, history.start_s + 4 * made.EVERY_S, history.end_s, made.EVERY_S
        )
        assert {len(series["values"]) for series in points} == {SCRAPES - 4}
        found = [(series["metric"], float(series["values"][-1][1])) for series in points]
    expected = _sorted(EXPECTED[query.name])
    assert [labels for labels, _ in _sorted(found)] == [labels for labels, _ in expected]
    assert [value for _, value in _sorted(found)] == pytest.approx([v for _, v in expected])
    # A legend may only name what the series have; what is empty has no label.
    for name in re.findall(r"\{\{(\w+)\}\}", query.target["legendFormat"]):
        assert any(name in labels for labels, _ in found), name


def test_no_job_is_no_anomaly(history: History) -> None:
    (query,) = (query for query in QUERIES if query.name == "Anomalies open A")
    before_s = history.start_s - 3600
    (series,) = history.victoria.instant(query.target["expr"], before_s)
    assert series["value"][1] == "0"


def test_the_page_has_every_metric(service: Service) -> None:
    made.fill(service.results)
    page = service.ask("/metrics").text
    for query in QUERIES:
        for name in re.findall(r"\bringscope_\w+", query.target["expr"]):
            assert re.search(rf"^{name}[ {{]", page, re.MULTILINE), name
