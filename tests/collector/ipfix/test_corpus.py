"""Other people's exporters, against what other decoders read in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collector.addresses import from_text, to_text
from collector.ipfix import IpfixIngest
from collector.packets import Faults
from collector.records import Doubt, RecordBatch
from tests.collector.ipfix.arrivals import arrivals_in, batch_of

# Records of flows and of options that goflow2 reads. Where it differs:
# - data+templates: its first set comes before its template, which goflow2 takes for unknown (10
#   flows); the message's own count of 24 agrees with 21 flows, 1 option and 2 templates.
# - data-before-template: the same; the first four flows wait.
# - 112: goflow2 keeps templates by address. The exporter began anew from another port, and never
#   announces there what six sets follow: its records stay unread, as of an unknown layout.
COUNTS = {
    "akvorado-netflow/data+templates.pcap": (21, 1),
    "akvorado-netflow/data.pcap": (0, 0),
    "akvorado-netflow/mpls.pcap": (2, 1),
    "akvorado-netflow/nat.pcap": (9, 0),
    "akvorado-netflow/nfv5.pcap": (29, 0),
    "akvorado-netflow/physicalinterfaces.pcap": (8, 1),
    "akvorado-netflow/pairs/data-before-template.pcap": (8, 0),
    "akvorado-netflow/pairs/datalink.pcap": (1, 0),
    "akvorado-netflow/pairs/ethernet-over-mpls-with-control-word.pcap": (10, 0),
    "akvorado-netflow/pairs/icmp.pcap": (4, 0),
    "akvorado-netflow/pairs/ipfix-srv6.pcap": (1, 0),
    "akvorado-netflow/pairs/ipfixprobe.pcap": (4, 0),
    "akvorado-netflow/pairs/juniper-cpid.pcap": (1, 0),
    "akvorado-netflow/pairs/multiplesamplingrates.pcap": (12, 2),
    "akvorado-netflow/pairs/options.pcap": (4, 4),
    "akvorado-netflow/pairs/samplingrate.pcap": (6, 0),
    "pmacct/100-IPFIXv10-CISCO_traffic-00.pcap": (12, 0),
    "pmacct/101-NFv9-CISCO-cust_primitives_traffic-00.pcap": (51, 0),
    "pmacct/102-NFv9-CISCO-f2rd-pretag-sampling-reload_traffic-00.pcap": (35, 0),
    "pmacct/103-IPFIXv10-CISCO-pretag-JSON_encoding_traffic-00.pcap": (12, 0),
    "pmacct/104-IPFIXv10-IPv6-CISCO-sampling_option_traffic-00.pcap": (3, 1),
    "pmacct/106-IPFIXv10-HUAWEI-vrf_name_traffic-00.pcap": (3, 1),
    "pmacct/110-IPFIXv10-NFv9-multiple-sources_traffic-00.pcap": (12, 0),
    "pmacct/110-IPFIXv10-NFv9-multiple-sources_traffic-01.pcap": (51, 0),
    "pmacct/110-IPFIXv10-NFv9-multiple-sources_traffic-02.pcap": (35, 0),
    "pmacct/111-IPFIXv10-NFv9-IPv6-IPv4-mix_sources_traffic-00.pcap": (11, 0),
    "pmacct/111-IPFIXv10-NFv9-IPv6-IPv4-mix_sources_traffic-01.pcap": (13, 0),
    "pmacct/112-IPFIXv10-CISCO-options-map-reassignment_traffic-00.pcap": (0, 76),
    "pmacct/500-IPFIXv10-BGP-CISCO-SRv6_traffic-00.pcap": (43, 10),
    "pmacct/501-IPFIXv10-BGP-IPv6-CISCO-MPLS_traffic-00.pcap": (74, 39),
    "pmacct/502-IPFIXv10-BGP-IPv6-CISCO-SRv6-lcomms_traffic-00.pcap": (75, 39),
    "telegraf/issue_14370_message.bin": (2, 0),
    "telegraf/netflow_v5_example_netflow_v5.bin": (8, 0),
    "telegraf/netflow_v9_example_netflow_v9.bin": (8, 0),
    "telegraf/netflow_v9_options_message.bin": (0, 8),
    "telegraf/pairs/ipfix_example.pcap": (29, 2),
    "telegraf/pairs/ipfix_options.pcap": (0, 126),
    "telegraf/pairs/ipfix_pen_35632.pcap": (2, 0),
    "telegraf/pairs/issue_13305.pcap": (2, 0),
    "vflow/decoder_test_00_init_tpl.bin": (0, 0),
    "vflow/decoder_test_03_init_unknownDatasetMessage.bin": (0, 0),
}
PAIRS = sorted(name for name in COUNTS if "/pairs/" in name)


@pytest.fixture(scope="session")
def corpus(shared: Path) -> Path:
    return shared / "corpus"


def read(path: Path) -> tuple[RecordBatch, int, IpfixIngest]:
    """Records without answers, how many sampled packets, and the rest."""
    ingest = IpfixIngest()
    records, _, packets = ingest.add(batch_of(arrivals_in(path), 255), Faults())
    return records, len(packets), ingest


@pytest.mark.parametrize("name", COUNTS)
def test_counts(corpus: Path, name: str) -> None:
    records, packets, ingest = read(corpus / name)
    asked = records.take((records.doubts & Doubt.REVERSE) == 0)
    flows, options = COUNTS[name]
    assert len(asked) + packets + ingest.unread_records == flows
    assert sum(each.records for each in ingest.exporters()) == flows + options


def _flows(path: Path) -> Iterator[tuple[dict[str, list[str]], dict[str, list[str]]]]:
    """Each flow that tshark shows, with its message; keys may be repeated."""

    def gather(pairs: Any, into: dict[str, list[str]]) -> dict[str, list[str]]:
        for key, value in pairs:
            if isinstance(value, str):
                into.setdefault(key, []).append(value)
            elif value and isinstance(value[0], tuple):
                gather(value, into)
        return into

    def walk(node: Any, message: Any) -> Iterator[tuple[Any, Any]]:
        for key, value in node:
            if key == "cflow":
                message = [pair for pair in value if "lowSet" not in pair[0]]
            if re.fullmatch(r"Flow \d+", key):
                yield gather(value, {}), gather(message, {})
            elif isinstance(value, list) and value and isinstance(value[0], tuple):
                yield from walk(value, message)

    for packet in json.loads(path.read_text(), object_pairs_hook=lambda pairs: pairs):
        yield from walk(packet, None)


def _when(text: str) -> int:
    """ "Oct  5, 2009 06:06:07.492059999 UTC", to the microsecond."""
    whole, fraction = text.removesuffix(" UTC").split(".")
    moment = datetime.strptime(whole, "%b %d, %Y %H:%M:%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 10**9 + int(fraction)


@pytest.mark.parametrize("name", PAIRS)
def test_fields(corpus: Path, name: str) -> None:
    """Every field that tshark shows of every flow with addresses."""
    records, _, _ = read(corpus / name)
    records = records.take((records.doubts & Doubt.REVERSE) == 0)
    told = [
        (flow, message)
        for flow, message in _flows(corpus / f"{name}.tshark.json")
        if {"cflow.srcaddr", "cflow.srcaddrv6"} & set(flow)
    ]
    if name.endswith("data-before-template.pcap"):
        told = told * 2  # the same message came twice, and tshark reads only the second
    assert len(records) == len(told)
    for row, (flow, message) in enumerate(told):
        for field, column in (
            ("octets", "bytes"),
            ("packets", "packets"),
            ("srcport", "src_port"),
            ("dstport", "dst_port"),
            ("protocol", "protocol"),
            ("inputint", "input"),
            ("outputint", "output"),
            ("flow_end_reason", "end_reason"),
            ("sampler_id", "selector"),
        ):
            if said := flow.get(f"cflow.{field}"):
                assert getattr(records, column)[row] == int(said[0]), field
        if said := flow.get("cflow.tcpflags"):
            assert records.tcp_flags[row] == int(said[0], 16)
        if said := flow.get("cflow.tos"):
            assert records.dscp[row] << 2 | records.ecn[row] == int(said[0], 16)
        if said := flow.get("cflow.direction"):
            direction = {"Ingress": 1, "Egress": 2, "0": 1, "1": 2}[said[0].split(" ")[0]]
            assert records.direction[row] == direction
        for side in ("src", "dst"):
            texts = [
                text
                for key in (f"cflow.{side}addr", f"cflow.{side}addrv6")
                for text in flow.get(key, [])
            ]
            hi, lo = getattr(records, f"{side}_hi")[row], getattr(records, f"{side}_lo")[row]
            assert to_text(hi, lo) in [to_text(*from_text(text)) for text in texts]
        for side, got in (("start", records.start_ns[row]), ("end", records.end_ns[row])):
            if said := flow.get(f"cflow.abstime{side}"):
                assert min(abs(_when(text) - int(got)) for text in said) <= 1000
            elif said := flow.get(f"cflow.time{side}"):
                age = float(message["cflow.sysuptime"][0]) - float(said[0])
                sent = int(message["cflow.unix_secs"][0]) * 10**9
                assert abs(sent - round(age * 10**9) - int(got)) < 1_000_000


def test_rates_of_two_samplers(corpus: Path) -> None:
    """Options name sampler 1 with 2,000 and sampler 2 with 4,000."""
    records, _, _ = read(corpus / "akvorado-netflow/pairs/multiplesamplingrates.pcap")
    pairs = zip(records.selector.tolist(), records.sampling_rate.tolist(), strict=True)
    assert set(pairs) == {(1, 2000), (2, 4000)}


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("akvorado-netflow/pairs/options.pcap", {30_000}),  # sampling interval of sampler1
        ("akvorado-netflow/pairs/samplingrate.pcap", {2048}),
        ("akvorado-netflow/physicalinterfaces.pcap", {1000}),
        ("akvorado-netflow/mpls.pcap", {10}),
        ("akvorado-netflow/pairs/data-before-template.pcap", {0}),
    ],
)
def test_rates(corpus: Path, name: str, rates: set[int]) -> None:
    assert set(read(corpus / name)[0].sampling_rate.tolist()) == rates


def test_exporters_at_once_do_not_mix(corpus: Path) -> None:
    """Three exporters interleaved read as each alone."""
    paths = [
        corpus / f"pmacct/110-IPFIXv10-NFv9-multiple-sources_traffic-0{n}.pcap" for n in range(3)
    ]
    files = [arrivals_in(path) for path in paths]
    mixed = [
        each[turn] for turn in range(max(map(len, files))) for each in files if turn < len(each)
    ]
    ingest = IpfixIngest()
    records, _, _ = ingest.add(batch_of(mixed), Faults())
    alone = [read(path)[0] for path in paths]
    assert sorted(records.bytes.tolist()) == sorted(
        b for each in alone for b in each.bytes.tolist()
    )
    assert len(records) == 12 + 51 + 35
