from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from api.service.listening import REPORT_S, Listening
from collector.store import Store, read
from collector.udp import UdpReceiver
from tests.collector import encode as e

PATIENCE_S = 60.0
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
SHORTER_THAN_ANY_FILE = 100


class Stepped:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def wait_until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.01)


def datagram(number: int) -> bytes:
    sample = e.flow_sample(e.timestamp(time.time_ns()), HEADER, sequence=number)
    return e.datagram(sample, sequence=number)


@pytest.fixture
def receiver() -> Generator[UdpReceiver]:
    made = UdpReceiver("127.0.0.1", 0)
    made.start()
    yield made
    made.stop()


@contextmanager
def running(listening: Listening) -> Generator[None]:
    """In a thread; the end of the block asks it to stop and waits until it has."""
    thread = threading.Thread(target=listening.run)
    thread.start()
    try:
        yield
    finally:
        listening.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def send(receiver: UdpReceiver, *payloads: bytes) -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        for payload in payloads:
            sending.sendto(payload, ("127.0.0.1", receiver.port))


def test_what_arrives_is_stored_at_the_end(receiver: UdpReceiver, tmp_path: Path) -> None:
    said: list[str] = []
    with Store(tmp_path) as store:
        listening = Listening(receiver, store, 10.0, said.append, Stepped())
        with running(listening):
            send(receiver, *map(datagram, range(5)))
            wait_until(lambda: store.status.held_rows == 5)
            send(receiver, datagram(7))
            wait_until(lambda: store.status.held_rows == 6)
            assert said == []
        (last,) = said
        assert last == (
            "datagrams 6, samples 6, rows stored 6, rows held 0, lost rows 0, kernel drops 0,"
            " backlog drops 0, lost before arrival 2, decode errors 0"
        )
    told = read(tmp_path)
    assert (told.datagrams, len(told.flows), told.lost_datagrams) == (6, 6, 2)


def test_what_waits_when_asked_to_stop_is_taken_in(receiver: UdpReceiver, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        listening = Listening(receiver, store, 10.0, lambda _: None)
        send(receiver, *map(datagram, range(20)))
        listening.stop()
        listening.run()
    assert len(read(tmp_path).flows) == 20


def test_a_quiet_wire_is_flushed_by_time(receiver: UdpReceiver, tmp_path: Path) -> None:
    clock = Stepped()
    with Store(tmp_path, clock=clock) as store:
        listening = Listening(receiver, store, 10.0, lambda _: None, clock)
        with running(listening):
            send(receiver, datagram(0))
            wait_until(lambda: store.status.held_rows == 1)
            clock.now_s = 10.0
            wait_until(lambda: store.status.stored_rows == 1)
            assert len(read(tmp_path).flows) == 1


def test_an_account_every_minute(receiver: UdpReceiver, tmp_path: Path) -> None:
    looks, said = [0.0], list[str]()
    clock = Stepped()

    def look() -> float:
        looks.append(clock())
        return looks[-1]

    with Store(tmp_path) as store, running(Listening(receiver, store, 10.0, said.append, look)):
        for minute in (1, 2):
            # A turn of the loop looks at most five times: then the next minute is already set.
            seen = len(looks)
            wait_until(lambda seen=seen: len(looks) > seen + 5)  # type: ignore[misc]
            assert len(said) == minute - 1
            clock.now_s = minute * REPORT_S
            wait_until(lambda minute=minute: len(said) == minute)  # type: ignore[misc]
    assert len(said) == 3
    assert all(line.startswith("datagrams 0, samples 0, ") for line in said)


def test_garbage_is_counted_and_nothing_stops(receiver: UdpReceiver, tmp_path: Path) -> None:
    said: list[str] = []
    whole = datagram(0)
    garbage = [b"", b"\x00", b"not telemetry", b"\xff" * 9_000, whole[:40], whole[:-9]]
    with Store(tmp_path) as store, running(Listening(receiver, store, 10.0, said.append)):
        send(receiver, *garbage)
        wait_until(lambda: receiver.reception().datagrams == len(garbage))
        send(receiver, datagram(1))
        wait_until(lambda: store.status.held_rows + store.status.stored_rows > 0)
    (last,) = said
    assert last.startswith("datagrams 7, ")
    told = read(tmp_path)
    assert told.datagrams == 7
    assert told.flows.seq.tolist()[-1:] == [7]
    assert told.decode_errors >= 4
    assert last.endswith(f"decode errors {told.decode_errors}")
    assert any("version 5" in error.reason for error in told.errors)


def test_a_full_disk_is_said_once_and_counted(receiver: UdpReceiver, tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk: both fail a write in the middle."""
    clock, said = Stepped(), list[str]()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (
        Store(tmp_path, clock=clock) as store,
        running(Listening(receiver, store, 10.0, said.append, clock)),
    ):

        def flush_one(number: int, done: Callable[[], bool]) -> None:
            send(receiver, datagram(number))
            wait_until(lambda: store.status.held_rows == 1)
            clock.now_s += 10.0
            wait_until(done)

        flush_one(0, lambda: store.status.stored_rows == 1)  # also compiles: numba writes files too
        resource.setrlimit(resource.RLIMIT_FSIZE, (SHORTER_THAN_ANY_FILE, before[1]))
        try:
            flush_one(1, lambda: store.status.lost_rows == 1)
            flush_one(2, lambda: store.status.lost_rows == 2)
            wait_until(lambda: len(said) == 1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        flush_one(3, lambda: store.status.stored_rows == 2)
    assert said[0].startswith("not everything can be stored: ")
    assert said[1] == "everything can be stored again"
    assert "samples 4, rows stored 2, rows held 0, lost rows 2, " in said[2]
    assert len(said) == 3
    assert len(read(tmp_path).flows) == 2


def test_receiving_that_fails_keeps_what_came(receiver: UdpReceiver, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        send(receiver, datagram(0))
        wait_until(lambda: receiver.reception().datagrams == 1)
        receiver._failure = OSError(5, "Input/output error")
        receiver._backlog.close()
        with pytest.raises(Exception, match="Input/output error"):
            Listening(receiver, store, 10.0, lambda _: None).run()
        assert store.status.stored_rows == 1
