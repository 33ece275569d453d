"""Datagrams as tshark dissects them, down to the packets inside.

Wireshark 4.0 reads a record of an enterprise that it does not know as one of enterprise 0
(wireshark/wireshark#21), so these datagrams hold none.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from collector.addresses import to_text
from collector.schema import Transport
from tests.collector import encode as e
from tests.collector.twins import compiled
from tests.peers.programs import installed
from tests.peers.traffic import mixed

DATAGRAM = ("sequence_number", "sysuptime", "sub_agent_id", "numsamples")
SAMPLE = ("sequence_number", "sampling_rate", "sample_pool", "dropped_packets")


def tshark(payloads: Sequence[bytes], fields: Sequence[str], folder: Path) -> list[list[list[str]]]:
    """Every occurrence of each field, by datagram; the carrying packet's own come first."""
    capture = folder / "datagrams.pcap"
    capture.write_bytes(e.pcap((e.EPOCH_NS + n, e.packet(data)) for n, data in enumerate(payloads)))
    command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=;"]
    command += ["-E", "occurrence=a", "-E", "aggregator=,"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [
        [cell.split(",") if cell else [] for cell in line.split(";")]
        for line in done.stdout.splitlines()
    ]


def test_datagrams_samples_and_packets_are_those_of_tshark(tmp_path: Path) -> None:
    installed("tshark")
    payloads = mixed(odd_records=False).payloads
    packet = ("ip.src", "ipv6.dst", "tcp.seq_raw", "infiniband.bth.psn", "infiniband.bth.destqp")
    fields = [
        *("sflow_245.agent", *(f"sflow_245.{name}" for name in DATAGRAM)),
        *(f"sflow.flow_sample.{name}" for name in SAMPLE),
        *("sflow_245.header.frame_length", "vlan.id", *packet, "_ws.malformed"),
    ]
    theirs = tshark(payloads, fields, tmp_path)
    ours = compiled(payloads)
    assert len(theirs) == len(ours)
    for cells, row in zip(theirs, ours, strict=True):
        agent, sequence, uptime, sub_agent, number, *samples = cells[:9]
        assert agent == [to_text(row["agent_hi"], row["agent_lo"])]
        assert [int(n) for n in (*sequence, *uptime, *sub_agent)] == [
            *(row["sequence"], row["uptime_ms"], row["sub_agent"])
        ]
        flows = row["flows"]
        assert int(number[0]) == len(flows) + len(row["counter_samples"])
        names = ("sequence", "sampling_rate", "pool", "dropped")
        for name, theirs_of in zip(names, samples, strict=True):
            assert [flow[name] for flow in flows] == [int(n) for n in theirs_of]
        frame_bytes, vlan, src, dst, seq, psn, qp, malformed = cells[9:]
        assert [flow["frame_bytes"] for flow in flows] == [int(n) for n in frame_bytes]
        assert [flow["vlan"] for flow in flows if flow["vlan"] != 0xFFFF] == [int(n) for n in vlan]
        four = [flow for flow in flows if not flow["src_hi"]]
        assert [to_text(0, flow["src_lo"]) for flow in four] == src[1:]
        six = [flow for flow in flows if flow["src_hi"]]
        assert [to_text(flow["dst_hi"], flow["dst_lo"]) for flow in six] == dst
        tcp = [flow for flow in flows if flow["transport"] == Transport.TCP]
        assert [flow["seq"] for flow in tcp] == [int(n) for n in seq]
        roce = [flow for flow in flows if flow["transport"] == Transport.ROCEV2]
        assert [flow["seq"] for flow in roce] == [int(n) for n in psn]
        assert [flow["dest_qp"] for flow in roce] == [int(n, 0) for n in qp]
        assert malformed == []
    assert np.sum([len(row["flows"]) for row in ours]) > 1000
