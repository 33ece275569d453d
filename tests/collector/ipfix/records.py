"""Small messages for tests, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Sequence

from collector.ipfix import IpfixIngest
from collector.packets import Faults
from collector.records import RecordBatch
from tests.collector.ipfix import encode
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.collector.ipfix.encode import message, set_of

SECOND = 1_000_000_000
EXPORT_NS = encode.EXPORT_S * SECOND
TEMPLATE = set_of(2, encode.template(256, encode.PLAIN))
ENDS: Sequence[encode.Specifier] = ((8, 4), (12, 4))
PAIR = encode.address("10.0.0.1") + encode.address("10.0.0.2")


def add(ingest: IpfixIngest, *payloads: bytes | Arrival) -> RecordBatch:
    arrivals = [each if isinstance(each, Arrival) else Arrival(each) for each in payloads]
    return ingest.add(batch_of(arrivals), Faults())[0]


def read(*payloads: bytes | Arrival) -> RecordBatch:
    return add(IpfixIngest(), *payloads)


def one(fields: Sequence[encode.Specifier], content: bytes, **header: int) -> RecordBatch:
    """One record of IPFIX: two addresses, and these fields."""
    return read(
        message(
            set_of(2, encode.template(256, [*ENDS, *fields])),
            set_of(256, PAIR + content),
            **header,
        )
    )
