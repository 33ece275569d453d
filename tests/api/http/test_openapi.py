from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from api.contract import schema
from api.http.schemas import AnomalyKind, Kind, Status
from tests.api.http.made import Service

PATHS = {
    "/api/v1/jobs": "/api/v1/jobs",
    "/api/v1/jobs/{job_id}": "/api/v1/jobs/job-1",
    "/api/v1/jobs/{job_id}/topology": "/api/v1/jobs/job-1/topology",
    "/api/v1/jobs/{job_id}/groups": "/api/v1/jobs/job-1/groups",
    "/api/v1/jobs/{job_id}/iterations": "/api/v1/jobs/job-1/iterations",
    "/api/v1/jobs/{job_id}/anomalies": "/api/v1/jobs/job-1/anomalies",
    "/api/v1/anomalies": "/api/v1/anomalies",
    "/api/v1/exporters": "/api/v1/exporters",
    "/api/v1/result": "/api/v1/result",
    "/api/v1/reports": "/api/v1/reports",
    "/api/v1/doctor": "/api/v1/doctor",
    "/livez": "/livez",
    "/readyz": "/readyz",
}


@pytest.fixture(scope="module")
def document(service: Service) -> dict[str, Any]:
    loaded: dict[str, Any] = service.json("/api/v1/openapi.json")
    return loaded


def test_every_path_is_described_and_can_only_be_read(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {*PATHS, "/metrics"}
    assert {method for path in document["paths"].values() for method in path} == {"get"}


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    used = _references(document)
    assert used <= known
    assert "#/components/schemas/result" in used


@pytest.mark.parametrize(("path", "example"), PATHS.items())
def test_answers_fit_what_is_described(
    service: Service, document: dict[str, Any], path: str, example: str
) -> None:
    answers = document["paths"][path]["get"]["responses"]
    described = answers["200"]["content"]["application/json"]["schema"]
    whole = {**described, "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(service.json(example))
    assert answers["default"]["content"]["application/problem+json"]["schema"] == {
        "$ref": "#/components/schemas/Problem"
    }


def test_the_bound_of_a_list_is_described(document: dict[str, Any]) -> None:
    parameters = document["paths"]["/api/v1/jobs"]["get"]["parameters"]
    (limit,) = [parameter for parameter in parameters if parameter["name"] == "limit"]
    assert "first those that have not ended" in limit["description"]
    assert (limit["schema"]["default"], limit["schema"]["maximum"]) == (500, 5000)


@pytest.mark.parametrize("path", ["/api/v1/jobs/{job_id}", "/api/v1/jobs/{job_id}/topology"])
def test_what_is_not_sent_again_is_described(document: dict[str, Any], path: str) -> None:
    described = document["paths"][path]["get"]
    assert "content" not in described["responses"]["304"]
    (known,) = [each for each in described["parameters"] if each["in"] == "header"]
    assert (known["name"], known["required"]) == ("If-None-Match", False)


def test_description_is_no_empty_one(document: dict[str, Any]) -> None:
    """An answer that is none does not fit."""
    for path in PATHS:
        described = document["paths"][path]["get"]["responses"]["200"]["content"]
        whole = {
            **described["application/json"]["schema"],
            "components": document["components"],
        }
        assert not jsonschema.Draft202012Validator(whole).is_valid({"unheard_of": 1})


@pytest.mark.parametrize(
    ("listed", "place"),
    [
        (Status, ("job", "properties", "status", "enum")),
        (Kind, ("group", "properties", "kind", "enum")),
        (AnomalyKind, ("anomaly", "properties", "kind", "enum")),
    ],
)
def test_words_are_the_contract_s(listed: Any, place: tuple[str, ...]) -> None:
    found: Any = schema()["$defs"]
    for step in place:
        found = found[step]
    assert list(listed.__args__) == found


def _references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {found for item in value for found in _references(item)}
    if not isinstance(value, dict):
        return set()
    own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
    return own.union(*(_references(item) for item in value.values()))
