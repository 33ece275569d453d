"""Kinds of trouble that people reported of flow collectors, each with a small input."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from collector.addresses import from_text
from collector.ipfix import IpfixIngest
from collector.ipfix.waiting import MOST_BYTES_OF_A_STREAM
from collector.packets import Faults
from collector.records import ABSENT_U64, Doubt, RecordBatch, RecordTime
from tests.collector.ipfix import encode
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.collector.ipfix.encode import message, message_5, message_9, number, set_of
from tests.collector.ipfix.records import EXPORT_NS, SECOND, TEMPLATE, add, one, read


class TestTemplates:
    # vmware/go-ipfix#383, aabc/ipt-netflow#180, CESNET/ipfixcol#191
    @pytest.mark.parametrize("apart", [False, True])
    def test_a_new_definition_replaces_at_once(self, apart: bool) -> None:
        swapped = [(12, 4), (8, 4), *encode.PLAIN[2:]]
        payloads = [
            message(TEMPLATE, set_of(256, encode.plain())),
            message(set_of(2, encode.template(256, swapped)), set_of(256, encode.plain())),
            message(set_of(256, encode.plain())),
        ]
        ingest = IpfixIngest()
        if apart:
            rows = RecordBatch.concat([add(ingest, payload) for payload in payloads])
        else:
            rows = add(ingest, *payloads)
        first, second = (from_text(text)[1] for text in ("10.0.0.1", "10.0.0.2"))
        assert rows.src_lo.tolist() == [first, second, second]
        assert rows.dst_lo.tolist() == [second, first, first]

    def test_an_id_may_become_one_of_options(self) -> None:
        ingest = IpfixIngest()
        options = set_of(3, encode.options_template(256, [(149, 4)], [(34, 4)]))
        add(ingest, message(TEMPLATE, set_of(256, encode.plain())))
        assert not len(add(ingest, message(options, set_of(256, number(7, 4) + number(50, 4)))))
        rows = add(ingest, message(TEMPLATE, set_of(256, encode.plain())))
        assert rows.sampling_rate.tolist() == [50]

    def test_an_unreadable_definition_leaves_the_former(self) -> None:
        ingest = IpfixIngest()
        faults = Faults()
        add(ingest, message(TEMPLATE))
        broken = encode.template(256, encode.PLAIN)[:-2]
        ingest.add(batch_of([Arrival(message(set_of(2, broken)))]), faults)
        assert [error.reason for error in faults.errors()] == ["a template that cannot be read"]
        assert len(add(ingest, message(set_of(256, encode.plain())))) == 1

    def test_records_without_length_are_refused(self) -> None:
        faults = Faults()
        ingest = IpfixIngest()
        empty = set_of(2, encode.template(256, [(8, 0)]))
        rows, _, _ = ingest.add(batch_of([Arrival(message(empty, set_of(256, b"x")))]), faults)
        assert not len(rows)
        assert ingest.waiting_sets == 1

    def test_templates_are_bounded(self) -> None:
        """By stream; what was announced first stays in force."""
        ingest, faults = IpfixIngest(), Faults()
        add(ingest, message(TEMPLATE))
        for turn in range(6):
            wide = encode.template(300 + turn, [(99, 1)] * 15_000)
            ingest.add(batch_of([Arrival(message(set_of(2, wide)))]), faults)
        assert [error.reason for error in faults.errors()] == ["more templates than are remembered"]
        assert len(add(ingest, message(set_of(256, encode.plain())))) == 1
        # Withdrawn, they make room.
        add(ingest, message(set_of(2, b"".join(encode.template(300 + n, []) for n in range(6)))))
        ingest.add(batch_of([Arrival(message(set_of(2, wide)))]), faults)
        assert faults.errors()[0].count == 2

    def test_withdrawal(self) -> None:
        ingest = IpfixIngest()
        add(ingest, message(TEMPLATE))
        add(ingest, message(set_of(2, encode.template(256, []))))
        assert not len(add(ingest, message(set_of(256, encode.plain()))))
        assert ingest.waiting_sets == 1
        assert len(add(ingest, message(TEMPLATE))) == 1

    def test_withdrawal_of_all(self) -> None:
        ingest = IpfixIngest()
        add(ingest, message(TEMPLATE, set_of(2, encode.template(300, encode.PLAIN))))
        add(ingest, message(set_of(2, struct.pack(">HH", 2, 0))))
        data = [set_of(each, encode.plain()) for each in (256, 300)]
        assert not len(add(ingest, message(*data)))

    def test_withdrawal_of_all_spares_the_other_kind(self) -> None:
        ingest = IpfixIngest()
        add(ingest, message(TEMPLATE))
        add(ingest, message(set_of(3, struct.pack(">HH", 3, 0))))
        assert len(add(ingest, message(set_of(256, encode.plain())))) == 1

    # netsampler/goflow2#330, bitkeks/python-netflow-v9-softflowd#4, robcowart/elastiflow#457
    def test_records_wait_for_their_template(self) -> None:
        ingest = IpfixIngest()
        early = Arrival(message(set_of(256, encode.plain(octets=5))), time_ns=EXPORT_NS + 3)
        assert not len(add(ingest, early))
        rows = add(ingest, message(TEMPLATE, set_of(256, encode.plain(octets=6))))
        assert sorted(rows.bytes.tolist()) == [5, 6]
        assert rows.arrival_ns[rows.bytes == 5].tolist() == [EXPORT_NS + 3]
        assert ingest.waiting_sets == 0

    def test_what_waits_is_bounded(self) -> None:
        ingest = IpfixIngest()
        large = message(set_of(256, bytes(60_000)))
        for _ in range(30):
            add(ingest, large)
        assert ingest.waiting_sets * 60_000 <= MOST_BYTES_OF_A_STREAM
        assert ingest.dropped_sets == 30 - ingest.waiting_sets > 0

    # phaag/nfdump#159, tehmaze/netflow#21, logstash-plugins/logstash-codec-netflow#9
    @pytest.mark.parametrize(
        "other", [{"sender": "192.0.2.2"}, {"port": 40_001}, {"to_port": 2055}]
    )
    def test_templates_belong_to_a_session(self, other: dict[str, str | int]) -> None:
        swapped = set_of(2, encode.template(256, [(12, 4), (8, 4), *encode.PLAIN[2:]]))
        data = message(set_of(256, encode.plain()))
        rows = read(
            message(TEMPLATE),
            Arrival(message(swapped), **other),  # type: ignore[arg-type]
            data,
            Arrival(data, **other),  # type: ignore[arg-type]
        )
        assert rows.src_lo[0] == rows.dst_lo[1] != rows.src_lo[1]

    def test_templates_belong_to_a_domain(self) -> None:
        ingest = IpfixIngest()
        add(ingest, message(TEMPLATE, domain=1))
        assert not len(add(ingest, message(set_of(256, encode.plain()), domain=2)))
        assert [each.domain for each in ingest.exporters()] == [1, 2]

    def test_a_restart_voids_templates(self) -> None:
        """NetFlow says its uptime: after a restart an id may mean something else."""
        ingest = IpfixIngest()
        announced = set_of(0, encode.template(256, encode.PLAIN))
        data = set_of(256, encode.plain())
        add(ingest, message_9(announced, data))
        assert not len(add(ingest, message_9(data, uptime_ms=3000)))
        assert len(add(ingest, message_9(announced, uptime_ms=4000))) == 1
        assert ingest.exporters()[0].restarts == 1

    def test_a_set_that_does_not_fit_waits_for_another_template(self) -> None:
        ingest, faults = IpfixIngest(), Faults()
        add(ingest, message(TEMPLATE))
        wider: Sequence[encode.Specifier] = [*encode.PLAIN, (10, 4)]
        data = message(set_of(256, encode.plain() + number(9, 4)))
        assert not len(ingest.add(batch_of([Arrival(data)]), faults)[0])
        assert "does not fit" in faults.errors()[0].reason
        rows = add(ingest, message(set_of(2, encode.template(256, wider))))
        assert rows.input.tolist() == [9]


class TestPadding:
    # elastic/beats#18098, Edgio/vflow#128
    @pytest.mark.parametrize("padding", range(8))
    def test_of_template_sets(self, padding: int) -> None:
        announced = set_of(2, encode.template(256, encode.PLAIN), padding)
        assert len(read(message(announced, set_of(256, encode.plain())))) == 1

    @pytest.mark.parametrize("padding", range(8))
    def test_of_data_sets(self, padding: int) -> None:
        assert len(read(message(TEMPLATE, set_of(256, encode.plain(), padding)))) == 1

    def test_records_of_one_byte(self) -> None:
        ingest = IpfixIngest()
        add(ingest, message(set_of(2, encode.template(256, [(4, 1)])), set_of(256, b"\x06\x11")))
        assert ingest.exporters()[0].records == 2
        assert ingest.unread_records == 2

    def test_zeros_behind_the_last_set(self) -> None:
        faults = Faults()
        whole = message_9(
            set_of(0, encode.template(256, encode.PLAIN)), set_of(256, encode.plain())
        )
        rows, _, _ = IpfixIngest().add(batch_of([Arrival(whole + bytes(900))]), faults)
        assert len(rows) == 1
        assert faults.errors() == []


class TestNumbers:
    # calmh/ipfix#12, mikemiles-dev/netflow_parser#314, phaag/nfdump#356
    @pytest.mark.parametrize("width", range(1, 9))
    def test_reduced_size(self, width: int) -> None:
        value = int.from_bytes(bytes(range(1, width + 1)))
        rows = one([(1, width), (10, width)], number(value, width) * 2)
        assert rows.bytes.tolist() == [value if value < 1 << 56 else ABSENT_U64]
        assert rows.input.tolist() == [value if value < 1 << 32 else 0]

    def test_variable_length_is_walked(self) -> None:
        for name in (b"", b"x" * 254, b"x" * 255, b"x" * 3000):
            rows = one([(82, encode.VARIABLE), (1, 4)], encode.variable(name) + number(77, 4))
            assert rows.bytes.tolist() == [77]

    def test_enterprise_elements_are_not_those_of_iana(self) -> None:
        rows = one([(1, 4, 35_632), (1, 4)], number(1, 4) + number(2, 4))
        assert rows.bytes.tolist() == [2]

    # akvorado/akvorado#191, antrea-io/antrea#7882, ntop/nProbe#202
    def test_a_negative_difference_is_no_count(self) -> None:
        rows = one([(1, 8), (2, 8)], b"\xff" * 16)
        assert rows.bytes.tolist() == rows.packets.tolist() == [ABSENT_U64]
        assert rows.doubts[0] & Doubt.ABSURD_COUNT

    def test_more_bytes_than_packets_can_hold(self) -> None:
        rows = one([(1, 4), (2, 4)], b"\xff" * 4 + number(3, 4))
        assert (rows.bytes[0], rows.packets[0]) == (ABSENT_U64, 3)
        assert rows.doubts[0] & Doubt.ABSURD_COUNT

    def test_nothing_said_is_not_zero(self) -> None:
        rows = one([], b"")
        assert rows.bytes[0] == rows.packets[0] == rows.selector[0] == ABSENT_U64
        assert rows.dscp[0] == rows.ecn[0] == 255

    def test_answers_are_rows_of_their_own(self) -> None:
        fields: Sequence[encode.Specifier] = (
            *((7, 2), (11, 2), (1, 4), (2, 4)),
            *((1, 4, 29_305), (2, 4, 29_305)),
        )
        content = struct.pack(">HHIIII", 10, 20, 1000, 5, 600, 3)
        rows = one(fields, content)
        assert rows.src_port.tolist() == [10, 20]
        assert rows.bytes.tolist() == [1000, 600]
        assert rows.packets.tolist() == [5, 3]
        assert rows.src_lo[0] == rows.dst_lo[1] != rows.src_lo[1]
        assert rows.doubts.tolist() == [0, Doubt.REVERSE]


def test_version_5() -> None:
    """Every field of a record (Cisco, "NetFlow Export Datagram Format", table B-4)."""
    record = struct.pack(
        ">4s4s4sHHIIIIHHBBBBHHBBH",
        encode.address("10.1.0.1"),
        encode.address("10.1.0.2"),
        encode.address("10.1.0.9"),
        11,
        12,
        40,
        50_000,
        encode.UPTIME_MS - 9000,
        encode.UPTIME_MS - 2000,
        4791,
        80,
        0,
        0x1B,
        6,
        0xB9,
        65_001,
        65_002,
        24,
        16,
        0,
    )
    ingest = IpfixIngest()
    rows = add(ingest, message_5(record, sequence=9, nanoseconds=5, engine=0x0102))
    assert {name: getattr(rows, name).tolist() for name in RecordBatch.__slots__} == {
        "arrival_ns": [0],
        "export_ns": [EXPORT_NS + 5],
        "start_ns": [EXPORT_NS + 5 - 9 * SECOND],
        "end_ns": [EXPORT_NS + 5 - 2 * SECOND],
        "time_basis": [RecordTime.UPTIME],
        "exporter": [0],
        "bytes": [50_000],
        "packets": [40],
        "src_hi": [0],
        "src_lo": [from_text("10.1.0.1")[1]],
        "dst_hi": [0],
        "dst_lo": [from_text("10.1.0.2")[1]],
        "protocol": [6],
        "src_port": [4791],
        "dst_port": [80],
        "tcp_flags": [0x1B],
        "dscp": [46],
        "ecn": [1],
        "input": [11],
        "output": [12],
        "direction": [0],
        "vlan": [0xFFFF],
        "vni": [0xFFFF_FFFF],
        "selector": [ABSENT_U64],
        "sampling_rate": [0],
        "end_reason": [0],
        "doubts": [0],
    }
    (exporter,) = ingest.exporters()
    assert (exporter.agent, exporter.domain, exporter.protocol) == ("192.0.2.1", 0x0102, "netflow5")


def test_a_count_beyond_the_datagram() -> None:
    faults = Faults()
    short = message_5(bytes(48), bytes(48)[:30], count=30)
    rows, _, _ = IpfixIngest().add(batch_of([Arrival(short)]), faults)
    assert len(rows) == 1
    assert [error.reason for error in faults.errors()] == [
        "the message is longer than its datagram"
    ]


def test_other_protocols_are_noted() -> None:
    faults = Faults()
    batch = batch_of([Arrival(b"\0\0\0\5" + bytes(40)), Arrival(b""), Arrival(b"\0\x0a\0")])
    rows, _, _ = IpfixIngest().add(batch, faults)
    assert not len(rows)
    assert {error.reason: error.count for error in faults.errors()} == {
        "neither IPFIX nor NetFlow version 5 or 9": 1,
        "the message ends inside its header": 2,
    }


def test_exporters_beyond_the_table_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.ipfix.ingest.MOST_EXPORTERS", 2)
    ingest, faults = IpfixIngest(), Faults()
    payload = message(TEMPLATE, set_of(256, encode.plain()))
    arrivals = [Arrival(payload, sender=f"192.0.2.{host}") for host in (1, 2, 3, 1)]
    rows, _, _ = ingest.add(batch_of(arrivals), faults)
    assert rows.exporter.tolist() == [0, 1, 0]
    assert "not followed" in faults.errors()[0].reason
    assert np.all(rows.bytes == 1000)
