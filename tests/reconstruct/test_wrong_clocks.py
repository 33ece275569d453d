"""Switches whose clocks are wrong, from datagrams to slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collector.clock import SURE_DATAGRAMS
from collector.ingest import Ingest
from collector.packets import Faults
from reconstruct.slicing import Slicer
from tests.collector import encode as e
from tests.collector.twins import batch_of

MS, S = 1_000_000, 1_000_000_000
LATENESS_NS = 2 * S
HEADER = e.raw_header(e.roce(e.bth(0x07, 0x11, 7) + b"d" * 1024))
SECONDS = 30


def sliced(clocks_ns: dict[str, int]) -> tuple[Slicer, list[tuple[int, int]]]:
    """Two switches see one connection, and send a sample each 100 ms; slices and their samples."""
    ingest, faults, slicer = Ingest(), Faults(), Slicer(S, LATENESS_NS)
    found = []
    for tick in range(10 * SECONDS):
        taken_ns = e.EPOCH_NS + tick * 100 * MS
        datagrams = [
            e.datagram(
                e.flow_sample(e.timestamp(taken_ns + off_ns), HEADER, sequence=tick + 1),
                agent=agent,
                sequence=tick + 1,
                uptime_ms=60_000 + 100 * tick,
            )
            for agent, off_ns in clocks_ns.items()
        ]
        came_ns = taken_ns + 5 * MS
        batch = replace(batch_of(datagrams), arrival_ns=np.full(len(datagrams), came_ns, np.int64))
        flows, *_ = ingest.add(batch, faults)
        slicer.add(flows, ingest.telemetry(()).exporters, came_ns)
        found += [(s.start_ns, int(s.streams.samples.sum())) for s in slicer.close(came_ns)]
    found += [(s.start_ns, int(s.streams.samples.sum())) for s in slicer.drain()]
    return slicer, found


@pytest.mark.parametrize("off_ns", [-3600 * S, -7 * S, -2500 * MS, 1800 * MS, 30 * S, 7200 * S])
def test_a_clock_that_is_wrong_costs_its_first_samples_alone(off_ns: int) -> None:
    slicer, slices = sliced({"10.255.0.1": 0, "10.255.0.2": off_ns})
    assert slicer.late_samples <= SURE_DATAGRAMS - 1
    in_time = {start: count for start, count in slices if start >= e.EPOCH_NS + 2 * S}
    # Both switches' samples of a second lie in its slice, but for the flush at its edges.
    whole = [in_time[e.EPOCH_NS + second * S] for second in range(2, SECONDS - 1)]
    assert min(whole) >= 19
    assert max(whole) <= 21 + SURE_DATAGRAMS
