"""What happens to exporters, as notes: restarts, other rates, gaps, clocks that were set."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import numpy as np

from collector.loss import Order
from collector.notes import Notes
from collector.polled import PortBatch
from collector.schema import I64, ExporterNote
from collector.sources import CounterRows, Events, FlowRows

# In one batch and of one kind: forged samples can have another rate each.
_MOST_AT_ONCE: Final = 64
_STARTS: Final = {
    Order.RESTART: ("restarted", "its agent started again: its uptime fell"),
    Order.LEAP: ("renumbered", "its datagrams are numbered anew, though its uptime goes on"),
}
_KEPT_NS: Final = 1_000_000  # a correction that moves by less is the same


class Happenings:
    """Turns what the parts of a batch tell into notes.

    Parameters
    ----------
    name
        Gives the address of an exporter by its number.
    """

    def __init__(self, name: Callable[[int], str]) -> None:
        self._name = name
        self._notes = Notes()
        self._corrections = np.zeros(0, np.int64)
        self._steps = np.zeros(0, np.int64)

    def notes(self, exporter: int) -> tuple[ExporterNote, ...]:
        """Of one exporter, oldest first."""
        return self._notes.of(exporter)

    def started(self, kind: Order, exporter: I64, arrival_ns: I64) -> None:
        """Datagrams that began a new count; int64, shape (n,)."""
        if not len(exporter):
            return
        word, text = _STARTS[kind]
        found, last, counts = np.unique(exporter[::-1], return_index=True, return_counts=True)
        at_ns = arrival_ns[::-1][last]
        for number, time_ns, count in zip(
            found.tolist(), at_ns.tolist(), counts.tolist(), strict=True
        ):
            self._notes.add(number, None, ExporterNote(time_ns, word, text, count))

    def moved(self, new: int, old: int, time_ns: int) -> None:
        """The exporter `old` has the address of `new` since then."""
        text = f"agent address changed: {self._name(old)} is now {self._name(new)}"
        self._notes.add(old, new, ExporterNote(time_ns, "address_changed", text))
        text = f"its datagrams count as those of {self._name(old)}"
        self._notes.add(new, old, ExporterNote(time_ns, "address_changed", text))

    def clocks(self, corrections: I64, steps: I64, time_ns: int) -> None:
        """What is taken off the stamps of each exporter now, and how often its clock was set."""
        corrections, steps = corrections.copy(), steps.copy()
        self._corrections.resize(len(corrections), refcheck=False)
        self._steps.resize(len(steps), refcheck=False)
        moved = np.abs(corrections - self._corrections) > _KEPT_NS
        for number in np.flatnonzero(moved).tolist():
            off_s = int(corrections[number]) / 1e9
            text = "its clock is right again"
            if off_s:
                side = "ahead" if off_s > 0 else "behind"
                text = f"its clock is {abs(off_s):.3f} s {side}: its times are put right"
            self._notes.add(number, None, ExporterNote(time_ns, "clock_off", text))
        for number in np.flatnonzero(steps != self._steps).tolist():
            self._notes.add(number, None, ExporterNote(time_ns, "clock_set", "its clock was set"))
        self._corrections = np.where(moved, corrections, self._corrections)
        self._steps = steps

    def sampling(
        self, events: Events, flows: FlowRows, counters: CounterRows, exporter: I64, arrival_ns: I64
    ) -> None:
        """What samplers did.

        Parameters
        ----------
        events, flows, counters
            Of one batch.
        exporter, arrival_ns : int64, shape (datagrams,)
            Of its datagrams.
        """
        for row in np.flatnonzero(events.stopped)[:_MOST_AT_ONCE].tolist():
            d = counters.datagram[row]
            text = "counters of sampled ports count on, and no flow samples come"
            self._notes.add(
                int(exporter[d]), None, ExporterNote(int(arrival_ns[d]), "flows_missing", text)
            )
        for row in np.flatnonzero(events.silent_since_ns)[:_MOST_AT_ONCE].tolist():
            d = flows.datagram[row]
            now_ns, since_ns = int(arrival_ns[d]), int(events.silent_since_ns[row])
            text = f"flow samples come again: none came for {(now_ns - since_ns) / 1e9:.0f} s,"
            text += f" since {_clock(since_ns)}, while packets passed"
            self._notes.add(int(exporter[d]), None, ExporterNote(now_ns, "flows_resumed", text))
        self._rates(events, flows, exporter, arrival_ns)

    def ports(self, ports: PortBatch, before: I64) -> None:
        """Ports with names, and the ifIndex that each had before (-1: none other)."""
        for row in np.flatnonzero(before >= 0)[:_MOST_AT_ONCE].tolist():
            name = _printable(ports.name[row])
            text = f"port {name} moved: ifIndex {before[row]} -> {ports.ifindex[row]}"
            note = ExporterNote(int(ports.time_ns[row]), "port_moved", text)
            self._notes.add(int(ports.exporter[row]), name, note)

    def _rates(self, events: Events, flows: FlowRows, exporter: I64, arrival_ns: I64) -> None:
        rows = np.flatnonzero(events.rate_before)
        if not len(rows):
            return
        datagram = flows.datagram[rows]
        changes, first, counts = np.unique(
            np.stack((exporter[datagram], events.rate_before[rows], flows.rate[rows])),
            axis=1,
            return_index=True,
            return_counts=True,
        )
        for nth in np.argsort(first)[:_MOST_AT_ONCE].tolist():
            number, before, now = changes[:, nth].tolist()
            time_ns = int(arrival_ns[datagram[first[nth]]])
            text = f"sampling rate of a port changed: 1:{before:,} -> 1:{now:,}"
            note = ExporterNote(time_ns, "rate_changed", text, int(counts[nth]))
            self._notes.add(number, (before, now), note)


def _clock(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%SZ}"


def _printable(name: bytes) -> str:
    text = name.decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)
