"""The exporters of a window: who they are, what they lost, and when their samples were taken."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.addresses import to_text
from collector.keys import KeyTable
from collector.link import DatagramBatch
from collector.loss import Order, Streams
from collector.schema import I64, ExporterHealth, FlowBatch, TimeBasis
from collector.sflow import Headers, Samples

# An exporter flushes at the latest after a second, so a sample is no older than that when it comes.
FLUSH_NS: Final = 1_000_000_000
# A forged capture can name a new agent in every datagram; a fabric has some hundreds.
MOST_EXPORTERS: Final = 1 << 14
# Samplers, and so streams of numbered samples: some hundreds a switch.
MOST_SOURCES: Final = 1 << 20
_MOST_RATES: Final = 64  # of one exporter
_COUNTS: Final = (
    "datagrams",
    "flow_samples",
    "counter_samples",
    "discard_samples",
    "unknown_samples",
    "duplicate_datagrams",
    "decode_errors",
    "rows_with_rate",
    "rows_with_stamp",
)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What the exporter table makes of a batch of datagrams; columns of shape (datagrams,).

    Attributes
    ----------
    exporter : int64
        Number of the exporter; -1 = none (unreadable, or beyond `MOST_EXPORTERS`).
    fresh : bool
        Its samples count: it is of an exporter and no duplicate.
    earliest_ns : int64
        Before this no sample of it can have been taken.
    """

    exporter: I64
    fresh: NDArray[np.bool_]
    earliest_ns: I64


