from __future__ import annotations

import socket
from contextlib import closing

import numpy as np

from bench.ring import SAMPLES, Sender, make_ring, renew
from collector import sflow
from collector.ingest import Ingest
from collector.packets import Faults
from tests.collector.twins import batch_of

NOW_NS = 1_800_000_000_000_000_000


def test_each_turn_is_new_and_none_is_missing() -> None:
    """Read as a collector does: no loss, no duplicate, times and numbers that go on."""
    ring = make_ring(3)
    few = 400
    ingest, faults = Ingest(), Faults()
    flows = []
    for turn in range(3):
        now_ns = NOW_NS + turn * 1_000_000_000
        renew(ring, 0, few, now_ns)
        batch = batch_of([row.tobytes() for row in ring.rows[:few]])
        batch.arrival_ns[:] = now_ns
        flows.append(ingest.add(batch, faults)[0])
    told = ingest.telemetry(faults.errors())
    assert (told.datagrams, told.flow_samples) == (3 * few, 3 * few * SAMPLES)
    assert (told.lost_datagrams, told.decode_errors) == (0, 0)
    assert {e.duplicate_datagrams for e in told.exporters} == {0}
    assert sum(e.lost_samples for e in told.exporters) == 0
    assert len(told.exporters) == len(ring.sequence)
    first, second, _ = flows
    assert (first.dst_lo == second.dst_lo).all()
    assert (first.seq != second.seq).all()
    assert (second.time_ns > first.time_ns.max()).all()
    assert (first.sampling_rate == ring.rate).all()


def test_the_sender_sends_what_it_says_and_ends_with_every_exporter() -> None:
    ring = make_ring(3)
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as heard:
        heard.bind(("127.0.0.1", 0))
        heard.settimeout(60.0)
        with closing(Sender(ring, heard.getsockname()[1])) as sender:
            sender.send(1_000.0, 0.03, lambda _: None)
            assert sender.sent == 30
            sent = [heard.recv(1 << 16) for _ in range(30)]
            sender.finish()
            rest = [heard.recv(1 << 16) for _ in range(sender.sent - 30)]
    exporters = len(ring.sequence)
    assert len(rest) % exporters == 0
    assert len(rest) >= exporters
    headers = sflow.decode(batch_of([*sent, *rest])).headers
    assert len(np.unique(headers.agent_lo)) == exporters
