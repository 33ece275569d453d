"""The corpora as sflowtool 6.11 read them: every field of every record of every sample.

A field of the oracle is either compared or named in `NOT_KEPT`; a field that is neither fails, and
so does an entry of `NOT_KEPT` that no file has.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collector import sflow
from collector.addresses import from_text
from collector.link import DatagramBatch
from collector.schema import (
    ABSENT_U16,
    Encapsulation,
    FlowBatch,
    HeaderState,
    PortState,
)
from collector.sflow.reasons import reason_name
from tests.collector.conftest import payloads_of
from tests.collector.twins import batch_of

Oracle = dict[str, Any]

# sflowtool stopped in the middle of this one, so its line is no JSON. Its record 0:1038 holds a
# name of six bytes without the two of padding that XDR (RFC 4506, 4.11) demands. The sample's own
# length says where it ends, so ringscope reads it whole.
UNFINISHED = "sflow_test_04_TestSFlowDecodeDropExtendedFunction_data.bin"

# What sflowtool says otherwise, and who is right.
#
# - Tunnels: sflowtool describes the outermost packet. ringscope opens them; what sflowtool calls
#   source and destination are `outer_src` and `outer_dst` here, and no disagreement.
# - `decodedVLAN` of a frame without a tag is not there; ringscope takes the VLAN that the switch
#   assigned (record 0:1001), which sflowtool prints as `in_vlan` and `out_vlan`. Both are right.
# - `discardReason` 12: sflow.org writes "dst_host_tos_unreacheable", sflowtool follows, and
#   ringscope writes it as a word. None of the files has it.

# Fields that ringscope does not keep, by record; with why, where it is not plain.
NOT_KEPT: dict[str, set[str]] = {
    "flow 0:1": {
        *("strippedBytes",),  # what was cut off is no part of the packet
        *("dstMAC", "srcMAC"),  # a packet's next hop; jobs are told by IP addresses
        *("ethernet_type", "IPSize", "ip.tot_len", "IPID", "IP6_label", "IPV6_payloadLen"),
        *("UDPBytes", "ICMPType", "ICMPCode", "IP6HeaderExtension"),
        *("decodedPriority", "decodedPriority.1"),  # of an Ethernet tag; DSCP is what fabrics use
    },
    "flow 0:2": {"ethernet_type", "ethernet_src", "ethernet_dst", "ethernet_len"},  # 0:1 is there
    "flow 0:1001": {"in_priority", "out_priority"},
    "flow 0:1002": {"nextHop", "srcSubnetMask", "dstSubnetMask"},
    "flow 0:1003": {  # of the Internet's routes
        *("bgp_nexthop", "my_as", "src_as", "src_peer_as", "dst_as", "dst_peer_as"),
        *("BGP_localpref", "dst_as_path", "BGP_communities"),
    },
    "flow 0:1037": set(),  # sflowtool does not read access lists
    "counter 0:1": {
        *("networkType", "ifDirection", "ifInMulticastPkts", "ifInBroadcastPkts"),
        *("ifInUnknownProtos", "ifOutMulticastPkts", "ifOutBroadcastPkts", "ifPromiscuousMode"),
    },
    "counter 0:2": {  # collisions do not happen where nobody shares a wire
        *("dot3StatsSingleCollisionFrames", "dot3StatsMultipleCollisionFrames"),
        *("dot3StatsSQETestErrors", "dot3StatsDeferredTransmissions", "dot3StatsLateCollisions"),
        *("dot3StatsExcessiveCollisions", "dot3StatsCarrierSenseErrors"),
    },
    "counter 0:2000": {"UUID", "machine_type", "os_name", "os_release"},
    "counter 0:2003": {
        *("cpu_load_five", "cpu_load_fifteen", "cpu_proc_run", "cpu_proc_total", "cpu_speed"),
        *("cpu_user", "cpu_nice", "cpu_system", "cpu_idle", "cpu_wio", "cpuintr", "cpu_sintr"),
        *("cpuinterrupts", "cpu_contexts", "cpu_steal", "cpu_guest", "cpu_guest_nice"),
    },
    "counter 0:2004": {
        *("mem_shared", "mem_buffers", "mem_cached", "swap_total", "swap_free"),
        *("page_in", "page_out", "swap_in", "swap_out"),
    },
}
# Records of the agent's host that are skipped as a whole: adapters, disks, all its traffic, what
# its kernel counts by protocol.
SKIPPED = {f"counter 0:{tag}" for tag in (2001, 2005, 2006, 2007, 2008, 2009, 2010)}
# Of the JSON line itself, and not of the datagram.
OF_THE_LINE = {
    *("datagramSourceIP", "unixSecondsUTC", "unixSecondsUTC_uS", "localtime"),
    *("pcapTimestamp", "pcapTimestamp_uS", "samples"),
}
NAMES = {"sampleType_tag", "sampleType", "elements", "extendedType", "flowSampleType"}
NAMES |= {"flowBlock_tag", "counterBlock_tag"}

GENERIC = {
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
ETHERNET = {
    "alignment_errors": "dot3StatsAlignmentErrors",
    "fcs_errors": "dot3StatsFCSErrors",
    "send_errors": "dot3StatsInternalMacTransmitErrors",
    "receive_errors": "dot3StatsInternalMacReceiveErrors",
    "too_long_frames": "dot3StatsFrameTooLongs",
    "symbol_errors": "dot3StatsSymbolErrors",
}
# By record: which table, and which of its columns says the same.
COUNTERS: dict[str, tuple[str, dict[str, str]]] = {
    "counter 0:1": ("counters", GENERIC),
    "counter 0:2": ("ports", ETHERNET),
    "counter 0:1005": ("ports", {"name": "ifName"}),
    "counter 0:2000": ("hosts", {"name": "hostname"}),
    "counter 0:2003": (
        "hosts",
        {"load_1m": "cpu_load_one", "cpus": "cpu_num", "uptime_s": "cpu_uptime"},
    ),
    "counter 0:2004": ("hosts", {"memory_bytes": "mem_total", "free_bytes": "mem_free"}),
}


class Comparison:
    """One datagram against its line; `seen` counts what was compared, by record and field."""

    def __init__(self, seen: Counter[str], skipped: set[str]) -> None:
        self.seen = seen
        self.skipped = skipped

    def equal(self, record: str, field: str, mine: object, theirs: object) -> None:
        assert mine == theirs, (record, field)
        self.seen[f"{record} {field}"] += 1

    def rest(self, record: str, fields: set[str]) -> None:
        """What is left of a record must be known as not kept."""
        left = fields - NAMES
        assert left <= NOT_KEPT.get(record, set()), record
        self.skipped |= {f"{record} {field}" for field in left}

    def packet(
        self,
        oracle: Oracle,
        packets: FlowBatch,
        sampled: sflow.Sampled,
        row: int,
        buffer: bytes,
        detail: str = "",
    ) -> None:
        """A flow sample, or a notice of a dropped packet."""
        kind = oracle["sampleType"]
        mine: Oracle = {name: getattr(packets, name)[row].item() for name in packets.KINDS}
        mine["detail"] = detail
        said = {name: getattr(sampled, name)[row].item() for name in sampled._fields}
        source = tuple(map(int, oracle["sourceId"].split(":")))
        self.equal(kind, "sourceId", divmod(said["source"], 1 << 32), source)
        self.equal(kind, "sequence", said["sequence"], int(oracle["sampleSequenceNo"]))
        self.equal(kind, "drops", said["dropped"], int(oracle["dropEvents"]))
        left = set(oracle) - {"sourceId", "sampleSequenceNo", "dropEvents"}
        if kind == "FLOWSAMPLE":
            self.equal(kind, "rate", mine["sampling_rate"], int(oracle["meanSkipCount"]))
            self.equal(kind, "pool", said["pool"], int(oracle["samplePool"]))
            left -= {"meanSkipCount", "samplePool"}
        for name in ("input", "output"):
            self.equal(kind, name, port_text(mine, name), oracle[f"{name}Port"])
            left.discard(f"{name}Port")
        records = [
            {key.removeprefix("discarded_"): value for key, value in element.items()}
            for element in oracle["elements"]
        ]
        by_tag = {element["flowBlock_tag"]: element for element in records}
        assert len(by_tag) == len(records)
        for tag, element in by_tag.items():
            record = f"flow {tag}"
            compare = RECORDS.get(tag)
            compared = set()
            if compare is not None:
                for field, pair in compare(mine, said, element, by_tag, buffer).items():
                    compared.add(field)
                    if pair is not None:
                        self.equal(record, field, *pair)
            self.rest(record, set(element) - compared)
        if "0:1" not in by_tag:
            assert mine["header_state"] == HeaderState.TRUNCATED_NETWORK
        self.rest(kind, left - {"discardCode", "discardReason"})


def port_text(mine: dict[str, int], name: str) -> str:
    """An interface as sflowtool writes it."""
    state, value = mine[f"{name}_state"], mine[name]
    if state == PortState.SINGLE:
        return str(value)
    if state == PortState.INTERNAL:
        return "1073741823"
    if state == PortState.MULTIPLE:
        return f"multiple {value}"
    if state == PortState.DISCARDED:
        return f"dropCode {value}"
    return "0"


# By field of the oracle: what is said here, and there. None = there of something else.
Compared = dict[str, tuple[object, object] | None]


def _raw(
    mine: Oracle, said: Oracle, element: Oracle, _: dict[str, Oracle], buffer: bytes
) -> Compared:
    at, size = said["header_at"], said["header_bytes"]
    found: Compared = {
        "headerProtocol": (said["header_protocol"], int(element["headerProtocol"])),
        "headerLen": (size, int(element["headerLen"])),
        "headerBytes": (buffer[at : at + size].hex("-").upper(), element["headerBytes"]),
        "sampledPacketSize": (mine["frame_bytes"], int(element["sampledPacketSize"])),
    }
    tags = [int(element[f"decodedVLAN{n}"]) for n in ("", ".1") if f"decodedVLAN{n}" in element]
    for number, name in enumerate(("vlan", "inner_vlan")):
        if number < len(tags):
            found["decodedVLAN" + ("", ".1")[number]] = (mine[name], tags[number])
    tunnel = mine["encapsulation"] != Encapsulation.NONE
    for end in ("src", "dst"):
        for field in (f"{end}IP", f"{end}IP6"):
            if field in element:
                whose = f"outer_{end}" if tunnel else end
                address = (mine[f"{whose}_hi"], mine[f"{whose}_lo"])
                found[field] = (address, from_text(element[field]))
        for transport in ("TCP", "UDP"):
            if (field := f"{transport}{end.capitalize()}Port") in element:
                found[field] = (mine[f"{end}_port"], int(element[field]))
    for field, value in (
        ("IPTTL", mine["ttl"]),
        ("IPProtocol", mine["protocol"]),
        ("IPTOS", mine["dscp"] << 2 | mine["ecn"]),
        ("TCPFlags", mine["tcp_flags"]),
    ):
        if field in element:
            found[field] = (value, int(element[field]))
    if tunnel:
        found |= {f: None for f in found if f.startswith(("IP", "UDP", "TCP"))}
    return found


def _switch(
    mine: Oracle, said: Oracle, element: Oracle, others: dict[str, Oracle], _: bytes
) -> Compared:
    field = "out_vlan" if mine["direction"] == 2 else "in_vlan"
    vlan = int(element[field]) or ABSENT_U16
    if "decodedVLAN" not in others.get("0:1", {}):
        assert mine["vlan"] == vlan
    return {"in_vlan": None, "out_vlan": None, field: (said["vlan"], vlan)}


def _ipv4(mine: Oracle, _: Oracle, element: Oracle, __: dict[str, Oracle], ___: bytes) -> Compared:
    found: Compared = {}
    for end in ("src", "dst"):
        found[f"{end}IP"] = (
            (mine[f"{end}_hi"], mine[f"{end}_lo"]),
            from_text(element[f"{end}IP"]),
        )
        found[f"UDP{end.capitalize()}Port"] = (
            mine[f"{end}_port"],
            int(element[f"UDP{end.capitalize()}Port"]),
        )
    found["IPProtocol"] = (mine["protocol"], int(element["IPProtocol"]))
    found["IPTOS"] = (mine["dscp"] << 2 | mine["ecn"], int(element["IPTOS"]))
    # The sampled header, which counts, says how long the frame is that this packet was in.
    assert mine["frame_bytes"] > int(element["IPSize"])
    return found | {"IPSize": None, "sampledPacketSize": None}


RECORDS: dict[str, Callable[[Oracle, Oracle, Oracle, dict[str, Oracle], bytes], Compared]] = {
    "0:1": _raw,
    "0:3": _ipv4,
    "0:1001": _switch,
    "0:1036": lambda mine, _, element, *__: {
        "egress_queue_id": (mine["queue"], int(element["egress_queue_id"]))
    },
    "0:1038": lambda mine, _, element, *__: {"symbol": (mine["detail"], element["symbol"])},
    # The function says more than this, which is all that the file has.
    "0:1042": lambda _, __, element, *___: {
        "linux_drop_reason": ("NOT_SPECIFIED", element["linux_drop_reason"])
    },
    "0:1043": lambda _, said, element, *__: {
        "timestamp_nS": (said["stamp_ns"], int(element["timestamp_nS"]))
    },
}


def _datagram(
    comparison: Comparison, batch: DatagramBatch, samples: sflow.Samples, row: int, line: Oracle
) -> None:
    """All samples of one datagram."""
    headers, buffer = samples.headers, batch.buffer.tobytes()
    left = set(line) - OF_THE_LINE
    for field, mine, theirs in (
        ("agent", (headers.agent_hi[row], headers.agent_lo[row]), from_text(line["agent"])),
        ("agentSubId", headers.sub_agent[row], int(line["agentSubId"])),
        ("packetSequenceNo", headers.sequence[row], int(line["packetSequenceNo"])),
        ("sysUpTime", headers.uptime_ms[row], int(line["sysUpTime"])),
        ("datagramSize", batch.length[row], int(line["datagramSize"])),
        ("datagramVersion", 5, int(line["datagramVersion"])),
        ("samplesInPacket", _samples_in(headers, row), int(line["samplesInPacket"])),
    ):
        comparison.equal("datagram", field, mine, theirs)
        left.discard(field)
    comparison.rest("datagram", left)
    of_kind: dict[str, list[Oracle]] = {"FLOWSAMPLE": [], "COUNTERSSAMPLE": [], "DISCARD": []}
    for sample in line["samples"]:
        of_kind[sample["sampleType"]].append(sample)
    mine = np.flatnonzero(samples.flow_datagram == row).tolist()
    for i, oracle in zip(mine, of_kind["FLOWSAMPLE"], strict=True):
        comparison.packet(oracle, samples.flows, samples.sampled, i, buffer)
    for i, oracle in enumerate(of_kind["DISCARD"]):
        assert samples.discards is not None
        notices = samples.discards
        detail = notices.drop.detail[i].tobytes().rstrip(b"\0").decode()
        comparison.packet(oracle, notices.packets, notices.sampled, i, buffer, detail)
        code = int(notices.drop.reason[i])
        comparison.equal("DISCARD", "discardCode", code, int(oracle["discardCode"]))
        comparison.equal("DISCARD", "discardReason", reason_name(code), oracle["discardReason"])
    if of_kind["COUNTERSSAMPLE"]:
        assert samples.polled is not None
        rows = np.flatnonzero(samples.polled.found.datagram == row)
        assert len(rows) == len(of_kind["COUNTERSSAMPLE"])
        _counters(comparison, samples.polled, row, of_kind["COUNTERSSAMPLE"])


def _samples_in(headers: sflow.Headers, row: int) -> int:
    kinds = (headers.flows, headers.counters, headers.discards, headers.unknown)
    return sum(int(column[row]) for column in kinds)


def _counters(
    comparison: Comparison, polled: sflow.Polled, row: int, oracles: list[Oracle]
) -> None:
    """Counter samples of one datagram; each table has their rows in order."""
    rows = {
        "counters": np.flatnonzero(polled.counter_datagram == row),
        "ports": np.flatnonzero(polled.port_datagram == row),
        "hosts": np.flatnonzero(polled.host_datagram == row),
    }
    next_row = dict.fromkeys(rows, 0)
    for oracle in oracles:
        tables = set()
        for element in oracle["elements"]:
            record = f"counter {element['counterBlock_tag']}"
            compared = set()
            if record in COUNTERS:
                table, columns = COUNTERS[record]
                tables.add(table)
                at = rows[table][next_row[table]]
                for column, field in columns.items():
                    mine = getattr(getattr(polled, table), column)[at]
                    comparison.equal(record, field, _text(mine), element[field])
                    compared.add(field)
                if table == "ports":
                    index = polled.ports.ifindex[at]
                    assert oracle["sourceId"] == f"0:{index}"
            if record not in SKIPPED:
                comparison.rest(record, set(element) - compared)
        for table in tables:
            next_row[table] += 1
        # A counter that was lost is in the next sample, so nobody asks for their numbers.
        comparison.rest("COUNTERSSAMPLE", set(oracle) - {"sampleSequenceNo", "sourceId"})
    assert all(next_row[table] == len(found) for table, found in rows.items())


def _text(value: np.generic) -> str:
    if isinstance(value, np.bytes_):
        return value.decode()
    return f"{value:.3f}" if isinstance(value, np.floating) else str(value)


def test_every_field_of_every_sample(sflow_files: list[Path]) -> None:
    seen: Counter[str] = Counter()
    skipped: set[str] = set()
    for path in sflow_files:
        if path.name == UNFINISHED:
            continue
        lines = path.with_name(path.name + ".sflowtool.jsonl").read_text().splitlines()
        payloads = payloads_of(path)
        for payload, line in zip(payloads, map(json.loads, lines), strict=True):
            batch = batch_of([payload])
            samples = sflow.decode(batch)
            for packets, sampled in _sampled(samples):
                assert not sflow.parse(batch.buffer, packets, sampled).any(), path
                assert not sampled.status.any(), path
            assert not samples.strange.used.any(), path
            _datagram(Comparison(seen, skipped), batch, samples, 0, line)
    assert skipped == {f"{record} {field}" for record in NOT_KEPT for field in NOT_KEPT[record]}
    assert seen["FLOWSAMPLE sourceId"] == 701
    assert seen["flow 0:1 headerBytes"] == 702
    assert seen["flow 0:1043 timestamp_nS"] == 656
    assert seen["DISCARD discardReason"] == 4
    assert seen["counter 0:1 ifIndex"] == 11


def _sampled(samples: sflow.Samples) -> list[tuple[FlowBatch, sflow.Sampled]]:
    found = [(samples.flows, samples.sampled)]
    if samples.discards is not None:
        found.append((samples.discards.packets, samples.discards.sampled))
    return found


def test_a_name_without_its_padding_is_read_where_sflowtool_stopped(
    sflow_files: list[Path],
) -> None:
    (path,) = (path for path in sflow_files if path.name == UNFINISHED)
    with pytest.raises(json.JSONDecodeError):
        json.loads(path.with_name(path.name + ".sflowtool.jsonl").read_text())
    samples = sflow.decode(batch_of(payloads_of(path)))
    assert samples.headers.status.tolist() == [sflow.Status.GOOD]
    assert samples.discards is not None
    notices = samples.discards
    assert notices.sampled.status.tolist() == [sflow.Status.GOOD]
    assert (notices.drop.reason[0], notices.sampled.dropped[0]) == (1, 256)
    assert (notices.packets.input[0], notices.packets.output[0]) == (1, 2)
