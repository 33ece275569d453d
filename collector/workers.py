"""Several receiving processes on one port, as one source of samples.

The kernel gives all datagrams of one sender's address and port to the same socket (SO_REUSEPORT,
socket(7)), so an exporter stays with one process and its sequence numbers are followed there; what
sends records stays with one by its address alone (`collector.steering`), and so do its templates.
The sockets belong to the parent: where a process dies, what comes waits for the one that follows.
"""

from __future__ import annotations

import multiprocessing as mp
import pickle
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from itertools import zip_longest
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final

from collector.accounts import NOTHING, Accounts
from collector.intake import Standing, Taken
from collector.schema import I32, Telemetry
from collector.steering import steer
from collector.store import StoreSettings, StoreStatus
from collector.tcp import listen
from collector.udp import RECEIVE_BUFFER_BYTES, Reception, bind
from collector.worker import Told, work

# From the start of a process that died to that of the next.
_RESTART_S: Final = 1.0
# One not heard of for so long does not hold back the clock of the others.
_SILENT_S: Final = 10.0
# Adding up all exporters costs, so it is done so often, and where there is a new one.
_SUM_S: Final = 1.0
_PATIENCE_S: Final = 30.0
_UNSEEN: Final = Standing(Reception(0, 0, 0, 0, 0), 0, StoreStatus(0, 0, 0, None))


