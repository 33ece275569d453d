"""Counts that go on."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from collector.records import Doubt, RecordBatch
from tests.collector.ipfix import encode
from tests.collector.ipfix.encode import message, set_of
from tests.collector.ipfix.records import ENDS, EXPORT_NS, PAIR, SECOND, read


class TestTotals:
    FIELDS: Sequence[encode.Specifier] = ((150, 4), (151, 4), (85, 8), (86, 8))

    def records(self, *totals: tuple[int, int, int, int]) -> RecordBatch:
        content = b"".join(
            PAIR + struct.pack(">IIQQ", encode.EXPORT_S + a, encode.EXPORT_S + b, c, d)
            for a, b, c, d in totals
        )
        announced = set_of(2, encode.template(256, [*ENDS, *self.FIELDS]))
        return read(message(announced, set_of(256, content)))

    def test_what_was_added(self) -> None:
        rows = self.records((0, 10, 4000, 4), (0, 20, 9000, 9), (0, 30, 9000, 9))
        assert rows.bytes.tolist() == [4000, 5000, 0]
        assert rows.packets.tolist() == [4, 5, 0]
        starts = ((rows.start_ns - EXPORT_NS) // SECOND).tolist()
        assert starts == [0, 10, 20]
        assert (rows.doubts & Doubt.FROM_TOTAL).all()

    def test_another_flow_of_the_same_name(self) -> None:
        rows = self.records((0, 10, 4000, 4), (15, 20, 9000, 9))
        assert rows.bytes.tolist() == [4000, 9000]

    def test_a_total_that_falls_begins_anew(self) -> None:
        rows = self.records((0, 10, 4000, 4), (0, 20, 1000, 1))
        assert rows.bytes.tolist() == [4000, 1000]

    def test_a_total_of_32_bits_runs_over(self) -> None:
        rows = self.records((0, 10, (1 << 32) - 500, 9_000_000), (0, 20, 1500, 9_000_002))
        assert rows.bytes.tolist() == [(1 << 32) - 500, 2000]
