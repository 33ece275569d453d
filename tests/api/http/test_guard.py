from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from api.http.guard import LoopbackOnly
from tests.api.http.made import Service

PATHS = ["/", "/static/app.js", "/api/v1/jobs", "/api/v1/jobs/none", "/metrics", "/livez"]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_carries_the_security_headers(service: Service, path: str) -> None:
    headers = service.ask(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-cache"
    assert "access-control-allow-origin" not in headers


def test_reports_may_have_styles_inside_and_run_nothing(service: Service) -> None:
    policy = service.ask("/reports/job-1/a.html").headers["content-security-policy"]
    assert policy == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'; sandbox"
    )


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_a_body(service: Service, path: str) -> None:
    got, head = service.ask(path), service.ask(path, "HEAD")
    assert head.content == b""
    assert head.status_code == got.status_code
    assert dict(head.headers) == dict(got.headers)
    assert int(head.headers["content-length"]) == len(got.content) > 0


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", True),
        ("LocalHost:8080", True),
        ("127.0.0.1", True),
        ("127.8.9.1:8080", True),
        ("[::1]:8080", True),
        ("[::1]", True),
        ("", False),
        ("ringscope.example.com", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com:8080", False),
        ("10.0.0.1:8080", False),
        ("[2001:db8::1]:8080", False),
        ("[::1].example.com", False),
        ("[localhost", False),
        ("::1", False),
    ],
)
def test_only_names_of_this_machine(service: Service, host: str, allowed: bool) -> None:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=LoopbackOnly(service.app))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get("/livez", headers={"Host": host})

    answer = asyncio.run(ask())
    assert answer.status_code == (200 if allowed else 421)
    if not allowed:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"] == (
            "on a loopback address, Host must be localhost or a loopback address"
        )


def test_static_files_of_the_pages_are_there(service: Service) -> None:
    pages = Path(__file__).parents[3] / "api" / "web"
    page = service.ask("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text == (pages / "index.html").read_text()
    for name, kind in (("app.js", "text/javascript"), ("style.css", "text/css")):
        answer = service.ask(f"/static/{name}")
        assert answer.headers["content-type"].split(";")[0] == kind
        assert answer.content == (pages / name).read_bytes()
