"""A live exporter: pmacctd's sfprobe (pmacct 1.7) samples real packets of the loopback."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from collector.addresses import to_text
from collector.ingest import Ingest
from collector.packets import Faults
from collector.schema import FlowBatch, PortState
from collector.udp import UdpReceiver
from tests.peers.programs import free_port, installed, running, until
from tests.peers.traffic import Flow, volume

PAYLOAD_BYTES = 500
AGENT = "10.255.7.7"


@contextmanager
def sfprobe(rate: int, ports: tuple[int, int], receiver: int, folder: Path) -> Generator[None]:
    """Samples UDP to two ports of the loopback, and tells `receiver`."""
    configuration = folder / "pmacctd.conf"
    configuration.write_text(
        f"""\
pcap_interface: lo
pcap_filter: udp dst port {ports[0]} or udp dst port {ports[1]}
plugins: sfprobe
sampling_rate: {rate}
sfprobe_receiver: 127.0.0.1:{receiver}
sfprobe_agentip: {AGENT}
"""
    )
    with running(["pmacctd", "-f", str(configuration)], folder / "pmacctd.log"):
        yield


@pytest.mark.parametrize(("rate", "packets", "away"), [(1, 500, 0), (4, 1000, 330)])
def test_what_sfprobe_samples_is_what_was_sent(
    rate: int, packets: int, away: int, tmp_path: Path
) -> None:
    installed("pmacctd")
    if os.geteuid():
        pytest.skip("capturing packets needs root")
    first, then = free_port(), free_port()
    receiver, ingest, faults = UdpReceiver("127.0.0.1", 0), Ingest(), Faults()
    seen: Counter[int] = Counter()
    flows: list[FlowBatch] = []

    def take() -> None:
        while (batch := receiver.take(0.02)) is not None:
            flows.append(ingest.add(batch, faults)[0])
            seen.update(flows[-1].dst_port.tolist())

    receiver.start()
    try:
        with (
            closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending,
            sfprobe(rate, (first, then), receiver.port, tmp_path),
        ):
            sending.bind(("127.0.0.1", 0))
            source = int(sending.getsockname()[1])

            def send(port: int) -> None:
                sending.sendto(b"z" * PAYLOAD_BYTES, ("127.0.0.1", port))

            def sampling() -> bool:
                send(first)
                take()
                return seen[first] > 0

            def told() -> bool:
                sampling()  # packets are handed on by the bufferful: others push the last of ours
                return rate * seen[then] >= packets - away

            until(sampling, "sfprobe samples nothing")
            for _ in range(packets):
                send(then)
            until(told, "sfprobe stopped in the middle")
    finally:
        receiver.stop()
    take()
    rows = FlowBatch.concat(flows)
    rows = rows.take(rows.dst_port == then)
    assert abs(rate * len(rows) - packets) <= away  # 330: six times its deviation
    flow = Flow("127.0.0.1", "127.0.0.1", source, then, 17)
    assert dict(volume(rows).packets) == {flow: rate * len(rows)}
    # The loopback has no link header; sfprobe counts a frame check sequence all the same.
    assert set(rows.frame_bytes.tolist()) == {20 + 8 + PAYLOAD_BYTES + 4}
    assert set(rows.payload_bytes.tolist()) == {PAYLOAD_BYTES}
    assert set(rows.input_state.tolist()) == {PortState.INTERNAL}
    (exporter,) = ingest.telemetry([]).exporters
    assert (exporter.agent, exporter.sampling_rates) == (AGENT, (rate,))
    assert (exporter.lost_datagrams, exporter.lost_samples) == (0, 0)
    assert faults.errors() == []
    assert to_text(int(rows.src_hi[0]), int(rows.src_lo[0])) == "127.0.0.1"
