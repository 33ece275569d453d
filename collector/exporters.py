"""The exporters of a window: who they are, what they lost, and when their samples were taken."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.addresses import to_text
from collector.happenings import Happenings
from collector.keys import KeyTable
from collector.link import DatagramBatch
from collector.loss import Order, Streams
from collector.moves import Moves
from collector.polled import PortBatch
from collector.ports import PortNames
from collector.schema import I32, I64, U8, U32, U64, ExporterHealth, FlowBatch, TimeBasis
from collector.sflow import Headers, Samples
from collector.sources import CounterRows, FlowRows, Sources
from collector.timing import Timing

# An exporter flushes at the latest after a second, so a sample is no older than that when it comes.
FLUSH_NS: Final = 1_000_000_000
# A forged capture can name a new agent in every datagram; a fabric has some hundreds.
MOST_EXPORTERS: Final = 1 << 14
# Agents poll counters every 20 or 30 s, so that even an idle one is not silent for so long.
SILENT_NS: Final = 120_000_000_000
_MOST_RATES: Final = 64  # of one exporter
_ROWS: Final = ("rows_with_rate", "rows_with_stamp", "rows_put_right")
_COUNTS: Final = (
    "datagrams",
    "flow_samples",
    "counter_samples",
    "discard_samples",
    "unknown_samples",
    "duplicate_datagrams",
    "decode_errors",
    "restarts",
    *_ROWS,
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
    prompt : bool
        It is fresh, and came in order.
    restarted : bool
        Its agent started again before it.
    arrival_ns : int64
        When it came, ns since the epoch; 0 = not known.
    earliest_ns : int64
        Before this no sample of it can have been taken.
    """

    exporter: I64
    fresh: NDArray[np.bool_]
    prompt: NDArray[np.bool_]
    restarted: NDArray[np.bool_]
    arrival_ns: I64
    earliest_ns: I64


