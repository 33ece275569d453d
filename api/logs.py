"""What the service says on standard error: lines for people, or one JSON object a line.

Events of structlog and records of the standard library (uvicorn, alembic, warnings) take one way.
Texts may come from the network, so nothing in them can end a line, start one or move a cursor.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor, WrappedLogger

    from api.settings.values import LogFormat, LogLevel

MOST_A_MINUTE: Final = 10
_MINUTE_S: Final = 60.0
_MOST_EVENTS: Final = 1_000  # told apart by `Limited`; more can only be a mistake of ours
_OTHERS: Final = "other events"
_MOST_CHARACTERS: Final = 4_000  # of one text in an event
_MOST_FRAMES: Final = 30
# They tell at "info" what is news to their own developers: each request, each statement.
_TALKATIVE: Final = ("uvicorn.access", "alembic", "sqlalchemy")


def configure(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> None:
    """Set up all logging of the process; a later call replaces an earlier one.

    Parameters
    ----------
    log_format
        "text" has colours on a terminal, unless NO_COLOR is set; "json" has exceptions as
        objects, without values of variables.
    level
        The least that is said.
    stream
        Default: standard error.

    Notes
    -----
    uvicorn sets up logging of its own unless it is given ``log_config=None``.
    """
    stream = stream or sys.stderr
    least = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    # None where standard error is closed: then nobody is told, and the service goes on.
    handler = logging.NullHandler() if stream is None else logging.StreamHandler(stream)
    coloured = stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_json() if log_format == "json" else _text(coloured)),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(least)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(least, logging.WARNING))
    logging.captureWarnings(True)


class Log(Protocol):
    """What parts of the service say things to."""

    def say(self, level: LogLevel, event: str, **fields: object) -> None:
        """Say an event of ours; what the network sent goes into the fields. Never raises."""
        ...


class Limited:
    """Says each event at most `most` times a minute; counts the rest and says how many they were.

    What a hostile network can cause at will is said through this. Events are told apart by their
    text alone, so that text must be ours, and what the network sent goes into the fields. Any
    thread may call.

    Parameters
    ----------
    log
        Takes what is said.
    most
        Times an event is said in a minute.
    clock
        Seconds that pass.
    """

    def __init__(
        self,
        log: FilteringBoundLogger,
        most: int = MOST_A_MINUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._most = most
        self._clock = clock
        self._minutes: dict[tuple[LogLevel, str], _Minute] = {}
        self._lock = threading.Lock()

    def say(self, level: LogLevel, event: str, **fields: object) -> None:
        """Say it, or count it if it was said often enough in this minute."""
        now_s = self._clock()
        self._settle(now_s)
        with self._lock:
            if (level, event) not in self._minutes and len(self._minutes) >= _MOST_EVENTS:
                event, fields = _OTHERS, {}
            minute = self._minutes.setdefault((level, event), _Minute(now_s + _MINUTE_S))
            if minute.said >= self._most:
                minute.suppressed += 1
                return
            minute.said += 1
        self._tell(level, event, fields)

    def settle(self) -> None:
        """Say what was suppressed in minutes that are over; called now and then."""
        self._settle(self._clock())

    def close(self) -> None:
        """Say all that was suppressed, at the end."""
        self._settle(float("inf"))

    def _settle(self, now_s: float) -> None:
        with self._lock:
            over = {key: each for key, each in self._minutes.items() if each.end_s <= now_s}
            for key in over:
                del self._minutes[key]
        for (level, event), minute in over.items():
            if minute.suppressed:
                self._tell(level, event, {"suppressed": minute.suppressed})

    def _tell(self, level: LogLevel, event: str, fields: dict[str, Any]) -> None:
        self._log.log(logging.getLevelNamesMapping()[level.upper()], event, **fields)


@dataclass(slots=True)
class _Minute:
    """One event's minute."""

    end_s: float
    said: int = 0
    suppressed: int = 0


def _json() -> list[Processor]:
    return [
        structlog.processors.ExceptionRenderer(
            # A local variable may hold a password, or a datagram.
            ExceptionDictTransformer(show_locals=False, max_frames=_MOST_FRAMES, use_rich=False)
        ),
        _bounded,
        structlog.processors.JSONRenderer(serializer=_dumps),
    ]


def _text(coloured: bool) -> list[Processor]:
    return [
        structlog.processors.ExceptionRenderer(),
        _harmless,
        structlog.dev.ConsoleRenderer(
            colors=coloured, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
        ),
    ]


def _bounded(
    _logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
            event[key] = value[:_MOST_CHARACTERS] + "…"
    return event


def _harmless(
    logger: WrappedLogger, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """No text that can be mistaken for another line, or that a terminal obeys."""
    exception = event.pop("exception", None)
    for key, value in _bounded(logger, method, event).items():
        text = value if isinstance(value, str) else repr(value)
        if not text.isprintable():
            event[key] = _printable(text)
    if exception is not None:
        event["exception"] = "\n".join(f"  {_printable(line)}" for line in exception.splitlines())
    return event


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _dumps(event: dict[str, Any], default: Callable[[Any], Any]) -> str:
    """One line of JSON, whatever is in the event."""

    def written(value: object) -> str:
        try:
            return json.dumps(value, default=default, allow_nan=False)
        except (TypeError, ValueError, RecursionError):  # a key that is no text, nan, a circle
            return json.dumps(str(value))

    return "{" + ", ".join(f"{json.dumps(key)}: {written(event[key])}" for key in event) + "}"
