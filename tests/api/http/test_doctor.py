from __future__ import annotations

from dataclasses import replace

import pytest

from api.errors import ResultsError
from api.results.database import Results
from api.service.account import Account, Situation
from tests.api.http.made import Service
from tests.api.service import made


def asked(
    results: Results, account: Account = made.ACCOUNT, situation: Situation = made.SITUATION
) -> Service:
    service = Service(results)
    service.view.now, service.view.told = account, situation
    return service


def test_findings_stand_in_the_order_of_the_way(results: Results) -> None:
    answer = asked(results).json("/api/v1/doctor")
    assert (answer["state"], answer["jobs"]) == ("ok", 1)
    steps = [finding["step"] for finding in answer["findings"]]
    assert steps == ["service", "datagrams", "samples", "headers", "exporters", "losses", "jobs"]
    assert answer["findings"][-1] == {
        "step": "jobs",
        "state": "ok",
        "text": "1 job told of (1 training): ringscope jobs",
        "advice": "",
    }


def test_the_worst_state_is_that_of_all(service: Service) -> None:
    answer = service.json("/api/v1/doctor")
    assert answer["state"] == "note"
    assert {"note", "ok"} == {finding["state"] for finding in answer["findings"]}


def test_results_that_cannot_be_read_are_no_reason_not_to_answer(
    empty: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ResultsError("sqlite:///gone", "unable to open database file")

    monkeypatch.setattr(empty.results, "statuses", fail)
    answer = empty.json("/api/v1/doctor")
    assert answer["jobs"] is None
    assert "jobs" not in {finding["step"] for finding in answer["findings"]}


def test_where_nothing_passes_jobs_are_not_spoken_of(results: Results) -> None:
    answer = asked(results, replace(made.ACCOUNT, datagrams=0)).json("/api/v1/doctor")
    assert [finding["step"] for finding in answer["findings"]] == ["service", "datagrams"]
