from __future__ import annotations

import struct

import numpy as np
import pytest

from collector.addresses import to_text
from collector.link import DatagramBatch, Defect, datagrams
from collector.packets import Faults, PacketBatch
from collector.streams import Streams
from tests.collector import encode as e
from tests.collector.ipfix import encode

SFLOW = e.datagram(e.flow_sample())
UDP = e.udp(SFLOW)
V4 = e.ipv4(UDP, 17, "192.0.2.1", "192.0.2.9")
V6 = e.ipv6(UDP, 17, "2001:db8::7", "2001:db8::9")


_EMPTY = np.zeros(0, np.int64)
_NOTHING = DatagramBatch(
    np.zeros(0, np.uint8),
    *(_EMPTY,) * 3,
    *(_EMPTY.astype(np.uint64),) * 2,
    *(_EMPTY.astype(np.uint16),) * 2,
    _EMPTY,
    _EMPTY.astype(np.uint8),
)


def run(*packets: bytes, link: int = 1, faults: Faults | None = None) -> DatagramBatch:
    length = np.array([len(packet) for packet in packets], np.int64)
    rows = len(packets)
    batch = PacketBatch(
        buffer=np.frombuffer(b"".join(packets) + b"\xff" * 64, np.uint8),
        offset=np.cumsum(length) - length,
        length=length,
        arrival_ns=np.arange(rows, dtype=np.int64),
        link=np.full(rows, link, np.int32),
        file_offset=1000,
    )
    found, _ = datagrams(batch, faults or Faults(), Streams())
    assert all(map(len, found))
    return found[0] if found else _NOTHING


def payloads(batch: DatagramBatch) -> list[bytes]:
    pairs = zip(batch.offset.tolist(), batch.length.tolist(), strict=True)
    return [batch.buffer[at : at + size].tobytes() for at, size in pairs]


@pytest.mark.parametrize(
    ("link", "packet"),
    [
        (1, e.ethernet(0x0800, V4)),
        (1, e.ethernet(0x86DD, V6)),
        (1, e.ethernet(0x0800, V4, [(0x8100, 5)])),
        (1, e.ethernet(0x0800, V4, [(0x88A8, 1), (0x9100, 2), (0x8100, 3), (0x8100, 4)])),
        (1, e.ethernet(0x0800, V4) + b"\0" * 9),  # Ethernet pads short frames
        (113, struct.pack(">HHHQH", 0, 1, 6, 0, 0x0800) + V4),
        (113, struct.pack(">HHHQHHH", 0, 1, 6, 0, 0x8100, 7, 0x0800) + V4),
        (276, struct.pack(">HHIHBBQ", 0x86DD, 0, 2, 1, 0, 6, 0) + V6),
        (276, struct.pack(">HHIHBBQHH", 0x8100, 0, 2, 1, 0, 6, 0, 7, 0x0800) + V4),
        (0, struct.pack("<I", 2) + V4),
        (0, struct.pack("<I", 30) + V6),
        (108, struct.pack(">I", 2) + V4),
        (101, V4),
        (101, V6),
        (12, V4),
        (228, V4),
        (229, V6),
        (1, e.ethernet(0x0800, e.ipv4(UDP, 17, options=b"\x01" * 8))),
        (1, e.ethernet(0x86DD, e.ipv6(bytes([60, 0, 1, 4, 0, 0, 0, 0, 17, 0, *[0] * 6]) + UDP, 0))),
        (1, e.ethernet(0x0800, e.ipv4(UDP, 17, length=0))),  # left to the network card
    ],
)
def test_every_link_type_leads_to_the_payload(link: int, packet: bytes) -> None:
    batch = run(packet, link=link)
    assert payloads(batch) == [SFLOW]
    assert batch.defect.tolist() == [Defect.NONE]
    assert batch.file_offset.tolist() == [1000 + packet.index(SFLOW)]
    assert (batch.src_port[0], batch.dst_port[0]) == (49152, 6343)


def test_the_sender_is_named() -> None:
    batch = run(e.ethernet(0x0800, V4), e.ethernet(0x86DD, V6))
    senders = [
        to_text(hi, lo) for hi, lo in zip(batch.src_hi.tolist(), batch.src_lo.tolist(), strict=True)
    ]
    assert senders == ["192.0.2.1", "2001:db8::7"]


def test_telemetry_is_known_by_port_or_by_its_first_words() -> None:
    other_agent = e.datagram(e.flow_sample(), agent="2001:db8::1")

    def sent(payload: bytes, src_port: int, dst_port: int) -> bytes:
        return e.ethernet(0x0800, e.ipv4(e.udp(payload, src_port, dst_port), 17))

    batch = run(
        sent(b"anything", 1, 6343),
        sent(b"anything", 6343, 1),
        sent(SFLOW, 1, 9995),
        sent(other_agent, 1, 9995),
        sent(b"anything", 1, 9995),
        sent(struct.pack(">7I", 5, 3, 0, 0, 0, 0, 0), 1, 9995),  # no such address type
        sent(struct.pack(">7I", 5, 1, 0, 0, 0, 0, 9), 1, 9995),  # nine samples in no bytes
        sent(struct.pack(">6I", 5, 1, 0, 0, 0, 0), 1, 9995),
        sent(struct.pack(">9I", 5, 2, 0, 0, 0, 0, 0, 0, 0), 1, 9995),
    )
    assert payloads(batch) == [b"anything", b"anything", SFLOW, other_agent]
    assert batch.arrival_ns.tolist() == [0, 1, 2, 3]


