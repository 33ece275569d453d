"""IPFIX over TCP, from sockets that send it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from functools import partial
from ipaddress import IPv4Network, ip_network
from pathlib import Path

import pytest

from collector import tcp
from collector.allow import AllowList
from collector.errors import ListenError
from collector.intake import Intake
from collector.link import DatagramBatch
from collector.store import Store, StoreSettings, read
from collector.tcp import TcpReceiver, listen
from collector.udp import UdpReceiver
from collector.workers import Workers
from tests.collector.ipfix import encode
from tests.collector.ipfix.encode import message, set_of

PATIENCE_S = 60.0
TEMPLATE = message(set_of(2, encode.template(256, encode.PLAIN)))
ROWS = 3


def records(sequence: int) -> bytes:
    content = b"".join(encode.plain(packets=n + 1) for n in range(ROWS))
    return message(set_of(256, content), sequence=sequence)


class Taken:
    """What a receiver handed on."""

    def __init__(self) -> None:
        self.batches: list[DatagramBatch] = []

    def messages(self) -> list[bytes]:
        return [
            batch.buffer[at : at + size].tobytes()
            for batch in list(self.batches)
            for at, size in zip(batch.offset.tolist(), batch.length.tolist(), strict=True)
        ]

    def holds(self, messages: int) -> bool:
        return len(self.messages()) == messages


Make = Callable[..., tuple[TcpReceiver, Taken]]


@pytest.fixture
def make() -> Generator[Make]:
    made: list[TcpReceiver] = []

    def start(
        allow: Sequence[IPv4Network] = (), host: str = "127.0.0.1"
    ) -> tuple[TcpReceiver, Taken]:
        taken = Taken()
        receiver = TcpReceiver(listen(host, 0), taken.batches.append, AllowList(allow).allows)
        made.append(receiver)
        receiver.start()
        return receiver, taken

    yield start
    for receiver in made:
        receiver.stop()
        receiver.stop()
        assert receiver.connections == 0


def until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.001)


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(PATIENCE_S)
    with suppress(ConnectionResetError):
        return connection.recv(1) == b""
    return True


def test_messages_come_whole_from_whom_they_are(make: Make) -> None:
    receiver, taken = make()
    stream = TEMPLATE + records(0) + records(ROWS)
    with closing(socket.create_connection(("127.0.0.1", receiver.port))) as sending:
        for at in range(0, len(stream), 11):
            sending.sendall(stream[at : at + 11])
            time.sleep(0.0005)
        until(lambda: len(taken.messages()) == 3)
        assert receiver.connections == 1
    assert taken.messages() == [TEMPLATE, records(0), records(ROWS)]
    batch = taken.batches[0]
    assert (batch.src_hi[0], batch.src_lo[0]) == (0, 0xFFFF_7F00_0001)
    assert (batch.src_port[0], batch.dst_port[0]) == (0, receiver.port)
    assert abs(int(batch.arrival_ns[0]) - time.time_ns()) < PATIENCE_S * 1e9
    assert (receiver.messages, receiver.message_bytes) == (3, len(stream))
    until(lambda: receiver.connections == 0)


def test_ipv6(make: Make) -> None:
    receiver, taken = make(host="::1")
    with closing(socket.create_connection(("::1", receiver.port))) as sending:
        sending.sendall(TEMPLATE)
        until(lambda: bool(taken.messages()))
    assert (taken.batches[0].src_hi[0], taken.batches[0].src_lo[0]) == (0, 1)


def test_bytes_of_no_message_end_the_connection_alone(make: Make) -> None:
    receiver, taken = make()
    at = ("127.0.0.1", receiver.port)
    with (
        closing(socket.create_connection(at)) as bad,
        closing(socket.create_connection(at)) as good,
    ):
        bad.sendall(TEMPLATE + b"GET / HTTP/1.1\r\n\r\n")
        assert is_closed(bad)
        good.sendall(TEMPLATE)
        until(lambda: len(taken.messages()) == 2)
    assert receiver.broken == 1


def test_who_may_not_send_is_not_heard(make: Make) -> None:
    receiver, taken = make((ip_network("10.0.0.0/8"), ip_network("192.0.2.0/24")))
    with closing(socket.create_connection(("127.0.0.1", receiver.port))) as sending:
        assert is_closed(sending)
    assert (receiver.refused, taken.messages()) == (1, [])


def test_connections_are_bounded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MOST_CONNECTIONS", 2)
    receiver, taken = make()
    at = ("127.0.0.1", receiver.port)
    with (
        closing(socket.create_connection(at)) as silent,
        closing(socket.create_connection(at)) as two,
    ):
        until(lambda: receiver.connections == 2)
        two.sendall(TEMPLATE)
        until(lambda: len(taken.messages()) == 1)
        with closing(socket.create_connection(at)) as three:
            assert is_closed(silent)
            three.sendall(TEMPLATE)
            two.sendall(TEMPLATE)
            until(lambda: len(taken.messages()) == 3)


@pytest.mark.parametrize("host", ["somewhere", "192.0.2.1"])
def test_addresses_that_cannot_be_had(host: str) -> None:
    with pytest.raises(ListenError, match=rf"^tcp {host}:1: "):
        listen(host, 1)


def test_records_over_tcp_are_stored_and_what_broke_is_counted(tmp_path: Path) -> None:
    receiver = UdpReceiver("127.0.0.1", 0)
    receiver.start()
    allow = AllowList(())
    streams = TcpReceiver(listen("127.0.0.1", 0), receiver.put, allow.allows)
    streams.start()
    at = ("127.0.0.1", streams.port)
    with Store(tmp_path) as store, closing(socket.create_connection(at)) as sending:
        intake = Intake(receiver, allow, store, hold_s=1e9, streams=streams)
        sending.sendall(TEMPLATE + records(0) + b"rubbish" * 9)
        assert is_closed(sending)
        taken = intake.take(PATIENCE_S)
        assert taken is not None
        assert len(taken.records) == ROWS
        standing = intake.standing()
        assert (standing.reception.datagrams, standing.refused) == (2, 0)
        intake.close()
        assert intake.finished
    stored = read(tmp_path)
    assert len(stored.records) == ROWS
    assert [error.reason for error in stored.errors] == [
        "a connection that sent bytes of no IPFIX message: it was closed"
    ]


def test_several_processes_each_keep_their_connections(tmp_path: Path) -> None:
    with closing(listen("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    workers = Workers(2, "127.0.0.1", 0, (), tmp_path, StoreSettings(), tcp=("127.0.0.1", port))
    sending = []
    try:
        for _ in range(8):
            sending.append(socket.create_connection(("127.0.0.1", port)))
            sending[-1].sendall(TEMPLATE)
        for each in sending:  # its template is known where its records go
            each.sendall(records(0))
        found = 0
        end_s = time.monotonic() + PATIENCE_S
        while found < 8 * ROWS:
            assert time.monotonic() < end_s, "waited in vain"
            got = workers.take(0.5)
            found += 0 if got is None else len(got.records)
    finally:
        for each in sending:
            each.close()
        workers.close()
    assert found == 8 * ROWS
    assert workers.standing().reception.datagrams == 16


def test_an_exporter_that_connects_anew_goes_on_as_the_same(make: Make) -> None:
    receiver, taken = make()
    at = ("127.0.0.1", receiver.port)
    for turn in range(1, 4):
        with (
            closing(socket.create_connection(at)) as one,
            closing(socket.create_connection(at)) as two,
        ):
            until(lambda: receiver.connections == 2)
            for sending in (one, two):
                sending.sendall(TEMPLATE)
            until(partial(taken.holds, 2 * turn))
        until(lambda: receiver.connections == 0)
    assert {int(port) for batch in taken.batches for port in batch.src_port} == {0, 1}


def test_where_nothing_more_can_wait_senders_do(make: Make) -> None:
    room = False
    taken = Taken()
    receiver = TcpReceiver(
        listen("127.0.0.1", 0), taken.batches.append, AllowList(()).allows, lambda: room
    )
    receiver.start()
    try:
        with closing(socket.create_connection(("127.0.0.1", receiver.port))) as sending:
            sending.sendall(TEMPLATE)
            until(lambda: receiver.connections == 1)
            time.sleep(0.05)
            assert not taken.messages()
            room = True
            until(lambda: taken.messages() == [TEMPLATE])
    finally:
        receiver.stop()


def test_the_address_can_be_had_again_at_once(make: Make) -> None:
    receiver, _ = make()
    with closing(socket.create_connection(("127.0.0.1", receiver.port))) as sending:
        until(lambda: receiver.connections == 1)
        receiver.stop()
        assert is_closed(sending)
        listen("127.0.0.1", receiver.port).close()
