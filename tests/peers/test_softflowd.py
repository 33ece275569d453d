"""A live exporter: softflowd (1.1) tells of the packets of a capture."""

from __future__ import annotations

import signal
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from collector.ipfix import IpfixIngest
from collector.packets import Faults
from collector.records import RecordBatch, RecordTime
from collector.store import read
from tests.api.serving import Served, serving
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.peers.metered import FLOWS, capture, expect_all
from tests.peers.programs import PATIENCE_S, installed, running, until


@pytest.mark.parametrize("version", [5, 9, 10])
def test_records_are_what_the_capture_holds(version: int, tmp_path: Path) -> None:
    """Its IPFIX counts from a start that it tells in options (netsampler/goflow2#406)."""
    installed("softflowd")
    start_ns = (int(time.time()) - 100) * 1_000_000_000
    capture(tmp_path / "packets.pcap", start_ns)
    ingest, faults, rows = IpfixIngest(), Faults(), RecordBatch.empty()
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as receiving:
        receiving.bind(("127.0.0.1", 0))
        receiving.settimeout(PATIENCE_S)
        to = f"127.0.0.1:{receiving.getsockname()[1]}"
        command = ["softflowd", "-d", "-r", str(tmp_path / "packets.pcap"), "-n", to]
        # With a control socket it waits there for somebody to ask, where it reads a file.
        command += ["-v", str(version), "-p", str(tmp_path / "pid"), "-c", "none"]
        with running(command, tmp_path / "softflowd.log"):
            while len(rows) < FLOWS:
                batch = batch_of([Arrival(receiving.recv(65_535))])
                rows = RecordBatch.concat([rows, ingest.add(batch, faults)[0]])
    assert faults.errors() == []
    # One message of version 9 alone says when it was sent by whole seconds only.
    early_ns = 1_000_000_000 if version == 9 else 0
    expect_all(rows, start_ns, early_ns=early_ns, rate=0 if version == 5 else 1)
    assert set(rows.time_basis.tolist()) == {RecordTime.UPTIME}
    (exporter,) = ingest.exporters()
    assert (exporter.lost, exporter.restarts) == (0, 0)


def test_a_service_stores_what_it_tells_and_shows_it(tmp_path: Path) -> None:
    installed("softflowd")
    start_ns = (int(time.time()) - 100) * 1_000_000_000
    capture(tmp_path / "packets.pcap", start_ns)
    store = tmp_path / "store"
    with serving(store) as served:
        to = f"[::1]:{served.port}"
        command = ["softflowd", "-d", "-r", str(tmp_path / "packets.pcap"), "-n", to, "-v", "10"]
        with running([*command, "-c", "none"], tmp_path / "softflowd.log"):
            until(lambda: bool(told(served)), "no exporter of records")
        (exporter,) = told(served)
        assert served.end(signal.SIGTERM) == 0
    assert (exporter["agent"], exporter["protocol"], exporter["state"]) == ("::1", "ipfix", "ok")
    assert (exporter["flow_records"], exporter["sampling_rates"]) == (FLOWS, [1])
    expect_all(read(store).records, start_ns, rate=1)


def test_a_service_takes_what_it_tells_over_tcp(tmp_path: Path) -> None:
    installed("softflowd")
    start_ns = (int(time.time()) - 100) * 1_000_000_000
    capture(tmp_path / "packets.pcap", start_ns)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    store = tmp_path / "store"
    with serving(store, LISTEN__TCP=f"127.0.0.1:{port}") as served:
        command = ["softflowd", "-d", "-r", str(tmp_path / "packets.pcap"), "-v", "10"]
        command += ["-n", f"127.0.0.1:{port}", "-P", "tcp", "-c", "none"]
        with running(command, tmp_path / "softflowd.log"):
            until(lambda: bool(told(served)), "no exporter of records")
        (exporter,) = told(served)
        assert served.end(signal.SIGTERM) == 0
    assert (exporter["agent"], exporter["protocol"]) == ("127.0.0.1", "ipfix")
    expect_all(read(store).records, start_ns, rate=1)


def told(served: Served) -> list[dict[str, Any]]:
    """Exporters of which the service has all records, as the page shows them."""
    exporters = served.ask("/exporters")["service"]["exporters"]
    return [each for each in exporters if each["flow_records"] == FLOWS]
