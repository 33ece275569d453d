"""One of several receiving processes: socket, decoder and store; its samples go to its parent."""

from __future__ import annotations

import pickle
import signal
import socket
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from collector.allow import AllowList
from collector.intake import Intake, Standing, Taken
from collector.malloc import keep_freed
from collector.store import Store, StoreSettings
from collector.tcp import TcpReceiver
from collector.udp import UdpReceiver
from collector.warm import warm

# Samples that wait for the parent, some 90 MB: about a second of all that one core can decode.
MOST_WAITING_ROWS: Final = 1 << 19
BEAT_S: Final = 0.5  # the parent hears at least so often


@dataclass(frozen=True, slots=True)
class Told:
    """What a worker says; `taken` is None when it has only closed its store."""

    taken: Taken | None
    standing: Standing


class _Handing:
    """Sends to the parent in a thread of its own: however slow it is, nothing here waits for it."""

    def __init__(self, parent: Connection) -> None:
        self._parent = parent
        self._waiting: deque[Told] = deque()
        self._rows = 0
        self._unhanded = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="handing", daemon=True)
        self._thread.start()

    def put(self, taken: Taken | None, standing: Standing) -> None:
        """Send this when what came before has been sent; too much of it goes, oldest first."""
        with self._changed:
            self._rows += _rows(taken)
            while self._waiting and self._rows > MOST_WAITING_ROWS:
                gone = _rows(self._waiting.popleft().taken)
                self._rows -= gone
                self._unhanded += gone
            self._waiting.append(Told(taken, replace(standing, unhanded_samples=self._unhanded)))
            self._changed.notify()

    def close(self) -> None:
        """Send what waits, then return."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                told = self._waiting.popleft()
                self._rows -= _rows(told.taken)
            try:
                self._parent.send_bytes(pickle.dumps(told, pickle.HIGHEST_PROTOCOL))
            except OSError:  # the parent is gone: the store has it all
                return


def _rows(taken: Taken | None) -> int:
    return 0 if taken is None else len(taken.flows) + len(taken.records)


def work(
    parent: Connection,
    bound: socket.socket,
    listening: socket.socket | None,
    allow: Sequence[IPv4Network | IPv6Network],
    directory: Path,
    settings: StoreSettings,
) -> None:
    """Receive, decode and store until the parent says something or is gone; then drain.

    Parameters
    ----------
    parent
        Gets a pickled `Told` for each batch, and at the latest every `BEAT_S`.
    bound
        A socket that receives datagrams; the parent keeps it open.
    listening
        One that exporters connect to, if any; the same.
    allow
        Networks that may send; empty: all.
    directory, settings
        Of the store.
    """
    # A signal to the whole group (systemd, a terminal) is for the parent, which says what to do.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    keep_freed()
    warm()
    receiver = UdpReceiver(bound=bound)
    receiver.start()
    with Store(directory, settings) as store:
        allowed = AllowList(allow)
        streams = None
        if listening is not None:
            streams = TcpReceiver(listening, receiver.put, allowed.allows, receiver.has_room)
            streams.start()
        intake = Intake(receiver, allowed, store, settings.hold_s, streams=streams)
        handing = _Handing(parent)
        while not parent.poll():
            handing.put(intake.take(BEAT_S), intake.standing())
        intake.stop()
        while (taken := intake.take(BEAT_S)) is not None:
            handing.put(taken, intake.standing())
        intake.close()
        handing.put(None, intake.standing())
    handing.close()
