"""Sampling rates: in options, in records and in headers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from collector.ipfix import IpfixIngest
from tests.collector.ipfix import encode
from tests.collector.ipfix.arrivals import Arrival
from tests.collector.ipfix.encode import message, message_5, message_9, number, set_of
from tests.collector.ipfix.records import ENDS, PAIR, add, read


class TestSampling:
    # akvorado/akvorado#1189, phaag/nfdump#377, #410, netsampler/goflow2#440, phaag/nfdump#237
    WITH_SELECTOR = set_of(2, encode.template(256, [*ENDS, (302, 8)]))

    def told(self, fields: Sequence[encode.Specifier], *values: int) -> int:
        """The rate of records after options with these fields."""
        options = set_of(3, encode.options_template(300, [(302, 8)], fields))
        widths = [each[1] for each in fields]
        content = b"".join(number(v, w) for v, w in zip(values, widths, strict=True))
        rows = read(
            message(options, set_of(300, number(5, 8) + content)),
            message(self.WITH_SELECTOR, set_of(256, PAIR + number(5, 8))),
        )
        return int(rows.sampling_rate[0])

    def test_intervals_and_spaces(self) -> None:
        assert self.told([(305, 4), (306, 4)], 1, 999) == 1000
        assert self.told([(305, 4), (306, 4)], 10, 90) == 10
        assert self.told([(305, 4), (306, 4)], 1, 0) == 1

    def test_a_run_without_its_space_says_nothing(self) -> None:
        assert self.told([(305, 4)], 1) == 0

    def test_sizes_and_populations(self) -> None:
        assert self.told([(309, 4), (310, 4)], 1, 4096) == 4096
        assert self.told([(309, 4), (310, 4)], 0, 4096) == 0

    def test_intervals_of_netflow(self) -> None:
        assert self.told([(34, 4)], 512) == 512
        assert self.told([(50, 4)], 512) == 512

    def test_probabilities(self) -> None:
        assert self.told([(311, 8)], int.from_bytes(struct.pack(">d", 1 / 2048))) == 2048
        assert self.told([(311, 4)], int.from_bytes(struct.pack(">f", 1 / 2048))) == 2048
        assert self.told([(311, 8)], int.from_bytes(struct.pack(">d", 7.0))) == 0

    def test_rates_belong_to_selectors(self) -> None:
        options = set_of(3, encode.options_template(300, [(302, 8)], [(305, 4), (306, 4)]))
        rates = b"".join(
            number(s, 8) + number(1, 4) + number(r - 1, 4) for s, r in ((1, 10), (2, 20))
        )
        data = set_of(256, b"".join(PAIR + number(s, 8) for s in (2, 1, 3)))
        rows = read(message(options, set_of(300, rates)), message(self.WITH_SELECTOR, data))
        assert rows.sampling_rate.tolist() == [20, 10, 0]

    def test_rates_that_come_later_and_from_another_port(self) -> None:
        ingest = IpfixIngest()
        options = set_of(3, encode.options_template(300, [(302, 8)], [(34, 4)]))
        told = set_of(300, number(5, 8) + number(64, 4))
        data = set_of(256, PAIR + number(5, 8))
        rows = add(ingest, message(self.WITH_SELECTOR, data))
        assert rows.sampling_rate.tolist() == [0]  # never 1 silently
        add(ingest, Arrival(message(options, told), port=50_000))
        assert add(ingest, message(data)).sampling_rate.tolist() == [64]
        ingest.put_right(rows)
        assert rows.sampling_rate.tolist() == [64]

    def test_a_rate_that_changes_within_a_batch(self) -> None:
        ingest = IpfixIngest()
        options = set_of(3, encode.options_template(300, [(302, 8)], [(34, 4)]))
        data = set_of(256, PAIR + number(5, 8))

        def told(rate: int) -> bytes:
            return set_of(300, number(5, 8) + number(rate, 4))

        rows = add(
            ingest, message(options, self.WITH_SELECTOR, data, told(10), data, told(20), data)
        )
        assert rows.sampling_rate.tolist() == [10, 10, 20]
        assert add(ingest, message(data, told(30), data)).sampling_rate.tolist() == [20, 30]

    def test_the_only_sampler_counts_for_records_that_name_none(self) -> None:
        ingest = IpfixIngest()
        options = set_of(3, encode.options_template(300, [(302, 8)], [(34, 4)]))
        add(ingest, message(options, set_of(300, number(5, 8) + number(10, 4))))
        bare = message(set_of(2, encode.template(256, ENDS)), set_of(256, PAIR))
        assert add(ingest, bare).sampling_rate.tolist() == [10]
        add(ingest, message(set_of(300, number(6, 8) + number(20, 4))))
        assert add(ingest, bare).sampling_rate.tolist() == [0]

    def test_rates_of_interfaces(self) -> None:
        """Version 9 has numbers of its own for scopes: 2 is the interface."""
        fields: Sequence[encode.Specifier] = [*ENDS, (10, 4), (14, 4), (61, 1)]
        rows = read(
            message_9(
                set_of(1, encode.options_template_9(300, [(2, 4)], [(34, 4)])),
                set_of(300, struct.pack(">IIII", 7, 100, 8, 200)),
                set_of(0, encode.template(256, fields)),
                set_of(
                    256,
                    b"".join(
                        PAIR + struct.pack(">IIB", *each)
                        for each in ((7, 8, 0), (7, 8, 1), (9, 7, 0))
                    ),
                ),
            )
        )
        assert rows.sampling_rate.tolist() == [100, 200, 0]

    def test_the_rate_of_one_interface_is_not_that_of_others(self) -> None:
        options = set_of(3, encode.options_template(300, [(10, 4)], [(34, 4)]))
        announced = set_of(2, encode.template(256, [*ENDS, (10, 4)]))
        data = set_of(256, PAIR + number(7, 4) + PAIR + number(9, 4))
        told = set_of(300, number(7, 4) + number(100, 4))
        assert read(message(options, told, announced, data)).sampling_rate.tolist() == [100, 0]

    def test_exporters_do_not_share_rates(self) -> None:
        ingest = IpfixIngest()
        options = set_of(3, encode.options_template(300, [(302, 8)], [(34, 4)]))
        add(ingest, message(options, set_of(300, number(5, 8) + number(10, 4)), domain=1))
        data = message(self.WITH_SELECTOR, set_of(256, PAIR + number(5, 8)), domain=2)
        assert add(ingest, data).sampling_rate.tolist() == [0]

    def test_version_5_says_it_in_its_header(self) -> None:
        record = bytes(48)
        assert read(message_5(record, sampling=0x4000 | 100)).sampling_rate.tolist() == [100]
        assert read(message_5(record)).sampling_rate.tolist() == [0]
