"""The running service in a process of its own, for as long as this one wants it."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from api.errors import ApiError
from api.settings import Settings
from collector.errors import CollectorError

START_S: Final = 120.0  # compiled code may have to be made first
STOP_S: Final = 30.0


class ServiceEnded(ApiError):
    """The service could not start, or is no longer there."""


class Apart:
    """A service between the start and the end of a `with` block; it never outlives this process.

    Parameters
    ----------
    settings
        Port 0 lets the system choose one.
    said
        File that gets what the service says.

    Attributes
    ----------
    udp_port, http_port
        Where it is.

    Raises
    ------
    ServiceEnded
        From the start of the block: with the reason.
    """

    def __init__(self, settings: Settings, said: Path) -> None:
        self.udp_port = 0
        self.http_port = 0
        self._said = said
        # Not forked: a copy of threads and locks in any state would be no good start.
        context = multiprocessing.get_context("spawn")
        self._pipe, self._theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(settings, said, self._theirs), name="service", daemon=True
        )

    def __enter__(self) -> Self:
        # Ctrl-C is for this process to see to; the other inherits that it ignores it.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._process.start()
        finally:
            signal.signal(signal.SIGINT, before)
        self._theirs.close()
        try:
            if not self._pipe.poll(START_S):
                raise ServiceEnded(f"the service did not start within {START_S:.0f} s")
            answer = self._pipe.recv()
        except BaseException as error:
            self._stop()
            if isinstance(error, EOFError):
                raise ServiceEnded(f"the service did not start: {self._last()}") from error
            raise
        if isinstance(answer, str):
            self._stop()
            raise ServiceEnded(answer)
        self.udp_port, self.http_port = answer
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def check(self) -> None:
        """See that it is still there.

        Raises
        ------
        ServiceEnded
        """
        if not self._process.is_alive():
            raise ServiceEnded(f"the service has ended: {self._last()}")

    def _last(self) -> str:
        """The last thing it said."""
        try:
            lines = self._said.read_text("utf-8", errors="replace").split("\n")
        except OSError:
            lines = []
        return next((line for line in reversed(lines) if line.strip()), "it did not say why")

    def _stop(self) -> None:
        self._pipe.close()
        self._process.join(STOP_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(settings: Settings, said: Path, pipe: Connection) -> None:
    """Serve until the other end of the pipe is closed, be it by the death of its process."""
    import structlog

    from api.logs import Limited, configure
    from api.service.running import Service

    with said.open("w", encoding="utf-8") as stream:
        configure(settings.log.format, settings.log.level, stream)
        log = Limited(structlog.get_logger("ringscope"))
        service = Service(settings, log)
        try:
            service.start()
        except (ApiError, CollectorError) as error:
            pipe.send(str(error))
            return
        pipe.send((service.udp_port, service.http_port))
        threading.Thread(target=_stop_with, args=(pipe, service.stop), daemon=True).start()
        service.run()
        log.close()


def _stop_with(pipe: Connection, stop: Callable[[], None]) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    stop()
