"""The compiled decoder against its slow twin, on random templates and on damage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.ipfix import IpfixIngest
from collector.packets import Faults
from collector.records import RecordBatch
from tests import naive_ipfix
from tests.collector.ipfix import encode
from tests.collector.ipfix.arrivals import Arrival, batch_of
from tests.collector.mutate import mutations, together

# Not in the twin: what depends on options.
COLUMNS = (
    *("arrival_ns", "export_ns", "start_ns", "end_ns", "time_basis", "bytes", "packets"),
    *("src_hi", "src_lo", "dst_hi", "dst_lo", "protocol", "src_port", "dst_port", "tcp_flags"),
    *("dscp", "ecn", "input", "output", "direction", "vlan", "vni", "selector", "end_reason"),
    "doubts",
)
ENDS = [(8, 4), (12, 4), (27, 16), (28, 16)]
NUMBERS = [
    *(1, 2, 4, 5, 6, 7, 10, 11, 14, 21, 22, 23, 24, 48, 58, 61, 136, 150, 151, 152, 153, 154, 155),
    *(156, 157, 158, 159, 161, 162, 180, 181, 182, 183, 195, 243, 252, 253, 302, 322, 323, 324),
    *(325, 351, 99, 313, 315),
]
WIDTHS = st.one_of(st.integers(1, 8), st.sampled_from([0, 9, 30, encode.VARIABLE]))
SPECIFIERS = st.one_of(
    st.sampled_from(ENDS),
    st.sampled_from(ENDS),
    st.tuples(st.sampled_from(NUMBERS), WIDTHS),
    st.tuples(st.sampled_from([1, 2, 6, 7]), st.integers(1, 8), st.sampled_from([29_305, 35_632])),
)


def compare(arrivals: Sequence[Arrival], fill: int = 255) -> None:
    """The same rows, whatever their order; replays stand last."""
    ingest = IpfixIngest()
    records, _, packets = ingest.add(batch_of(arrivals, fill), Faults())
    twin = naive_ipfix.decode(arrivals)
    columns = [getattr(records, name).tolist() for name in COLUMNS]
    assert Counter(zip(*columns, strict=True)) == Counter(
        tuple(row[name] for name in COLUMNS) for row in twin.rows
    )
    assert len(packets) == len(twin.sections)
    assert sum(each.records for each in ingest.exporters()) == twin.records


@st.composite
def record(draw: st.DrawFn, fields: Sequence[encode.Specifier]) -> bytes:
    out = b""
    for each in fields:
        if each[1] == encode.VARIABLE:
            content = draw(st.binary(max_size=30))
            out += encode.variable(content, wide=draw(st.booleans()))
        elif each[0] in (150, 151, 322) and draw(st.booleans()):
            out += (encode.EXPORT_S % 256 ** each[1]).to_bytes(each[1])
        elif each[0] in (154, 155, 156, 157) and each[1] == 8 and draw(st.booleans()):
            out += (encode.EXPORT_S + 2_208_988_800).to_bytes(4) + draw(
                st.binary(min_size=4, max_size=4)
            )
        else:
            out += draw(st.binary(min_size=each[1], max_size=each[1]))
    return out


@st.composite
def exchange(draw: st.DrawFn) -> list[Arrival]:
    """Templates and records of two sessions and two domains, in any order."""
    nine = draw(st.booleans())
    made = encode.message_9 if nine else encode.message
    arrivals = []
    for _ in range(draw(st.integers(1, 4))):
        fields = draw(st.lists(SPECIFIERS, min_size=1, max_size=12))
        if nine:
            fields = [each[:2] for each in fields]
        number = draw(st.integers(256, 257))
        announced = encode.set_of(
            0 if nine else 2, encode.template(number, fields), draw(st.integers(0, 3))
        )
        content = b"".join(draw(st.lists(record(fields), max_size=4)))
        data = encode.set_of(number, content, draw(st.integers(0, 3)))
        messages = draw(
            st.sampled_from(
                [[[announced, data]], [[announced], [data]], [[data], [announced]], [[data]]]
            )
        )
        port, domain = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        arrivals += [Arrival(made(*sets, domain=domain), port=port) for sets in messages]
    return arrivals


@settings(max_examples=400)
@given(exchange())
def test_random_templates(arrivals: list[Arrival]) -> None:
    compare(arrivals)


@settings(max_examples=150)
@given(exchange())
def test_batches_do_not_matter(arrivals: list[Arrival]) -> None:
    """Datagram by datagram, or all at once: the same rows."""
    whole, one_by_one = IpfixIngest(), IpfixIngest()
    together_, _, _ = whole.add(batch_of(arrivals), Faults())
    apart = [one_by_one.add(batch_of([each]), Faults())[0] for each in arrivals]
    rows = [
        Counter(zip(*(getattr(each, name).tolist() for name in COLUMNS), strict=True))
        for each in (together_, RecordBatch.concat(apart))
    ]
    assert rows[0] == rows[1]
    assert whole.waiting_sets == one_by_one.waiting_sets
    assert [each.lost for each in whole.exporters()] == [
        each.lost for each in one_by_one.exporters()
    ]


SEEDS = [
    encode.message(
        encode.set_of(2, encode.template(256, encode.PLAIN)),
        encode.set_of(256, encode.plain() + encode.plain(src="10.0.0.3"), 2),
    ),
    encode.message(
        encode.set_of(2, encode.template(257, [(27, 16), (28, 16), (82, encode.VARIABLE), (1, 5)])),
        encode.set_of(257, bytes(range(32)) + encode.variable(b"Ethernet0") + bytes(5)),
    ),
    encode.message(
        encode.set_of(2, encode.template(258, [(313, encode.VARIABLE), (306, 4), (1, 4, 29_305)])),
        encode.set_of(258, encode.variable(bytes([0x45]) + bytes(39)) + bytes(8)),
    ),
    encode.message(
        encode.set_of(3, encode.options_template(260, [(302, 2)], [(305, 4), (306, 4)])),
        encode.set_of(260, b"\0\1" + bytes(7) + b"\1"),
        encode.set_of(2, encode.template(256, [])),
    ),
    encode.message_9(
        encode.set_of(0, encode.template(256, encode.PLAIN)),
        encode.set_of(256, encode.plain() + encode.plain(src="10.0.0.4")),
        encode.set_of(1, encode.options_template_9(261, [(1, 4)], [(34, 4)]), 2),
    ),
    encode.message_5(bytes(range(48)), bytes(range(100, 148))),
]


def test_every_prefix() -> None:
    for seed in SEEDS:
        for length in range(len(seed)):
            compare([Arrival(seed[:length])])


def test_mutations() -> None:
    """Each damaged datagram from a sender of its own, all in one batch."""
    random = np.random.default_rng(11)
    damaged = mutations(together(SEEDS), 12_000, random)
    arrivals = [
        Arrival(damaged.data[row, : damaged.length[row]].tobytes(), port=1 + row)
        for row in range(len(damaged.length))
    ]
    compare(arrivals)


def test_mutations_of_one_session() -> None:
    """Damaged templates and records of one exporter, one after another."""
    random = np.random.default_rng(12)
    for _ in range(60):
        damaged = mutations(together(SEEDS), 40, random)
        compare(
            [
                Arrival(damaged.data[row, : damaged.length[row]].tobytes())
                for row in range(len(damaged.length))
            ]
        )


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=120), max_size=4), st.sampled_from([b"\0\x0a", b"\0\x09"]))
def test_any_bytes(payloads: list[bytes], version: bytes) -> None:
    compare([Arrival(version + payload) for payload in payloads])
