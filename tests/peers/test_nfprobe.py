"""A live exporter: pmacctd's nfprobe (pmacct 1.7) tells of the packets of a capture."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path

import pytest

from collector.ipfix import IpfixIngest
from collector.packets import Faults
from collector.records import RecordBatch
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.peers.metered import FLOWS, capture, expect_all
from tests.peers.programs import PATIENCE_S, installed, running


@pytest.mark.parametrize("version", [5, 9, 10])
def test_records_are_what_the_capture_holds(version: int, tmp_path: Path) -> None:
    installed("pmacctd")
    start_ns = (int(time.time()) - 100) * 1_000_000_000
    capture(tmp_path / "packets.pcap", start_ns)
    ingest, faults, rows = IpfixIngest(), Faults(), RecordBatch.empty()
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as receiving:
        receiving.bind(("127.0.0.1", 0))
        receiving.settimeout(PATIENCE_S)
        configuration = tmp_path / "pmacctd.conf"
        configuration.write_text(
            f"""\
pcap_savefile: {tmp_path}/packets.pcap
pcap_savefile_delay: 1
plugins: nfprobe
aggregate: src_host, dst_host, src_port, dst_port, proto, tos
nfprobe_receiver: 127.0.0.1:{receiving.getsockname()[1]}
nfprobe_version: {version}
"""
        )
        with running(["pmacctd", "-f", str(configuration)], tmp_path / "pmacctd.log"):
            while len(rows) < FLOWS:
                batch = batch_of([Arrival(receiving.recv(65_535))])
                rows = RecordBatch.concat([rows, ingest.add(batch, faults)[0]])
    assert faults.errors() == []
    expect_all(rows, start_ns)
    (exporter,) = ingest.exporters()
    assert (exporter.lost, exporter.restarts) == (0, 0)
