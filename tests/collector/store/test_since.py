from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from collector.capture import read_capture
from collector.ingest import Ingest, ingest
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.schema import COLUMNS, CounterBatch, DecodeError, FlowBatch, Telemetry
from collector.store import Store, StoreSettings, read, since
from tests.collector.store import made

PIECE = 50


def _pieces(capture: Path) -> list[DatagramBatch]:
    """The datagrams of a capture, some at a time, as a service receives them."""
    rows = [field.name for field in fields(DatagramBatch) if field.name != "buffer"]
    return [
        replace(batch, **{name: getattr(batch, name)[start : start + PIECE] for name in rows})
        for batch in read_capture(capture, Faults())
        for start in range(0, len(batch), PIECE)
    ]


def test_a_capture_stored_as_it_comes_is_the_capture(real: Path, tmp_path: Path) -> None:
    capture = real / "mpi-ring" / "capture.pcap"
    reader, faults, before = Ingest(), Faults(), None
    with Store(tmp_path, StoreSettings(hold_s=0)) as store:
        for piece in _pieces(capture):
            flows, counters, *_ = reader.add(piece, faults)
            now = replace(reader.telemetry(faults.errors()), flows=flows, counters=counters)
            store.append(since(before, now))
            before = now
    was, found = ingest([capture]), read(tmp_path)
    assert len(list((tmp_path / "reports").iterdir())) > 10
    order, stored = (np.lexsort((f.src_lo, f.seq, f.time_ns)) for f in (was.flows, found.flows))
    for name in COLUMNS:
        np.testing.assert_array_equal(
            getattr(found.flows, name)[stored], getattr(was.flows, name)[order], name
        )
    assert replace(found, flows=was.flows, counters=was.counters) == was


NO_FLOWS, NO_COUNTERS = FlowBatch.empty(), CounterBatch.empty()  # one, so that accounts compare


def _account(count: int, lost: int, errors: tuple[DecodeError, ...]) -> Telemetry:
    exporter = made.health("10.255.0.1", datagrams=count, lost_datagrams=lost)
    return made.telemetry(NO_FLOWS, NO_COUNTERS, (exporter,), errors, nameless=count)


def test_counts_are_those_in_between(tmp_path: Path) -> None:
    bad, worse = (DecodeError(None, "a", 1, reason, 2) for reason in ("bad", "worse"))
    first = _account(3, 5, (bad,))
    # Two datagrams taken for lost came late; one error came again, and a new one.
    second = _account(10, 3, (replace(bad, count=3), worse))
    third = _account(10, 3, (replace(bad, count=3), worse))
    assert since(None, first) == first
    assert since(first, second) == _account(7, -2, (replace(bad, count=1), worse))
    assert since(second, third) == _account(0, 0, ())
    with Store(tmp_path) as store:
        for before, now in ((None, first), (first, second), (second, third)):
            store.append(since(before, now))
            store.flush()
    assert read(tmp_path).exporters == second.exporters
    assert read(tmp_path).errors == second.errors
