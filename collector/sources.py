"""Samplers: samples that are missing by their numbers, their pools and their ports' counters.

A sampler numbers its samples, so what was lost on the way shows as a gap. It also counts the
packets it chose from (its pool) and those it chose and could not send (its drops), so that what a
switch held back shows too. And a port's counters say how many packets passed: where hundreds of
samples are due and none comes, sampling is off, and the network is not idle.

Source: sFlow version 5 (sflow.org), flow_sample: sequence_number, source_id, sample_pool, drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.columns import joined
from collector.keys import KeyTable
from collector.loss import Order, Streams
from collector.schema import I64, U8, U32, U64

# Samplers and ports: some hundreds a switch.
MOST_SOURCES: Final = 1 << 20
# So many samples are due and none came: by chance once in e^20 times.
DUE: Final = 20.0
_HALF: Final = 1 << 31


class _Source(NamedTuple):
    """One row per data source."""

    pool: I64  # of its newest sample; -1 = none yet
    dropped: I64
    rate: I64  # 0 = not said yet
    direction: I64  # of its newest sample that says it
    in_pkts: I64  # of its newest counters; -1 = none yet
    out_pkts: I64
    epoch: I64  # the exporter's, of those counters
    counted_ns: I64  # their arrival
    since: I64  # flow samples that came since then
    rate_then: I64  # of its newest sample when counters are held to it; 0 = not said yet


class _Exporter(NamedTuple):
    """One row per exporter."""

    epoch: I64  # restarts
    due: NDArray[np.float64]  # samples that counters promise since its newest flow sample
    flow_ns: I64  # arrival of that
    missing: U8  # enough of them are due to say so
    dropped: I64  # chosen, and not sent for lack of resources
    pooled: I64  # samples behind a source's first
    expected: NDArray[np.float64]  # samples by the pools they were chosen from, over the same
    passed: NDArray[np.float64]  # samples by what passed the ports, between two of their counters
    counted: I64  # samples that came between the same


class FlowRows(NamedTuple):
    """Flow samples that count, in the order of their datagrams; columns of shape (n,)."""

    datagram: I64
    source: U64  # class << 32 | index
    sequence: U32
    pool: U32
    dropped: U32
    rate: U32
    direction: U8  # as in `FlowBatch`


class CounterRows(NamedTuple):
    """Counter samples that count, in the order of their datagrams; columns of shape (n,)."""

    datagram: I64
    ifindex: U32
    in_pkts: U32
    out_pkts: U32


@dataclass(frozen=True, slots=True)
class Events:
    """What a batch tells.

    Attributes
    ----------
    rate_is_news : bool, shape (flow rows,)
        The sample says another rate than its source's sample before, or is its first to say one.
    rate_before : int64, shape (flow rows,)
        The rate until then; 0 = none, or no news.
    stopped : bool, shape (counter rows,)
        From here on it is plain that flow samples are missing.
    silent_since_ns : int64, shape (flow rows,)
        When the flow sample before came, where this one ends such a gap; else 0.
    """

    rate_is_news: NDArray[np.bool_]
    rate_before: I64
    stopped: NDArray[np.bool_]
    silent_since_ns: I64


@njit(cache=True, nogil=True)
def _pools(
    exporter: I64,
    source: I64,
    order: U8,
    flows: FlowRows,
    sources: _Source,
    exporters: _Exporter,
    rate_is_news: NDArray[np.bool_],
    rate_before: I64,
) -> None:
    for row in range(len(source)):
        s, e = source[row], exporter[row]
        rate = np.int64(flows.rate[row])
        if order[row] == Order.LATE:
            exporters.pooled[e] += 1  # its pool was counted with the one that overtook it
        if order[row] in (Order.LATE, Order.DUPLICATE):
            continue
        if rate and rate != sources.rate[s]:
            rate_before[row] = sources.rate[s]
            rate_is_news[row] = True
            sources.rate[s] = rate
        if order[row] == Order.REUSED:
            continue
        if flows.direction[row]:
            sources.direction[s] = flows.direction[row]
        pool, dropped = np.int64(flows.pool[row]), np.int64(flows.dropped[row])
        if order[row] == Order.RESTART:
            exporters.dropped[e] += dropped
        elif order[row] == Order.NEXT and sources.pool[s] >= 0:
            chosen_from = (pool - sources.pool[s]) & 0xFFFF_FFFF
            if rate and chosen_from < _HALF:
                exporters.expected[e] += chosen_from / rate
                exporters.pooled[e] += 1
            more = (dropped - sources.dropped[s]) & 0xFFFF_FFFF
            if more < _HALF:
                exporters.dropped[e] += more
        sources.pool[s] = pool
        sources.dropped[s] = dropped


@njit(cache=True, nogil=True)
def _gaps(
    exporter: I64,
    restarted: NDArray[np.bool_],
    arrival_ns: I64,
    flow_datagram: I64,
    flow_source: I64,
    flow_rate: U32,
    counters: CounterRows,
    port: I64,
    known: int,
    sources: _Source,
    exporters: _Exporter,
    stopped: NDArray[np.bool_],
    silent_since_ns: I64,
) -> None:
    """Hold the ports' counters to the samples, datagram by datagram."""
    flow = counter = 0
    for d in range(len(exporter)):
        e = exporter[d]
        if e >= 0 and restarted[d]:
            exporters.epoch[e] += 1
        while counter < len(port) and counters.datagram[counter] == d:
            s = port[counter]
            into = np.int64(counters.in_pkts[counter])
            out = np.int64(counters.out_pkts[counter])
            if s < known:
                # Only a port that was sampled before promises samples, and only when none of any
                # port came since, all of them are missing.
                goes_on = sources.in_pkts[s] >= 0 and sources.epoch[s] == exporters.epoch[e]
                if goes_on and sources.rate_then[s]:
                    passed = (into - sources.in_pkts[s]) & 0xFFFF_FFFF
                    if sources.direction[s] == 2:
                        passed = (out - sources.out_pkts[s]) & 0xFFFF_FFFF
                    if passed < _HALF:
                        exporters.passed[e] += passed / sources.rate_then[s]
                        exporters.counted[e] += sources.since[s]
                        if sources.counted_ns[s] > exporters.flow_ns[e]:
                            exporters.due[e] += passed / sources.rate_then[s]
                sources.since[s] = 0
                sources.in_pkts[s] = into
                sources.out_pkts[s] = out
                sources.epoch[s] = exporters.epoch[e]
                sources.counted_ns[s] = arrival_ns[d]
                if exporters.due[e] >= DUE and not exporters.missing[e]:
                    exporters.missing[e] = 1
                    stopped[counter] = True
            counter += 1
        while flow < len(flow_datagram) and flow_datagram[flow] == d:
            if exporters.missing[e]:
                exporters.missing[e] = 0
                silent_since_ns[flow] = exporters.flow_ns[e]
            s = flow_source[flow]
            if s < known:
                sources.since[s] += 1
                if flow_rate[flow]:
                    sources.rate_then[s] = flow_rate[flow]
            exporters.due[e] = 0.0
            exporters.flow_ns[e] = arrival_ns[d]
            flow += 1


