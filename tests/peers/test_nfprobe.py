"""A live exporter: pmacctd's nfprobe (pmacct 1.7) tells of the packets of a capture."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import closing
from pathlib import Path

import pytest

from collector.addresses import from_text
from collector.ipfix import IpfixIngest
from collector.packets import Faults
from collector.records import RecordBatch
from tests.collector.encode import ethernet, ipv4
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.peers.programs import PATIENCE_S, installed, running

FLOWS = 4
PACKETS = 50
STEP_NS = 10_000_000


def capture(path: Path, start_ns: int) -> None:
    """Packets of four flows in turn, one each 10 ms; flow n carries 100 * (n + 1) bytes."""
    out = struct.pack("<IHHiIII", 0xA1B2_C3D4, 2, 4, 0, 0, 65_535, 1)
    for turn in range(FLOWS * PACKETS):
        flow = turn % FLOWS
        payload = bytes(100 * (flow + 1))
        datagram = struct.pack(">HHHH", 1000 + flow, 4791, 8 + len(payload), 0) + payload
        frame = ethernet(0x0800, ipv4(datagram, 17, src=f"10.0.0.{flow + 1}", dst="10.0.9.9"))
        micros = (start_ns + turn * STEP_NS) // 1000
        out += struct.pack("<IIII", micros // 1_000_000, micros % 1_000_000, len(frame), len(frame))
        out += frame
    path.write_bytes(out)


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
    rows = rows.take(rows.src_port.argsort())
    flows = range(FLOWS)
    assert rows.src_port.tolist() == [1000 + flow for flow in flows]
    assert rows.src_lo.tolist() == [from_text(f"10.0.0.{flow + 1}")[1] for flow in flows]
    assert set(rows.dst_port.tolist()) == {4791}
    assert set(rows.protocol.tolist()) == {17}
    assert rows.packets.tolist() == [PACKETS] * FLOWS
    assert rows.bytes.tolist() == [PACKETS * (28 + 100 * (flow + 1)) for flow in flows]
    assert rows.doubts.tolist() == rows.sampling_rate.tolist() == [0] * FLOWS
    # Records are told in milliseconds.
    for flow in flows:
        first_ns = start_ns + flow * STEP_NS
        assert abs(int(rows.start_ns[flow]) - first_ns) <= 2_000_000
        last_ns = first_ns + (PACKETS - 1) * FLOWS * STEP_NS
        assert abs(int(rows.end_ns[flow]) - last_ns) <= 2_000_000
    (exporter,) = ingest.exporters()
    assert (exporter.lost, exporter.restarts) == (0, 0)
