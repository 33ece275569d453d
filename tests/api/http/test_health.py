from __future__ import annotations

import pytest

from api.results.database import Results
from api.service.account import Check
from tests.api.http.made import Service

LISTENER = {"name": "listener", "ok": True, "reason": ""}
STORE = {"name": "store", "ok": True, "reason": ""}
RESULTS = {"name": "results", "ok": True, "reason": ""}
ANALYSIS = {"name": "analysis", "ok": True, "reason": ""}


def test_all_is_well(service: Service) -> None:
    assert service.json("/livez") == {"status": "ok", "checks": [LISTENER, ANALYSIS]}
    assert service.json("/readyz") == {
        "status": "ok",
        "checks": [LISTENER, STORE, RESULTS, ANALYSIS],
    }


@pytest.mark.parametrize(
    ("name", "lives"),
    [("listener", False), ("store", True), ("results", True), ("analysis", False)],
)
def test_what_fails_is_named(results: Results, name: str, lives: bool) -> None:
    service = Service(results)
    service.view.states = tuple(
        Check(check.name, False, "no space left on device") if check.name == name else check
        for check in service.view.states
    )
    failing = {"name": name, "ok": False, "reason": "no space left on device"}
    assert service.json("/readyz", 503) == {
        "status": "failing",
        "checks": [
            failing if check["name"] == name else check
            for check in (LISTENER, STORE, RESULTS, ANALYSIS)
        ],
    }
    alive = service.ask("/livez")
    assert alive.status_code == (200 if lives else 503)
    assert alive.json()["status"] == ("ok" if lives else "failing")