class Sources:
    """Follows the data sources of all exporters, in the order of arrival."""

    def __init__(self) -> None:
        self._keys = KeyTable(MOST_SOURCES)
        self._numbers = Streams(digests=False)
        self._sources = _sources(0)
        self._exporters = _exporters(0)

    def take(
        self,
        exporters: int,
        exporter: I64,
        restarted: NDArray[np.bool_],
        arrival_ns: I64,
        uptime_ms: U32,
        flows: FlowRows,
        counters: CounterRows,
    ) -> Events:
        """Take in what a batch of datagrams says.

        Parameters
        ----------
        exporters
            How many there are by now.
        exporter : int64, shape (datagrams,)
            -1 = none; rows of such a datagram must not be given.
        restarted : bool, shape (datagrams,)
            The exporter's clock began anew before it.
        arrival_ns : int64, shape (datagrams,)
        uptime_ms : uint32, shape (datagrams,)
        flows, counters
            Their samples.
        """
        of_flow = exporter[flows.datagram]
        source = self._number(of_flow, flows.source)
        port = self._number(exporter[counters.datagram], counters.ifindex.astype(np.uint64))
        self._grow(exporters)
        rate_is_news = np.zeros(len(source), np.bool_)
        rate_before = np.zeros(len(source), np.int64)
        _pools(
            of_flow,
            source,
            self._follow(source, flows, uptime_ms),
            flows,
            self._sources,
            self._exporters,
            rate_is_news,
            rate_before,
        )
        stopped = np.zeros(len(port), np.bool_)
        silent_since_ns = np.zeros(len(source), np.int64)
        _gaps(
            exporter,
            restarted,
            arrival_ns,
            flows.datagram,
            source,
            flows.rate,
            counters,
            port,
            len(self._keys),
            self._sources,
            self._exporters,
            stopped,
            silent_since_ns,
        )
        return Events(rate_is_news, rate_before, stopped, silent_since_ns)

    def adopt(self, exporter: int, other: int) -> None:
        """Let an exporter's sources go on where those of another, which it was, stand."""
        there = np.flatnonzero(self._keys.keys[:, 0] == other)
        owner = np.full(len(there), exporter, np.int64)
        here = self._number(owner, np.ascontiguousarray(self._keys.keys[there, 1]))
        there, here = there[here < MOST_SOURCES], here[here < MOST_SOURCES]
        self._grow(max(exporter, other) + 1)
        self._numbers.grow(len(self._keys))
        self._numbers.adopt(here, there)
        for column in self._sources:
            column[here] = column[there]
        self._sources.epoch[here] = -1  # epochs are the exporter's own

    def lost(self, exporters: int) -> I64:
        """Samples lost by their own numbers, by exporter; int64, shape (exporters,)."""
        lost = self._numbers.lost(len(self._keys))
        owner = self._keys.keys[:, 0].astype(np.int64)
        return np.bincount(owner, lost, exporters).astype(np.int64)

    def dropped(self, exporters: int) -> I64:
        """Samples that samplers chose and did not send; int64, shape (exporters,)."""
        return self._exporters.dropped[:exporters]

    def by_pool(self, exporters: int) -> tuple[NDArray[np.float64], I64]:
        """Samples that the pools promise, and those that came, both behind a source's first."""
        return self._exporters.expected[:exporters], self._exporters.pooled[:exporters]

    def by_counters(self, exporters: int) -> tuple[NDArray[np.float64], I64]:
        """Samples that the ports' counters promise, and those that came of them."""
        return self._exporters.passed[:exporters], self._exporters.counted[:exporters]

    def missing(self, exporters: int) -> NDArray[np.bool_]:
        """Whether counters promise samples that do not come; bool, shape (exporters,)."""
        return self._exporters.missing[:exporters].astype(np.bool_)

    def _follow(self, source: I64, flows: FlowRows, uptime_ms: U32) -> U8:
        """`Order` of each sample; those of sources beyond the most are as good as duplicates."""
        order = np.full(len(source), Order.DUPLICATE, np.uint8)
        followed = source < MOST_SOURCES
        known: NDArray[np.bool_] | slice = slice(None) if followed.all() else followed
        order[known] = self._numbers.follow(
            len(self._keys),
            source[known],
            flows.sequence[known],
            uptime_ms[flows.datagram[known]],
            np.zeros(len(source), np.uint64)[known],
        )
        return order

    def _number(self, exporter: I64, source: U64) -> I64:
        return self._keys.number(
            exporter.astype(np.uint64), source, np.zeros(len(source), np.uint64)
        )

    def _grow(self, exporters: int) -> None:
        missing = len(self._keys) - len(self._sources.pool)
        if missing > 0:
            self._sources = joined((self._sources, _sources(max(missing, len(self._sources.pool)))))
        missing = exporters - len(self._exporters.due)
        if missing > 0:
            self._exporters = joined(
                (self._exporters, _exporters(max(missing, len(self._exporters.due))))
            )


def _sources(rows: int) -> _Source:
    zeros = (np.zeros(rows, np.int64) for _ in _Source._fields)
    unseen = np.full(rows, -1, np.int64)
    return _Source(*zeros)._replace(pool=unseen, in_pkts=unseen.copy())


def _exporters(rows: int) -> _Exporter:
    return _Exporter(
        epoch=np.zeros(rows, np.int64),
        due=np.zeros(rows, np.float64),
        flow_ns=np.zeros(rows, np.int64),
        missing=np.zeros(rows, np.uint8),
        dropped=np.zeros(rows, np.int64),
        pooled=np.zeros(rows, np.int64),
        expected=np.zeros(rows, np.float64),
        passed=np.zeros(rows, np.float64),
        counted=np.zeros(rows, np.int64),
    )
