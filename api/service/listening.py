"""From the wire to the store and to slices: what is received is decoded and accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from api.logs import Log
from collector.allow import AllowList
from collector.ingest import Ingest
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.schema import I64, HeaderState, Telemetry, Transport
from collector.store import Store, StoreStatus, since
from collector.udp import UdpReceiver
from reconstruct.slices import Slice
from reconstruct.slicing import Slicer

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
    slicer
        Gets the samples that come, and cuts them into slices.
    deliver
        Called with slices as soon as they are closed, in order. Must not raise.
    allow
        Which senders are heard.
    hold_s
        The store is flushed at least so often, whether anything arrives or not.
    log
        Told of an account every `REPORT_S` and at the end, of a disk that stops to take rows, and
        when it takes them again.
    clock
        Seconds that pass.
    """

    def __init__(
        self,
        receiver: UdpReceiver,
        store: Store,
        slicer: Slicer,
        deliver: Callable[[list[Slice]], None],
        allow: AllowList,
        hold_s: float,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._receiver = receiver
        self._store = store
        self._slicer = slicer
        self._deliver = deliver
        self._allow = allow
        self._hold_s = hold_s
        self._log = log
        self._clock = clock
        self._ingest = Ingest()
        self._faults = Faults()
        self._told: Telemetry | None = None
        self._opcodes = np.zeros(1 << 8, np.int64)
        self._headers = np.zeros(len(HeaderState), np.int64)
        self._transports = np.zeros(len(Transport), np.int64)
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
                else:  # time passes on a silent wire too
                    self._close(time.time_ns())
                if self._clock() >= flush_s:
                    self._watch(self._store.flush())
                    flush_s = self._clock() + self._hold_s
                if self._clock() >= report_s:
                    self._log.say("info", "account", **self.account())
                    report_s = self._clock() + REPORT_S
                if batch is not None:
                    time.sleep(max(began_s + _GATHER_S - self._clock(), 0.0))
            self._receiver.stop()
            for batch in self._receiver:
                self._add(batch)
        finally:
            self._receiver.stop()
            if slices := self._slicer.drain():
                self._deliver(slices)
            self._watch(self._store.flush())
            self._log.say("info", "account", **self.account())

    def account(self) -> dict[str, int]:
        """What came, what was stored and what was lost since the start."""
        received = self._receiver.reception()
        stored = self._store.status
        told = self._told
        return {
            "datagrams": received.datagrams,
            "samples": 0 if told is None else told.flow_samples + told.counter_samples,
            "rows_stored": stored.stored_rows,
            "rows_held": stored.held_rows,
            "rows_lost": stored.lost_rows,
            "kernel_drops": received.kernel_drops,
            "backlog_drops": received.backlog_drops,
            "refused_datagrams": self._allow.refused,
            "lost_datagrams": 0 if told is None else told.lost_datagrams,
            "late_samples": self._slicer.late_samples,
            "decode_errors": 0 if told is None else told.decode_errors,
        }

    @property
    def told(self) -> Telemetry | None:
        """Counts and exporters since the start, without rows; None before the first datagram."""
        return self._told

    @property
    def opcodes(self) -> I64:
        """Samples by RoCE opcode since the start; int64, shape (256,)."""
        return self._opcodes

    @property
    def headers(self) -> I64:
        """Flow samples by `HeaderState` since the start; int64, shape (states,)."""
        return self._headers

    @property
    def transports(self) -> I64:
        """Flow samples by `Transport` since the start; int64, shape (transports,)."""
        return self._transports

    def _add(self, batch: DatagramBatch) -> None:
        now_ns = int(batch.arrival_ns.max())
        flows, counters = self._ingest.add(self._allow.passed(batch), self._faults)
        told = self._ingest.telemetry(self._faults.errors())
        # Before `told`: who sees a sample counted there must find it here.
        self._opcodes += np.bincount(flows.opcode, minlength=1 << 8)
        self._headers += np.bincount(flows.header_state, minlength=len(HeaderState))
        self._transports += np.bincount(flows.transport, minlength=len(Transport))
        news = since(self._told, replace(told, flows=flows, counters=counters))
        self._told = told
        self._watch(self._store.append(news))
        self._slicer.add(flows, told.exporters, now_ns)
        self._close(now_ns)

    def _close(self, now_ns: int) -> None:
        if slices := self._slicer.close(now_ns):
            self._deliver(slices)

    def _watch(self, status: StoreStatus) -> None:
        """Say that the disk takes no rows, once until that changes; it has been counted."""
        if status.error is not None and status.error != self._disk_error:
            self._log.say("error", "not everything can be stored", reason=status.error)
        elif status.error is None and self._disk_error is not None:
            self._log.say("info", "everything can be stored again")
        self._disk_error = status.error