def test_fragments_and_snapped_packets_say_so() -> None:
    first = e.ipv4(UDP[:40], 17, fragment=0x2000)
    later = e.ipv4(UDP[40:], 17, fragment=5)
    first_six = e.ipv6(bytes([17, 0, 0, 1, 0, 0, 0, 9]) + UDP[:40], 44)
    later_six = e.ipv6(bytes([17, 0, 0, 0x28, 0, 0, 0, 9]) + UDP[40:], 44)
    whole = e.ethernet(0x0800, V4)
    batch = run(
        e.ethernet(0x0800, first),
        e.ethernet(0x0800, later),
        e.ethernet(0x86DD, first_six),
        e.ethernet(0x86DD, later_six),
        whole[:-7],
    )
    assert payloads(batch) == [SFLOW[:32], SFLOW[:32], SFLOW[:-7]]
    assert batch.defect.tolist() == [Defect.FRAGMENT, Defect.FRAGMENT, Defect.SNAPPED]


def test_other_traffic_is_passed_over() -> None:
    tcp = e.tcp(SFLOW, 6343, 6343, 1)
    batch = run(
        e.ethernet(0x0806, b"\0" * 28),
        e.ethernet(0x0800, e.ipv4(tcp, 6)),
        e.ethernet(0x0800, V4, [(0x8100, 1)] * 5),  # more tags than anybody uses
        e.ethernet(0x0800, e.ipv4(UDP[:6], 17)),
        e.ethernet(0x0800, e.ipv4(struct.pack(">HHHH", 1, 6343, 4, 0), 17)),
        e.ethernet(0x86DD, V6[:30]),
        b"",
    )
    assert len(batch) == 0


def test_an_unknown_link_type_is_counted() -> None:
    faults = Faults()
    assert len(run(V4, V4, link=147, faults=faults)) == 0
    (error,) = faults.errors()
    assert (error.reason, error.offset, error.count) == ("link type 147 is not known", 1000, 2)


def test_every_prefix_of_a_packet_is_survived() -> None:
    for link, packet in ((1, e.ethernet(0x86DD, V6, [(0x8100, 5)])), (276, b"\0" * 20 + V4)):
        batch = run(*(packet[:size] for size in range(len(packet))), link=link)
        assert set(batch.defect.tolist()) <= {Defect.SNAPPED}


V10 = encode.message(encode.set_of(256, bytes(40)))
V9 = encode.message_9(encode.set_of(0, encode.template(256, encode.PLAIN)))
V5 = encode.message_5(bytes(48), bytes(48))


@pytest.mark.parametrize("payload", [V10, V9, V5, V9 + bytes(900), encode.message()])
def test_records_are_told_by_their_first_bytes(payload: bytes) -> None:
    """Whatever the port; padding behind a message of version 9 is legal."""
    packet = e.ethernet(0x0800, e.ipv4(e.udp(payload, 1, 2), 17))
    assert payloads(run(packet)) == [payload]


@pytest.mark.parametrize(
    "payload",
    [
        V10[:3] + b"\xff" + V10[4:],  # longer than its datagram
        V10[:16] + b"\0\x05" + V10[18:],  # a set that is reserved
        V10[:18] + b"\0\x90" + V10[20:],  # a set beyond the message
        V9[:2] + b"\0\0" + V9[4:],  # nothing in it
        V9[:20] + b"\0\x09" + V9[22:],
        V5[:3] + b"\x03" + V5[4:],  # more records than there is room for
        V5[:3] + b"\0" + V5[4:],
        b"\0\x0b" + V10[2:],
        V10[:15],
    ],
)
def test_what_only_begins_like_records_is_none(payload: bytes) -> None:
    """Except at the port of IPFIX, where it is damage."""
    packet = e.ethernet(0x0800, e.ipv4(e.udp(payload, 1, 2), 17))
    assert not len(run(packet))
    packet = e.ethernet(0x0800, e.ipv4(e.udp(payload, 1, 4739), 17))
    assert len(run(packet)) == 1


def test_ipfix_over_tcp_is_put_together() -> None:
    segments = [
        e.ethernet(0x0800, e.ipv4(e.tcp(data, 40_000, port, at), 6))
        for data, port, at in (
            (V10[:5], 4739, 1),
            (b"", 4739, 6),
            (V10[5:], 4739, 6),
            (V10, 4740, 1),
        )
    ]
    six = e.ethernet(0x86DD, e.ipv6(e.tcp(V10, 4739, 40_000, 1), 6))
    faults = Faults()
    found = run(*segments, six, faults=faults)
    assert payloads(found) == [V10, V10]
    assert found.arrival_ns.tolist() == [2, 4]
    assert found.src_port.tolist() == [40_000, 4739]
    assert (found.src_hi[0], found.src_lo[0] >> 32) == (0, 0xFFFF)
    assert found.src_hi[1] != 0
    assert not faults.errors()
