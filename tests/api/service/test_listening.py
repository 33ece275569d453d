from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path

import pytest

from api.service.listening import REPORT_S, Listening
from api.settings.values import LogLevel
from collector.allow import AllowList
from collector.intake import Intake, Standing
from collector.store import Store, read
from collector.udp import UdpReceiver
from reconstruct.slices import Slice
from reconstruct.slicing import Slicer
from tests.collector import encode as e

PATIENCE_S = 60.0
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
SHORTER_THAN_ANY_FILE = 100
SLICE_NS = 500_000_000
PATIENT_NS = 600_000_000_000  # nothing is late, however busy the machine
NOTHING = {
    "datagrams": 0,
    "samples": 0,
    "rows_stored": 0,
    "rows_held": 0,
    "rows_lost": 0,
    "kernel_drops": 0,
    "backlog_drops": 0,
    "refused_datagrams": 0,
    "lost_datagrams": 0,
    "late_samples": 0,
    "decode_errors": 0,
}


class Stepped:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Heard:
    """What the service says, and the slices it gives on."""

    said: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)

    def say(self, level: LogLevel, event: str, **fields: object) -> None:
        self.said.append((level, event, fields))

    @property
    def events(self) -> list[str]:
        return [event for _, event, _ in self.said]

    @property
    def account(self) -> dict[str, object]:
        """The one said at the end."""
        _, event, fields = self.said[-1]
        assert event == "account"
        return fields

    @property
    def samples(self) -> int:
        """Samples in the slices so far."""
        return sum(int(part.streams.samples.sum()) for part in self.slices)


class Mourning(Intake):
    """An intake that tells of processes that died."""

    deaths = 0

    def standing(self) -> Standing:
        return replace(super().standing(), deaths=self.deaths)


def listening_to(
    receiver: UdpReceiver,
    store: Store,
    heard: Heard,
    *,
    allow: tuple[str, ...] = (),
    lateness_ns: int = PATIENT_NS,
    clock: Callable[[], float] = time.monotonic,
) -> Listening:
    allowed = AllowList([ip_network(network) for network in allow])
    return Listening(
        Intake(receiver, allowed, store, 10.0, clock),
        Slicer(SLICE_NS, lateness_ns),
        heard.slices.extend,
        heard,
        clock,
    )


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


def send(receiver: UdpReceiver, *payloads: bytes, source: str = "127.0.0.1") -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        sending.bind((source, 0))
        for payload in payloads:
            sending.sendto(payload, ("127.0.0.1", receiver.port))


def test_what_arrives_is_stored_at_the_end(receiver: UdpReceiver, tmp_path: Path) -> None:
    heard = Heard()
    with Store(tmp_path) as store:
        with running(listening_to(receiver, store, heard, clock=Stepped())):
            send(receiver, *map(datagram, range(5)))
            wait_until(lambda: store.status.held_rows == 5)
            send(receiver, datagram(7))
            wait_until(lambda: store.status.held_rows == 6)
            assert heard.said == []
        (last,) = heard.said
        counts = {"datagrams": 6, "samples": 6, "rows_stored": 6, "lost_datagrams": 2}
        assert last == ("info", "account", NOTHING | counts)
    told = read(tmp_path)
    assert (told.datagrams, len(told.flows), told.lost_datagrams) == (6, 6, 2)


def test_what_waits_when_asked_to_stop_is_taken_in(receiver: UdpReceiver, tmp_path: Path) -> None:
    heard = Heard()
    with Store(tmp_path) as store:
        listening = listening_to(receiver, store, heard)
        send(receiver, *map(datagram, range(20)))
        listening.stop()
        listening.run()
    assert len(read(tmp_path).flows) == 20
    assert heard.samples == 20


def test_a_quiet_wire_is_flushed_by_time(receiver: UdpReceiver, tmp_path: Path) -> None:
    clock = Stepped()
    with (
        Store(tmp_path, clock=clock) as store,
        running(listening_to(receiver, store, Heard(), clock=clock)),
    ):
        send(receiver, datagram(0))
        wait_until(lambda: store.status.held_rows == 1)
        clock.now_s = 10.0
        wait_until(lambda: store.status.stored_rows == 1)
        assert len(read(tmp_path).flows) == 1


def test_slices_come_without_a_gap_and_go_on_in_silence(
    receiver: UdpReceiver, tmp_path: Path
) -> None:
    heard = Heard()
    began_ns = time.time_ns()
    with Store(tmp_path) as store, running(listening_to(receiver, store, heard, lateness_ns=0)):
        send(receiver, datagram(0))
        wait_until(lambda: heard.samples == 1)
        # From here on nothing arrives.
        seen = len(heard.slices)
        wait_until(lambda: len(heard.slices) > seen + 1)
        silent = heard.slices[seen:]
    assert [len(part.bins) for part in silent] == [0] * len(silent)
    assert began_ns - SLICE_NS < heard.slices[0].start_ns <= time.time_ns()
    for before, after in pairwise(heard.slices):
        assert after.start_ns == before.end_ns + 1


