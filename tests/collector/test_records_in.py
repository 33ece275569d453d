"""Flow records beside samples: what one ingest makes of datagrams of several protocols."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from collector.addresses import from_text
from collector.ingest import Ingest, ingest
from collector.packets import Faults
from collector.records import Doubt, RecordBatch
from collector.schema import Telemetry, TimeBasis, Transport
from tests.collector import encode as e
from tests.collector.ipfix import encode
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.collector.ipfix.encode import message, message_5, message_9, number, set_of
from tests.collector.ipfix.records import TEMPLATE

SECOND = 1_000_000_000
NOW_NS = encode.EXPORT_S * SECOND
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
SAMPLE = e.datagram(e.flow_sample(e.timestamp(NOW_NS), HEADER), agent="10.255.0.1")
TEMPLATE_9 = set_of(0, encode.template(256, encode.PLAIN))
RECORD_5 = bytes.fromhex("0a0000010a000002") + bytes(40)
FRAMES = set_of(2, encode.template(400, [(10, 4), (315, encode.VARIABLE)]))
PORTS = set_of(2, encode.template(500, [(325, 8), (7, 8, 0x0001_0000), (7, 8, 0x0001_0009)]))
FRAME = e.ethernet(0x0800, e.ipv4(e.udp(b"x"), 17))
MIXED = [
    Arrival(SAMPLE, "10.255.0.1", to_port=6343),
    Arrival(message(TEMPLATE, set_of(256, encode.plain() * 3)), "10.255.0.2", to_port=9),
    Arrival(message_9(TEMPLATE_9, set_of(256, encode.plain() * 2)), "10.255.0.2", to_port=6343),
    Arrival(message_5(RECORD_5), "10.255.0.3", to_port=2055),
    Arrival(e.datagram(agent="10.255.0.4"), "10.255.0.4", to_port=4739),
    Arrival(
        message(
            FRAMES,
            set_of(
                400, number(3, 4) + encode.variable(e.ethernet(0x0800, e.ipv4(e.udp(b"x"), 17)))
            ),
            PORTS,
            set_of(500, struct.pack(">QQQ", NOW_NS, 1000, 2000)),
            domain=9,
        ),
        "10.255.0.2",
    ),
]


def capture(path: Path, arrivals: list[Arrival]) -> Path:
    """Each datagram 10 ms behind the one before, or when it says it came."""
    packets = [
        (
            each.time_ns or NOW_NS + n * 10_000_000,
            e.ethernet(
                0x0800,
                e.ipv4(e.udp(each.payload, each.port, each.to_port), 17, each.sender, "192.0.2.9"),
            ),
        )
        for n, each in enumerate(arrivals)
    ]
    path.write_bytes(e.pcap(packets))
    return path


def read(tmp_path: Path, *arrivals: Arrival) -> Telemetry:
    return ingest([capture(tmp_path / "window.pcap", list(arrivals))])


def test_one_numbering_of_exporters(tmp_path: Path) -> None:
    told = read(tmp_path, *MIXED)
    assert {(x.agent, x.sub_agent, x.protocol, x.state) for x in told.exporters} == {
        ("10.255.0.1", 0, "sflow5", "ok"),
        ("10.255.0.2", 7, "ipfix", "rate_unknown"),
        ("10.255.0.2", 7, "netflow9", "rate_unknown"),
        ("10.255.0.3", 0, "netflow5", "rate_unknown"),
        ("10.255.0.4", 0, "sflow5", "counters_only"),
        ("10.255.0.2", 9, "ipfix", "rate_unknown"),
    }
    of = [told.exporters[n] for n in told.records.exporter.tolist()]
    assert sorted(x.protocol for x in of) == ["ipfix"] * 3 + ["netflow5"] + ["netflow9"] * 2
    assert [told.exporters[n].agent for n in told.flows.exporter.tolist()] == [
        "10.255.0.1",
        "10.255.0.2",
    ]
    assert [told.exporters[n].sub_agent for n in told.counters.exporter.tolist()] == [9]
    assert told.datagrams == len(MIXED)
    assert (told.flow_records, told.flow_samples, told.counter_samples) == (6, 2, 1)
    assert [x.flow_records for x in told.exporters if x.protocol == "netflow9"] == [2]
    assert told.errors == ()


def test_numbers_stay_from_batch_to_batch() -> None:
    whole, parts, faults = Ingest(), Ingest(), Faults()
    whole.add(batch_of(MIXED), faults)
    rows = RecordBatch.concat([parts.add(batch_of([each]), faults).records for each in MIXED])
    names = [(x.agent, x.sub_agent, x.protocol) for x in parts.telemetry(()).exporters]
    assert sorted(names) == sorted(
        (x.agent, x.sub_agent, x.protocol) for x in whole.telemetry(()).exporters
    )
    assert [names[n][2] for n in rows.exporter.tolist()] == [
        *["ipfix"] * 3,
        *["netflow9"] * 2,
        "netflow5",
    ]


def test_sections_of_frames_are_samples_and_sai_counters_are_counters(tmp_path: Path) -> None:
    told = read(tmp_path, *MIXED)
    assert told.flows.transport.tolist() == [Transport.ROCEV2, Transport.UDP]
    assert told.flows.time_basis.tolist() == [TimeBasis.EXPORTER, TimeBasis.ARRIVAL]
    assert (told.flows.src_lo[1], told.flows.input[1]) == (from_text("10.0.0.1")[1], 3)
    assert told.counters.ifindex.tolist() == [7]
    assert told.counters.in_octets.tolist() == [1000]
    assert told.counters.out_octets.tolist() == [2000]


def test_templates_that_never_come_are_named(tmp_path: Path) -> None:
    lost = [Arrival(message(set_of(300, bytes(40)), domain=d), f"10.255.1.{d}") for d in (1, 2)]
    told = read(tmp_path, *lost)
    assert [(x.state, x.waiting_sets) for x in told.exporters] == [("templates_missing", 1)] * 2
    assert [(error.exporter, error.reason, error.count) for error in told.errors] == [
        (f"10.255.1.{d}", "a set whose template did not come", 1) for d in (1, 2)
    ]
    assert told.decode_errors == 2


@pytest.mark.parametrize("protocol", ["ipfix", "netflow9", "netflow5"])
def test_copies_are_dropped_and_counted(tmp_path: Path, protocol: str) -> None:
    first, second = {
        "ipfix": [message(TEMPLATE, set_of(256, encode.plain(n)), sequence=n) for n in range(2)],
        "netflow9": [
            message_9(TEMPLATE_9, set_of(256, encode.plain(n)), sequence=n) for n in range(2)
        ],
        "netflow5": [message_5(RECORD_5, sequence=n) for n in range(2)],
    }[protocol]
    told = read(tmp_path, *map(Arrival, (first, first, second, first, second)))
    (exporter,) = told.exporters
    assert exporter.protocol == protocol
    assert (exporter.datagrams, exporter.duplicate_datagrams) == (5, 3)
    assert (len(told.records), exporter.flow_records) == (2, 2)
    assert exporter.lost_records == exporter.lost_datagrams == 0


def test_what_is_said_again_later_is_no_copy(tmp_path: Path) -> None:
    said = message(TEMPLATE, set_of(256, encode.plain()))
    times_ns = (NOW_NS, NOW_NS + 2 * SECOND, NOW_NS + 2 * SECOND + 5)
    told = read(tmp_path, *(Arrival(said, time_ns=time_ns) for time_ns in times_ns))
    assert len(told.records) == 2


def test_lost_records_and_lost_messages(tmp_path: Path) -> None:
    two = set_of(256, encode.plain() * 2)
    told = read(
        tmp_path,
        Arrival(message(TEMPLATE, two, sequence=10)),
        Arrival(message(two, sequence=17)),
        Arrival(message_9(TEMPLATE_9, two, sequence=4)),
        Arrival(message_9(two, sequence=8)),
    )
    assert [(x.protocol, x.lost_records, x.lost_datagrams) for x in told.exporters] == [
        ("ipfix", 5, 0),
        ("netflow9", 0, 3),
    ]
    assert told.lost_datagrams == 3


class TestBothDirections:
    """Open vSwitch and switches that meter ports both ways tell of a flow twice."""

    FIELDS: tuple[encode.Specifier, ...] = (*encode.PLAIN, (61, 1))
    ANNOUNCED = set_of(2, encode.template(256, FIELDS))
    ENTERS, LEAVES = (encode.plain() + number(way, 1) for way in (0, 1))

    def marked(self, tmp_path: Path, *payloads: bytes) -> list[bool]:
        told = read(tmp_path, *map(Arrival, payloads))
        return [bool(doubts & Doubt.TWICE) for doubts in told.records.doubts.tolist()]

    def test_what_leaves_is_marked(self, tmp_path: Path) -> None:
        both = set_of(256, self.ENTERS + self.LEAVES)
        assert self.marked(tmp_path, message(self.ANNOUNCED, both)) == [False, True]

    def test_whichever_comes_first(self, tmp_path: Path) -> None:
        first = message(self.ANNOUNCED, set_of(256, self.LEAVES))
        assert self.marked(tmp_path, first, message(set_of(256, self.ENTERS))) == [True, False]

    def test_what_only_leaves_counts(self, tmp_path: Path) -> None:
        other = encode.plain(src="10.0.0.7") + number(0, 1)
        rows = set_of(256, self.LEAVES + other + self.LEAVES)
        assert self.marked(tmp_path, message(self.ANNOUNCED, rows)) == [False] * 3

    def test_other_exporters_tell_of_their_own(self, tmp_path: Path) -> None:
        enters = message(self.ANNOUNCED, set_of(256, self.ENTERS), domain=1)
        leaves = message(self.ANNOUNCED, set_of(256, self.LEAVES), domain=2)
        assert self.marked(tmp_path, enters, leaves) == [False, False]


def test_rates_told_later_reach_earlier_records(tmp_path: Path) -> None:
    options = set_of(3, encode.options_template(300, [(149, 4)], [(305, 4), (306, 4)]))
    rate = set_of(300, number(7, 4) + number(1, 4) + number(999, 4))
    told = read(
        tmp_path,
        Arrival(e.datagram(agent="10.255.0.1"), "10.255.0.1"),
        Arrival(message(TEMPLATE, set_of(256, encode.plain()))),
        Arrival(message(options, rate)),
    )
    assert told.records.sampling_rate.tolist() == [1000]
    exporter = told.exporters[told.records.exporter[0]]
    assert (exporter.state, exporter.sampling_rates) == ("ok", (1000,))


def test_times_far_apart_are_left_out(tmp_path: Path) -> None:
    told = read(
        tmp_path,
        *(Arrival(message(TEMPLATE, set_of(256, encode.plain()), sequence=n)) for n in range(3)),
        Arrival(message(TEMPLATE, set_of(256, encode.plain()), export_s=946_684_801)),
    )
    assert (len(told.records), told.flow_records) == (3, 4)
    assert "31 days" in told.errors[0].reason


def test_damage_is_told_by_exporter_and_place(tmp_path: Path) -> None:
    whole = message(TEMPLATE, set_of(256, encode.plain()))
    told = read(tmp_path, Arrival(whole), Arrival(whole[:-3]))
    (error,) = told.errors
    assert error.exporter == "192.0.2.1"
    assert error.reason == "the message is longer than its datagram"
    # The set that is cut: behind the message's header and the templates.
    assert error.offset == 24 + 2 * (16 + 42) + len(whole) + 16 + len(TEMPLATE)
    assert [x.decode_errors for x in told.exporters] == [1]


def test_a_file_of_messages(tmp_path: Path) -> None:
    """RFC 5655; with rubbish between, and an end that is missing."""
    path = tmp_path / "flows.ipfix"
    parts = [message(TEMPLATE), message(set_of(256, encode.plain() * 2), sequence=0)]
    path.write_bytes(b"".join(parts) + b"\xff" * 20 + parts[1] + parts[1][:-1])
    told = ingest([path])
    (exporter,) = told.exporters
    assert (exporter.agent, exporter.sub_agent, exporter.protocol) == ("::", 7, "ipfix")
    assert len(told.records) == 2  # the third message is the second once more
    assert set(told.records.arrival_ns.tolist()) == {NOW_NS}
    assert {error.reason: error.offset for error in told.errors} == {
        "bytes that belong to no IPFIX message": len(parts[0] + parts[1]),
        "the file ends inside a message": len(parts[0] + 2 * parts[1]) + 20,
    }


def test_files_are_sessions_of_their_own(tmp_path: Path) -> None:
    """The same template id means something else in each."""
    swapped = set_of(2, encode.template(256, [(12, 4), (8, 4), *encode.PLAIN[2:]]))
    data = set_of(256, encode.plain())
    for name, announced in (("a", TEMPLATE), ("b", swapped)):
        (tmp_path / name).write_bytes(message(announced) + message(data))
    told = ingest([tmp_path / "a", tmp_path / "b"])
    assert told.records.src_lo[0] == told.records.dst_lo[1] != told.records.src_lo[1]
    assert len(told.exporters) == 1


def test_a_large_file_is_read_block_by_block(tmp_path: Path) -> None:
    path = tmp_path / "flows.ipfix"
    turns = 2000
    path.write_bytes(
        message(TEMPLATE)
        + b"".join(
            message(set_of(256, encode.plain(n) * 20), sequence=20 * n) for n in range(turns)
        )
    )
    from collector.capture import read_capture

    reader, faults = Ingest(), Faults()
    rows = [reader.add(batch, faults).records for batch in read_capture(path, faults, None, 10_000)]
    assert faults.errors() == []
    assert np.array_equal(RecordBatch.concat(rows).bytes, np.repeat(np.arange(turns), 20))
    assert [x.lost_records for x in reader.telemetry(()).exporters] == [0]
