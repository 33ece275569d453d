from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager

import pytest

from api.client import Client, NotThere, ServiceError
from api.http.server import HttpServer
from tests.api.http.made import Service

JOBS = ("jobs",)


@contextmanager
def answering(answer: bytes, *, close: bool = True) -> Generator[str]:
    """The URL of a server that says the same to everybody, whatever is asked."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1 << 16)
                    try:
                        connection.sendall(answer)
                        if not close:
                            connection.recv(1)
                    except OSError:  # who asked has seen enough
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def answer(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


@pytest.fixture(scope="module")
def url(service: Service) -> Generator[str]:
    server = HttpServer(service.app, "127.0.0.1", 0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


def reason(url: str, timeout_s: float = 5.0) -> str:
    with pytest.raises(ServiceError) as raised:
        Client(url, timeout_s).ask("/jobs", JOBS)
    assert str(raised.value) == f"{url}: {raised.value.reason}"
    return raised.value.reason


def test_answers_are_those_of_rest(url: str, service: Service) -> None:
    client = Client(f"{url}/")
    assert client.ask("/jobs", JOBS) == service.json("/api/v1/jobs")
    assert client.job("job-1") == service.json("/api/v1/jobs/job-1")


def test_parameters_are_written_as_rest_wants_them(url: str) -> None:
    client = Client(url)
    assert [job["id"] for job in client.ask("/jobs", JOBS, status="ended")["jobs"]] == ["job-2"]
    assert len(client.ask("/jobs", JOBS, status=None)["jobs"]) == 2
    found = client.ask("/anomalies", ("anomalies",), open=True, job="job-1")["anomalies"]
    assert [anomaly["kind"] for anomaly in found] == ["hang"]


@pytest.mark.parametrize("name", ["job-9", "a/b", "../jobs", "?", "", "\x1b[2J"])
def test_a_job_that_is_not_there_names_those_that_are(url: str, name: str) -> None:
    with pytest.raises(NotThere) as raised:
        Client(url).job(name)
    assert raised.value.reason == f"no job has the id {name!r}: there are job-1, job-2"


def test_where_there_is_no_job_at_all(empty: Service) -> None:
    server = HttpServer(empty.app, "127.0.0.1", 0)
    server.start()
    with pytest.raises(NotThere, match="no job has the id 'job-1': there is none"):
        Client(f"http://127.0.0.1:{server.port}").job("job-1")
    server.stop()


def test_what_rest_refuses_is_said_with_its_status(url: str) -> None:
    with pytest.raises(ServiceError, match=r"there is no query parameter 'x' here \(HTTP 422\)$"):
        Client(url).ask("/jobs", JOBS, x=1)


def test_nobody_there() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    assert reason(f"http://127.0.0.1:{port}") == "nobody answers there: Connection refused"


def test_one_that_takes_a_request_and_says_nothing() -> None:
    with answering(b"", close=False) as silent:
        assert reason(silent, 0.2) == "nobody answers there: no answer in time"


def test_a_body_that_never_ends() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 100, close=False) as slow:
        assert reason(slow, 0.2) == "nobody answers there: no answer in time"


def test_a_body_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.client.MOST_BYTES", 1 << 20)
    with answering(answer(b" " * ((1 << 20) + 1))) as talkative:
        assert reason(talkative, 60.0) == "an answer is longer than 1 MiB"


@pytest.mark.parametrize(
    "said",
    [
        answer(b"<html>hello</html>"),
        answer(b"[]"),
        answer(b'{"jobs": NaN}'),
        answer(b'{"other": 1}'),
        answer(b"[" * 100_000),
        answer(b'{"jobs": []}', "201 Created"),
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_one_that_is_not_ringscope(said: bytes) -> None:
    with answering(said) as other:
        assert reason(other) == "what answers there is not ringscope"


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x15\x03\x01\x00\x02\x02\x16"])
def test_one_that_speaks_no_http(said: bytes) -> None:
    with answering(said) as other:
        assert reason(other) == "what answers there is not ringscope: BadStatusLine"


def test_an_answer_that_is_cut() -> None:
    cut = answer(b'{"jobs": []}')[:-4]
    with answering(cut) as broken:
        assert reason(broken).startswith("what answers there is not ringscope")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"not here", "404 Not Found", "what answers there is not ringscope (HTTP 404)"),
        (
            b"Service Unavailable",
            "503 Service Unavailable",
            "it cannot answer at the moment (HTTP 503)",
        ),
        (
            json.dumps({"detail": "the results cannot be read\x1b[31m at the moment"}).encode(),
            "503 Service Unavailable",
            "the results cannot be read?[31m at the moment (HTTP 503)",
        ),
    ],
)
def test_refusals(body: bytes, status: str, said: str) -> None:
    with answering(answer(body, status)) as other:
        assert reason(other) == said


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "127.0.0.1:8080",
        "file:///etc/passwd",
        "http://",
        "http://[::1",
        "http://host:port",
        "http://host:0",
        "http://ho st",
        "http://host/\n",
    ],
)
def test_what_is_no_url_of_a_service(wrong: str) -> None:
    with pytest.raises(ServiceError, match="not a URL of the service"):
        Client(wrong)


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ServiceError) as raised:
        Client("http://user:secret@host:8080")
    assert "secret" not in str(raised.value)


def test_no_proxy_is_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert Client(url).ask("/jobs", JOBS)["jobs"]
