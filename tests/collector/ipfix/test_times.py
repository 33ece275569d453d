"""When flows began and ended, by every clock that exporters use."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collector.ipfix import IpfixIngest
from collector.records import Doubt, RecordTime
from tests.collector.ipfix import encode
from tests.collector.ipfix.arrivals import Arrival
from tests.collector.ipfix.encode import message, message_9, number, set_of
from tests.collector.ipfix.records import ENDS, EXPORT_NS, PAIR, SECOND, add, one, read


class TestTimes:
    def at(self, fields: Sequence[encode.Specifier], *values: int) -> tuple[int, int, int]:
        """Start and end against the export time, ns; and their basis."""
        widths = [each[1] for each in fields]
        content = b"".join(number(v, w) for v, w in zip(values, widths, strict=True))
        rows = one(fields, content)
        start, end = int(rows.start_ns[0]) - EXPORT_NS, int(rows.end_ns[0]) - EXPORT_NS
        return start, end, int(rows.time_basis[0])

    # netsampler/goflow2#305, #325, #33, #406; phaag/nfdump#80, #50, #38, #375; irino/softflowd#58
    @pytest.mark.parametrize("width", [4, 8])
    def test_seconds(self, width: int) -> None:
        said = (encode.EXPORT_S - 30, encode.EXPORT_S - 10)
        got = self.at([(150, width), (151, width)], *said)
        assert got == (-30 * SECOND, -10 * SECOND, RecordTime.ABSOLUTE)

    def test_milliseconds(self) -> None:
        said = (encode.EXPORT_S * 1000 - 30, encode.EXPORT_S * 1000 - 10)
        got = self.at([(152, 8), (153, 8)], *said)
        assert got == (-30_000_000, -10_000_000, RecordTime.ABSOLUTE)

    @pytest.mark.parametrize(("first", "last"), [(154, 155), (156, 157)])
    def test_ntp_timestamps(self, first: int, last: int) -> None:
        seconds = encode.EXPORT_S + 2_208_988_800
        got = self.at([(first, 8), (last, 8)], (seconds - 1) << 32 | 1 << 31, seconds << 32)
        assert got == (-500_000_000, 0, RecordTime.ABSOLUTE)

    def test_counts_from_1970_in_place_of_ntp(self) -> None:
        micro = encode.EXPORT_S * 1_000_000
        assert self.at([(154, 8), (155, 8)], micro - 7, micro)[:2] == (-7000, 0)
        assert self.at([(156, 8), (157, 8)], EXPORT_NS - 7, EXPORT_NS)[:2] == (-7, 0)

    def test_microseconds_before_the_message(self) -> None:
        got = self.at([(158, 4), (159, 4)], 30, 10)
        assert got == (-30_000, -10_000, RecordTime.ABSOLUTE)

    def test_a_duration_gives_the_other_end(self) -> None:
        assert self.at([(150, 4), (161, 4)], encode.EXPORT_S - 9, 2500)[:2] == (
            -9 * SECOND,
            -9 * SECOND + 2_500_000_000,
        )
        assert self.at([(151, 4), (162, 4)], encode.EXPORT_S, 2500)[:2] == (-2_500_000, 0)

    def test_uptimes_with_the_start_in_the_record_in_any_order(self) -> None:
        boot = encode.EXPORT_S * 1000 - 100_000
        expected = (-50 * SECOND, -40 * SECOND, RecordTime.UPTIME)
        assert self.at([(22, 4), (21, 4), (160, 8)], 50_000, 60_000, boot) == expected
        assert self.at([(160, 8), (22, 4), (21, 4)], boot, 50_000, 60_000) == expected
        assert self.at([(160, 8), (22, 8), (21, 8)], boot, 50_000, 60_000) == expected

    def test_uptimes_with_the_start_in_options(self) -> None:
        """As softflowd sends them."""
        boot = encode.EXPORT_S * 1000 - 100_000
        options = set_of(3, encode.options_template(257, [(149, 4)], [(160, 8)]))
        announced = set_of(2, encode.template(256, [*ENDS, (22, 4), (21, 4)]))
        data = set_of(256, PAIR + number(50_000, 4) + number(60_000, 4))
        told = set_of(257, number(7, 4) + number(boot, 8))
        ingest = IpfixIngest()
        rows = add(ingest, message(announced, data))
        assert rows.time_basis.tolist() == [RecordTime.EXPORT]
        assert (rows.end_ns[0], rows.start_ns[0]) == (EXPORT_NS, EXPORT_NS - 10 * SECOND)
        rows = add(ingest, message(options, told), message(data))
        assert rows.time_basis.tolist() == [RecordTime.UPTIME]
        assert (rows.end_ns[0], rows.start_ns[0]) == (
            EXPORT_NS - 40 * SECOND,
            EXPORT_NS - 50 * SECOND,
        )

    def test_uptimes_before_the_start(self) -> None:
        """As softflowd sends them where it reads a capture that was there before it."""
        boot = encode.EXPORT_S * 1000 - 1000
        uptimes = (1 << 32) - 100_000, (1 << 32) - 90_000
        expected = (-101 * SECOND, -91 * SECOND, RecordTime.UPTIME)
        assert self.at([(22, 4), (21, 4), (160, 8)], *uptimes, boot) == expected

    def test_uptimes_of_netflow_wrap(self) -> None:
        announced = set_of(0, encode.template(256, [*ENDS, (22, 4), (21, 4)]))
        data = set_of(256, PAIR + number((1 << 32) - 3000, 4) + number(1000, 4))
        rows = read(message_9(announced, data, uptime_ms=2000))
        assert ((rows.start_ns - EXPORT_NS) // 1_000_000).tolist() == [-5000]
        assert ((rows.end_ns - EXPORT_NS) // 1_000_000).tolist() == [-1000]

    def test_times_that_cannot_be_are_not_1970(self) -> None:
        rows = one([(152, 8), (153, 8)], number(encode.EXPORT_S, 8) * 2)  # seconds as milliseconds
        assert rows.end_ns.tolist() == [EXPORT_NS]
        assert rows.time_basis.tolist() == [RecordTime.EXPORT]
        assert rows.doubts[0] & Doubt.ABSURD_TIME

    def test_clocks_that_disagree_are_named(self) -> None:
        rows = one([(150, 4), (151, 4)], number(1_300_000_000, 4) * 2)
        assert rows.end_ns.tolist() == [1_300_000_000 * SECOND]
        assert rows.doubts[0] & Doubt.FAR_TIME


class TestWhenExportersStarted:
    def ends_off_ms(self, phases_ms: Sequence[int], back_s: int = 0) -> list[int]:
        """By how much ends are off, of messages so late in their seconds (version 9)."""
        announced = set_of(0, encode.template(256, [*ENDS, (22, 4), (21, 4)]))
        out = []
        ingest = IpfixIngest()
        for n, phase_ms in enumerate(phases_ms):
            uptime_ms = 60_000 + 3000 * n + phase_ms
            export_s = encode.EXPORT_S + 3 * n - (back_s if n == len(phases_ms) - 1 else 0)
            data = set_of(256, PAIR + number(uptime_ms - 700, 4) + number(uptime_ms - 5, 4))
            sent = message_9(announced, data, export_s=export_s, uptime_ms=uptime_ms)
            (end_ns,) = add(ingest, sent).end_ns.tolist()
            out.append(round(end_ns / 1e6 - (export_s * 1000 + phase_ms - 5)))
        return out

    def test_the_message_that_came_soonest_in_its_second_tells(self) -> None:
        assert self.ends_off_ms([300, 200, 999, 0, 500]) == [-300, -200, -200, 0, 0]

    def test_a_clock_that_was_set_back(self) -> None:
        assert self.ends_off_ms([100, 100, 400], back_s=30) == [-100, -100, -400]

    def test_one_address_may_have_several_meters(self) -> None:
        """softflowd on each port: all with domain 0, each with a start of its own in options."""
        announced = set_of(2, encode.template(256, [*ENDS, (22, 4), (21, 4)]))
        options = set_of(3, encode.options_template(257, [(149, 4)], [(160, 8)]))
        data = set_of(256, PAIR + number(50_000, 4) + number(60_000, 4))
        ingest = IpfixIngest()
        ends = []
        for meter in (0, 1):
            boot_ms = encode.EXPORT_S * 1000 - 100_000 * (1 + meter)
            told = set_of(257, number(7, 4) + number(boot_ms, 8))
            add(ingest, Arrival(message(options, announced, told), port=40_000 + meter))
        for meter in (0, 1):
            ends += add(ingest, Arrival(message(data), port=40_000 + meter)).end_ns.tolist()
        assert [end - EXPORT_NS for end in ends] == [-40 * SECOND, -140 * SECOND]
