"""Datagrams of IPFIX and NetFlow in; flow records, counters and sampled packets out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from collector.addresses import to_text
from collector.ipfix import flows, hft, packets, reading, times
from collector.ipfix.copies import Copies
from collector.ipfix.crossings import Crossings
from collector.ipfix.elements import Field
from collector.ipfix.flows import Around
from collector.ipfix.layouts import NO_PLAN, Layouts, Replay, follow
from collector.ipfix.messages import (
    FIRST_DATA,
    IPFIX,
    NETFLOW_9,
    REASONS,
    VERSION_5_RECORDS,
    Messages,
    Sets,
    Status,
    walk,
)
from collector.ipfix.numbering import Numbering
from collector.ipfix.plans import Plan, Use
from collector.ipfix.reading import Rows
from collector.ipfix.sampling import Samplers, rate_of
from collector.ipfix.tally import RecordExporter, Tally
from collector.ipfix.templates import Templates
from collector.ipfix.times import Times
from collector.ipfix.totals import Totals
from collector.ipfix.uptimes import Uptimes
from collector.ipfix.waiting import Held, Waiting
from collector.ipfix.work import Work, by_plan, parts, read, replayed
from collector.keys import KeyTable
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.records import RecordBatch
from collector.schema import I64, U8, U32, U64, CounterBatch, FlowBatch

MOST_STREAMS: Final = 1 << 14
MOST_EXPORTERS: Final = 1 << 13
GIVEN_UP: Final = "a set whose template did not come: given up"
_PROTOCOLS: Final = {10: "ipfix", 9: "netflow9", 5: "netflow5"}
# Padding that is not zero is odd, but no more of it than aligns a set says nothing.
_SLOPPY_BYTES: Final = 3
_NO_RATES: Final = (
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint32),
)
News = tuple[I64, I64, U32, U32]


class IpfixIngest:
    """Decodes datagrams of IPFIX and NetFlow versions 5 and 9 as they come.

    What one datagram says of others (templates, rates, totals, numbers) is remembered, so all of a
    service's life go through one of these, in order and from one thread. Datagrams of other
    protocols are noted as faults: who calls keeps them apart.
    """

    def __init__(self) -> None:
        self._sessions = KeyTable(MOST_STREAMS)
        self._streams = KeyTable(MOST_STREAMS)
        self._exporters = KeyTable(MOST_EXPORTERS)
        self._owner = np.zeros(MOST_STREAMS, np.int64)  # by stream: its exporter
        self._session = np.zeros(MOST_STREAMS, np.int64)  # and its session
        self._tally = Tally(MOST_EXPORTERS)
        self._uptimes = Uptimes()
        self._numbering = Numbering()
        self._templates = Templates()
        self._waiting = Waiting()
        self._samplers = Samplers()
        self._totals = Totals()
        self._copies = Copies()
        self._crossings = Crossings()

    def __len__(self) -> int:
        return len(self._exporters)

    @property
    def unread_records(self) -> int:
        """Records of templates without two addresses, nor packets, nor counters."""
        return int(self._tally.counts["unread_records"].sum())

    @property
    def waiting_sets(self) -> int:
        """Sets whose template has not come yet."""
        return self._waiting.sets

    @property
    def dropped_sets(self) -> int:
        """Sets that were given up because their template did not come in time."""
        return self._waiting.dropped

    def add(
        self, batch: DatagramBatch, faults: Faults
    ) -> tuple[RecordBatch, CounterBatch, FlowBatch]:
        """Decode the next batch.

        Parameters
        ----------
        batch
            Datagrams in the order of their arrival, one message each.
        faults
            Takes note of what could not be read.

        Returns
        -------
        RecordBatch, CounterBatch, FlowBatch
            Flow records; counters of ports (SONiC's high-frequency telemetry); packets that were
            sampled with their headers. Records that waited for their template stand last.
        """
        messages, sets = walk(batch)
        stream, exporter = self._who(batch, messages)
        self._uptimes.sharpen(stream, messages)
        self._note(batch, messages, stream, exporter, faults)
        copies = self._copies.find(batch, stream, len(self._streams))
        self._tally.add("copies", exporter[copies])
        stream[copies] = -1
        restarted = np.flatnonzero(self._numbering.restarts(stream, messages.uptime_ms))
        damaged, refused = self._templates.damaged, self._templates.refused
        layouts, replays = follow(
            batch.buffer,
            sets,
            stream,
            messages.version,
            restarted,
            self._templates,
            self._waiting,
        )
        for reason, count in (
            ("a template that cannot be read", self._templates.damaged - damaged),
            ("more templates than are remembered", self._templates.refused - refused),
        ):
            if count:
                faults.note(reason, None, count)
        plan = layouts.plan()
        work, late = self._fitting(batch, messages, sets, layouts, plan, stream, exporter, faults)
        works = [work]
        if replays or late:
            held = replayed(replays + late, layouts.plans)
            self._tally.add("records", held.exporter, held.records)
            works.append(held)
        news = [self._options(each, layouts.plans) for each in works]
        pieces = [
            self._rows(each, layouts.plans, told) for each, told in zip(works, news, strict=True)
        ]
        records = RecordBatch.concat([piece for rows, _, _ in pieces for piece in rows])
        counters = CounterBatch.concat([piece for _, rows, _ in pieces for piece in rows])
        sampled = FlowBatch.concat([piece for _, _, rows in pieces for piece in rows])
        self._crossings.mark(records)
        self._tally.rows(records, counters, sampled)
        return records, counters, sampled

    def put_right(self, records: RecordBatch) -> None:
        """Fill in, in place, what was told only later, at the end of a window.

        Rates of records that came before their options, and which flows enter as well as leave.
        """
        lacking = np.flatnonzero(records.sampling_rate == 0)
        exporter = records.exporter[lacking].astype(np.int64)
        records.sampling_rate[lacking] = self._samplers.rates(
            exporter,
            records.selector[lacking],
            _watched(records.direction[lacking], records.input[lacking], records.output[lacking]),
        )
        self._tally.told_later(exporter, records.sampling_rate[lacking])
        Crossings(max(2 * len(records), 1)).mark(records)

    def exporters(self) -> tuple[RecordExporter, ...]:
        """All exporters seen, as they are numbered in rows."""
        streams = len(self._streams)
        self._numbering.grow(streams)
        lost, restarts = (np.zeros(MOST_EXPORTERS + 1, np.int64) for _ in range(2))
        np.add.at(lost, self._owner[:streams], self._numbering.lost(streams))
        np.add.at(restarts, self._owner[:streams], self._numbering.restarted(streams))
        waiting = self._waiting.by_exporter()
        return tuple(
            self._tally.exporter(
                number,
                agent=to_text(hi, lo),
                domain=domain >> 8,
                protocol=_PROTOCOLS[domain & 0xFF],
                waiting_sets=waiting[number],
                lost=int(lost[number]),
                restarts=int(restarts[number]),
            )
            for number, (hi, lo, domain) in enumerate(self._exporters.keys.tolist())
        )

    def _who(self, batch: DatagramBatch, messages: Messages) -> tuple[I64, I64]:
        """The stream and exporter of each message; -1 = none, or one too many."""
        stream, exporter = (np.full(len(batch), -1, np.int64) for _ in range(2))
        rows = np.flatnonzero(messages.version)
        ports = (batch.src_port[rows].astype(np.uint64) << np.uint64(16)) | batch.dst_port[rows]
        hi, lo = batch.src_hi[rows], batch.src_lo[rows]
        domain = messages.domain[rows].astype(np.uint64)
        version = messages.version[rows].astype(np.uint64)
        session = self._sessions.number(hi, lo, ports)
        of_stream = self._streams.number(session.astype(np.uint64), domain, version)
        owner = self._exporters.number(hi, lo, (domain << np.uint64(8)) | version)
        kept = (session < MOST_STREAMS) & (of_stream < MOST_STREAMS) & (owner < MOST_EXPORTERS)
        stream[rows[kept]] = of_stream[kept]
        exporter[rows[kept]] = owner[kept]
        self._owner[of_stream[kept]] = owner[kept]
        self._session[of_stream[kept]] = session[kept]
        self._numbering.grow(len(self._streams))
        self._uptimes.grow(len(self._streams))
        self._tally.heard(owner[kept], batch.arrival_ns[rows[kept]])
        return stream, exporter

    def _note(
        self, batch: DatagramBatch, messages: Messages, stream: I64, exporter: I64, faults: Faults
    ) -> None:
        """Count damaged messages by exporter, or by sender where none is named."""
        at = messages.fault_at - batch.offset + batch.file_offset
        if messages.status.any():
            for status, text in REASONS.items():
                bad = np.flatnonzero(messages.status == status)
                self._note_rows(text, bad, exporter, at, faults)
        beyond = np.flatnonzero((messages.version > 0) & (stream < 0))
        if len(beyond):
            self._note_rows(
                f"one more than {MOST_EXPORTERS} exporters: not followed",
                beyond,
                exporter,
                at,
                faults,
            )

    def _note_rows(self, reason: str, rows: I64, exporter: I64, at: I64, faults: Faults) -> None:
        self._tally.add("errors", exporter[rows])
        numbers, first, counts = np.unique(exporter[rows], return_index=True, return_counts=True)
        for number, row, count in zip(numbers, first, counts, strict=True):
            agent = self._agent(int(number)) if number >= 0 else None
            faults.note(reason, int(at[rows[row]]), int(count), agent)

    def _fitting(
        self,
        batch: DatagramBatch,
        messages: Messages,
        sets: Sets,
        layouts: Layouts,
        plan: I64,
        stream: I64,
        exporter: I64,
        faults: Faults,
    ) -> tuple[Work, list[Replay]]:
        """Sets that fit a plan, and those that fit a later one; the others wait.

        Follows the messages' numbers, too.
        """
        data = np.flatnonzero(
            ((sets.id >= FIRST_DATA) | (sets.id == VERSION_5_RECORDS)) & (stream[sets.message] >= 0)
        )
        message = sets.message[data]
        found = plan[data] != NO_PLAN
        records = np.zeros(len(data), np.int64)
        known = data[found]
        counted, rest = reading.count(
            batch.buffer, sets.start[known], sets.end[known], plan[known], layouts.plans
        )
        odd = np.flatnonzero(rest > 0)
        for row in odd.tolist():
            left = batch.buffer[sets.end[known[row]] - rest[row] : sets.end[known[row]]]
            if not left.any() or messages.status[sets.message[known[row]]]:
                rest[row] = 0  # padding, or cut off: what is whole is good
            elif counted[row] and rest[row] <= _SLOPPY_BYTES:
                rest[row] = 0
        records[found] = counted
        strange = np.zeros(len(data), np.bool_)
        strange[found] = rest > 0
        at = messages.fault_at - batch.offset + batch.file_offset
        if strange.any():
            text = "a set that its template does not fit: it waits for another"
            self._note_rows(text, message[strange], exporter, at, faults)
        good = found & ~strange
        late = self._wait(batch, messages, sets, layouts, data[~good], stream, exporter, faults)
        records[~good] = 0
        units = np.zeros(len(batch), np.int64)
        np.add.at(units, message, records)
        self._tally.add("records", exporter[message], records)
        units[message[~good]] = -1
        units[messages.version == NETFLOW_9] = 1
        # A message of IPFIX that is damaged may have held more.
        units[(messages.status != Status.FINE) & (messages.version == IPFIX)] = -1
        whole = (messages.version == IPFIX) & (messages.domain == 0)
        session = self._session[stream]
        self._numbering.follow(stream, session, whole, messages.sequence, units)
        good &= records > 0
        rows, of = data[good], message[good]
        fitting = Work(
            batch.buffer,
            sets.start[rows],
            sets.end[rows],
            plan[rows],
            records[good],
            rows,
            batch.arrival_ns[of],
            messages.time_ns[of],
            messages.uptime_ms[of],
            exporter[of],
            stream[of],
            messages.sampling[of],
        )
        return fitting, late

    def _wait(
        self,
        batch: DatagramBatch,
        messages: Messages,
        sets: Sets,
        layouts: Layouts,
        rows: I64,
        stream: I64,
        exporter: I64,
        faults: Faults,
    ) -> list[Replay]:
        """Keep sets whose template is not known until it comes, if it did not within the batch."""
        of = sets.message[rows]
        columns = (
            rows,
            stream[of],
            sets.id[rows],
            sets.start[rows],
            sets.end[rows],
            batch.arrival_ns[of],
            messages.time_ns[of],
            messages.uptime_ms[of],
            exporter[of],
        )
        late = []
        gone: list[int] = []
        for row, owner, number, start, end, *around in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            held = Held._make((*around, owner, batch.buffer[start:end].tobytes()))
            plan = layouts.later(row)
            if plan == NO_PLAN:
                gone += self._waiting.add(owner, number, held)
            else:
                late.append(Replay(plan, [held]))
        if gone:
            lost = np.array(gone, np.int64)
            self._tally.add("dropped_sets", lost)
            for number, count in zip(*np.unique(lost, return_counts=True), strict=True):
                self._note_count(GIVEN_UP, int(number), int(count), faults)
        return late

    def missing(self) -> list[tuple[str, int]]:
        """Agents of which sets still wait for their template, and how many."""
        return [
            (self._agent(exporter), count)
            for exporter, count in sorted(self._waiting.by_exporter().items())
        ]

    def _agent(self, exporter: int) -> str:
        hi, lo, _ = self._exporters.keys[exporter].tolist()
        return to_text(hi, lo)

    def _note_count(self, reason: str, exporter: int, count: int, faults: Faults) -> None:
        """Count what has no place in this batch."""
        self._tally.add("errors", np.array([exporter], np.int64), count)
        faults.note(reason, None, count, self._agent(exporter))

    def _options(self, work: Work, plans: Sequence[Plan]) -> News:
        """Learn rates and starting times."""
        told: list[tuple[I64, U64, U64, U32, I64]] = []
        for part in parts(work, plans, Use.OPTIONS):
            rows = read(part, plans)
            exporter = part.exporter[rows.sets]
            boot = rows.of(Field.BOOT_MS)
            said = (boot > 0) & (boot < np.uint64(1 << 42))
            self._uptimes.learn(part.stream[rows.sets[said]], boot[said].astype(np.int64))
            rate = rate_of(rows)
            said = rate > 0
            if said.any():
                selector = rows.of(Field.SELECTOR)[said]
                port = flows.interface(rows, Field.INPUT, Field.OUTPUT)[said].astype(np.uint64)
                at = part.position[rows.sets][said]
                told.append((exporter[said], selector, port, rate[said], at))
        if not told:
            return _NO_RATES
        exporter, selector, port, rate, at = (
            np.concatenate(each) for each in zip(*told, strict=True)
        )
        return self._samplers.learn(exporter, selector, port, rate, at)

    def _rows(
        self, work: Work, plans: Sequence[Plan], news: News
    ) -> tuple[list[RecordBatch], list[CounterBatch], list[FlowBatch]]:
        """All rows of sets that are laid out."""
        found: list[RecordBatch] = []
        seen: list[FlowBatch] = []
        for part in parts(work, plans, Use.FLOWS):
            rows = read(part, plans)
            when, around = self._around(part, rows, news)
            found.append(flows.records(rows, when, around, self._totals))
        for part in parts(work, plans, Use.PACKETS):
            rows = read(part, plans)
            kept = packets.readable(rows)
            if len(kept) < len(rows):
                dropped = np.ones(len(rows), np.bool_)
                dropped[kept] = False
                self._tally.add("unread_records", part.exporter[rows.sets[dropped]])
                rows = rows.take(kept)
            when, around = self._around(part, rows, news)
            seen.append(
                packets.sampled(
                    part.buffer,
                    rows,
                    when,
                    around.arrival_ns,
                    around.exporter,
                    flows.interface(rows, Field.INPUT, Field.PHYSICAL_INPUT),
                    flows.interface(rows, Field.OUTPUT, Field.PHYSICAL_OUTPUT),
                    flows.direction(rows),
                    around.rate,
                )
            )
        for part in parts(work, plans, Use.NOTHING):
            self._tally.add("unread_records", part.exporter, part.records)
        counted = [
            self._counters(part, plans[number])
            for part in parts(work, plans, Use.COUNTERS)
            for number, part in by_plan(part)
        ]
        return found, counted, seen

    def _around(self, work: Work, rows: Rows, news: News) -> tuple[Times, Around]:
        """Times and rates of records, and where they come from."""
        exporter = work.exporter[rows.sets]
        export_ns = work.export_ns[rows.sets]
        boot_ms = self._uptimes.boot_ms(work.stream[rows.sets])
        when = times.place(rows, export_ns, work.uptime_ms[rows.sets], boot_ms)
        selector = rows.of(Field.SELECTOR)
        # Version 5 has two bits of mode and 14 of interval in its header.
        own = rate_of(rows)
        header = (work.sampling[rows.sets] & 0x3FFF).astype(np.uint32)
        own = np.where(own > 0, own, header)
        watched = _watched(
            flows.direction(rows),
            flows.interface(rows, Field.INPUT, Field.PHYSICAL_INPUT),
            flows.interface(rows, Field.OUTPUT, Field.PHYSICAL_OUTPUT),
        )
        learnt = self._samplers.rates(exporter, selector, watched, work.position[rows.sets], news)
        return when, Around(
            work.arrival_ns[rows.sets],
            export_ns,
            exporter.astype(np.int32),
            selector,
            np.where(own > 0, own, learnt).astype(np.uint32),
        )

    def _counters(self, work: Work, plan: Plan) -> CounterBatch:
        """Counters of ports; their time is the observation's where it is one."""
        layout = plan.counters
        if layout is None:
            return CounterBatch.empty()
        sets = np.repeat(np.arange(len(work.start)), work.records)
        first = np.cumsum(work.records) - work.records
        at = work.start[sets] + (np.arange(len(sets)) - first[sets]) * layout.record_bytes
        rows, said = hft.read(work.buffer, at, layout)
        ports = len(layout.ports)
        observed = Rows(sets, said.reshape(1, -1), [int(Field.SEEN_NS)])
        seen = times.seen_at(observed)
        arrival_ns = work.arrival_ns[sets]
        rows.time_ns[:] = np.repeat(np.where(seen >= 0, seen, arrival_ns), ports)
        rows.exporter[:] = np.repeat(work.exporter[sets].astype(np.int32), ports)
        return rows


def _watched(direction: U8, input_: U32, output: U32) -> U64:
    """The interface whose sampler saw the packets."""
    return np.where(direction == 2, output, input_).astype(np.uint64)