class ExporterTable:
    """Exporters by (agent, sub-agent), numbered in order of first appearance."""

    def __init__(self) -> None:
        self._keys = KeyTable(MOST_EXPORTERS)
        self._sources = KeyTable(MOST_SOURCES)
        self._datagrams = Streams(digests=True)
        self._samples = Streams(digests=False)
        self._counts = {name: np.zeros(0, np.int64) for name in _COUNTS}
        self._last_arrival_ns = np.zeros(0, np.int64)
        self._rates: defaultdict[int, set[int]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._keys)

    def arrive(
        self, batch: DatagramBatch, headers: Headers, readable: NDArray[np.bool_]
    ) -> Arrivals:
        """Take in datagrams in the order of their arrival.

        Parameters
        ----------
        batch, headers
            The datagrams and what they say of themselves.
        readable : bool, shape (n,)
            Which of them name their exporter.
        """
        rows = np.flatnonzero(readable)
        number = self._keys.number(
            headers.agent_hi[rows],
            headers.agent_lo[rows],
            headers.sub_agent[rows].astype(np.uint64),
        )
        known = number < MOST_EXPORTERS
        rows, number = rows[known], number[known]
        self._grow()
        order = self._datagrams.follow(
            len(self), number, headers.sequence[rows], headers.uptime_ms[rows], headers.digest[rows]
        )
        exporter = np.full(len(batch), -1, np.int64)
        exporter[rows] = number
        fresh = np.zeros(len(batch), np.bool_)
        fresh[rows] = order != Order.DUPLICATE
        self._add("datagrams", number)
        self._add("duplicate_datagrams", number[order == Order.DUPLICATE])
        for name, column in (
            ("counter_samples", headers.counters),
            ("discard_samples", headers.discards),
            ("unknown_samples", headers.unknown),
        ):
            self._add(name, number, np.where(fresh[rows], column[rows], 0))

        earliest_ns = batch.arrival_ns - FLUSH_NS
        # What came late or twice says nothing about when the exporter flushed.
        prompt = (order != Order.LATE) & (order != Order.DUPLICATE)
        self._bound(rows[prompt], number[prompt], batch.arrival_ns, earliest_ns)
        return Arrivals(exporter, fresh, earliest_ns)

    def _bound(self, rows: I64, number: I64, arrival_ns: I64, earliest_ns: I64) -> None:
        """Raise `earliest_ns` to the arrival of the exporter's datagram before, in place."""
        by_exporter = np.argsort(number, kind="stable")
        rows, number = rows[by_exporter], number[by_exporter]
        first = np.ones(len(rows), np.bool_)
        first[1:] = number[1:] != number[:-1]
        last = np.ones(len(rows), np.bool_)
        last[:-1] = first[1:]
        before_ns = np.empty(len(rows), np.int64)
        before_ns[1:] = arrival_ns[rows[:-1]]
        before_ns[first] = self._last_arrival_ns[number[first]]
        self._last_arrival_ns[number[last]] = arrival_ns[rows[last]]
        forward = before_ns <= arrival_ns[rows]  # captures can overlap
        bound = rows[forward]
        earliest_ns[bound] = np.maximum(earliest_ns[bound], before_ns[forward])

    def take(self, flows: FlowBatch, samples: Samples, kept: I64) -> None:
        """Take in the flow samples of the datagrams just arrived.

        Parameters
        ----------
        flows
            The rows that count, with exporter and time.
        samples
            What was decoded.
        kept : int64, shape (len(flows),)
            Which flow sample of `samples` each row is.
        """
        number = flows.exporter.astype(np.int64)
        self._add("flow_samples", number)
        self._add("rows_with_rate", number[flows.sampling_rate > 0])
        self._add("rows_with_stamp", number[flows.time_basis == TimeBasis.EXPORTER])
        pairs = np.unique((number << 32) | flows.sampling_rate.astype(np.int64))
        for pair in pairs.tolist():
            if pair & 0xFFFF_FFFF and len(self._rates[pair >> 32]) < _MOST_RATES:
                self._rates[pair >> 32].add(pair & 0xFFFF_FFFF)
        source = self._sources.number(
            number.astype(np.uint64), samples.sampled.source[kept], np.zeros(len(kept), np.uint64)
        )
        followed = source < MOST_SOURCES
        source, kept = source[followed], kept[followed]
        self._samples.follow(
            len(self._sources),
            source,
            samples.sampled.sequence[kept],
            samples.headers.uptime_ms[samples.flow_datagram[kept]],
            np.zeros(len(kept), np.uint64),
        )

    def add_errors(self, exporter: I64) -> None:
        """Count one decode error for each entry; int64, shape (n,)."""
        self._add("decode_errors", exporter)

    def agent(self, number: int) -> str:
        """The agent's address as text."""
        return to_text(int(self._keys.keys[number, 0]), int(self._keys.keys[number, 1]))

    def health(self) -> tuple[ExporterHealth, ...]:
        """All exporters, as seen so far."""
        lost = self._datagrams.lost(len(self))
        source_keys = self._sources.keys
        lost_samples = np.bincount(
            source_keys[:, 0].astype(np.int64),
            weights=self._samples.lost(len(source_keys)),
            minlength=len(self),
        )
        found = []
        for number in range(len(self)):
            counts = {name: int(column[number]) for name, column in self._counts.items()}
            with_rate, stamped = counts.pop("rows_with_rate"), counts.pop("rows_with_stamp")
            flows = counts["flow_samples"]
            state = "ok"
            if not flows:
                state = "counters_only"
            elif not with_rate:
                state = "rate_unknown"
            found.append(
                ExporterHealth(
                    agent=self.agent(number),
                    sub_agent=int(self._keys.keys[number, 2]),
                    protocol="sflow5",
                    lost_datagrams=int(lost[number]),
                    lost_samples=int(lost_samples[number]),
                    sampling_rates=tuple(sorted(self._rates[number])),
                    time_basis=TimeBasis.EXPORTER if 2 * stamped > flows else TimeBasis.ARRIVAL,
                    state=state,
                    **counts,
                )
            )
        return tuple(found)

    def _grow(self) -> None:
        missing = len(self) - len(self._last_arrival_ns)
        if missing <= 0:
            return
        for name, column in self._counts.items():
            self._counts[name] = np.concatenate((column, np.zeros(missing, np.int64)))
        self._last_arrival_ns = np.concatenate(
            (self._last_arrival_ns, np.full(missing, np.iinfo(np.int64).min, np.int64))
        )

    def _add(self, name: str, number: I64, weight: I64 | None = None) -> None:
        """Add 1, or `weight`, to the count of each exporter in `number`."""
        np.add.at(self._counts[name], number, 1 if weight is None else weight)
