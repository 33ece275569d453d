from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector import sflow
from collector.addresses import from_text
from collector.digest import digest
from collector.schema import HeaderState, PortState
from collector.sflow import Status
from tests.collector import encode as e
from tests.collector.conftest import payloads_of
from tests.collector.twins import assert_equal_to_twin, batch_of, compiled

FRAME = e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64)
HEADER = e.raw_header(FRAME)
COUNTERS = (
    *(3, 6, 400_000_000_000, 1, 3, 1 << 40, 11, 12, 13, 14, 15, 16),
    *(1 << 41, 21, 22, 23, 24, 25, 26),
)


def one(sample: bytes) -> dict[str, Any]:
    """The one flow row of a datagram with this sample, which is read without complaint."""
    (row,) = compiled([e.datagram(sample)])
    assert row["status"] == Status.GOOD
    (flow,) = row["flows"]
    return dict(flow)


def test_expanded_and_compact_samples_mean_the_same() -> None:
    # host-sflow sends expanded samples only; a collector that knows just 0:1 and 0:2 sees nothing
    # (path-network/logstash-codec-sflow#2, Edgio/vflow#154, robcowart/elastiflow#410).
    fields: dict[str, Any] = {
        "sequence": 9,
        "source": (0, 7),
        "rate": 512,
        "dropped": 4,
        "entered": (0, 7),
        "left": (0, 12),
    }
    compact = one(e.flow_sample(HEADER, expanded=False, **fields))
    assert compact == one(e.flow_sample(HEADER, expanded=True, **fields))
    assert (compact["source_id"], compact["input"], compact["output"]) == (7, 7, 12)
    assert (compact["sampling_rate"], compact["dropped"], compact["direction"]) == (512, 4, 1)
    assert compact["dest_qp"] == 0x11


def test_compact_source_keeps_its_24_bits() -> None:
    # Edgio/vflow#179: the index was read as eight bits, and all ports became a few.
    row = one(e.flow_sample(HEADER, source=(0, 0x01_02_03), expanded=False))
    assert row["source_id"] == 0x01_02_03
    # A class beside 0 is no ifIndex, so it cannot be the port that the packet came in by.
    row = one(e.flow_sample(HEADER, source=(2, 3), entered=(0, 3), expanded=False))
    assert (row["source"], row["direction"]) == (2 << 32 | 3, 0)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize(
    ("interface", "state", "value"),
    [
        ((0, 5), PortState.SINGLE, 5),
        ((0, 0), PortState.UNKNOWN, 0),
        ((0, 0x3FFF_FFFF), PortState.INTERNAL, 0x3FFF_FFFF),
        ((1, 1), PortState.DISCARDED, 1),
        ((1, 0), PortState.DISCARDED, 0),
        ((2, 7), PortState.MULTIPLE, 7),
        ((3, 9), PortState.UNKNOWN, 0),
    ],
)
def test_interface_formats_are_states_not_ports(
    interface: tuple[int, int], state: PortState, value: int, expanded: bool
) -> None:
    # Edgio/vflow#179: the upper two bits are a format, not part of a port's number.
    # akvorado/akvorado#153, pavel-odintsov/fastnetmon#311, sflow/host-sflow#70: 0x3FFFFFFF is the
    # switch itself, and a sample with it is a sample.
    row = one(e.flow_sample(HEADER, left=interface, expanded=expanded))
    assert (row["output_state"], row["output"]) == (state, value)


@pytest.mark.parametrize(
    ("entered", "left", "direction"),
    [((0, 3), (0, 0), 1), ((0, 4), (0, 3), 2), ((0, 4), (0, 5), 0), ((0, 3), (0, 3), 0)],
)
def test_direction_is_which_side_of_the_source(
    entered: tuple[int, int], left: tuple[int, int], direction: int
) -> None:
    assert one(e.flow_sample(HEADER, entered=entered, left=left))["direction"] == direction


def test_timestamp_may_stand_before_or_behind_the_header() -> None:
    stamp = e.timestamp(e.EPOCH_NS + 123)
    for records in ((stamp, HEADER), (HEADER, stamp)):
        row = one(e.flow_sample(*records))
        assert row["stamp_ns"] == e.EPOCH_NS + 123
        assert row["dest_qp"] == 0x11


def test_unknown_records_and_samples_are_skipped_by_length() -> None:
    # 8800:1 has the format of the raw header under another enterprise, and must not be read as it.
    foreign = e.record(8800 << 12 | 1, struct.pack(">IIII", 1, 9000, 0, 64) + b"\xee" * 64)
    sample = e.flow_sample(foreign, e.record(1001, b"\0" * 16), HEADER)
    other = e.record(4413 << 12 | 3, b"\xaa" * 44)
    (row,) = compiled([e.datagram(other, sample, e.record(77, b""))])
    assert (row["status"], row["unknown"]) == (Status.GOOD, 2)
    assert [flow["dest_qp"] for flow in row["flows"]] == [0x11]
    assert row["flows"][0]["frame_bytes"] == len(FRAME) + 4


