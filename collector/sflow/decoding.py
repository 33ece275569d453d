"""A batch of sFlow version 5 datagrams: all samples in it, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from collector.link import DatagramBatch, Defect
from collector.polled import HostBatch, PortBatch
from collector.schema import I64, CounterBatch, FlowBatch
from collector.sflow import counters, packets
from collector.sflow.counters import Found
from collector.sflow.datagrams import Headers, Places, Status, walk
from collector.sflow.sampled import Drop, Sampled
from collector.sflow.strange import Strange

REASONS: Final = {
    Status.NOT_VERSION_5: "not an sFlow version 5 datagram",
    Status.SHORT_HEADER: "the datagram ends inside its header",
    Status.BAD_ADDRESS_TYPE: "the agent's address is neither IPv4 nor IPv6",
    Status.SHORT_DATAGRAM: "the datagram ends before its last sample",
    Status.SHORT_SAMPLE: "a sample too short for its own fields",
    Status.SHORT_RECORD: "a record runs past the end of its sample",
}
DEFECT_REASONS: Final = {
    Defect.FRAGMENT: "an IP fragment: the rest of the datagram is missing",
    Defect.SNAPPED: "the capture kept only the beginning of the datagram",
}


_NO_COUNTERS: Final = CounterBatch.empty()
_NOWHERE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Discards:
    """Notices of dropped packets (sample 0:5), row by row."""

    packets: FlowBatch
    sampled: Sampled
    drop: Drop


@dataclass(frozen=True, slots=True)
class Polled:
    """What counter samples hold; time and exporter are left to `ingest`.

    `found` has a row for each sample. Each batch comes with the datagram of each of its rows;
    int64, shape (rows,).
    """

    found: Found
    counters: CounterBatch
    counter_datagram: I64
    ports: PortBatch
    port_datagram: I64
    hosts: HostBatch
    host_datagram: I64


@dataclass(frozen=True, slots=True)
class Samples:
    """All that a batch of sFlow datagrams holds.

    Attributes
    ----------
    headers
        By datagram.
    flows : FlowBatch
        By flow sample; the columns of `SampleColumns` are filled, the rest is for `parse` and
        `ingest`.
    sampled
        By flow sample.
    discards, polled
        None where there is no such sample.
    strange
        Tags that are not known.
    """

    headers: Headers
    flows: FlowBatch
    sampled: Sampled
    discards: Discards | None
    polled: Polled | None
    strange: Strange

    @property
    def flow_datagram(self) -> I64:
        """Which datagram each flow sample came in; int64, shape (flow samples,)."""
        return self.sampled.datagram

    @property
    def counters(self) -> CounterBatch:
        """By counter sample that holds generic interface counters."""
        return _NO_COUNTERS if self.polled is None else self.polled.counters

    @property
    def counter_datagram(self) -> I64:
        """Which datagram each row of `counters` came in; int64, shape (rows,)."""
        return _NOWHERE if self.polled is None else self.polled.counter_datagram


def decode(batch: DatagramBatch) -> Samples:
    """Decode a batch of sFlow datagrams, compiled, without a Python step per datagram.

    Parameters
    ----------
    batch
        Datagrams; those that are not sFlow version 5 get a status and no samples.

    Returns
    -------
    Samples
        Rows in the order of the bytes. A datagram that ends early keeps the samples that are
        whole; a sample whose records are damaged keeps what was read before.

    Notes
    -----
    One pass finds the samples, another reads those of each kind into columns of the right length.
    Every loop is bounded by the bytes that remain, and what is unknown is skipped by its length.

    Differs from the specification in reading record 0:1043 wherever it stands, also before the
    sampled header as host-sflow sends it; of several sampled headers the first counts.
    """
    headers = Headers.empty(len(batch))
    places = Places.room(int(batch.length.sum()))
    strange = Strange.room(len(batch))
    count = walk(batch.buffer, batch.offset, batch.length, headers, places, strange)
    rows = int(headers.flows.sum())
    flows, sampled = packets.read(batch.buffer, places, count, rows, strange)
    discards, polled = None, None
    if count > rows:
        if dropped := int(headers.discards.sum()):
            discards = Discards(
                *packets.read_discards(batch.buffer, places, count, dropped, strange)
            )
        if told := int(headers.counters.sum()):
            polled = _polled(*counters.read(batch.buffer, places, count, told, strange))
    return Samples(headers, flows, sampled, discards, polled, strange)


def _polled(found: Found, generic: CounterBatch, ports: PortBatch, hosts: HostBatch) -> Polled:
    """Only the rows that are filled."""
    of_interface, of_port, of_host = (
        np.flatnonzero(column) for column in (found.generic, found.port, found.host)
    )
    return Polled(
        found,
        generic.take(of_interface),
        found.datagram[of_interface],
        ports.take(of_port),
        found.datagram[of_port],
        hosts.take(of_host),
        found.datagram[of_host],
    )
