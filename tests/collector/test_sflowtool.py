"""The corpora as sflowtool read them, field by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collector.addresses import from_text
from collector.schema import ABSENT_U16, HeaderState, PortState
from tests.collector.conftest import payloads_of
from tests.collector.twins import compiled

COUNTERS = {
    "ifindex": "ifIndex",
    "speed_bps": "ifSpeed",
    "status": "ifStatus",
    "in_octets": "ifInOctets",
    "in_ucast_pkts": "ifInUcastPkts",
    "in_discards": "ifInDiscards",
    "in_errors": "ifInErrors",
    "out_octets": "ifOutOctets",
    "out_ucast_pkts": "ifOutUcastPkts",
    "out_discards": "ifOutDiscards",
    "out_errors": "ifOutErrors",
}
# sflowtool stopped in the middle of this one
UNFINISHED = "sflow_test_04_TestSFlowDecodeDropExtendedFunction_data.bin"
PACKET = {
    "frame_bytes": "sampledPacketSize",
    "ttl": "IPTTL",
    "protocol": "IPProtocol",
    "tcp_flags": "TCPFlags",
}


def _element(sample: dict[str, Any], tag: str, kind: str) -> dict[str, Any] | None:
    return next((e for e in sample["elements"] if e.get(kind) == tag), None)


def test_datagrams_samples_and_packets(sflow_files: list[Path]) -> None:
    flows = counters = packets = 0
    for path in sflow_files:
        if path.name == UNFINISHED:
            continue
        lines = path.with_name(path.name + ".sflowtool.jsonl").read_text().splitlines()
        payloads = payloads_of(path)
        assert len(payloads) == len(lines), path
        for row, line in zip(compiled(payloads), map(json.loads, lines), strict=True):
            assert (row["agent_hi"], row["agent_lo"]) == from_text(line["agent"]), path
            assert row["sub_agent"] == int(line["agentSubId"])
            assert row["sequence"] == int(line["packetSequenceNo"])
            assert row["uptime_ms"] == int(line["sysUpTime"])
            of_kind: list[list[dict[str, Any]]] = [[], []]
            for sample in line["samples"]:
                if sample["sampleType"] in ("FLOWSAMPLE", "COUNTERSSAMPLE"):
                    of_kind[sample["sampleType"] == "COUNTERSSAMPLE"].append(sample)
            assert len(of_kind[0]) == len(row["flows"]), path
            for mine, sample in zip(row["flows"], of_kind[0], strict=True):
                _compare_sample(mine, sample)
                flows += 1
                header = _element(sample, "0:1", "flowBlock_tag")
                switch = _element(sample, "0:1001", "flowBlock_tag")
                if header is None:
                    assert mine["header_state"] == HeaderState.TRUNCATED_NETWORK
                else:
                    _compare_packet(mine, header, switch)
                    packets += 1
            assert len(of_kind[1]) == len(row["counter_samples"]), path
            generic = [_element(sample, "0:1", "counterBlock_tag") for sample in of_kind[1]]
            for mine, counter in zip(row["counters"], filter(None, generic), strict=True):
                theirs = {name: int(counter[field]) for name, field in COUNTERS.items()}
                assert mine == theirs, path
                counters += 1
    assert flows > 650
    assert packets > 650
    assert counters > 10


def _compare_sample(mine: dict[str, Any], sample: dict[str, Any]) -> None:
    kind, index = (int(part) for part in sample["sourceId"].split(":"))
    assert mine["source"] == kind << 32 | index
    assert mine["sampling_rate"] == int(sample["meanSkipCount"])
    if "samplePool" in sample:
        assert mine["pool"] == int(sample["samplePool"])
    assert mine["dropped"] == int(sample["dropEvents"])
    for name, text in (("input", sample["inputPort"]), ("output", sample["outputPort"])):
        if text.isdecimal() and int(text) not in (0, 0x3FFF_FFFF):
            assert (mine[f"{name}_state"], mine[name]) == (PortState.SINGLE, int(text))
        else:
            assert mine[f"{name}_state"] != PortState.SINGLE, text


def _compare_packet(
    mine: dict[str, Any], header: dict[str, Any], switch: dict[str, Any] | None
) -> None:
    for name, field in PACKET.items():
        if field in header:
            assert mine[name] == int(header[field]), header
    vlan = int(header.get("decodedVLAN", 0))
    if not vlan and switch is not None:
        vlan = int(switch["out_vlan" if mine["direction"] == 2 else "in_vlan"])
    assert mine["vlan"] == (vlan or ABSENT_U16)
    for end in ("src", "dst"):
        address = header.get(f"{end}IP", header.get(f"{end}IP6"))
        if address is not None:
            assert (mine[f"{end}_hi"], mine[f"{end}_lo"]) == from_text(address)
        for transport in ("TCP", "UDP"):
            field = f"{transport}{end.capitalize()}Port"
            if field in header:
                assert mine[f"{end}_port"] == int(header[field])
    if "IPTOS" in header:
        assert mine["dscp"] << 2 | mine["ecn"] == int(header["IPTOS"])