def test_discarded_packet_samples_hide_nothing() -> None:
    discard = e.record(5, struct.pack(">8I", 1, 0, 3, 0, 3, 0, 258, 0))
    (row,) = compiled([e.datagram(discard, e.flow_sample(HEADER))])
    assert (row["status"], len(row["discards"]), len(row["flows"])) == (Status.GOOD, 1, 1)


def test_generic_counters_behind_other_records() -> None:
    generic = e.record(1, e.GENERIC_COUNTERS.pack(*COUNTERS))
    for expanded in (False, True):
        sample = e.counter_sample(e.record(1005, b"\0\0\0\2v1\0\0"), generic, expanded=expanded)
        (row,) = compiled([e.datagram(sample)])
        assert row["counter_samples"] == [Status.GOOD]
        assert row["counters"] == [
            {
                "ifindex": 3,
                "speed_bps": 400_000_000_000,
                "status": 3,
                "in_octets": 1 << 40,
                "in_ucast_pkts": 11,
                "in_discards": 14,
                "in_errors": 15,
                "out_octets": 1 << 41,
                "out_ucast_pkts": 21,
                "out_discards": 24,
                "out_errors": 25,
            }
        ]


def test_counter_sample_without_generic_counters_counts_but_gives_no_row() -> None:
    (row,) = compiled([e.datagram(e.counter_sample(e.record(1005, b"\0\0\0\2v1\0\0")))])
    assert (row["counter_samples"], row["counters"]) == ([Status.GOOD], [])


def test_agent_address_of_16_bytes_shifts_nothing() -> None:
    # the-tcpdump-group/tcpdump#870, pmacct/pmacct#460: read as four bytes, it shifts all behind it.
    (row,) = compiled([e.datagram(e.flow_sample(HEADER), agent="2001:db8::9", sub_agent=4)])
    assert (row["agent_hi"], row["agent_lo"]) == from_text("2001:db8::9")
    assert (row["sub_agent"], len(row["flows"])) == (4, 1)


def test_damage_is_named_and_what_stands_before_it_is_kept() -> None:
    # google/gopacket#1228, phaag/nfdump#29, Cistern/sflow#15, robcowart/elastiflow#648: datagrams
    # that end early, and counts of millions, ended decoders or kept them busy.
    good = e.flow_sample(HEADER)
    whole = e.datagram(good, good)
    cut = compiled([whole[:-1], e.datagram(good, count=900_000_000), b"\0\0\0\4" + whole[4:]])
    assert [len(row["flows"]) for row in cut] == [1, 1, 0]
    assert [row["status"] for row in cut] == [
        Status.SHORT_DATAGRAM,
        Status.SHORT_DATAGRAM,
        Status.NOT_VERSION_5,
    ]
    samples = sflow.decode(batch_of([whole[:-1]]))
    assert samples.headers.fault_at[0] == 28 + len(good)  # where the second sample begins


def test_a_record_longer_than_its_sample_ends_that_sample_only() -> None:
    overlong = struct.pack(">II", 1001, 4_000_000_000)
    broken = e.flow_sample(HEADER, overlong)
    (row,) = compiled([e.datagram(broken, e.flow_sample(HEADER, sequence=2))])
    assert [flow["status"] for flow in row["flows"]] == [Status.SHORT_RECORD, Status.GOOD]
    assert [flow["dest_qp"] for flow in row["flows"]] == [0x11, 0x11]


def test_sample_without_a_sampled_header_is_a_row_that_says_so() -> None:
    row = one(e.flow_sample(e.record(1001, b"\0" * 16)))
    assert row["header_state"] == HeaderState.TRUNCATED_NETWORK
    assert (row["frame_bytes"], row["repaired"], row["sampling_rate"]) == (0, 0, 1000)


def test_every_prefix_of_a_datagram_reads_as_the_twin_reads_it() -> None:
    data = e.datagram(
        e.flow_sample(e.timestamp(e.EPOCH_NS), HEADER),
        e.counter_sample(e.record(1, e.GENERIC_COUNTERS.pack(*COUNTERS))),
        e.flow_sample(HEADER, expanded=False),
        agent="2001:db8::9",
    )
    assert_equal_to_twin([data[:size] for size in range(len(data) + 1)])


def test_corpora_read_as_the_twin_reads_them(sflow_files: list[Path]) -> None:
    for path in sflow_files:
        assert_equal_to_twin(payloads_of(path))


