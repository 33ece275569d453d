"""Streams of IPFIX over TCP: cut into messages however they come, and through gaps."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.framing import Splitter
from collector.packets import Faults
from collector.streams import MOST_HELD_BYTES, MOST_STREAMS, Key, Streams
from tests.collector.ipfix import encode
from tests.collector.ipfix.encode import message, set_of

MESSAGES = [message(set_of(2, encode.template(256, encode.PLAIN))), message(), message(bytes(900))]
LONG = [message(set_of(256, b"\xff" * 400)) for _ in range(12)]
KEY = Key((0, 0xFFFF_0A00_0001), (0, 0xFFFF_0A00_0002), 40_000, 4739)
ACK, SYN, FIN, RST = 0x10, 0x02, 0x01, 0x04


@given(st.lists(st.integers(1, 400), max_size=12))
def test_streams_are_cut_into_messages(sizes: list[int]) -> None:
    stream = b"".join(MESSAGES)
    splitter, got, at = Splitter(), [], 0
    for size in [*sizes, len(stream)]:
        got += splitter.feed(stream[at : at + size])
        at += size
    assert got == MESSAGES
    assert not splitter.skips


@given(st.integers(1, 5))
def test_streams_find_their_way_back(step: int) -> None:
    stream = b"\xff\x00\x05rubbish" + b"".join(MESSAGES)
    splitter, got = Splitter(), []
    for at in range(0, len(stream), step):
        got += splitter.feed(stream[at : at + step])
    assert got == MESSAGES
    assert splitter.skips


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_streams_of_anything_are_held_within_bounds(pieces: list[bytes]) -> None:
    splitter = Splitter()
    for piece in pieces:
        for found in splitter.feed(piece):
            assert found[:2] == b"\0\x0a"
            assert len(found) == int.from_bytes(found[2:4]) >= 16


def add(
    streams: Streams,
    sequence: int,
    data: bytes,
    *,
    flags: int = ACK,
    lacking: int = 0,
    faults: Faults | None = None,
) -> list[bytes]:
    return streams.add(KEY, sequence % 2**32, flags, data, lacking, faults or Faults())


@given(st.integers(0, 2**32 - 1), st.integers(1, 700), st.integers(0, 1000))
def test_segments_in_any_order_and_more_than_once(first: int, step: int, seed: int) -> None:
    stream = b"".join(LONG)
    segments = [(at, stream[at : at + step]) for at in range(0, len(stream), step)]
    # Sent again in other pieces.
    segments += [(at, stream[at : at + 300]) for at in range(0, len(stream), 217)]
    random.Random(seed).shuffle(segments)
    streams, faults = Streams(), Faults()
    got = add(streams, first - 1, b"", flags=SYN, faults=faults)
    for at, data in segments[:250]:
        got += add(streams, first + at, data, faults=faults)
    for at, data in sorted(segments):  # all that may have been left out
        got += add(streams, first + at, data, faults=faults)
    if len(segments) <= 250:
        assert not faults.errors()
    assert got == LONG


def test_a_gap_costs_the_messages_that_it_cuts() -> None:
    stream = b"".join(LONG)
    size = len(LONG[0])
    streams, faults = Streams(), Faults()
    got = add(streams, 0, stream[: 2 * size + 100], faults=faults)
    got += add(streams, 3 * size + 50, stream[3 * size + 50 : 6 * size], faults=faults)
    assert got == LONG[:2]  # the gap may still be filled
    got += add(streams, 6 * size, stream[6 * size :], flags=FIN, faults=faults)
    assert got == LONG[:2] + LONG[4:]
    assert [error.reason for error in faults.errors()] == [
        "bytes of IPFIX over TCP are not in the capture",
        "bytes that belong to no IPFIX message",
    ]


def test_a_segment_cut_short_is_a_gap_at_once() -> None:
    size = len(LONG[0])
    streams, faults = Streams(), Faults()
    got = add(streams, 0, LONG[0] + LONG[1][:50], lacking=size - 50, faults=faults)
    got += add(streams, 2 * size, LONG[2], faults=faults)
    assert got == [LONG[0], LONG[2]]
    (error,) = faults.errors()
    assert error.reason == "a segment of IPFIX over TCP is cut short in the capture"


@pytest.mark.parametrize("flags", [FIN, RST, SYN])
def test_a_connection_of_the_same_ports_begins_anew(flags: int) -> None:
    streams = Streams()
    assert add(streams, 1000, LONG[0][:40]) == []
    if flags != SYN:
        assert add(streams, 1040, b"", flags=flags) == []
    assert add(streams, 77, b"", flags=SYN) == []
    assert add(streams, 78, LONG[1]) == [LONG[1]]


def test_what_waits_behind_gaps_is_bounded() -> None:
    streams, faults = Streams(), Faults()
    add(streams, 0, b"", flags=SYN)
    piece = b"\xff" * 1400
    for number in range(4 * MOST_HELD_BYTES // 1400):
        add(streams, 2 + 1401 * number, piece, faults=faults)
    (stream,) = streams._streams.values()
    assert stream.held_bytes == sum(map(len, stream.ahead.values())) <= MOST_HELD_BYTES
    for port in range(3 * MOST_STREAMS):
        streams.add(KEY._replace(src_port=port), 0, ACK, b"x", 0, faults)
    assert len(streams._streams) == MOST_STREAMS


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=60))))
def test_any_segments_do_no_harm(segments: list[tuple[int, int, bytes]]) -> None:
    streams = Streams()
    for sequence, flags, data in segments:
        add(streams, sequence, data, flags=flags, lacking=len(data) % 3)


def test_a_connection_of_the_same_ports_is_told_by_where_its_bytes_are() -> None:
    """Its begin is not in the capture, and it counts from far below."""
    streams = Streams()
    assert add(streams, 3_000_000_000, LONG[0]) == [LONG[0]]
    assert add(streams, 1_500_000_000, LONG[1]) == [LONG[1]]
    assert add(streams, 1_500_000_000 + len(LONG[1]), LONG[2]) == [LONG[2]]


def test_rubbish_that_looks_like_a_header_is_none() -> None:
    """Ten packets to port 4791, inside a record that the capture begins in."""
    rubbish = b"\x00\x0a\x12\xb7" + b"\xff" * 30
    assert Splitter(begins=False).feed(rubbish + MESSAGES[0] + LONG[0]) == [MESSAGES[0], LONG[0]]
    assert Splitter().feed(b"\x01" + rubbish + MESSAGES[0] + LONG[0]) == [MESSAGES[0], LONG[0]]
