"""What exporters of records sent, counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from collector.records import RecordBatch, RecordTime
from collector.schema import I64, U32, CounterBatch, FlowBatch, TimeBasis

_MOST_RATES: Final = 64  # of one exporter
_COUNTS: Final = (
    "messages",
    "records",  # of flows and options, whatever they hold
    "flow_records",
    "flow_samples",
    "counter_samples",
    "unread_records",
    "dropped_sets",
    "copies",
    "errors",
    "rated",  # rows with a sampling rate
    "stamped",  # rows with a time of the exporter
)


@dataclass(frozen=True, slots=True)
class RecordExporter:
    """One exporter of records: an address and an observation domain.

    Attributes
    ----------
    messages, copies
        That came, and how many of them a second time: those are not read again.
    records
        Of flows and options, whatever they hold.
    flow_records, flow_samples, counter_samples
        Rows that were made of them.
    unread_records
        Of templates without two addresses, nor packets, nor counters.
    waiting_sets, dropped_sets
        Whose template has not come yet, and that were given up for it.
    lost
        What its numbers say never came: records of IPFIX and version 5, messages of version 9.
    rated, stamped
        Rows of flows and packets with a sampling rate, and with a time of the exporter's clock.
    heard_ns
        When its newest message came; 0 = not known.
    """

    agent: str
    domain: int
    protocol: str  # "ipfix", "netflow9" or "netflow5"
    messages: int
    records: int
    flow_records: int
    flow_samples: int
    counter_samples: int
    unread_records: int
    dropped_sets: int
    copies: int
    errors: int
    rated: int
    stamped: int
    heard_ns: int
    waiting_sets: int
    sampling_rates: tuple[int, ...]
    lost: int
    restarts: int


class Tally:
    """Counts by exporter.

    Parameters
    ----------
    exporters
        How many there are at most.

    Attributes
    ----------
    counts
        int64, shape (exporters,), by name.
    heard_ns : int64, shape (exporters,)
        When the newest message came; 0 = not known.
    """

    def __init__(self, exporters: int) -> None:
        self.counts = {name: np.zeros(exporters, np.int64) for name in _COUNTS}
        self.heard_ns = np.zeros(exporters, np.int64)
        self._rates: dict[int, set[int]] = {}

    def add(self, name: str, exporter: I64, count: I64 | int = 1) -> None:
        """Add to a count; -1 stands for no exporter."""
        known = exporter >= 0
        if not known.all():
            exporter = exporter[known]
            count = count[known] if isinstance(count, np.ndarray) else count
        np.add.at(self.counts[name], exporter, count)

    def heard(self, exporter: I64, arrival_ns: I64) -> None:
        """Messages came."""
        self.add("messages", exporter)
        np.maximum.at(self.heard_ns, exporter, arrival_ns)

    def rows(self, records: RecordBatch, counters: CounterBatch, flows: FlowBatch) -> None:
        """Take in what was made of them."""
        for name, rows in (
            ("flow_records", records.exporter),
            ("flow_samples", flows.exporter),
            ("counter_samples", counters.exporter),
        ):
            self._several(name, rows.astype(np.int64))
        for exporter, rate, stamped in (
            (records.exporter, records.sampling_rate, records.time_basis != RecordTime.EXPORT),
            (flows.exporter, flows.sampling_rate, flows.time_basis == TimeBasis.EXPORTER),
        ):
            number = exporter.astype(np.int64)
            self._several("rated", number[rate > 0])
            self._several("stamped", number[stamped])
            self._rated(number, rate)

    def exporter(self, number: int, **known: Any) -> RecordExporter:
        """An exporter with its counts, and with what is known of it beside."""
        counts: dict[str, Any] = {name: int(n[number]) for name, n in self.counts.items()}
        return RecordExporter(
            heard_ns=int(self.heard_ns[number]),
            sampling_rates=tuple(sorted(self._rates.get(number, ()))),
            **counts,
            **known,
        )

    def told_later(self, exporter: I64, rate: U32) -> None:
        """Rates of rows that had none became known."""
        self._several("rated", exporter[rate > 0])
        self._rated(exporter, rate)

    def _several(self, name: str, exporter: I64) -> None:
        if len(exporter):
            counted = np.bincount(exporter)
            self.counts[name][: len(counted)] += counted

    def _rated(self, exporter: I64, rate: U32) -> None:
        if not len(rate):
            return
        for pair in np.unique((exporter << 32) | rate.astype(np.int64)).tolist():
            known = self._rates.setdefault(pair >> 32, set())
            if pair & 0xFFFF_FFFF and len(known) < _MOST_RATES:
                known.add(pair & 0xFFFF_FFFF)