_TCP = e.ethernet(0x0800, e.ipv4(e.tcp(b"p" * 90, 5000, 29500, 1, 2), 6), [(0x8100, 5)])
_SIX = e.ethernet(0x86DD, e.ipv6(e.udp(e.bth(0x11, 3, 4) + b"\0\0\0\1" * 2, 49152, 4791), 17))
_GOOD = e.datagram(
    e.flow_sample(e.timestamp(e.EPOCH_NS), HEADER),
    e.flow_sample(e.raw_header(_TCP), expanded=False),
    e.flow_sample(e.raw_header(_SIX), left=(2, 3)),
    e.counter_sample(e.record(1, e.GENERIC_COUNTERS.pack(*COUNTERS))),
)


@settings(max_examples=200, deadline=None)
@given(
    flips=st.lists(
        st.tuples(st.integers(0, len(_GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=12
    ),
    size=st.integers(0, len(_GOOD)),
)
def test_flipped_bytes_read_as_the_twin_reads_them(flips: list[tuple[int, int]], size: int) -> None:
    data = bytearray(_GOOD)
    for at, value in flips:
        data[at] = value
    assert_equal_to_twin([bytes(data), bytes(data[:size])])


_words = st.lists(st.integers(0, 12) | st.integers(0, 2**32 - 1), max_size=60)


@settings(max_examples=200, deadline=None)
@given(words=_words, tail=st.binary(max_size=9), family=st.integers(1, 2))
def test_random_datagrams_read_as_the_twin_reads_them(
    words: list[int], tail: bytes, family: int
) -> None:
    body = struct.pack(f">{len(words)}I", *words) + tail
    assert_equal_to_twin([body, struct.pack(">II", 5, family) + body])


@settings(max_examples=200, deadline=None)
@given(header=st.binary(max_size=160), protocol=st.sampled_from([1, 11, 12, 4]))
def test_random_headers_read_as_the_twin_reads_them(header: bytes, protocol: int) -> None:
    known = e.raw_header(e.ethernet(0x0800, header), frame_bytes=1514)
    six = e.raw_header(e.ethernet(0x86DD, header), frame_bytes=0)
    whole = e.raw_header(header, protocol=protocol, keep=160)
    assert_equal_to_twin([e.datagram(*(e.flow_sample(r) for r in (known, six, whole)))])


_interfaces = st.tuples(st.integers(0, 2), st.integers(1, 0x3FFF_FFFE))
_word = st.integers(0, 2**32 - 1)


@settings(max_examples=100, deadline=None)
@given(
    sequence=_word,
    source=st.tuples(st.integers(0, 255), st.integers(0, 0xFF_FFFF)),
    rate=_word,
    dropped=_word,
    ports=st.tuples(_interfaces, _interfaces),
    stamp=st.integers(0, 2**64 - 1),
    expanded=st.booleans(),
    qp=st.integers(0, 0xFF_FFFF),
    psn=st.integers(0, 0xFF_FFFF),
    size=_word,
)
def test_decoding_gives_back_what_was_encoded(
    sequence: int,
    source: tuple[int, int],
    rate: int,
    dropped: int,
    ports: tuple[tuple[int, int], tuple[int, int]],
    stamp: int,
    expanded: bool,
    qp: int,
    psn: int,
    size: int,
) -> None:
    frame = e.roce(e.bth(0x06, qp, psn) + e.reth(size) + b"\0" * 1024)
    row = one(
        e.flow_sample(
            e.timestamp(stamp),
            e.raw_header(frame),
            sequence=sequence % 2**16,
            source=source,
            rate=rate % 2**16,
            dropped=dropped,
            entered=ports[0],
            left=ports[1],
            expanded=expanded,
        )
    )
    states = (PortState.SINGLE, PortState.DISCARDED, PortState.MULTIPLE)
    assert row["sequence"] == sequence % 2**16
    assert row["source"] == source[0] << 32 | source[1]
    assert (row["sampling_rate"], row["dropped"]) == (rate % 2**16, dropped)
    assert (row["input_state"], row["input"]) == (states[ports[0][0]], ports[0][1])
    assert (row["output_state"], row["output"]) == (states[ports[1][0]], ports[1][1])
    assert (row["stamp_ns"], row["dest_qp"], row["seq"]) == (stamp, qp, psn)
    assert (row["message_bytes"], row["payload_bytes"]) == (size, 1024)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(min_size=1, max_size=200), at=st.integers(0, 199), bit=st.integers(0, 7))
def test_the_digest_tells_datagrams_apart(data: bytes, at: int, bit: int) -> None:
    # A datagram that comes again is a duplicate only if each of its bytes is the same.
    other = bytearray(data)
    other[at % len(data)] ^= 1 << bit

    def digested(value: bytes, before: int) -> int:
        held = np.frombuffer(b"\xff" * before + value + b"\xff" * 40, np.uint8)
        return int(digest(held, before, before + len(value)))

    assert digested(data, 0) == digested(data, 3)  # wherever it stands
    assert len({digested(each, 0) for each in (data, bytes(other), data + b"\0", data[:-1])}) == 4
