"""`Slicer`: samples as they come, in batches of any order, out as slices of event time.

A slice is closed when the clock has passed its end by the lateness that is allowed; what comes
later is counted and left out, so that whatever is built on a slice never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from collector.messages import MESSAGE_LENGTHS
from collector.schema import ExporterHealth, FlowBatch
from reconstruct.binning import bin_slice
from reconstruct.slices import Slice

# A clock that stepped back this far is believed: else all samples would be late until it is where
# it was.
STEPPED_BACK_NS: Final = 10_000_000_000
# Samples of a clock this far ahead of ours would wait in memory for too long.
AHEAD_NS: Final = 60_000_000_000
# The first sample says where time begins, unless its clock is this far behind ours.
BEHIND_NS: Final = 60_000_000_000
MOST_WAITING: Final = 1 << 22  # rows: some 500 MB; a backlog that is read at once is larger


class Slicer:
    """Cuts samples into slices of event time; to be used by one thread.

    Parameters
    ----------
    slice_ns
        Length of a slice; a multiple of `reconstruct.bins.BIN_NS`.
    lateness_ns
        How much later than its event time a sample may come.
    message_lengths
        Of `collector.messages.CLASS_NAMES`, bytes.

    Attributes
    ----------
    late_samples
        Samples left out: of a slice already closed, too far behind or ahead, of a clock that was
        set back meanwhile, or too many at once.
    """

    def __init__(
        self,
        slice_ns: int,
        lateness_ns: int,
        message_lengths: tuple[int, ...] = MESSAGE_LENGTHS,
    ) -> None:
        self.late_samples = 0
        self._slice_ns = slice_ns
        self._lateness_ns = lateness_ns
        self._message_lengths = message_lengths
        self._waiting: list[FlowBatch] = []
        self._waiting_rows = 0
        self._exporters: Sequence[ExporterHealth] = ()
        self._closed_ns: int | None = None
        self._now_ns = 0

    def add(self, flows: FlowBatch, exporters: Sequence[ExporterHealth], now_ns: int) -> None:
        """Take in some samples.

        Parameters
        ----------
        flows
            Rows in any order.
        exporters
            All exporters so far; their numbers never change.
        now_ns
            The clock that samples are early or late by: when these came, ns since the epoch.
        """
        self._exporters = exporters
        self._tell(now_ns)
        since = now_ns - BEHIND_NS if self._closed_ns is None else self._closed_ns
        timely = (flows.time_ns >= since) & (flows.time_ns < now_ns + AHEAD_NS)
        timely &= np.cumsum(timely) <= MOST_WAITING - self._waiting_rows
        kept = flows if timely.all() else flows.take(timely)
        self.late_samples += len(flows) - len(kept)
        if len(kept):
            self._waiting.append(kept)
            self._waiting_rows += len(kept)

    def close(self, now_ns: int) -> list[Slice]:
        """The slices whose time is over, in order; without a gap, also where there is silence.

        Nothing is closed before the first sample. A slice that starts before one already returned
        tells that the clock stepped back.
        """
        self._tell(now_ns)
        until = self._over(self._now_ns)
        start = self._closed_ns
        if start is None:
            if not self._waiting:
                return []
            first = min(int(batch.time_ns.min()) for batch in self._waiting)
            start = first // self._slice_ns * self._slice_ns
        if until <= start:
            return []
        flows = FlowBatch.concat(self._waiting)
        due = flows.time_ns < until
        self._keep(flows.take(~due))
        slices = self._cut(flows.take(due), start, until)
        self._closed_ns = until
        return slices

    def drain(self) -> list[Slice]:
        """All that still waits, as slices: nothing more will come."""
        newest = max((int(batch.time_ns.max()) for batch in self._waiting), default=None)
        if newest is None:
            return []
        return self.close(max(self._now_ns, newest + self._slice_ns + self._lateness_ns))

    def _over(self, now_ns: int) -> int:
        """Up to where event time is over by a clock."""
        return (now_ns - self._lateness_ns) // self._slice_ns * self._slice_ns

    def _tell(self, now_ns: int) -> None:
        if now_ns >= self._now_ns - STEPPED_BACK_NS:
            self._now_ns = max(self._now_ns, now_ns)
            return
        self._now_ns = now_ns
        if self._closed_ns is not None:
            self._closed_ns = min(self._closed_ns, self._over(now_ns))
        # What waits and lies ahead was told by the clock of before: it does not go with what comes.
        waiting = FlowBatch.concat(self._waiting)
        kept = waiting.take(waiting.time_ns <= now_ns)
        self.late_samples += len(waiting) - len(kept)
        self._keep(kept)

    def _keep(self, waiting: FlowBatch) -> None:
        """Only these rows wait on."""
        self._waiting, self._waiting_rows = ([waiting] if len(waiting) else []), len(waiting)

    def _cut(self, flows: FlowBatch, start_ns: int, end_ns: int) -> list[Slice]:
        """Slices of rows between two moments; a silence of any length is one slice."""
        number = (flows.time_ns - start_ns) // self._slice_ns
        order = np.argsort(number, kind="stable")
        held, first = np.unique(number[order], return_index=True)
        parts = np.split(order, first[1:]) if len(held) else []
        slices: list[Slice] = []
        reached = start_ns
        for nth, rows in zip(held.tolist(), parts, strict=True):
            begin = start_ns + nth * self._slice_ns
            if begin > reached:
                slices.append(self._bin(flows.take(rows[:0]), reached, begin))
            reached = begin + self._slice_ns
            slices.append(self._bin(flows.take(rows), begin, reached))
        if end_ns > reached:
            slices.append(self._bin(flows.take(order[:0]), reached, end_ns))
        return slices

    def _bin(self, flows: FlowBatch, start_ns: int, end_ns: int) -> Slice:
        return bin_slice(flows, self._exporters, start_ns, end_ns - 1, self._message_lengths)
