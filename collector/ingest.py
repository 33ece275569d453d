"""Telemetry datagrams in, columns out: batch by batch, or the captures of one window at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector import headers, sflow
from collector.addresses import distinct
from collector.capture import read_captures
from collector.exporters import MOST_EXPORTERS, ExporterTable
from collector.link import DatagramBatch, Defect
from collector.packets import Faults
from collector.schema import (
    I64,
    CounterBatch,
    DecodeError,
    FlowBatch,
    Telemetry,
)
from collector.sflow import Samples, Status

# A collector whose clock was not yet set stamps 1970, and one such sample would stretch the window
# over decades; nobody analyses captures that are this far apart as one.
APART_NS: Final = 31 * 86_400 * 1_000_000_000
_NAMELESS: Final = (Status.NOT_VERSION_5, Status.SHORT_HEADER, Status.BAD_ADDRESS_TYPE)


class Ingest:
    """Decodes datagrams as they come, from captures or from the wire.

    It remembers what one exporter's datagrams say of the next (loss, duplicates, flush times), so
    all datagrams of a window or of a service's life go through one of these, in their order and
    from one thread.
    """

    def __init__(self) -> None:
        self._exporters = ExporterTable()
        self._datagrams = 0
        self._flow_samples = 0

    def add(self, batch: DatagramBatch, faults: Faults) -> tuple[FlowBatch, CounterBatch]:
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
        FlowBatch, CounterBatch
            In the order of the bytes; exporters are numbered as in `telemetry`.
        """
        samples = sflow.decode(batch)
        sampled = samples.sampled
        repaired = headers.parse(
            batch.buffer,
            sampled.header_at,
            sampled.header_bytes,
            sampled.header_protocol,
            samples.flows,
        )
        readable = ~np.isin(samples.headers.status, _NAMELESS)
        arrivals = self._exporters.arrive(batch, samples.headers, readable)
        self._datagrams += len(batch)
        self._note_datagrams(batch, samples, arrivals.exporter, readable, faults)

        kept = np.flatnonzero(arrivals.fresh[samples.flow_datagram])
        flows = samples.flows.take(kept)
        datagram = samples.flow_datagram[kept]
        flows.exporter[:] = arrivals.exporter[datagram]
        absurd = self._exporters.place(flows, arrivals, datagram, sampled.stamp_ns[kept])

        where = batch.file_offset[datagram] - batch.offset[datagram]
        for reason, bad, at in (
            (
                "an exporter timestamp more than an hour from its arrival",
                absurd,
                sampled.header_at[kept],
            ),
            (
                "an impossible frame length, taken from the IP header instead",
                repaired[kept] != 0,
                sampled.header_at[kept],
            ),
            (
                "neither capture nor exporter gives a time",
                flows.time_ns == 0,
                sampled.fault_at[kept],
            ),
            *(
                (text, sampled.status[kept] == status, sampled.fault_at[kept])
                for status, text in sflow.REASONS.items()
            ),
        ):
            self._note(reason, flows.exporter[bad].astype(np.int64), (where + at)[bad], faults)
        timed = flows.time_ns != 0
        if not timed.all():
            flows, kept = flows.take(timed), kept[timed]
        self._exporters.take(flows, samples, kept, arrivals)
        self._flow_samples += len(flows)

        whole = arrivals.fresh[samples.counter_datagram]
        counters = samples.counters.take(whole)
        counters.exporter[:] = arrivals.exporter[samples.counter_datagram[whole]]
        counters.time_ns[:] = batch.arrival_ns[samples.counter_datagram[whole]]
        return flows, counters

    def telemetry(self, errors: Sequence[DecodeError]) -> Telemetry:
        """What was seen so far, without the rows that `add` gave away.

        Parameters
        ----------
        errors
            What the `Faults` handed to `add` took note of.
        """
        exporters = self._exporters.health()
        return Telemetry(
            flows=FlowBatch.empty(),
            counters=CounterBatch.empty(),
            exporters=exporters,
            errors=tuple(errors),
            datagrams=self._datagrams,
            flow_samples=self._flow_samples,
            counter_samples=sum(e.counter_samples for e in exporters),
            lost_datagrams=sum(e.lost_datagrams for e in exporters),
            decode_errors=sum(e.count for e in errors),
        )

    def _note_datagrams(
        self,
        batch: DatagramBatch,
        samples: Samples,
        exporter: I64,
        readable: NDArray[np.bool_],
        faults: Faults,
    ) -> None:
        """Count the datagrams that were damaged: by exporter, or by sender where none is named."""
        status = samples.headers.status
        at = samples.headers.fault_at + (batch.file_offset - batch.offset)
        nameless = np.flatnonzero(~readable)
        senders, sender = distinct(batch.src_hi[nameless], batch.src_lo[nameless])
        for code, text in sflow.REASONS.items():
            bad = status[nameless] == code
            numbers, first, counts = _by_number(sender[bad])
            for number, row, count in zip(numbers, first, counts, strict=True):
                faults.note(text, int(at[nameless[bad][row]]), count, senders[number])
        beyond = readable & (exporter < 0)
        self._note(
            f"one more than {MOST_EXPORTERS} exporters: not followed",
            exporter[beyond],
            at[beyond],
            faults,
        )
        readable = readable & ~beyond
        cut = batch.defect != Defect.NONE
        for defect, text in sflow.DEFECT_REASONS.items():
            bad = readable & (batch.defect == defect)
            self._note(text, exporter[bad], at[bad], faults)
        for code, text in sflow.REASONS.items():
            bad = readable & ~cut & (status == code)
            self._note(text, exporter[bad], at[bad], faults)

    def _note(self, reason: str, exporter: I64, at: I64, faults: Faults) -> None:
        """Count `reason` once per row, by exporter."""
        if not len(exporter):
            return
        self._exporters.add_errors(exporter[exporter >= 0])
        numbers, first, counts = _by_number(exporter)
        for number, row, count in zip(numbers, first, counts, strict=True):
            agent = self._exporters.agent(number) if number >= 0 else None
            faults.note(reason, int(at[row]), count, agent)


