"""Telemetry datagrams in, columns out: batch by batch, or the captures of one window at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np

from collector.batches import Batch
from collector.capture import Progress, read_captures
from collector.errors import CaptureError, NothingReadError
from collector.ipfix import IpfixIngest
from collector.ipfix.health import health_of
from collector.ipfix.messages import of_records
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.records import RecordBatch
from collector.roster import Roster
from collector.schema import (
    ClockHealth,
    CounterBatch,
    DecodeError,
    DiscardBatch,
    ExporterHealth,
    FlowBatch,
    Telemetry,
    TimeBasis,
)
from collector.sflow.ingest import SflowIngest
from collector.transfers import is_table, read_transfers

# A collector whose clock was not yet set stamps 1970, and one such sample would stretch the window
# over decades; nobody analyses captures that are this far apart as one.
APART_NS: Final = 31 * 86_400 * 1_000_000_000
_SFLOW: Final = 0
_RECORDS: Final = 1
_TABLES: Final = 2
_NO_FLOWS: Final = FlowBatch.empty()
_NO_COUNTERS: Final = CounterBatch.empty()
_NO_DISCARDS: Final = DiscardBatch.empty()
_NO_RECORDS: Final = RecordBatch.empty()
Rows = TypeVar("Rows", bound=Batch)


class Decoded(NamedTuple):
    """What came of some datagrams; exporters are numbered as in `Ingest.telemetry`."""

    flows: FlowBatch
    counters: CounterBatch
    discards: DiscardBatch
    records: RecordBatch


class Ingest:
    """Decodes datagrams of sFlow, IPFIX and NetFlow as they come, from captures or from the wire.

    It remembers what one exporter's datagrams say of the next (loss, duplicates, flush times,
    templates), so all datagrams of a window or of a service's life go through one of these, in
    their order and from one thread. Which protocol a datagram is of is told by its first bytes.
    """

    def __init__(self) -> None:
        self._sflow = SflowIngest()
        self._records = IpfixIngest()
        self._roster = Roster(3)
        self._datagrams = 0
        self._flow_records = 0
        self._transfers = 0

    def add(self, batch: DatagramBatch, faults: Faults) -> Decoded:
        """Decode the next batch of datagrams.

        Parameters
        ----------
        batch
            Datagrams in the order of their arrival.
        faults
            Takes note of all that could not be read, with its offset: in the file, or in the
            datagram where it came from no file.

        Returns
        -------
        Decoded
            Rows in the order of the bytes; sampled packets that came as records stand last.
        """
        of = of_records(batch)
        self._datagrams += len(batch)
        told = records = None
        if not of.all() or not len(batch):
            told = self._sflow.add(batch.take(~of) if of.any() else batch, faults)
        if of.any():
            records = self._records.add(batch if of.all() else batch.take(of), faults)
        self._grow()
        if records is None and told is not None and not len(self._records):
            return Decoded(*told, _NO_RECORDS)  # then the numbers are the same
        flows, counters, discards = told or (_NO_FLOWS, _NO_COUNTERS, _NO_DISCARDS)
        found, counted, sampled = records or (_NO_RECORDS, _NO_COUNTERS, _NO_FLOWS)
        self._flow_records += len(found)
        return Decoded(
            FlowBatch.concat([self._known(_SFLOW, flows), self._known(_RECORDS, sampled)]),
            CounterBatch.concat([self._known(_SFLOW, counters), self._known(_RECORDS, counted)]),
            self._known(_SFLOW, discards),
            self._known(_RECORDS, found),
        )

    def add_transfers(self, rows: RecordBatch) -> RecordBatch:
        """Take in rows of tables of transfers, behind all datagrams; all are parts of one table."""
        self._transfers += len(rows)
        self._grow()
        return self._known(_TABLES, rows)

    def put_right(self, flows: FlowBatch, records: RecordBatch) -> None:
        """Set right, in place, all rows that `add` gave, at the end of a window.

        What later datagrams tell of an exporter's clock, of its sampling rate, or of flows that it
        tells of twice, is true of earlier ones.
        """
        if not len(self._records):
            self._sflow.put_right(flows)
            return
        own = self._roster.own(_RECORDS)[records.exporter]
        self._records.put_right(records.but(exporter=own.astype(np.int32)))
        own = self._roster.own(_SFLOW)[flows.exporter]
        rows = np.flatnonzero(own >= 0)
        part = flows.take(rows).but(exporter=own[rows].astype(np.int32))
        self._sflow.put_right(part)
        for name in ("time_ns", "time_min_ns", "time_basis"):
            flows.column(name)[rows] = part.column(name)

    def missing(self) -> list[DecodeError]:
        """What still waits for its template, and is not read when nothing more comes."""
        return [
            DecodeError(agent, None, None, "a set whose template did not come", count)
            for agent, count in self._records.missing()
        ]

    def telemetry(self, errors: Sequence[DecodeError]) -> Telemetry:
        """What was seen so far, without the rows that `add` gave away.

        Parameters
        ----------
        errors
            What the `Faults` handed to `add` took note of.
        """
        told = self._sflow.telemetry(errors)
        if not len(self._records) and not self._transfers:
            return told
        known = self._records.exporters()
        now_ns = max((exporter.heard_ns for exporter in known), default=0)
        tables = (
            told.exporters,
            tuple(health_of(exporter, now_ns) for exporter in known),
            (_tables_health(self._transfers),),
        )
        exporters = tuple(tables[table][number] for table, number in self._roster.entries)
        tags = told.unknown_tags
        numbers = self._roster.number(_SFLOW, np.array([tag.exporter for tag in tags], np.int64))
        return replace(
            told,
            exporters=exporters,
            datagrams=self._datagrams,
            flow_samples=sum(e.flow_samples for e in exporters),
            flow_records=self._flow_records + self._transfers,
            counter_samples=sum(e.counter_samples for e in exporters),
            lost_datagrams=sum(e.lost_datagrams for e in exporters),
            ports=self._known(_SFLOW, told.ports),
            hosts=self._known(_SFLOW, told.hosts),
            unknown_tags=tuple(
                replace(tag, exporter=number)
                for tag, number in zip(tags, numbers.tolist(), strict=True)
            ),
        )

    def _grow(self) -> None:
        self._roster.grow((self._sflow.exporters, len(self._records), 1 if self._transfers else 0))

    def _known(self, table: int, rows: Rows) -> Rows:
        """The rows of one table of exporters, as they are numbered here."""
        if not len(rows):
            return rows
        return rows.but(exporter=self._roster.number(table, rows.column("exporter")))


def _tables_health(transfers: int) -> ExporterHealth:
    """What tables of transfers count as: one exporter that loses nothing."""
    return ExporterHealth(
        agent="tables",
        sub_agent=0,
        protocol="table",
        datagrams=0,
        flow_samples=0,
        counter_samples=0,
        lost_datagrams=0,
        decode_errors=0,
        sampling_rates=(1,),
        time_basis=TimeBasis.EXPORTER,
        state="ok",
        clock=ClockHealth(reason="a table does not say when it was told"),
        flow_records=transfers,
    )


def _transfers(
    window: Ingest,
    tables: Sequence[Path],
    errors: list[DecodeError],
    on_progress: Progress | None,
) -> list[RecordBatch]:
    """The rows of tables of transfers; what could not be read is added to `errors`."""
    read: list[RecordBatch] = []
    for path in tables:
        faults = Faults(path)
        try:
            read += map(window.add_transfers, read_transfers(path, faults, on_progress))
        except CaptureError as error:
            faults.note(error.reason, error.offset)
        errors += faults.errors()
    return read


def _together(flows: FlowBatch, records: RecordBatch) -> tuple[FlowBatch, RecordBatch, int]:
    """The rows near the median time, and how many are not."""
    if not len(flows) and not len(records):
        return flows, records, 0
    # As numbers with a point: differences of int64 could overflow.
    times = [flows.time_ns.astype(np.float64), records.end_ns.astype(np.float64)]
    median = np.median(np.concatenate(times))
    near = [np.abs(time - median) <= APART_NS for time in times]
    apart = sum(len(rows) - int(rows.sum()) for rows in near)
    return (flows.take(near[0]), records.take(near[1]), apart) if apart else (flows, records, 0)


def ingest(captures: Sequence[Path], on_progress: Progress | None = None) -> Telemetry:
    """Read captures into one window of telemetry.

    Parameters
    ----------
    captures
        pcap or pcapng files with datagrams of sFlow version 5, IPFIX and NetFlow, or files of IPFIX
        messages; plain or gzip. They are read in the order of their first datagram, whatever order
        they are given in, pipes last; one given twice counts once. Also tables of transfers, see
        `collector.transfers`; several are parts of one.
    on_progress
        Called now and then with the bytes read so far and the bytes of all captures; for tables
        with those of each.

    Returns
    -------
    Telemetry
        Rows in capture order, those of tables last. What could not be read is counted in `errors`,
        with file, offset in the (unpacked) file and reason.

    Raises
    ------
    NothingReadError
        None of the files could be read as a capture.

    Notes
    -----
    A sample's time is the exporter's stamp (record 0:1043) where there is one that is near the
    datagram's arrival, else the arrival: then the sample was taken at the earliest when the
    exporter sent its previous datagram, and never more than a second (its flush) before. Stamps of
    a clock that is surely off are put right (`collector.clock`, `collector.hops`). Samples and
    records more than `APART_NS` from the median time are counted, but not part of the window.
    """
    window = Ingest()
    errors: list[DecodeError] = []
    tables = {os.path.realpath(path): path for path in captures if is_table(path)}
    others = [path for path in captures if os.path.realpath(path) not in tables]
    pieces: list[Decoded] = []
    unread: NothingReadError | None = None
    try:
        for batch, faults in read_captures(others, errors, on_progress):
            pieces.append(window.add(batch, faults))
    except NothingReadError as error:
        unread = error
    flows = FlowBatch.concat([piece.flows for piece in pieces])
    counters = CounterBatch.concat([piece.counters for piece in pieces])
    discards = DiscardBatch.concat([piece.discards for piece in pieces])
    records = RecordBatch.concat([piece.records for piece in pieces])
    window.put_right(flows, records)
    # Last, so that the exporters of captures keep their numbers.
    transfers = _transfers(window, list(tables.values()), errors, on_progress)
    if unread is not None and not transfers:
        raise NothingReadError(errors) if tables else unread
    records = RecordBatch.concat([records, *transfers])
    flows, records, apart = _together(flows, records)
    if apart:
        reason = "a time more than 31 days from that of most samples: left out"
        errors.append(DecodeError(None, None, None, reason, apart))
    errors += window.missing()
    return replace(
        window.telemetry(errors),
        flows=flows,
        counters=counters,
        discards=discards,
        records=records,
    )
