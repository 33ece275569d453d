"""From the wire to the store: what is received is decoded, stored and accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from collector.ingest import Ingest
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.schema import Telemetry
from collector.store import Store, StoreStatus, since
from collector.udp import UdpReceiver

REPORT_S: Final = 60.0
# Each batch costs an account of all exporters, so a quiet wire is read in batches of this length
# and not datagram by datagram; a busy one gives larger batches by itself.
_GATHER_S: Final = 0.05
# How long a request to stop may wait where nothing arrives.
_PATIENCE_S: Final = 0.5


class Listening:
    """Takes batches from a receiver into a store, in the thread that calls `run`.

    Parameters
    ----------
    receiver
        Already started; `run` stops it.
    store
        Stays open.
    hold_s
        The store is flushed at least so often, whether anything arrives or not.
    say
        Called with one line of text: an account every `REPORT_S` and at the end, and a line when
        the disk stops to take rows, and when it takes them again. Must not raise.
    clock
        Seconds that pass.
    """

    def __init__(
        self,
        receiver: UdpReceiver,
        store: Store,
        hold_s: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._receiver = receiver
        self._store = store
        self._hold_s = hold_s
        self._say = say
        self._clock = clock
        self._ingest = Ingest()
        self._faults = Faults()
        self._told: Telemetry | None = None
        self._disk_error: str | None = None
        self._stopping = False

    def stop(self) -> None:
        """Ask `run` to end; only a mark is set, so a signal handler may call this."""
        self._stopping = True

    def run(self) -> None:
        """Work until asked to stop; then take in and write what has arrived by then.

        Raises
        ------
        ListenError
            Receiving failed. What came before is stored.
        """
        flush_s = self._clock() + self._hold_s
        report_s = self._clock() + REPORT_S
        try:
            while not self._stopping:
                began_s = self._clock()
                batch = self._receiver.take(min(_PATIENCE_S, max(flush_s - began_s, 0.0)))
                if batch is not None:
                    self._add(batch)
                if self._clock() >= flush_s:
                    self._watch(self._store.flush())
                    flush_s = self._clock() + self._hold_s
                if self._clock() >= report_s:
                    self._say(self.account())
                    report_s = self._clock() + REPORT_S
                if batch is not None:
                    time.sleep(max(began_s + _GATHER_S - self._clock(), 0.0))
            self._receiver.stop()
            for batch in self._receiver:
                self._add(batch)
        finally:
            self._receiver.stop()
            self._watch(self._store.flush())
            self._say(self.account())

    def account(self) -> str:
        """What came, what was stored and what was lost since the start, in one line."""
        received = self._receiver.reception()
        stored = self._store.status
        told = self._told
        counts = {
            "datagrams": received.datagrams,
            "samples": 0 if told is None else told.flow_samples + told.counter_samples,
            "rows stored": stored.stored_rows,
            "rows held": stored.held_rows,
            "lost rows": stored.lost_rows,
            "kernel drops": received.kernel_drops,
            "backlog drops": received.backlog_drops,
            "lost before arrival": 0 if told is None else told.lost_datagrams,
            "decode errors": 0 if told is None else told.decode_errors,
        }
        return ", ".join(f"{name} {count}" for name, count in counts.items())

    def _add(self, batch: DatagramBatch) -> None:
        flows, counters = self._ingest.add(batch, self._faults)
        told = self._ingest.telemetry(self._faults.errors())
        news = since(self._told, replace(told, flows=flows, counters=counters))
        self._told = told
        self._watch(self._store.append(news))

    def _watch(self, status: StoreStatus) -> None:
        """Say that the disk takes no rows, once until that changes; it has been counted."""
        if status.error is not None and status.error != self._disk_error:
            self._say(f"not everything can be stored: {status.error}")
        elif status.error is None and self._disk_error is not None:
            self._say("everything can be stored again")
        self._disk_error = status.error