def test_what_is_on_its_way_for_too_long_is_stored_and_counted(
    receiver: UdpReceiver, tmp_path: Path
) -> None:
    heard = Heard()
    with Store(tmp_path) as store, running(listening_to(receiver, store, heard, lateness_ns=0)):
        early = datagram(1)
        send(receiver, datagram(0))
        closed = time.time_ns() + SLICE_NS
        wait_until(lambda: bool(heard.slices) and heard.slices[-1].end_ns > closed)
        send(receiver, early)
        wait_until(lambda: store.status.held_rows + store.status.stored_rows == 2)
    assert (heard.samples, heard.account["late_samples"]) == (1, 1)
    assert len(read(tmp_path).flows) == 2


def test_those_who_may_not_send_are_counted_and_not_heard(
    receiver: UdpReceiver, tmp_path: Path
) -> None:
    heard = Heard()
    allow = ("127.0.0.2/32", "2001:db8::/32")
    with Store(tmp_path) as store:
        listening = listening_to(receiver, store, heard, allow=allow)
        with running(listening):
            send(receiver, datagram(0), b"not telemetry", datagram(1))
            wait_until(lambda: listening.account()["refused_datagrams"] == 3)
            send(receiver, datagram(2), source="127.0.0.2")
            wait_until(lambda: store.status.held_rows == 1)
    counts = {"datagrams": 4, "samples": 1, "rows_stored": 1, "refused_datagrams": 3}
    assert heard.account == NOTHING | counts
    told = read(tmp_path)
    assert (told.datagrams, told.decode_errors, len(told.flows)) == (1, 0, 1)
    assert heard.samples == 1


def test_an_account_every_minute(receiver: UdpReceiver, tmp_path: Path) -> None:
    looks, heard = [0.0], Heard()
    clock = Stepped()

    def look() -> float:
        looks.append(clock())
        return looks[-1]

    with Store(tmp_path) as store, running(listening_to(receiver, store, heard, clock=look)):
        for minute in (1, 2):
            # A turn of the loop looks at most six times: then the next minute is already set.
            seen = len(looks)
            wait_until(lambda seen=seen: len(looks) > seen + 6)  # type: ignore[misc]
            assert len(heard.said) == minute - 1
            clock.now_s = minute * REPORT_S
            wait_until(lambda minute=minute: len(heard.said) == minute)  # type: ignore[misc]
    assert heard.said == [("info", "account", NOTHING)] * 3


def test_garbage_is_counted_and_nothing_stops(receiver: UdpReceiver, tmp_path: Path) -> None:
    heard = Heard()
    whole = datagram(0)
    garbage = [b"", b"\x00", b"not telemetry", b"\xff" * 9_000, whole[:40], whole[:-9]]
    with Store(tmp_path) as store, running(listening_to(receiver, store, heard)):
        send(receiver, *garbage)
        wait_until(lambda: receiver.reception().datagrams == len(garbage))
        send(receiver, datagram(1))
        wait_until(lambda: store.status.held_rows + store.status.stored_rows > 0)
    assert heard.events == ["account"]
    told = read(tmp_path)
    assert told.datagrams == heard.account["datagrams"] == 7
    assert told.flows.seq.tolist()[-1:] == [7]
    assert told.decode_errors >= 4
    assert heard.account["decode_errors"] == told.decode_errors
    assert any("version 5" in error.reason for error in told.errors)


def test_a_full_disk_is_said_once_and_counted(receiver: UdpReceiver, tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk: both fail a write in the middle."""
    clock, heard = Stepped(), Heard()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (
        Store(tmp_path, clock=clock) as store,
        running(listening_to(receiver, store, heard, clock=clock)),
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
            wait_until(lambda: len(heard.said) == 1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        flush_one(3, lambda: store.status.stored_rows == 2)
    assert heard.events == [
        "not everything can be stored",
        "everything can be stored again",
        "account",
    ]
    level, _, fields = heard.said[0]
    assert (level, list(fields)) == ("error", ["reason"])
    counts = {"datagrams": 4, "samples": 4, "rows_stored": 2, "rows_lost": 2}
    assert heard.account == NOTHING | counts
    assert len(read(tmp_path).flows) == 2
    # What the disk does not take is analysed all the same.
    assert heard.samples == 4


def test_a_process_that_died_is_said_once(receiver: UdpReceiver, tmp_path: Path) -> None:
    heard = Heard()
    with Store(tmp_path) as store:
        source = Mourning(receiver, AllowList([]), store, 10.0)
        listening = Listening(
            source, Slicer(SLICE_NS, PATIENT_NS), heard.slices.extend, heard, Stepped()
        )
        with running(listening):
            for said, deaths in ((1, 1), (2, 3)):
                source.deaths = deaths
                wait_until(lambda said=said: len(heard.said) == said)  # type: ignore[misc]
    assert heard.events == ["a receiving process died"] * 2 + ["account"]
    assert heard.said[1][::2] == ("error", {"deaths": 3})


def test_receiving_that_fails_keeps_what_came(receiver: UdpReceiver, tmp_path: Path) -> None:
    heard = Heard()
    with Store(tmp_path) as store:
        send(receiver, datagram(0))
        wait_until(lambda: receiver.reception().datagrams == 1)
        receiver._failure = OSError(5, "Input/output error")
        receiver._backlog.close()
        with pytest.raises(Exception, match="Input/output error"):
            listening_to(receiver, store, heard).run()
        assert store.status.stored_rows == 1
    assert heard.samples == 1
