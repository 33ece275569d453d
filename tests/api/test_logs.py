from __future__ import annotations

import io
import json
import logging
import re
import threading
import warnings
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from api.logs import Limited, configure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def _as_before() -> Generator[None]:
    """The loggers of the process are nobody's own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in ("uvicorn.access", "sqlalchemy")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in (quiet | {"alembic": logging.NOTSET}).items():
        logging.getLogger(name).setLevel(before)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in stream.getvalue().splitlines()]


def fail(secret: str) -> None:
    raise ValueError(f"a\nb\x1b[2J {len(secret)}")


def test_events_and_records_of_the_standard_library_take_one_way() -> None:
    stream = io.StringIO()
    configure("json", "info", stream)
    before = datetime.now(UTC)
    structlog.get_logger("api.service").info("listening", udp="[::]:6343", rows=5, share=0.5)
    logging.getLogger("uvicorn.error").warning("%s of %d", "one", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    event, record, warned = objects(stream)
    for each in (event, record, warned):
        assert before <= datetime.fromisoformat(each.pop("timestamp")) <= datetime.now(UTC)
    assert event == {
        "event": "listening",
        "level": "info",
        "logger": "api.service",
        "udp": "[::]:6343",
        "rows": 5,
        "share": 0.5,
    }
    assert record == {"event": "one of 2", "level": "warning", "logger": "uvicorn.error"}
    assert warned["logger"] == "py.warnings"
    assert "DeprecationWarning: old" in warned["event"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_less_than_the_level_is_not_said(log_format: Any) -> None:
    stream = io.StringIO()
    configure(log_format, "warning", stream)
    for log in (structlog.get_logger("ours"), logging.getLogger("theirs")):
        log.info("not this")
        log.warning("this")
    configure(log_format, "debug", stream)
    structlog.get_logger("ours").debug("this")
    logging.getLogger("sqlalchemy.engine").info("SELECT not this")
    logging.getLogger("uvicorn.access").info("GET not this")
    said = stream.getvalue()
    assert (said.count("this"), said.count("not this")) == (3, 0)


def test_exceptions_are_data_and_hold_no_values() -> None:
    stream = io.StringIO()
    configure("json", "info", stream)
    for log in (structlog.get_logger("ours"), logging.getLogger("theirs")):
        try:
            fail("pa55word")
        except ValueError:
            log.exception("tick failed")
    for said in objects(stream):
        (told,) = said["exception"]
        assert (said["event"], said["level"]) == ("tick failed", "error")
        assert (told["exc_type"], told["exc_value"]) == ("ValueError", "a\nb\x1b[2J 8")
        assert [frame["name"] for frame in told["frames"]][-1] == "fail"
    assert "pa55word" not in stream.getvalue()


def test_a_line_of_text() -> None:
    stream = io.StringIO()
    configure("text", "info", stream)
    structlog.get_logger("ours").warning("late", b="x y", a=1)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \[warning  \] late +\[ours\] b='x y' a=1\n",
        stream.getvalue(),
    )


@pytest.mark.parametrize("hostile", ["a\n2026-11-29 fake", "\x1b[2J", "a\r", "a\u2028b", "\x9b1m"])
def test_what_comes_from_the_network_stays_in_its_line(hostile: str) -> None:
    stream = io.StringIO()
    configure("text", "info", stream)
    structlog.get_logger("ours").warning("refused", name=hostile, names=[hostile])
    logging.getLogger("theirs").warning(hostile)
    said = stream.getvalue()
    assert said.count("\n") == 2
    assert said.replace("\n", "").isprintable()


def test_an_exception_in_text_is_indented_and_obeys_nobody() -> None:
    stream = io.StringIO()
    configure("text", "info", stream)
    try:
        fail("")
    except ValueError:
        structlog.get_logger("ours").exception("tick failed")
    first, *rest = stream.getvalue().splitlines()
    assert "tick failed" in first
    assert rest[0] == "  Traceback (most recent call last):"
    assert rest[-2:] == ["  ValueError: a", "  b\\x1b[2J 0"]
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


@pytest.mark.parametrize(
    "value", [float("nan"), {(1, 2): 3}, [float("inf")], object(), b"\xff", "\udc80", "x" * 100_000]
)
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_any_value_can_be_said(log_format: Any, value: object) -> None:
    stream = io.StringIO()
    configure(log_format, "info", stream)
    structlog.get_logger("ours").info("odd", value=value, n=1)
    said = stream.getvalue()
    assert (said.count("\n"), len(said) < 5_000) == (1, True)
    said.encode()
    if log_format == "json":
        assert objects(stream)[0]["n"] == 1


def test_what_holds_itself_can_be_said() -> None:
    stream = io.StringIO()
    configure("json", "info", stream)
    circle: list[object] = []
    circle.append(circle)
    structlog.get_logger("ours").info("odd", circle=circle)
    assert objects(stream)[0]["circle"] == "[[...]]"


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    said = []
    for stream in (Terminal(), io.StringIO()):
        configure("text", "info", stream)
        structlog.get_logger("ours").info("listening")
        said.append(stream.getvalue())
    monkeypatch.setenv("NO_COLOR", "1")
    configure("text", "info", stream := Terminal())
    structlog.get_logger("ours").info("listening")
    assert ["\x1b[" in text for text in (*said, stream.getvalue())] == [True, False, False]


def test_standard_error_is_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    configure("text", "info")
    structlog.get_logger("ours").info("listening")
    said = capsys.readouterr()
    assert ("listening" in said.err, said.out) == (True, "")


def test_a_closed_standard_error_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    configure("text", "info")
    structlog.get_logger("ours").info("listening")


@pytest.fixture
def stream() -> io.StringIO:
    stream = io.StringIO()
    configure("json", "info", stream)
    return stream


def said_of(stream: io.StringIO) -> list[tuple[str, object, object]]:
    """Event, the field n, and the number suppressed."""
    return [(each["event"], each.get("n"), each.get("suppressed")) for each in objects(stream)]


def test_a_burst_is_said_in_part_and_counted(stream: io.StringIO) -> None:
    clock = Clock()
    limited = Limited(structlog.get_logger("ours"), 2, clock)
    for n in range(5):
        limited.say("warning", "refused", n=n)
        clock.now_s += 1
    limited.say("warning", "other", n=0)
    begun = [("refused", 0, None), ("refused", 1, None), ("other", 0, None)]
    assert said_of(stream) == begun
    clock.now_s = 59.9
    limited.say("warning", "refused", n=5)
    assert said_of(stream) == begun
    clock.now_s = 60
    limited.say("warning", "refused", n=6)
    assert said_of(stream) == [*begun, ("refused", None, 4), ("refused", 6, None)]


def test_the_end_of_a_burst_is_said_without_another(stream: io.StringIO) -> None:
    clock = Clock()
    limited = Limited(structlog.get_logger("ours"), 1, clock)
    for _ in range(3):
        limited.say("error", "disk full")
    limited.settle()
    assert len(said_of(stream)) == 1
    clock.now_s = 61
    limited.settle()
    limited.settle()
    assert said_of(stream) == [("disk full", None, None), ("disk full", None, 2)]
    assert {each["level"] for each in objects(stream)} == {"error"}


def test_the_end_of_the_service_tells_all(stream: io.StringIO) -> None:
    limited = Limited(structlog.get_logger("ours"), 1, Clock())
    limited.say("warning", "refused")
    limited.say("warning", "refused")
    limited.close()
    limited.close()
    assert said_of(stream) == [("refused", None, None), ("refused", None, 1)]


def test_events_without_number_take_no_memory_without_end(stream: io.StringIO) -> None:
    limited = Limited(structlog.get_logger("ours"), 1, Clock())
    for n in range(1_500):
        limited.say("warning", f"event {n}", n=n)
    limited.close()
    told = said_of(stream)
    assert len(told) == 1_000 + 2
    assert told[-2:] == [("other events", None, None), ("other events", None, 499)]


def test_threads_lose_no_count(stream: io.StringIO) -> None:
    limited = Limited(structlog.get_logger("ours"), 10, Clock())

    def burst() -> None:
        for _ in range(500):
            limited.say("info", "refused")

    threads = [threading.Thread(target=burst) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    limited.close()
    told = said_of(stream)
    assert told == [("refused", None, None)] * 10 + [("refused", None, 1_990)]
