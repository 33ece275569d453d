"""The same datagrams to ringscope and to sfacctd (pmacct 1.7), by UDP."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.collector import encode as e
from tests.collector.conftest import payloads_of
from tests.peers.programs import deliver, free_port, installed, listening, until
from tests.peers.traffic import Flow, Volume, mixed, received, volume

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "ipv6-icmp": 58}
# What sfacctd 1.7.7 reads otherwise, and who is right.
NO_PACKET = {"data-qinq.pcap"}  # it finds no packet behind two VLAN tags: ours
OUTER_PACKET = {"data-encap-vxlan.pcap"}  # it does not look into tunnels: ours
# It takes the IP length of record 0:3 where there is also a raw header with the frame's: ours.
IP_LENGTH = {"data-sflow-ipv4-data.pcap"}

OTHER = "198.18.0.1"
OTHERS = e.datagram(*[e.flow_sample(e.raw_header(e.roce(b"", OTHER)))] * 8, agent=OTHER)


def sfacctd(payloads: Sequence[bytes], samples: int, folder: Path) -> Volume:
    """What sfacctd counts, scaled by the rates that it read."""
    port, written = free_port(), folder / "flows.json"
    configuration = folder / "sfacctd.conf"
    configuration.write_text(
        f"""\
sfacctd_ip: 127.0.0.1
sfacctd_port: {port}
plugins: print
aggregate: src_host, dst_host, src_port, dst_port, proto, sampling_rate
print_output: json
print_output_file: {written}
print_output_file_append: true
print_refresh_time: 1
"""
    )
    rows: list[dict[str, Any]] = []

    def all_written() -> bool:
        # Its core process hands samples on by the bufferful: others push the last of ours.
        deliver([OTHERS], port)
        if written.exists():
            lines = written.read_text().splitlines(keepends=True)
            told = [json.loads(line) for line in lines if line.endswith("\n")]
            rows[:] = [row for row in told if row["ip_src"] != OTHER]
        return sum(int(row["packets"]) for row in rows) >= samples

    with listening(["sfacctd", "-f", str(configuration)], port, folder / "sfacctd.log"):
        deliver(payloads, port)
        until(all_written, "sfacctd counts fewer samples")
    found = Volume(Counter(), Counter())
    for row in rows:
        ends = (row["ip_src"], row["ip_dst"], row["port_src"], row["port_dst"])
        flow = Flow(*ends, PROTOCOLS[row["ip_proto"]])
        found.packets[flow] += row["packets"] * row["sampling_rate"]
        found.frame_bytes[flow] += row["bytes"] * row["sampling_rate"]
    return found


def test_flows_and_volumes_are_those_of_sfacctd(tmp_path: Path) -> None:
    installed("sfacctd")
    traffic = mixed()
    theirs = sfacctd(traffic.payloads, traffic.samples, tmp_path)
    flows, _ = received(traffic.payloads)
    assert len(flows) == traffic.samples
    assert volume(flows) == traffic.truth
    assert theirs == traffic.truth, (tmp_path / "sfacctd.log").read_text()


def test_corpus_flows_are_those_of_sfacctd(sflow_files: list[Path], tmp_path: Path) -> None:
    installed("sfacctd")
    payloads = [
        payload
        for path in sflow_files
        if path.name not in NO_PACKET | OUTER_PACKET | IP_LENGTH
        for payload in payloads_of(path)
    ]
    # Collections copy from each other, and ringscope takes no datagram twice.
    distinct = list(dict.fromkeys(payloads))
    flows, _ = received(distinct)
    assert len(flows) > 650
    theirs = sfacctd(distinct, len(flows), tmp_path)
    assert theirs == volume(flows)
