"""Datagrams of sFlow in; sampled packets, counters and notices of dropped packets out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from collector import sflow
from collector.addresses import distinct
from collector.exporters import MOST_EXPORTERS, Arrivals, ExporterTable
from collector.latest import Latest
from collector.link import DatagramBatch, Defect
from collector.packets import Faults
from collector.polled import HostBatch, PortBatch
from collector.schema import (
    I64,
    CounterBatch,
    DecodeError,
    DiscardBatch,
    FlowBatch,
    Telemetry,
)
from collector.sflow import DETAIL_BYTES, Sampled, Samples, Status
from collector.unknown import TagTable

_NO_COUNTERS: Final = CounterBatch.empty()
_NO_DISCARDS: Final = DiscardBatch.empty()
Rows = TypeVar("Rows", CounterBatch, PortBatch, HostBatch)


class _Arrived(NamedTuple):
    """Datagrams, and what the table of exporters makes of them."""

    batch: DatagramBatch
    arrivals: Arrivals

    def stamped(self, rows: Rows, datagram: I64) -> Rows:
        """The rows that count, with exporter and arrival."""
        kept = self.arrivals.fresh[datagram]
        stamped = rows.take(kept)
        stamped.exporter[:] = self.arrivals.exporter[datagram[kept]]
        stamped.time_ns[:] = self.batch.arrival_ns[datagram[kept]]
        return stamped


class SflowIngest:
    """Decodes datagrams of sFlow as they come, from captures or from the wire.

    It remembers what one exporter's datagrams say of the next (loss, duplicates, flush times), so
    all datagrams of a window or of a service's life go through one of these, in their order and
    from one thread. What is no sFlow is noted as a fault.
    """

    def __init__(self) -> None:
        self._exporters = ExporterTable()
        self._latest = Latest()
        self._tags = TagTable()
        self._datagrams = 0
        self._flow_samples = 0

    def add(
        self, batch: DatagramBatch, faults: Faults
    ) -> tuple[FlowBatch, CounterBatch, DiscardBatch]:
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
        FlowBatch, CounterBatch, DiscardBatch
            In the order of the bytes; exporters are numbered as in `telemetry`.
        """
        samples = sflow.decode(batch)
        status = samples.headers.status
        readable: NDArray[np.bool_] = (status < Status.NOT_VERSION_5) | (
            status > Status.BAD_ADDRESS_TYPE
        )
        arrivals = self._exporters.arrive(batch, samples.headers, readable)
        self._datagrams += len(batch)
        if status.any() or batch.defect.any() or (arrivals.exporter < 0).any():
            self._note_datagrams(batch, samples, arrivals.exporter, readable, faults)
        self._tags.take(samples.strange, arrivals.exporter, arrivals.fresh)

        arrived = _Arrived(batch, arrivals)
        flows, kept = self._packets(arrived, samples.flows, samples.sampled, faults)
        self._exporters.take(flows, samples, kept, arrivals)
        self._flow_samples += len(flows)
        counters = self._counters(arrived, samples, faults)
        return flows, counters, self._discards(arrived, samples, faults)

    def _packets(
        self, arrived: _Arrived, rows: FlowBatch, sampled: Sampled, faults: Faults
    ) -> tuple[FlowBatch, I64]:
        """Sampled packets that count, with header, exporter and time; and which rows they are."""
        batch, arrivals = arrived
        repaired = sflow.parse(batch.buffer, rows, sampled)
        kept = np.flatnonzero(arrivals.fresh[sampled.datagram])
        everything = len(kept) == len(rows)
        flows = rows if everything else rows.take(kept)
        said = sampled if everything else sampled.take(kept)
        datagram = said.datagram
        flows.exporter[:] = arrivals.exporter[datagram]
        absurd = self._exporters.place(flows, arrivals, datagram, said.stamp_ns)
        timeless = flows.time_ns == 0
        repaired = repaired if everything else repaired[kept]
        if absurd.any() or timeless.any() or repaired.any() or said.status.any():
            where = batch.file_offset[datagram] - batch.offset[datagram]
            for reason, bad, at in (
                (
                    "an exporter timestamp more than an hour from its arrival",
                    absurd,
                    said.header_at,
                ),
                (
                    "an impossible frame length, taken from the IP header instead",
                    repaired != 0,
                    said.header_at,
                ),
                ("neither capture nor exporter gives a time", timeless, said.fault_at),
                *(
                    (text, said.status == status, said.fault_at)
                    for status, text in sflow.REASONS.items()
                ),
            ):
                self._note(reason, flows.exporter[bad].astype(np.int64), (where + at)[bad], faults)
            if timeless.any():
                return flows.take(~timeless), kept[~timeless]
        return flows, kept

    def _counters(self, arrived: _Arrived, samples: Samples, faults: Faults) -> CounterBatch:
        """Interface counters that count; what else agents told is remembered."""
        if samples.polled is None:
            return _NO_COUNTERS
        polled = samples.polled
        found = polled.found
        if found.status.any():
            fresh = arrived.arrivals.fresh[found.datagram]
            where = (arrived.batch.file_offset - arrived.batch.offset)[found.datagram]
            for status, text in sflow.REASONS.items():
                bad = fresh & (found.status == status)
                exporter = arrived.arrivals.exporter[found.datagram[bad]]
                self._note(text, exporter, (where + found.fault_at)[bad], faults)
        ports = arrived.stamped(polled.ports, polled.port_datagram)
        self._exporters.name(ports)
        self._latest.take(ports, arrived.stamped(polled.hosts, polled.host_datagram))
        return arrived.stamped(polled.counters, polled.counter_datagram)

    def _discards(self, arrived: _Arrived, samples: Samples, faults: Faults) -> DiscardBatch:
        """Notices of dropped packets that count."""
        if samples.discards is None:
            return _NO_DISCARDS
        notices = samples.discards
        packets, kept = self._packets(arrived, notices.packets, notices.sampled, faults)
        packets.sampling_rate.fill(1)
        drop = notices.drop
        return DiscardBatch(
            packets,
            drop.reason[kept],
            drop.detail.view(f"S{DETAIL_BYTES}")[kept, 0],
            notices.sampled.dropped[kept],
        )

    @property
    def exporters(self) -> int:
        """How many there are so far."""
        return len(self._exporters)

    def put_right(self, flows: FlowBatch) -> None:
        """Set right, in place, the times of all samples that `add` gave, at the end of a window.

        What later samples tell of an exporter's clock is true of earlier ones.
        """
        self._exporters.put_right(flows)

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
            ports=self._latest.ports,
            hosts=self._latest.hosts,
            unknown_tags=self._tags.tags(),
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
