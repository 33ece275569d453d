"""The binding alone: sockets that nothing reads until the test does."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Generator
from contextlib import closing

import numpy as np
import pytest

from collector import mmsg
from collector.addresses import to_text
from collector.errors import UnsupportedSystem
from collector.link import DatagramBatch
from collector.mmsg import MOST_DATAGRAMS, MessageReader, MessageWriter

LARGEST = 65_507  # what IPv4 and UDP headers leave of 65,535


def payloads(batch: DatagramBatch) -> list[bytes]:
    return [
        batch.buffer[at : at + size].tobytes()
        for at, size in zip(batch.offset.tolist(), batch.length.tolist(), strict=True)
    ]


def bound(family: int = socket.AF_INET, host: str = "127.0.0.1") -> socket.socket:
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.bind((host, 0))
    return made


@pytest.fixture
def receiving() -> Generator[socket.socket]:
    with closing(bound()) as made:
        yield made


@pytest.fixture
def sending(receiving: socket.socket) -> Generator[socket.socket]:
    with closing(bound()) as made:
        made.connect(receiving.getsockname())
        yield made


def test_nothing_there(receiving: socket.socket) -> None:
    assert MessageReader(receiving).read() is None


def test_datagrams_of_all_sizes_in_order(receiving: socket.socket, sending: socket.socket) -> None:
    reader = MessageReader(receiving)
    sent = [b"", b"a", bytes(range(256)), b"\xff" * LARGEST, b"end"]
    before_ns = time.time_ns()
    for payload in sent:
        sending.send(payload)
    batch = reader.read()
    after_ns = time.time_ns()
    assert batch is not None
    assert payloads(batch) == sent
    assert batch.src_port.tolist() == [sending.getsockname()[1]] * len(sent)
    assert batch.dst_port.tolist() == [receiving.getsockname()[1]] * len(sent)
    assert [to_text(*pair) for pair in zip(batch.src_hi, batch.src_lo, strict=True)] == [
        "127.0.0.1"
    ] * len(sent)
    stamps = batch.arrival_ns.tolist()
    assert stamps == sorted(stamps)
    # The clock of the kernel may tick coarser.
    assert before_ns - 10_000_000 <= stamps[0] <= stamps[-1] <= after_ns
    assert batch.file_offset.tolist() == batch.defect.tolist() == [0] * len(sent)
    assert reader.read() is None
    assert reader.drops == 0


def test_datagrams_are_stamped_when_they_come(
    receiving: socket.socket, sending: socket.socket
) -> None:
    """A busy kernel begins to stamp a while after it was asked; before, it stamps as it is read."""
    reader = MessageReader(receiving)
    for _ in range(1_000):
        sending.send(b"when")
        time.sleep(0.01)
        read_ns = time.time_ns()
        batch = reader.read()
        if batch is not None and batch.arrival_ns[-1] < read_ns:
            return
    pytest.fail("all were stamped as they were read")


def test_a_batch_stays_when_the_next_is_read(
    receiving: socket.socket, sending: socket.socket
) -> None:
    reader = MessageReader(receiving)
    sending.send(b"first")
    first = reader.read()
    sending.send(b"again")
    second = reader.read()
    assert first is not None
    assert second is not None
    assert (payloads(first), payloads(second)) == ([b"first"], [b"again"])


def test_ipv6_senders() -> None:
    with (
        closing(bound(socket.AF_INET6, "::1")) as receiving,
        closing(bound(socket.AF_INET6, "::1")) as sending,
    ):
        reader = MessageReader(receiving)
        sending.sendto(b"six", receiving.getsockname())
        batch = reader.read()
        assert batch is not None
        assert (batch.src_hi.tolist(), batch.src_lo.tolist()) == ([0], [1])
        assert batch.src_port.tolist() == [sending.getsockname()[1]]


def test_what_the_kernel_drops_is_counted(receiving: socket.socket, sending: socket.socket) -> None:
    # netsampler/goflow2#152, #523, logstash-plugins/logstash-codec-netflow#85: "0 drops", while the
    # socket's buffer ran over.
    receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader = MessageReader(receiving)
    sent, received = 0, 0
    for _ in range(3):  # the kernel's count is of the socket's life
        for number in range(100):
            sending.send(b"%500d" % number)
        while (batch := reader.read()) is not None:
            received += len(batch)
        sending.send(b"what was dropped shows with a later datagram")
        last = reader.read()
        assert last is not None
        sent, received = sent + 101, received + len(last)
        assert received < sent
        assert sent == received + reader.drops


def test_the_count_of_drops_wraps_at_32_bits(receiving: socket.socket) -> None:
    reader = MessageReader(receiving)
    for said in ([0xFFFF_FFFE, 0xFFFF_FFFF], [-1, -1], [3, -1]):
        reader._follow(np.array(said))
    assert reader.drops == 0xFFFF_FFFF + 4


def test_control_messages_of_other_kinds_and_lengths() -> None:
    """A row each: one unknown, one cut short, one that claims more than there is."""
    words = np.zeros((3, 8), np.int64)
    halves = words.view(np.int32)
    stamp = (32, socket.SOL_SOCKET, mmsg.SO_TIMESTAMPNS)
    words[0, 0], halves[0, 2:4] = 20, (socket.IPPROTO_IP, mmsg.SO_RXQ_OVFL)
    words[0, 3], halves[0, 8:10] = stamp[0], stamp[1:]
    words[0, 5:7] = 17, 29
    words[1, 0], halves[1, 2:4] = 24, stamp[1:]
    words[2, 0], halves[2, 2:4] = 64, stamp[1:]
    said = mmsg._Said(
        np.zeros(3, np.int64),
        np.zeros(3, np.uint64),
        np.zeros(3, np.uint64),
        np.zeros(3, np.uint16),
        np.full(3, -1, np.int64),
    )
    mmsg._read_controls(words, halves, np.array([56, 24, 32], np.uint64), said)
    assert said.arrival_ns.tolist() == [17_000_000_029, 0, 0]
    assert said.drops.tolist() == [-1, -1, -1]


def test_written_datagrams_are_the_ones_asked_for(
    receiving: socket.socket, sending: socket.socket
) -> None:
    reader, writer = MessageReader(receiving), MessageWriter(sending)
    buffer = np.frombuffer(b"..one..two-three..", np.uint8)
    offset, length = np.array([2, 7, 10, 0]), np.array([3, 3, 6, 0])
    assert writer.write(buffer, offset, length) == 4
    batch = reader.read()
    assert batch is not None
    assert payloads(batch) == [b"one", b"two", b"-three", b""]


def test_many_are_written_and_read_by_as_many_as_fit(
    receiving: socket.socket, sending: socket.socket
) -> None:
    reader, writer = MessageReader(receiving), MessageWriter(sending)
    rows = MOST_DATAGRAMS + 10
    buffer = np.arange(rows, dtype=np.uint16).view(np.uint8)
    offset, length = np.arange(rows) * 2, np.full(rows, 2)
    sent = 0
    received: list[bytes] = []
    while sent < rows:
        sent += writer.write(buffer, offset[sent:], length[sent:])
        while (batch := reader.read()) is not None:
            assert len(batch) <= MOST_DATAGRAMS
            received += payloads(batch)
    assert b"".join(received) == buffer.tobytes()


def test_a_datagram_that_cannot_be_sent(sending: socket.socket) -> None:
    with pytest.raises(OSError, match="too long"):
        MessageWriter(sending).write(np.zeros(70_000, np.uint8), np.array([0]), np.array([70_000]))


def test_a_closed_socket(receiving: socket.socket) -> None:
    reader = MessageReader(receiving)
    receiving.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        reader.read()


def test_elsewhere_the_reason_is_said(
    receiving: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "sunos5")
    with pytest.raises(UnsupportedSystem, match="no recvmmsg; 64-bit Linux has"):
        MessageReader(receiving)
