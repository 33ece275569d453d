"""Formats that nobody here knows are skipped by their length, and counted by exporter and tag.

wireshark/wireshark#21, google/gopacket#580, netsampler/goflow2#153, pmacct/pmacct#71,
robcowart/elastiflow#658, pavel-odintsov/fastnetmon#1025: elsewhere a record of another enterprise
was read as the standard's record of the same number, or took the rest of the datagram with it.
"""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector import sflow
from collector.ingest import ingest
from collector.schema import Telemetry, UnknownTag
from collector.sflow.tags import Kind
from tests.collector import encode as e
from tests.collector.twins import batch_of

HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))


def read(folder: Path, *datagrams: bytes) -> Telemetry:
    path = folder / "a.pcap"
    packets = [(e.EPOCH_NS + n, e.packet(data)) for n, data in enumerate(datagrams)]
    path.write_bytes(e.pcap(packets))
    return ingest([path])


def tag(enterprise: int, number: int) -> int:
    return enterprise << 12 | number


def test_unknown_tags_are_counted_and_hide_nothing(tmp_path: Path) -> None:
    foreign = e.record(tag(8800, 1), struct.pack(">4I", 1, 9000, 0, 64) + b"\xee" * 64)
    newer = e.record(999, b"\0" * 12)
    flow = e.flow_sample(foreign, newer, e.timestamp(e.EPOCH_NS), foreign, HEADER)
    counters = e.counter_sample(e.record(tag(4413, 3), b"\xaa" * 44), e.record(1, b"\1" * 88))
    sample = e.record(tag(25506, 2), b"\0" * 8)
    told = read(
        tmp_path,
        e.datagram(sample, flow, counters, flow, sequence=1),
        e.datagram(flow, sequence=2),
        e.datagram(sample, sample, e.flow_sample(HEADER), agent="10.255.0.2"),
    )
    assert told.flows.dest_qp.tolist() == [0x11] * 4
    assert told.flows.frame_bytes.tolist() == told.flows.frame_bytes[:1].tolist() * 4
    assert len(told.counters) == 1
    assert told.errors == ()
    assert set(told.unknown_tags) == {
        UnknownTag(0, "sample", 25506, 2, 1),
        UnknownTag(0, "flow record", 8800, 1, 6),
        UnknownTag(0, "flow record", 0, 999, 3),
        UnknownTag(0, "counter record", 4413, 3, 1),
        UnknownTag(1, "sample", 25506, 2, 2),
    }
    assert [exporter.unknown_samples for exporter in told.exporters] == [1, 2]


def test_what_sflow_org_has_named_is_not_unknown(tmp_path: Path) -> None:
    flow = [e.record(number, b"") for number in (1, 4, 1001, 1002, 1021, 1043, 2100, 2209)]
    counters = [e.record(number, b"") for number in (1, 10, 1004, 2001, 2010, 2101, 2206, 3003)]
    told = read(tmp_path, e.datagram(e.flow_sample(*flow), e.counter_sample(*counters)))
    assert told.unknown_tags == ()


def test_duplicates_do_not_count_twice(tmp_path: Path) -> None:
    data = e.datagram(e.record(tag(9, 9), b""))
    assert read(tmp_path, data, data).unknown_tags == (UnknownTag(0, "sample", 9, 9, 1),)


def test_made_up_tags_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.unknown.MOST_TAGS", 5)
    samples = [e.record(tag(7, n), b"") for n in range(40)]
    told = read(tmp_path, e.datagram(*samples))
    assert [one.format for one in told.unknown_tags] == [0, 1, 2, 3, 4]
    assert told.exporters[0].unknown_samples == 40
    more = sflow.decode(batch_of([e.datagram(*samples * 50)])).strange
    assert more.used[0] == len(more.tag)
    assert more.times.sum() + more.used[1] == 2000


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(5000, 5004) | st.integers(990, 1005), max_size=9), max_size=5))
def test_counts_are_those_of_the_tags_sent(samples: list[list[int]]) -> None:
    payloads = [e.datagram(e.flow_sample(*(e.record(t, b"") for t in tags))) for tags in samples]
    strange = sflow.decode(batch_of(payloads)).strange
    used = int(strange.used[0])
    found: Counter[tuple[int, int]] = Counter()
    for row in range(used):
        assert strange.kind[row] == Kind.FLOW_RECORD
        found[int(strange.datagram[row]), int(strange.tag[row])] += int(strange.times[row])
    sent = Counter((n, t) for n, tags in enumerate(samples) for t in tags if not 1001 <= t <= 1043)
    assert found == sent
