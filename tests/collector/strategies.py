"""Datagrams of random samples, records and packets, whole and damaged, for hypothesis."""

from __future__ import annotations

import struct
from typing import Final

from hypothesis import strategies as st

from tests.collector import encapsulate, seeds
from tests.collector import encode as e

Drawn = st.SearchStrategy[bytes]
# A packet of the network layer, with its Ethertype.
Network = tuple[int, bytes]

_u32: Final = st.integers(0, 2**32 - 1)
_byte: Final = st.integers(0, 255)
# Fields of sFlow have small numbers in use, and edges.
_word: Final = st.integers(0, 12) | st.sampled_from([0x3FFF_FFFF, 0x8000_0000, 2**32 - 1]) | _u32
_data: Final = st.binary(max_size=40)


def _transport(kind: int, number: int, data: bytes) -> tuple[int, bytes]:
    """IP protocol and segment."""
    low = number & 0xFFFF
    if kind == 0:
        return 6, e.tcp(data, 5000, low, number, flags=low & 0xFF)
    if kind == 1:
        return 17, e.udp(e.bth(number >> 24, number & 0xFF_FFFF, low) + data, low, 4791)
    if kind == 2:
        return 17, e.udp(encapsulate.pds(number & 31, number, low, low) + data, low, 4793)
    return number >> 24, data


def _carried(kind: int, number: int, inner: Network) -> tuple[int, bytes]:
    """A tunnel around a packet: IP protocol and what IP carries."""
    if kind == 0:
        return 17, encapsulate.vxlan(e.ethernet(*inner, [(0x8100, 7)]), number & 0xFF_FFFF)
    if kind == 1:
        return 47, encapsulate.gre(*inner, key=number, checksum=number & 1 or None)
    if kind == 2:
        return 47, encapsulate.gre(0x6558, e.ethernet(*inner))
    if kind == 3:
        return 143, e.ethernet(*inner)
    return {0x0800: 4, 0x86DD: 41}.get(inner[0], 137), inner[1]


def _over(carried: tuple[int, bytes], kind: int, number: int) -> Network:
    """IP around what it carries; what is `number`ed makes options, extensions and fragments."""
    protocol, data = carried
    if kind == 0:
        return 0x0800, e.ipv4(data, protocol, tos=number & 0xFF)
    if kind == 1:
        options, part = b"\1" * (number & 12), (0, 0, 0x4000, 0x2000, 3)[number % 5]
        return 0x0800, e.ipv4(data, protocol, options=options, fragment=part)
    if kind == 2:
        return 0x86DD, e.ipv6(data, protocol, traffic_class=number & 0xFF)
    if kind == 3:
        following = (0, 43, 44, 51, 60, 135)[number % 6]
        return 0x86DD, e.ipv6(bytes([protocol, 0, 0, number & 1, *[0] * 4]) + data, following)
    return 0x86DD, e.ipv6(encapsulate.segments(protocol, ["fd01::1"] * (1 + number % 3)) + data, 43)


def _labelled(inner: Network, number: int) -> Network:
    return 0x8847, encapsulate.labels(*range(number % 10)) + inner[1]


_over_ip: Final = st.builds(
    _over, st.builds(_transport, st.integers(0, 3), _u32, _data), st.integers(0, 4), _u32
)
networks: Final = st.recursive(
    _over_ip,
    lambda inner: (
        st.builds(
            _over,
            st.builds(_carried, st.integers(0, 4), _u32, inner),
            st.integers(0, 4),
            _u32,
        )
        | st.builds(_labelled, inner, _byte)
    ),
    max_leaves=6,
)


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """A record with a sampled header: a packet under any tags, perhaps cut off."""
    kind, packet = draw(networks)
    tpids = draw(st.lists(st.sampled_from([0x8100, 0x88A8, 0x9100]), max_size=5))
    frame = e.ethernet(kind, packet, [(tpid, 100 * n) for n, tpid in enumerate(tpids)])
    keep = draw(st.sampled_from([64, 128, 256]) | st.integers(0, len(frame)))
    length = draw(st.none() | st.sampled_from([0, 60, 1514, 65_570, 2**32 - 1]))
    protocol = draw(st.sampled_from([1, 1, 1, 11, 12, 13, 4]))
    return e.raw_header(
        frame if protocol == 1 else packet, keep=keep, protocol=protocol, frame_bytes=length
    )


# One draw each: what costs time in a large number of cases is the number of draws.
_records: Final = st.sampled_from(
    [
        *(e.raw_header(frame) for frame in seeds.frames()),
        *seeds.records(),
        *seeds.counter_records(),
        *(e.record(tag, b"") for tag in (1, 3, 7, 1001, 1005, 1043, 2000)),
    ]
) | st.builds(
    e.record,
    st.sampled_from([1, 2, 3, 4, 5, 7, 1001, 1005, 1036, 1043, 2000, 2003]) | _u32,
    st.binary(max_size=100),
)
# Samples up to the number of their records, by kind; the last is of a kind that nobody knows.
_FIXED: Final = [
    (1, struct.pack(">7I", 9, 3, 1000, 9000, 2, 3, 0)),
    (1, struct.pack(">7I", 9, 2 << 24 | 3, 0, 0, 0, 3, 0x8000_0007)),
    (3, struct.pack(">10I", 9, 0, 3, 1000, 9000, 2, 0, 3, 0, 4)),
    (3, struct.pack(">10I", 9, 1, 3, 4096, 9000, 2, 0, 0x3FFF_FFFF, 1, 258)),
    (2, struct.pack(">2I", 9, 3)),
    (4, struct.pack(">3I", 9, 0, 3)),
    (5, struct.pack(">8I", 9, 0, 3, 17, 3, 0, 258, 0)),
    (6, struct.pack(">3I", 9, 0, 3)),
]


def _sample(fixed: tuple[int, bytes], held: list[bytes], more: int) -> bytes:
    kind, fields = fixed
    return e.record(kind, fields + struct.pack(">I", len(held) + more) + b"".join(held))


_samples: Final = st.builds(
    _sample,
    st.sampled_from(_FIXED),
    st.lists(_records, max_size=5),
    st.sampled_from([0, 0, 0, 0, 1, 1 << 31]),
)


@st.composite
def datagrams(draw: st.DrawFn) -> bytes:
    """Samples of all kinds behind a header, then perhaps some damage."""
    agent = draw(st.sampled_from(["10.255.0.1", "2001:db8::9"]))
    data = bytearray(e.datagram(*draw(st.lists(_samples, min_size=1, max_size=4)), agent=agent))
    changes = st.tuples(st.integers(0, 300), _word | st.integers(-9, -1))
    for at, value in draw(st.lists(changes, max_size=3)):
        at = 4 * at % (len(data) & ~3)
        if value < 13:  # lengths that are nearly right
            value = (int.from_bytes(data[at : at + 4]) + value) % 2**32
        data[at : at + 4] = struct.pack(">I", value)
    whole = draw(st.sampled_from([True, True, False]))
    return bytes(data if whole else data[: draw(st.integers(0, len(data)))])
