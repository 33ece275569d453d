"""The header kernels beside their twin, on stacks of layers, whole, cut off and damaged."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.schema import Encapsulation, HeaderState
from tests.collector import encode as e
from tests.collector.encapsulate import gre, labels, pds, pptp, segments, vxlan
from tests.collector.twins import assert_equal_to_twin, compiled

_byte = st.integers(0, 255)
_u32 = st.integers(0, 2**32 - 1)
_data = st.binary(max_size=40)

_transports = st.one_of(
    st.builds(lambda n, data: (6, e.tcp(data, 5000, 29_500, n)), _u32, _data),
    st.builds(lambda opcode, data: (17, e.udp(e.bth(opcode, 5, 6) + data, 1, 4791)), _byte, _data),
    st.builds(
        lambda kind, flags, data: (17, e.udp(pds(kind, 7, 8, 9, flags=flags) + data, 1, 4793)),
        st.integers(0, 31),
        st.integers(0, 127),
        _data,
    ),
    st.builds(lambda port, data: (17, e.udp(data, 1, port)), st.sampled_from([4789, 53]), _data),
    st.builds(lambda protocol, data: (protocol, data), _byte, _data),
)
_extensions = st.lists(
    st.tuples(
        st.sampled_from([0, 43, 44, 51, 60, 135, 139, 140]), st.binary(min_size=7, max_size=7)
    ),
    max_size=9,
)


def _with_extensions(
    carried: tuple[int, bytes], chain: list[tuple[int, bytes]]
) -> tuple[bytes, int]:
    """Extension headers of 8 bytes in front; their length is what it is said to be, mostly."""
    following, packet = carried
    for kind, rest in chain:
        packet = bytes([following, rest[0] % 2, *rest[1:]]) + packet
        following = kind
    return packet, following


_networks = st.one_of(
    st.builds(
        lambda carried, tos, fragment, zero: (
            0x0800,
            e.ipv4(
                carried[1],
                carried[0],
                tos=tos,
                fragment=fragment,
                length=0 if zero else None,
            ),
        ),
        _transports,
        _byte,
        st.sampled_from([0, 0, 0, 0x4000, 0x2000, 0x0010]),
        st.booleans(),
    ),
    st.builds(
        lambda carried, chain, tos: (
            0x86DD,
            e.ipv6(*_with_extensions(carried, chain), traffic_class=tos),
        ),
        _transports,
        _extensions,
        _byte,
    ),
    st.builds(lambda opcode, data: (0x8915, e.ipv6(e.bth(opcode, 1, 2) + data, 27)), _byte, _data),
    st.tuples(st.sampled_from([0x0806, 0x8847, 0x8100, 46]), _data),
)
_Network = tuple[int, bytes]


def _around(inner: st.SearchStrategy[_Network]) -> st.SearchStrategy[_Network]:
    """One more tunnel of any kind, over IPv4 or IPv6."""

    def over_four(carried: tuple[int, bytes], tos: int) -> _Network:
        return 0x0800, e.ipv4(carried[1], carried[0], "192.0.2.1", "192.0.2.2", tos=tos)

    def over_six(carried: tuple[int, bytes], tos: int) -> _Network:
        return 0x86DD, e.ipv6(carried[1], carried[0], traffic_class=tos)

    def routed(network: _Network, count: int) -> _Network:
        kind, packet = network
        following = {0x0800: 4, 0x86DD: 41}.get(kind, 143)
        if following == 143:
            packet = e.ethernet(kind, packet)
        return 0x86DD, e.ipv6(segments(following, ["fd01::1"] * count) + packet, 43)

    tags = st.lists(st.tuples(st.sampled_from([0x8100, 0x88A8]), st.integers(0, 4095)), max_size=3)
    option = st.none() | _u32
    frames = st.builds(
        lambda network, stack: e.ethernet(network[0], network[1], stack), inner, tags
    )
    carried = st.one_of(
        st.builds(
            lambda frame, vni, flags: (17, vxlan(frame, vni, flags=flags)),
            frames,
            st.integers(0, 2**24 - 1),
            st.sampled_from([8, 8, 8, 0xFF, 0]),
        ),
        st.builds(
            lambda network, key, sequence: (47, gre(*network, key=key, sequence=sequence)),
            inner,
            option,
            option,
        ),
        st.builds(lambda frame, key: (47, gre(0x6558, frame, checksum=9, key=key)), frames, option),
        st.builds(
            lambda network, head, ack: (47, pptp(head + network[1], ack=ack)),
            inner,
            st.sampled_from([b"\x21", b"\xff\x03\0\x57", b"\0\x21", b"\xff\x03", b"\xc0\x21"]),
            option,
        ),
        st.builds(lambda network: (4 if network[0] == 0x0800 else 41, network[1]), inner),
        st.builds(lambda frame: (143, frame), frames),
    )
    stacks = st.lists(st.integers(0, 2**20 - 1), min_size=1, max_size=9)
    return st.one_of(
        st.builds(over_four, carried, _byte),
        st.builds(over_six, carried, _byte),
        st.builds(routed, inner, st.integers(1, 2)),
        st.builds(lambda network, stack: (0x8847, labels(*stack) + network[1]), inner, stacks),
        st.builds(
            lambda frame, stack, word: (0x8848, labels(*stack) + word + frame),
            frames,
            stacks,
            st.sampled_from([b"", b"\0\0\0\1", b"\x10\0\0\0", b"\x50"]),
        ),
    )


_stacks = st.recursive(_networks, _around, max_leaves=6)


@settings(max_examples=400)
@given(
    network=_stacks,
    tags=st.lists(st.tuples(st.sampled_from([0x8100, 0x88A8, 0x9100]), _u32), max_size=5),
    keep=st.integers(0, 256),
    frame_bytes=st.none() | st.sampled_from([0, 60, 1514, 65_569, 65_570, 2**32 - 1]),
    flips=st.lists(st.tuples(st.integers(0, 255), _byte), max_size=4),
)
def test_stacks_read_as_the_twin_reads_them(
    network: _Network,
    tags: list[tuple[int, int]],
    keep: int,
    frame_bytes: int | None,
    flips: list[tuple[int, int]],
) -> None:
    frame = e.ethernet(*network, [(tpid, vlan & 0xFFFF) for tpid, vlan in tags])
    damaged = bytearray(frame)
    for at, value in flips:
        damaged[at % len(damaged)] = value
    number = {0x0800: 11, 0x86DD: 12, 0x8847: 13}.get(network[0], 1)
    bare = network[1] if number != 1 else frame
    records = (
        e.raw_header(frame, keep=256, frame_bytes=frame_bytes),
        e.raw_header(frame, keep=keep, frame_bytes=frame_bytes),
        e.raw_header(bytes(damaged), keep=keep),
        e.raw_header(bare, keep=keep, protocol=number),
    )
    assert_equal_to_twin([e.datagram(*map(e.flow_sample, records))])


def _examples() -> list[bytes]:
    """A frame of every kind of tunnel around the two transports that end deepest."""
    write = e.udp(e.bth(0x0B, 5, 6) + e.reth(64) + b"\0\0\0\7" + b"d" * 64, 50_000, 4791)
    request = e.udp(pds(2, 7, 8, 9) + b"s" * 44, 50_000, 4793)
    frames = []
    for transport in (write, request, e.udp(b"x", 1, 53)):
        four, six = e.ipv4(transport, 17), e.ipv6(transport, 17)
        frame = e.ethernet(0x0800, four, [(0x8100, 9)])
        routed = segments(41, ["fd01::1", "fd01::2"]) + six
        for kind, carried in (
            (17, vxlan(frame, 5001)),
            (47, gre(0x0800, four, checksum=1, key=2, sequence=3)),
            (47, gre(0x6558, frame, key=2)),
            (47, gre(0x8847, labels(16) + six)),
            (47, pptp(b"\xff\x03\0\x21" + four, ack=4)),
            (4, e.ipv4(e.ipv4(four, 4), 4)),
            (41, six),
            (143, frame),
            (60, bytes([4, 0, 1, 4, *[0] * 4]) + four),
            (43, routed),
        ):
            frames.append(e.ethernet(0x86DD, e.ipv6(carried, kind), [(0x88A8, 1), (0x8100, 2)]))
            if kind not in (43, 60, 143):
                frames.append(e.ethernet(0x0800, e.ipv4(carried, kind, options=b"\1" * 4)))
        stacks = labels(16) + four, labels(*range(8)) + six, labels(3) + b"\0" * 4 + frame
        frames += [e.ethernet(0x8847, stack) for stack in stacks]
    return frames


EXAMPLES = _examples()


def test_every_prefix_reads_as_the_twin_reads_it_and_has_a_state() -> None:
    samples = [
        e.flow_sample(e.raw_header(frame, keep=kept))
        for frame in EXAMPLES
        for kept in range(len(frame) + 1)
    ]
    payloads = [e.datagram(*samples[at : at + 50]) for at in range(0, len(samples), 50)]
    assert_equal_to_twin(payloads)
    states = {row["header_state"] for read in compiled(payloads) for row in read["flows"]}
    assert states == {
        HeaderState.COMPLETE,
        HeaderState.TRUNCATED_NETWORK,
        HeaderState.TRUNCATED_INNER,
        HeaderState.TRUNCATED_TRANSPORT,
        HeaderState.TRUNCATED_BTH,
    }


def test_damaged_stacks_read_as_the_twin_reads_them() -> None:
    """Single bytes changed anywhere: lengths, versions, flags, label stacks, next headers."""
    random = np.random.default_rng(20)
    payloads = []
    for frame in EXAMPLES:
        samples = []
        for _ in range(60):
            damaged = np.frombuffer(frame, np.uint8).copy()
            at = random.integers(12, len(damaged), 1 + int(random.integers(3)))
            damaged[at] = random.integers(0, 256, len(at))
            keep = int(random.integers(40, 200))
            samples.append(e.flow_sample(e.raw_header(damaged.tobytes(), keep=keep)))
        payloads.append(e.datagram(*samples))
    assert_equal_to_twin(payloads)
    kinds = {row["encapsulation"] for read in compiled(payloads) for row in read["flows"]}
    assert kinds == set(Encapsulation)
