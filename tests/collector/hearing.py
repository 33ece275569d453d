"""Datagrams as they are heard: when and from whom, in any number of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address

import numpy as np

from collector.ingest import Ingest
from collector.packets import Faults
from collector.schema import ExporterHealth, FlowBatch, Telemetry
from tests.collector import encode as e
from tests.collector.twins import batch_of

MS = 1_000_000
MAPPED = 0xFFFF << 32


@dataclass(frozen=True)
class Came:
    """A datagram, when it came in ms after the epoch of the tests, and from whom."""

    at_ms: float
    data: bytes
    sender: str = "192.0.2.1"


def hear(came: Sequence[Came], batches: int = 1) -> Telemetry:
    """What an ingest makes of them, with all rows."""
    ingest, faults = Ingest(), Faults()
    flows = []
    for part in np.array_split(np.arange(len(came)), batches):
        if not len(part):
            continue
        heard = [came[n] for n in part.tolist()]
        batch = replace(
            batch_of([c.data for c in heard]),
            arrival_ns=np.array([e.EPOCH_NS + round(c.at_ms * MS) for c in heard], np.int64),
            src_lo=np.array([MAPPED | int(ip_address(c.sender)) for c in heard], np.uint64),
        )
        flows.append(ingest.add(batch, faults)[0])
        told = ingest.telemetry(faults.errors())
    return replace(told, flows=FlowBatch.concat(flows))


def one(came: Sequence[Came], batches: int = 1) -> ExporterHealth:
    """The only exporter among them."""
    (exporter,) = hear(came, batches).exporters
    return exporter


def kinds(exporter: ExporterHealth) -> list[tuple[str, int]]:
    """Kind and count of its notes."""
    return [(note.kind, note.count) for note in exporter.notes]
