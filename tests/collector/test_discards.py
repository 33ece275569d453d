"""Notices of dropped packets (sFlow Dropped Packet Notification Structures, sample 0:5)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from collector.addresses import from_text
from collector.ingest import ingest
from collector.schema import ABSENT_U32, DiscardBatch, PortState, Telemetry, TimeBasis, Transport
from collector.sflow import Status
from collector.sflow.reasons import reason_name
from tests.collector import encode as e
from tests.collector.twins import compiled

HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
TRAP = e.record(1041, e.text(b"l3_drops") + e.text(b"ttl_value_is_too_small"))
ACL = e.record(1037, struct.pack(">I", 7) + e.text(b"no-storage") + struct.pack(">I", 1))
FUNCTION = e.record(1038, e.text(b"__udp4_lib_rcv+0xbed/0xd90"))


def linux(reason: bytes) -> bytes:
    return e.record(1042, e.text(reason))


def read(folder: Path, *samples: bytes) -> Telemetry:
    path = folder / "a.pcap"
    path.write_bytes(e.pcap([(e.EPOCH_NS, e.packet(e.datagram(*samples)))]))
    return ingest([path])


def test_a_notice_is_a_packet_with_its_reason(tmp_path: Path) -> None:
    notice = e.discard(
        *(e.timestamp(e.EPOCH_NS - 5), HEADER, e.record(1036, struct.pack(">I", 3))),
        source=(0, 9),
        drops=17,
        entered=9,
        left=12,
        reason=259,
    )
    found = read(tmp_path, notice).discards
    assert (found.reason.tolist(), found.drops.tolist()) == ([259], [17])
    assert found.detail.tolist() == [b""]
    packet = found.packets
    assert packet.exporter.tolist() == [0]
    assert packet.time_ns.tolist() == [e.EPOCH_NS - 5]
    assert packet.time_basis.tolist() == [TimeBasis.EXPORTER]
    assert (packet.input.tolist(), packet.output.tolist()) == ([9], [12])
    assert packet.input_state.tolist() == [PortState.SINGLE]
    assert (packet.transport.tolist(), packet.dest_qp.tolist()) == ([Transport.ROCEV2], [0x11])
    assert (packet.src_hi[0], packet.src_lo[0]) == from_text("10.0.0.1")
    assert (packet.queue.tolist(), packet.sampling_rate.tolist()) == ([3], [1])
    assert packet.transit_ns.tolist() == [ABSENT_U32]


def test_notices_hide_no_other_sample(tmp_path: Path) -> None:
    # pmacct/pmacct#879, sonic-net/sonic-buildimage#27396, influxdata/telegraf#15375: a datagram
    # with a notice in it was given up, and the traffic with it.
    flow, counters = e.flow_sample(HEADER), e.counter_sample(e.record(1, b"\1" * 88))
    told = read(tmp_path, flow, e.discard(HEADER), counters, flow, e.discard(), flow)
    assert (told.flow_samples, len(told.flows), len(told.counters)) == (3, 3, 1)
    assert (len(told.discards), told.exporters[0].discard_samples) == (2, 2)
    assert told.errors == ()


def test_dropped_packets_are_no_traffic(tmp_path: Path) -> None:
    told = read(tmp_path, e.discard(HEADER))
    assert (told.flow_samples, len(told.flows), told.exporters[0].flow_samples) == (0, 0, 0)


@pytest.mark.parametrize(
    ("records", "detail"),
    [
        ((TRAP,), b"ttl_value_is_too_small"),
        ((linux(b"TCP_INVALID_SEQUENCE"), FUNCTION), b"TCP_INVALID_SEQUENCE"),
        ((FUNCTION, ACL), b"no-storage"),
        ((linux(b"SKB_CSUM"), TRAP, ACL), b"ttl_value_is_too_small"),
        # Linux gives this where its code has no reason of its own; the function says more.
        ((linux(b"NOT_SPECIFIED"), FUNCTION), b"__udp4_lib_rcv+0xbed/0xd90"),
        ((FUNCTION, linux(b"NOT_SPECIFIED")), b"__udp4_lib_rcv+0xbed/0xd90"),
        ((linux(b"NOT_SPECIFIED"),), b"NOT_SPECIFIED"),
        ((linux(b"NOT_SPECIFIED_ELSEWHERE"), FUNCTION), b"NOT_SPECIFIED_ELSEWHERE"),
        ((linux(b"x" * 300),), b"x" * 64),
        ((e.record(1042, struct.pack(">I", 900) + b"short"),), b""),
        ((e.record(1041, e.text(b"group only")),), b"group only"),
        ((e.record(1042, b"\0"),), b""),
    ],
)
def test_what_the_switch_calls_it(records: tuple[bytes, ...], detail: bytes) -> None:
    (row,) = compiled([e.datagram(e.discard(*records))])
    assert (row["status"], row["discards"][0]["status"]) == (Status.GOOD, Status.GOOD)
    assert row["discards"][0]["detail"] == detail


def test_interfaces_are_ports_or_unknown() -> None:
    # They have no format bits: a switch that does not know the port says zero.
    (row,) = compiled([e.datagram(e.discard(entered=0x4000_0005, left=0))])
    notice = row["discards"][0]
    assert (notice["input_state"], notice["input"]) == (PortState.SINGLE, 0x4000_0005)
    assert (notice["output_state"], notice["output"]) == (PortState.UNKNOWN, 0)


def test_a_damaged_notice_is_named_and_hurts_nothing(tmp_path: Path) -> None:
    short = e.record(5, b"\0" * 31)
    overlong = e.discard(HEADER, struct.pack(">II", 1042, 4_000_000_000))
    told = read(tmp_path, short, overlong, e.flow_sample(HEADER))
    assert told.flow_samples == 1
    assert told.discards.packets.dest_qp.tolist() == [ABSENT_U32, 0x11]
    reasons = {(error.exporter, error.reason): error.count for error in told.errors}
    assert reasons == {
        ("10.255.0.1", "a sample too short for its own fields"): 1,
        ("10.255.0.1", "a record runs past the end of its sample"): 1,
    }


def test_duplicated_datagrams_tell_of_a_drop_once(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    frame = e.packet(e.datagram(e.discard(HEADER)))
    path.write_bytes(e.pcap([(e.EPOCH_NS, frame), (e.EPOCH_NS + 1, frame)]))
    assert len(ingest([path]).discards) == 1


def test_reasons_have_names() -> None:
    names = {0: "net_unreachable", 1: "host_unreachable", 15: "precedence_cutoff"}
    names |= {256: "unknown", 258: "acl", 259: "no_buffer_space", 289: "unknown_l4"}
    assert {code: reason_name(code) for code in names} == names
    assert [reason_name(code) for code in (16, 255, 290, 4_000_000_000)] == [
        "reason_16",
        "reason_255",
        "reason_290",
        "reason_4000000000",
    ]


def test_batches_are_joined_and_taken_from(tmp_path: Path) -> None:
    one = read(tmp_path, e.discard(HEADER, reason=1), e.discard(TRAP, reason=2)).discards
    both = DiscardBatch.concat([one, DiscardBatch.empty(), one.take(one.reason == 2)])
    assert both.reason.tolist() == [1, 2, 2]
    assert both.detail.tolist() == [b"", *[b"ttl_value_is_too_small"] * 2]
    assert len(both.packets) == len(both) == 3
    assert len(DiscardBatch.concat([])) == 0
