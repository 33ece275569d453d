"""What the numbers of messages say."""

from __future__ import annotations

from collector.ipfix import IpfixIngest
from tests.collector.ipfix import encode
from tests.collector.ipfix.encode import message, message_5, message_9, set_of
from tests.collector.ipfix.records import TEMPLATE, add


class TestLoss:
    def lost(self, *payloads: bytes) -> int:
        ingest = IpfixIngest()
        for payload in payloads:
            add(ingest, payload)
        return ingest.exporters()[0].lost

    def test_ipfix_counts_records(self) -> None:
        two = set_of(256, encode.plain() * 2)
        first = message(TEMPLATE, two, sequence=100)
        assert self.lost(first, message(two, sequence=102), message(two, sequence=104)) == 0
        assert self.lost(first, message(two, sequence=109)) == 7
        # What was taken for lost comes late.
        late = message(two, sequence=102)
        assert self.lost(first, message(two, sequence=104), late, message(two, sequence=106)) == 0
        wrapped = message(TEMPLATE, two, sequence=0xFFFF_FFFF)
        assert self.lost(wrapped, message(two, sequence=1), message(two, sequence=4)) == 1

    def test_open_vswitch_has_one_count_for_all_domains(self) -> None:
        """As domain 0 it tells of itself, at the start and every ten minutes."""
        two = set_of(256, encode.plain() * 2)
        itself = set_of(3, encode.options_template(462, [(144, 4)], [(167, 8)]))
        sent = set_of(462, bytes(12))

        def about(sequence: int) -> list[bytes]:
            announced = message(itself, sequence=sequence, domain=0)
            return [announced, message(sent, sequence=sequence, domain=0)]

        start = [message(TEMPLATE, sequence=1), *about(1), message(two, sequence=2)]
        later = [message(TEMPLATE, two, sequence=4), *about(6), message(two, sequence=7)]
        last = [*about(9), message(two, sequence=10), message(two, sequence=13)]
        for payloads in (start + later + last, later + last):
            ingest = IpfixIngest()
            for payload in payloads:
                add(ingest, payload)
            assert [exporter.lost for exporter in ingest.exporters()] == [1, 0]

    def test_domains_with_counts_of_their_own(self) -> None:
        two = set_of(256, encode.plain() * 2)
        options = set_of(3, encode.options_template(462, [(144, 4)], [(167, 8)]))
        itself = message(options, set_of(462, bytes(12)), sequence=0, domain=0)
        more = [message(set_of(462, bytes(12)), sequence=n, domain=0) for n in (1, 2, 9)]
        ingest = IpfixIngest()
        for payload in (message(TEMPLATE), itself, message(two), *more, message(two, sequence=5)):
            add(ingest, payload)
        assert [exporter.lost for exporter in ingest.exporters()] == [3, 6]

    def test_what_cannot_be_counted_is_not_lost(self) -> None:
        unknown = message(set_of(999, bytes(40)), sequence=10)
        assert self.lost(unknown, message(TEMPLATE, sequence=55)) == 0

    def test_version_9_counts_messages(self) -> None:
        announced = set_of(0, encode.template(256, encode.PLAIN))
        data = set_of(256, encode.plain() * 5)
        first = message_9(announced, data, sequence=100)
        assert self.lost(first, message_9(data, sequence=101)) == 0
        assert self.lost(first, message_9(data, sequence=104)) == 3
        assert self.lost(first, message_9(data, sequence=3, uptime_ms=10)) == 0

    def test_version_5_counts_records(self) -> None:
        records = [bytes(48)] * 3
        first = message_5(*records, sequence=100)
        assert self.lost(first, message_5(*records, sequence=103)) == 0
        assert self.lost(first, message_5(*records, sequence=110)) == 7
