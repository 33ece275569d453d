"""`ringscope replay`: captured datagrams sent again."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from api.cli.exit import DONE, exit_code_of, say, say_errors
from api.cli.progress import progress_bar
from api.errors import SendFailed
from collector.mmsg import MessageWriter
from collector.replay import Departures, Replay

# What a connected socket is told, now or by ICMP of datagrams sent before.
_UNREACHABLE: Final = {
    errno.ECONNREFUSED: "nobody listens there",
    errno.EHOSTDOWN: "the host is down",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to its network",
}


class Clock:
    """The time of day as it was at the start, carried on by a clock that nobody sets."""

    def __init__(self) -> None:
        self._ahead_ns = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        """Time since the epoch, ns."""
        return time.monotonic_ns() + self._ahead_ns

    def sleep_until(self, due_ns: int) -> None:
        """Return at `due_ns` or a little later."""
        time.sleep(max(due_ns - self.now_ns(), 0) / 1e9)


class Sender:
    """Sends datagrams when they are due.

    Parameters
    ----------
    connection
        A connected UDP socket.
    clock
        Tells the time and waits.

    Attributes
    ----------
    sent
        Datagrams sent.
    unreachable
        How often the network said that what was sent did not get there.
    """

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._connection = connection
        self._writer = MessageWriter(connection)
        self._clock = clock
        self.sent = 0
        self.unreachable = 0

    def send(self, departures: Departures) -> None:
        """Send all of them; returns when the last has left.

        Raises
        ------
        OSError
            The system would not send, or nothing was ever there to receive.
        """
        at, end = 0, len(departures.due_ns)
        while at < end:
            now_ns = self._clock.now_ns()
            ready = int(np.searchsorted(departures.due_ns, now_ns, side="right"))
            if ready <= at:
                self._clock.sleep_until(int(departures.due_ns[at]))
                continue
            # The first goes alone: only of the last of a chunk is it told whether it bounced.
            chunk = slice(at, ready if self.sent else at + 1)
            try:
                count = self._writer.write(
                    departures.buffer, departures.offset[chunk], departures.length[chunk]
                )
                fault = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                at += count
            except OSError as error:
                if error.errno not in _UNREACHABLE:
                    raise
                count, fault = 0, error.errno
                at += 1  # it is lost, as it would be on the wire
            # A collector that restarts must find us still sending, as it finds a switch.
            if fault:
                if not self.sent:
                    raise OSError(fault, _UNREACHABLE.get(fault, os.strerror(fault)))
                self.unreachable += 1
            self.sent += count


def run(captures: Sequence[Path], to: str, speed: float, *, keep_time: bool) -> int:
    """Send the datagrams of captures, as far apart as they came.

    Parameters
    ----------
    captures, speed, keep_time
        See `collector.replay.Replay`.
    to
        HOST:PORT.

    Returns
    -------
    int
        The exit code: DONE or NOTHING_DONE.
    """

    def work() -> int:
        replay = Replay(captures, speed, keep_time=keep_time)
        with _connect(to) as connection:
            clock = Clock()
            sender = Sender(connection, clock)
            with progress_bar("sending", "sending") as on_progress:
                for departures in replay.departures(clock.now_ns, on_progress):
                    try:
                        sender.send(departures)
                    except OSError as error:
                        raise SendFailed(f"{to}: {error.strerror or error}") from error
        say_errors(replay.errors, "are not shown")
        if sender.unreachable:
            say(f"{to}: could not be reached {sender.unreachable} times: not everything arrived")
        say(f"{to}: datagrams sent: {sender.sent}")
        return DONE

    return exit_code_of(work)


def _connect(to: str) -> socket.socket:
    host, colon, port = to.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise SendFailed(f"{to!r} is not HOST:PORT")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        connection = socket.socket(family, kind, protocol)
        try:
            connection.connect(address)
        except BaseException:
            connection.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no host has this name"
        raise SendFailed(f"{to}: {reason}") from error
    return connection