class _Worker:
    """One process after another with the same socket, and what the last one said."""

    def __init__(
        self,
        bound: socket.socket,
        listening: socket.socket | None,
        work_on: tuple[object, ...],
    ) -> None:
        self.bound = bound
        self.listening = listening
        self._work_on = work_on
        self.told = NOTHING
        self.standing = _UNSEEN
        self.number: I32 = Accounts().number(NOTHING)
        self.now_ns = 0
        self.begin()

    def begin(self) -> None:
        """Start a process."""
        spawn = mp.get_context("spawn")
        self.pipe: Connection
        self.pipe, theirs = spawn.Pipe()
        self.process: SpawnProcess = spawn.Process(
            target=work, args=(theirs, self.bound, self.listening, *self._work_on), daemon=True
        )
        self.process.start()
        theirs.close()
        self.began_s = self.heard_s = time.monotonic()
        self.alive = True

    def stop(self) -> None:
        """Ask it to end."""
        with suppress(OSError):
            self.pipe.send_bytes(b"stop")

    def end(self) -> None:
        """It is gone, or goes now."""
        self.alive = False
        self.pipe.close()
        self.process.join(_PATIENCE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Workers:
    """A `Source` of several processes, each with its own socket, decoder and store.

    Parameters
    ----------
    count
        How many.
    host, port, receive_buffer_bytes
        See `UdpReceiver`; each socket has a buffer of this size.
    allow
        Networks that may send; empty: all.
    directory, settings
        Of the store that all write to.
    tcp
        Address and port that exporters may connect to; each connection stays with one process.

    Raises
    ------
    ListenError
        The address cannot be had.

    Notes
    -----
    A process that dies is started again. What it had not yet written is lost, at most what came in
    `settings.hold_s`; what waits in its socket is not.
    """

    def __init__(
        self,
        count: int,
        host: str,
        port: int,
        allow: Sequence[IPv4Network | IPv6Network],
        directory: Path,
        settings: StoreSettings,
        *,
        receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES,
        tcp: tuple[str, int] | None = None,
    ) -> None:
        sockets: list[socket.socket] = []
        listening: list[socket.socket] = []
        try:
            for _ in range(count):
                sockets.append(bind(host, port, receive_buffer_bytes, reuse_port=True))
                port = int(sockets[0].getsockname()[1])
            steer(sockets)
            if tcp is not None:
                listening.extend(listen(*tcp, reuse_port=True) for _ in range(count))
            self._workers = [
                _Worker(own, streams, (allow, directory, settings))
                for own, streams in zip_longest(sockets, listening)
            ]
        except BaseException:
            for own in (*sockets, *listening):
                own.close()
            raise
        self._port = port
        self._granted_bytes = sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        self._accounts = Accounts()
        self._gone: Telemetry = NOTHING
        self._gone_standing = _UNSEEN
        self._deaths = 0
        self._stopping = False
        self._sum = NOTHING
        self._summed_s = 0.0
        self._exporters = 0

    def take(self, timeout_s: float) -> Taken | None:
        """See `Source`."""
        for worker in self._workers:
            if not worker.alive and not self._stopping:
                self._begin_again(worker)
        living = [worker for worker in self._workers if worker.alive]
        # Whoever was heard longest ago first: none may be kept waiting by the others.
        ready = set(wait([worker.pipe for worker in living], timeout_s))
        for worker in sorted(living, key=lambda worker: worker.heard_s):
            if worker.pipe in ready:
                return self._hear(worker)
        return None

    @property
    def port(self) -> int:
        """See `Source`."""
        return self._port

    @property
    def finished(self) -> bool:
        """See `Source`."""
        return self._stopping and not any(worker.alive for worker in self._workers)

    def stop(self) -> None:
        """See `Source`."""
        if not self._stopping:
            self._stopping = True
            for worker in self._workers:
                worker.stop()

    def close(self) -> None:
        """See `Source`; what has not been taken is stored all the same."""
        self.stop()
        end_s = time.monotonic() + _PATIENCE_S
        while not self.finished and time.monotonic() < end_s:
            self.take(1.0)
        for worker in self._workers:
            worker.end()
            worker.bound.close()
            if worker.listening is not None:
                worker.listening.close()

    def standing(self) -> Standing:
        """See `Source`."""
        parts = [self._gone_standing, *(worker.standing for worker in self._workers)]
        total = parts[0]
        for part in parts[1:]:
            total = _added(total, part)
        reception = replace(total.reception, receive_buffer_bytes=self._granted_bytes)
        return replace(total, reception=reception, deaths=self._deaths)

    def _hear(self, worker: _Worker) -> Taken | None:
        try:
            told: Told = pickle.loads(worker.pipe.recv_bytes())
        except (EOFError, OSError):
            self._bury(worker)
            return None
        reception = told.standing.reception
        drops = max(worker.standing.reception.kernel_drops, reception.kernel_drops)
        worker.standing = replace(told.standing, reception=replace(reception, kernel_drops=drops))
        worker.heard_s = time.monotonic()
        taken = told.taken
        if taken is None:
            return None
        worker.now_ns = taken.now_ns
        worker.told = taken.told
        if len(worker.number) != len(taken.told.exporters):
            worker.number = self._accounts.number(taken.told)
        number = worker.number
        flows = taken.flows.but(exporter=number[taken.flows.exporter])
        records = taken.records.but(exporter=number[taken.records.exporter])
        return Taken(flows, records, self._told(), self._now_ns())

    def _now_ns(self) -> int:
        """Up to where all that live have told what came: the slowest sets the clock."""
        since_s = time.monotonic() - _SILENT_S
        heard = [
            worker.now_ns
            for worker in self._workers
            if worker.alive and worker.now_ns and worker.heard_s >= since_s
        ]
        return min(heard)

    def _told(self) -> Telemetry:
        exporters = len(self._accounts)
        now_s = time.monotonic()
        if self._stopping or exporters != self._exporters or now_s >= self._summed_s + _SUM_S:
            self._sum = self._accounts.sum([self._gone, *(w.told for w in self._workers)])
            self._summed_s, self._exporters = now_s, exporters
        return self._sum

    def _bury(self, worker: _Worker) -> None:
        """What a process that ended had counted stays counted."""
        worker.end()
        if self._stopping:
            return
        self._deaths += 1
        self._gone = self._accounts.sum([self._gone, worker.told])
        # The kernel's count is the socket's, and the next process reads it on.
        lost_rows = worker.standing.stored.held_rows
        stored = worker.standing.stored
        kept = replace(
            worker.standing,
            reception=replace(worker.standing.reception, kernel_drops=0),
            stored=replace(stored, held_rows=0, lost_rows=stored.lost_rows + lost_rows, error=None),
        )
        self._gone_standing = _added(self._gone_standing, kept)
        worker.told, worker.number = NOTHING, self._accounts.number(NOTHING)
        worker.standing = replace(
            _UNSEEN,
            reception=replace(
                _UNSEEN.reception, kernel_drops=worker.standing.reception.kernel_drops
            ),
        )

    def _begin_again(self, worker: _Worker) -> None:
        if time.monotonic() >= worker.began_s + _RESTART_S:
            worker.now_ns = 0
            worker.begin()


def _added(one: Standing, other: Standing) -> Standing:
    first, second = one.stored, other.stored
    return Standing(
        reception=Reception(
            datagrams=one.reception.datagrams + other.reception.datagrams,
            payload_bytes=one.reception.payload_bytes + other.reception.payload_bytes,
            kernel_drops=one.reception.kernel_drops + other.reception.kernel_drops,
            backlog_drops=one.reception.backlog_drops + other.reception.backlog_drops,
            receive_buffer_bytes=0,
        ),
        refused=one.refused + other.refused,
        stored=StoreStatus(
            held_rows=first.held_rows + second.held_rows,
            stored_rows=first.stored_rows + second.stored_rows,
            lost_rows=first.lost_rows + second.lost_rows,
            error=first.error or second.error,
            merge_error=first.merge_error or second.merge_error,
        ),
        unhanded_samples=one.unhanded_samples + other.unhanded_samples,
    )