class ExporterTable:
    """Exporters by (agent, sub-agent), numbered in order of first appearance."""

    def __init__(self) -> None:
        self._keys = KeyTable(MOST_EXPORTERS)
        self._moves = Moves()
        self._datagrams = Streams(digests=True)
        self._timing = Timing()
        self._names = PortNames()
        self._sources = Sources()
        self._counts = {name: np.zeros(0, np.int64) for name in _COUNTS}
        self._last_arrival_ns = np.zeros(0, np.int64)
        self._rates: defaultdict[int, set[int]] = defaultdict(set)
        self._happenings = Happenings(self.agent)
        self._changed = np.zeros(0, np.bool_)  # since its health was last told
        self._silent = np.zeros(0, np.bool_)
        self._health: list[ExporterHealth] = []

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
        rows, number = self._numbered(batch, headers, readable)
        order = self._datagrams.follow(
            len(self), number, headers.sequence[rows], headers.uptime_ms[rows], headers.digest[rows]
        )
        fresh = order != Order.DUPLICATE
        self._changed[number] = True
        self._add("datagrams", number)
        self._add("duplicate_datagrams", number[~fresh])
        self._add("restarts", number[order == Order.RESTART])
        for name, column in (
            ("counter_samples", headers.counters),
            ("discard_samples", headers.discards),
            ("unknown_samples", headers.unknown),
        ):
            self._add(name, number, np.where(fresh, column[rows], 0))
        for kind in (Order.RESTART, Order.LEAP):
            at = rows[order == kind]
            self._happenings.started(kind, number[order == kind], batch.arrival_ns[at])

        earliest_ns = batch.arrival_ns - FLUSH_NS
        # What came late or twice says nothing about when the exporter flushed.
        prompt = fresh & (order != Order.LATE)
        self._bound(rows[prompt], number[prompt], batch.arrival_ns, earliest_ns)
        arrivals = Arrivals(
            exporter=_spread(rows, number, np.full(len(batch), -1, np.int64)),
            fresh=_spread(rows, fresh, np.zeros(len(batch), np.bool_)),
            prompt=_spread(rows, prompt, np.zeros(len(batch), np.bool_)),
            restarted=_spread(rows, order == Order.RESTART, np.zeros(len(batch), np.bool_)),
            arrival_ns=batch.arrival_ns,
            earliest_ns=earliest_ns,
        )
        self._timing.arrive(
            len(self), rows[prompt], arrivals.exporter, batch.arrival_ns, headers.uptime_ms
        )
        return arrivals

    def _numbered(
        self, batch: DatagramBatch, headers: Headers, readable: NDArray[np.bool_]
    ) -> tuple[I64, I64]:
        """Rows of datagrams of exporters, and which they are of."""
        rows = np.flatnonzero(readable)
        number = self._keys.number(
            headers.agent_hi[rows],
            headers.agent_lo[rows],
            headers.sub_agent[rows].astype(np.uint64),
        )
        known = number < MOST_EXPORTERS
        rows, number = rows[known], number[known]
        self._grow()
        number, joined = self._moves.follow(
            len(self),
            number,
            headers.sub_agent[rows],
            batch.arrival_ns[rows],
            headers.sequence[rows],
            headers.uptime_ms[rows],
            (batch.src_hi[rows], batch.src_lo[rows]),
        )
        for new, old in joined:
            self._changed[new] = True
            self._datagrams.grow(len(self))
            self._datagrams.adopt(np.array([old]), np.array([new]))
            self._sources.adopt(old, new)
            self._happenings.moved(new, old, self._moves.since_ns(new))
        return rows, number

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

    def place(
        self, flows: FlowBatch, arrivals: Arrivals, datagram: I64, stamp_ns: U64
    ) -> NDArray[np.bool_]:
        """Set the times of flow samples, and what they rest on.

        Parameters
        ----------
        flows
            The rows that count, with their exporter.
        arrivals
            Of the datagrams they came in.
        datagram : int64, shape (len(flows),)
            Which that is.
        stamp_ns : uint64, shape (len(flows),)
            The exporter's time of each; 0 = none.

        Returns
        -------
        bool, shape (len(flows),)
            Its exporter's time is absurd, and not believed.
        """
        return self._timing.place(
            len(self),
            arrivals.exporter,
            arrivals.prompt,
            arrivals.arrival_ns,
            arrivals.earliest_ns,
            datagram,
            stamp_ns,
            flows,
        )

    def take(self, flows: FlowBatch, samples: Samples, kept: I64, arrivals: Arrivals) -> None:
        """Take in the samples of the datagrams just arrived.

        Parameters
        ----------
        flows
            The rows that count, with exporter and time.
        samples
            What was decoded.
        kept : int64, shape (len(flows),)
            Which flow sample of `samples` each row is.
        arrivals
            Of the datagrams.
        """
        number = flows.exporter.astype(np.int64)
        _tally(
            flows.exporter,
            flows.sampling_rate,
            flows.time_basis,
            *(self._counts[name] for name in ("flow_samples", *_ROWS)),
        )
        whole = arrivals.fresh[samples.counter_datagram]
        counted = samples.counters.take(whole)
        flow_rows = FlowRows(
            samples.flow_datagram[kept],
            samples.sampled.source[kept],
            samples.sampled.sequence[kept],
            samples.sampled.pool[kept],
            samples.sampled.dropped[kept],
            flows.sampling_rate,
            flows.direction,
        )
        counter_rows = CounterRows(
            samples.counter_datagram[whole],
            counted.ifindex,
            counted.in_ucast_pkts,
            counted.out_ucast_pkts,
        )
        events = self._sources.take(
            len(self),
            arrivals.exporter,
            arrivals.restarted,
            arrivals.arrival_ns,
            samples.headers.uptime_ms,
            flow_rows,
            counter_rows,
        )
        news = np.flatnonzero(events.rate_is_news)
        if len(news):
            pairs = np.unique((number[news] << 32) | flows.sampling_rate[news].astype(np.int64))
            for pair in pairs.tolist():
                if len(self._rates[pair >> 32]) < _MOST_RATES:
                    self._rates[pair >> 32].add(pair & 0xFFFF_FFFF)
        self._happenings.sampling(
            events, flow_rows, counter_rows, arrivals.exporter, arrivals.arrival_ns
        )
        self._timing.take(flows)

    def put_right(self, flows: FlowBatch) -> None:
        """Set right the times of all samples, by what all of them tell of their clocks."""
        self._timing.put_right(len(self), flows)
        self._changed[:] = True
        for name, basis in (
            ("rows_with_stamp", TimeBasis.EXPORTER),
            ("rows_put_right", TimeBasis.INTERPOLATED),
        ):
            of_basis = flows.exporter[flows.time_basis == basis]
            self._counts[name] = np.bincount(of_basis, minlength=len(self)).astype(np.int64)

    def name(self, ports: PortBatch) -> None:
        """Take in what the exporters call their ports; rows with exporter and arrival."""
        if len(ports):
            self._happenings.ports(ports, self._names.take(ports))

    def add_errors(self, exporter: I64) -> None:
        """Count one decode error for each entry; int64, shape (n,)."""
        self._changed[exporter] = True
        self._add("decode_errors", exporter)

    def agent(self, number: int) -> str:
        """The agent's address as text."""
        return to_text(int(self._keys.keys[number, 0]), int(self._keys.keys[number, 1]))

    def health(self) -> tuple[ExporterHealth, ...]:
        """All exporters, as seen so far."""
        count = len(self)
        heard_ns = self._moves.heard_ns(count)
        now_ns = int(heard_ns.max(initial=0))
        if self._timing.settle(count):
            self._changed[:] = True
        self._happenings.clocks(self._timing.corrections(count), self._timing.steps(count), now_ns)
        silent = heard_ns < now_ns - SILENT_NS
        rows = np.flatnonzero(self._changed | (silent != self._silent))
        self._silent = silent
        self._changed[:] = False
        told = {name: column[rows].tolist() for name, column in self._columns(count).items()}
        extra = {name: told.pop(name) for name in _ROWS}
        missing = self._sources.missing(count)
        self._health += [None] * (count - len(self._health))  # type: ignore[list-item]
        for nth, number in enumerate(rows.tolist()):
            of_one = {name: column[nth] for name, column in told.items()}
            flows, stamped = of_one["flow_samples"], extra["rows_with_stamp"][nth]
            right = extra["rows_put_right"][nth]
            state = "ok"
            if self._moves.moved(number) is not None:
                state = "moved"
            elif silent[number]:
                state = "silent"
            elif not flows or missing[number]:
                state = "counters_only"
            elif not extra["rows_with_rate"][nth]:
                state = "rate_unknown"
            basis = TimeBasis.ARRIVAL
            if 2 * (stamped + right) > flows:
                basis = TimeBasis.INTERPOLATED if right > stamped else TimeBasis.EXPORTER
            self._health[number] = ExporterHealth(
                agent=self.agent(number),
                sub_agent=int(self._keys.keys[number, 2]),
                protocol="sflow5",
                sampling_rates=tuple(sorted(self._rates[number])),
                time_basis=basis,
                state=state,
                clock=self._timing.health(number),
                notes=self._happenings.notes(number),
                **of_one,
            )
        return tuple(self._health)

    def _columns(self, count: int) -> dict[str, I64]:
        """Counts of all exporters."""
        expected, pooled = self._sources.by_pool(count)
        due, counted = self._sources.by_counters(count)
        return self._counts | {
            "lost_datagrams": self._datagrams.lost(count),
            "lost_samples": self._sources.lost(count),
            "dropped_samples": self._sources.dropped(count),
            "expected_samples": np.rint(expected).astype(np.int64),
            "pooled_samples": pooled,
            "due_samples": np.rint(due).astype(np.int64),
            "counted_samples": counted,
        }

    def _grow(self) -> None:
        missing = len(self) - len(self._last_arrival_ns)
        if missing <= 0:
            return
        for name, column in self._counts.items():
            self._counts[name] = np.concatenate((column, np.zeros(missing, np.int64)))
        self._last_arrival_ns = np.concatenate(
            (self._last_arrival_ns, np.full(missing, np.iinfo(np.int64).min, np.int64))
        )
        self._changed = np.concatenate((self._changed, np.ones(missing, np.bool_)))
        self._silent = np.concatenate((self._silent, np.zeros(missing, np.bool_)))

    def _add(self, name: str, number: I64, weight: I64 | None = None) -> None:
        """Add 1, or `weight`, to the count of each exporter in `number`."""
        np.add.at(self._counts[name], number, 1 if weight is None else weight)


@njit(cache=True, nogil=True)
def _tally(
    exporter: I32,
    rate: U32,
    basis: U8,
    samples: I64,
    with_rate: I64,
    with_stamp: I64,
    put_right: I64,
) -> None:
    """Count samples by exporter."""
    for row in range(len(exporter)):
        e = exporter[row]
        samples[e] += 1
        with_rate[e] += rate[row] != 0
        with_stamp[e] += basis[row] == TimeBasis.EXPORTER
        put_right[e] += basis[row] == TimeBasis.INTERPOLATED


def _spread(rows: I64, values: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """`out` with the values at these rows."""
    out[rows] = values
    return out