def _by_number(numbers: NDArray[np.int64]) -> tuple[list[int], list[int], list[int]]:
    """Distinct numbers, where each first stands, and how often."""
    values, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    return values.tolist(), first.tolist(), counts.tolist()


def _together(flows: FlowBatch) -> tuple[FlowBatch, int]:
    """The samples near the median time, and how many are not."""
    if not len(flows):
        return flows, 0
    time_ns = flows.time_ns.astype(np.float64)  # differences of int64 could overflow
    near = np.abs(time_ns - np.median(time_ns)) <= APART_NS
    apart = len(flows) - int(near.sum())
    return (flows.take(near), apart) if apart else (flows, 0)


def ingest(
    captures: Sequence[Path], on_progress: Callable[[int, int], None] | None = None
) -> Telemetry:
    """Read captures into one window of telemetry.

    Parameters
    ----------
    captures
        pcap or pcapng files, plain or gzip, with sFlow version 5 datagrams. They are read in the
        order of their first datagram, whatever order they are given in, pipes last; one given
        twice counts once.
    on_progress
        Called now and then with the bytes read so far and the bytes of all files.

    Returns
    -------
    Telemetry
        Rows in capture order. What could not be read is counted in `errors`, with file, offset in
        the (unpacked) file and reason.

    Raises
    ------
    NothingReadError
        None of the files could be read as a capture.

    Notes
    -----
    A sample's time is the exporter's stamp (record 0:1043) where there is one that is near the
    datagram's arrival, else the arrival: then the sample was taken at the earliest when the
    exporter sent its previous datagram, and never more than a second (its flush) before. Samples
    more than `APART_NS` from the median time are counted, but not part of the window.
    """
    window = Ingest()
    flows: list[FlowBatch] = []
    counters: list[CounterBatch] = []
    errors: list[DecodeError] = []
    for batch, faults in read_captures(captures, errors, on_progress):
        pieces = window.add(batch, faults)
        flows.append(pieces[0])
        counters.append(pieces[1])
    together, apart = _together(FlowBatch.concat(flows))
    if apart:
        reason = "a time more than 31 days from that of most samples: left out"
        errors.append(DecodeError(None, None, None, reason, apart))
    return replace(
        window.telemetry(errors),
        flows=together,
        counters=CounterBatch.concat(counters),
    )
