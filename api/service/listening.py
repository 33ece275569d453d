"""From the wire to the store and to slices: what is received is decoded and accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from api.logs import Log
from collector.accounts import NOTHING
from collector.intake import Source, Standing, Taken
from collector.schema import I64, HeaderState, Telemetry, Transport
from reconstruct.slices import Slice
from reconstruct.slicing import Slicer

REPORT_S: Final = 60.0
# How long a request to stop may wait where nothing arrives.
_PATIENCE_S: Final = 0.5


class Listening:
    """Hands what a source takes in to the slicer, in the thread that calls `run`.

    Parameters
    ----------
    source
        Receives already; `run` closes it.
    slicer
        Gets the samples that come, and cuts them into slices.
    deliver
        Called with slices as soon as they are closed, in order. Must not raise.
    log
        Told of an account every `REPORT_S` and at the end, of a disk that stops to take rows and
        when it takes them again, and of processes that died.
    clock
        Seconds that pass.
    """

    def __init__(
        self,
        source: Source,
        slicer: Slicer,
        deliver: Callable[[list[Slice]], None],
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._slicer = slicer
        self._deliver = deliver
        self._log = log
        self._clock = clock
        self._told = NOTHING
        self._opcodes = np.zeros(1 << 8, np.int64)
        self._headers = np.zeros(len(HeaderState), np.int64)
        self._transports = np.zeros(len(Transport), np.int64)
        self._disk_error: str | None = None
        self._deaths = 0
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
        report_s = self._clock() + REPORT_S
        try:
            while not self._stopping:
                if (taken := self._source.take(_PATIENCE_S)) is not None:
                    self._add(taken)
                self._watch(self._source.standing())
                if self._clock() >= report_s:
                    self._log.say("info", "account", **self.account())
                    report_s = self._clock() + REPORT_S
            self._source.stop()
            while (taken := self._source.take(_PATIENCE_S)) or not self._source.finished:
                if taken is not None:
                    self._add(taken)
        finally:
            self._source.close()
            if slices := self._slicer.drain():
                self._deliver(slices)
            self._watch(self._source.standing())
            self._log.say("info", "account", **self.account())

    def account(self) -> dict[str, int]:
        """What came, what was stored and what was lost since the start."""
        standing = self._source.standing()
        received, stored, told = standing.reception, standing.stored, self._told
        return {
            "datagrams": received.datagrams,
            "samples": told.flow_samples + told.counter_samples,
            "rows_stored": stored.stored_rows,
            "rows_held": stored.held_rows,
            "rows_lost": stored.lost_rows,
            "kernel_drops": received.kernel_drops,
            "backlog_drops": received.backlog_drops,
            "refused_datagrams": standing.refused,
            "lost_datagrams": told.lost_datagrams,
            "late_samples": self._slicer.late_samples + standing.unhanded_samples,
            "decode_errors": told.decode_errors,
        }

    @property
    def told(self) -> Telemetry:
        """Counts and exporters since the start, without rows."""
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

    def _add(self, taken: Taken) -> None:
        flows = taken.flows
        # Before `told`: who sees a sample counted there must find it here.
        self._opcodes += np.bincount(flows.opcode, minlength=1 << 8)
        self._headers += np.bincount(flows.header_state, minlength=len(HeaderState))
        self._transports += np.bincount(flows.transport, minlength=len(Transport))
        self._told = taken.told
        self._slicer.add(flows, taken.told.exporters, taken.now_ns)
        if slices := self._slicer.close(taken.now_ns):
            self._deliver(slices)

    def _watch(self, standing: Standing) -> None:
        """Say that the disk takes no rows, once until it does; it has been counted.

        The reason may be another at each flush, as it names the kind of rows that failed last.
        """
        if standing.deaths > self._deaths:
            self._log.say("error", "a receiving process died", deaths=standing.deaths)
            self._deaths = standing.deaths
        status = standing.stored
        if status.error is not None and self._disk_error is None:
            self._log.say("error", "not everything can be stored", reason=status.error)
        elif status.error is None and self._disk_error is not None:
            self._log.say("info", "everything can be stored again")
        self._disk_error = status.error
