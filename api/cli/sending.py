"""A capture sent to a port of this machine, in a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from api.cli.beside import Passage
from api.cli.replay import Clock, Sender
from api.errors import ApiError, SendFailed
from collector.capture import read_captures
from collector.errors import CollectorError
from collector.replay import Replay

_FIRST_BYTES: Final = 1 << 16  # read to see when the first datagram came


class Sending:
    """A replay in the background.

    Parameters
    ----------
    pcap
        The capture.
    speed
        See `collector.replay.Replay`.

    Attributes
    ----------
    share
        Part of the capture that has been read, 0 to 1.
    passage
        How the capture's times became those of the replay; None before the first datagram.

    Raises
    ------
    CollectorError
        The capture cannot be read, or cannot be sent at this speed.
    """

    def __init__(self, pcap: Path, speed: float) -> None:
        self.share = 0.0
        self.passage: Passage | None = None
        self._replay = Replay([pcap], speed, keep_time=False)
        batch, _ = next(read_captures([pcap], [], None, _FIRST_BYTES))
        self._captured_ns = int(batch.arrival_ns[0])
        self._speed = speed
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._wanted = True
        self._sender: Sender | None = None

    @contextmanager
    def to(self, port: int) -> Generator[None]:
        """Send to a UDP port of 127.0.0.1 while the block lasts, once."""
        threading.Thread(target=self._run, args=(port,), name="sending", daemon=True).start()
        try:
            yield
        finally:
            self._wanted = False

    @property
    def sent(self) -> int:
        """Datagrams sent so far."""
        return 0 if self._sender is None else self._sender.sent

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; whether everything has been sent.

        Raises
        ------
        ApiError, CollectorError
            What ended it before.
        """
        ended = self._ended.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return ended

    def _run(self, port: int) -> None:
        try:
            self._send(port)
        except (ApiError, CollectorError) as error:
            self._error = error
        except OSError as error:
            self._error = SendFailed(f"127.0.0.1:{port}: {error.strerror or error}")
        finally:
            self._ended.set()

    def _send(self, port: int) -> None:
        clock = Clock()

        def begin_ns() -> int:
            now_ns = clock.now_ns()
            self.passage = Passage(self._captured_ns, now_ns, self._speed)
            return now_ns

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
            connection.connect(("127.0.0.1", port))
            self._sender = Sender(connection, clock)
            for departures in self._replay.departures(begin_ns, self._progress):
                if not self._wanted:
                    return
                self._sender.send(departures)

    def _progress(self, done_bytes: int, total_bytes: int) -> None:
        self.share = done_bytes / total_bytes if total_bytes else 0.0
