from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from api.http import server as module
from api.http.server import HttpListenError, HttpServer
from tests.api.http.made import Service

FOREVER_S = 30.0  # only waited for where a test fails
WEBSOCKET = (
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade, close\r\nSec-WebSocket-Key: AAAA\r\n\r\n"
)


@pytest.fixture
def server(service: Service) -> Iterator[HttpServer]:
    made = HttpServer(service.app, "127.0.0.1", 0)
    made.start()
    yield made
    made.stop()


def connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=FOREVER_S)


def say(server: HttpServer, request: bytes) -> bytes:
    """All that comes back until the other end closes."""
    with connect(server) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_answers_over_the_wire(server: HttpServer) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
        jobs = client.get("/api/v1/jobs")
        assert [job["id"] for job in jobs.json()["jobs"]] == ["job-2", "job-1"]
        assert "server" not in jobs.headers
        head = client.head("/api/v1/jobs")
        assert head.headers["content-length"] == str(len(jobs.content))
        assert client.post("/api/v1/jobs", content=b"x" * 300_000).status_code == 405
        assert client.get("/livez", headers={"Host": "evil.example.com"}).status_code == 421


def test_signals_stay_the_service_s(server: HttpServer) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with httpx.Client() as client:
        client.get(f"http://127.0.0.1:{server.port}/livez")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_taken_port_is_said_at_once(server: HttpServer, service: Service) -> None:
    second = HttpServer(service.app, "127.0.0.1", server.port)
    with pytest.raises(HttpListenError) as caught:
        second.start()
    assert str(caught.value) == (
        f"cannot listen on http 127.0.0.1:{server.port}: Address already in use"
    )
    second.stop()


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("ringscope.example", 80, "ringscope.example:80: not a numeric address"),
        ("192.0.2.1", 0, "192.0.2.1:0: Cannot assign requested address"),
        ("127.0.0.1", 65536, "127.0.0.1:65536: bind(): port must be 0-65535."),
        ("2001:db8::1", 0, "[2001:db8::1]:0: Cannot assign requested address"),
    ],
)
def test_no_such_address(service: Service, host: str, port: int, said: str) -> None:
    with pytest.raises(HttpListenError) as caught:
        HttpServer(service.app, host, port).start()
    assert str(caught.value) == f"cannot listen on http {said}"


def test_other_addresses_answer_to_any_name(service: Service) -> None:
    server = HttpServer(service.app, "0.0.0.0", 0)
    server.start()
    try:
        url = f"http://127.0.0.1:{server.port}/livez"
        with httpx.Client() as client:
            assert client.get(url, headers={"Host": "ringscope.example"}).status_code == 200
    finally:
        server.stop()


def test_stop_frees_the_port_and_may_be_asked_twice(service: Service) -> None:
    first = HttpServer(service.app, "127.0.0.1", 0)
    first.stop()
    first.start()
    with pytest.raises(RuntimeError, match="starts once"):
        first.start()
    first.stop()
    first.stop()
    again = HttpServer(service.app, "127.0.0.1", first.port)
    again.start()
    again.stop()


def test_stop_lets_what_is_under_way_end() -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        begun.set()
        while not go_on.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"whole"})

    server = HttpServer(slow, "127.0.0.1", 0)
    server.start()
    said: list[bytes] = []
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    asking = threading.Thread(target=lambda: said.append(say(server, request)))
    asking.start()
    assert begun.wait(FOREVER_S)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    go_on.set()
    stopping.join(FOREVER_S)
    asking.join(FOREVER_S)
    assert said[0].startswith(b"HTTP/1.1 200 OK")
    assert b"whole" in said[0]


def test_stop_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_S", 0)
    begun = threading.Event()

    async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.set()
        await asyncio.sleep(1e6)

    server = HttpServer(never, "127.0.0.1", 0)
    server.start()
    with connect(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert begun.wait(FOREVER_S)
        server.stop()
        assert not any(t.name == f"http-{server.port}" for t in threading.enumerate())


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: loc",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HT",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx",
    ],
)
def test_a_connection_ends_whatever_the_other_end_does(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(module, "_CONNECTION_S", 0.05)
    assert say(server, beginning).count(b"HTTP/1.1 ") <= 1


def test_an_answer_nobody_reads_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CONNECTION_S", 0.05)
    monkeypatch.setattr(module, "_LAST_ANSWER_S", 0.05)
    given_up = threading.Event()

    async def endless(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        sending = asyncio.create_task(_flood(send))
        while (await receive())["type"] != "http.disconnect":
            pass
        sending.cancel()
        given_up.set()

    async def _flood(send: Send) -> None:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    server = HttpServer(endless, "127.0.0.1", 0)
    server.start()
    try:
        with connect(server) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert given_up.wait(FOREVER_S)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x00\xff\x16\x03\x01" * 100 + b"\r\n\r\n", b"400"),
        (b"GET /api/v1/jobs HTTP/1.1\r\n\r\n", b"400"),  # no Host
        (b"GET /api/v1/jobs HTTP/1.0\r\n\r\n", b"421"),
        (b"GET /../../etc/passwd HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET /static/../contract.py HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET /reports/../../secret HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET http://localhost/livez HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET * HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET /" + b"a" * (1 << 14), b"400"),  # no end in sight
        (b"HEAD /livez HTTP/1.0\r\nHost: localhost\r\n\r\n", b"200"),
        (WEBSOCKET, b"200"),
    ],
)
def test_hostile_requests(
    server: HttpServer, caplog: pytest.LogCaptureFixture, request_bytes: bytes, status: bytes
) -> None:
    answer = say(server, request_bytes)
    assert answer.split(b" ", 2)[1] == status
    assert b"root:" not in answer
    with httpx.Client() as client:
        assert client.get(f"http://127.0.0.1:{server.port}/livez").status_code == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
