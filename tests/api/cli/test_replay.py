from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from api.cli import replay as command
from api.cli.replay import Clock, Sender
from collector.ingest import Ingest, ingest
from collector.mmsg import MessageWriter
from collector.packets import Faults
from collector.replay import Departures, Replay
from collector.schema import (
    COLUMNS,
    COUNTER_COLUMNS,
    I64,
    U8,
    CounterBatch,
    FlowBatch,
    Telemetry,
    TimeBasis,
)
from collector.udp import UdpReceiver
from tests.collector import encode as e
from tests.collector.test_mmsg import payloads

if TYPE_CHECKING:
    from bench.captures import Capture

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE_S = 60.0
MS = 1_000_000
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))


def small(folder: Path, at_ms: Sequence[int], *, stamps: bool = True) -> Path:
    """A capture of one sample each; stamps are 3 ms before the arrival."""
    packets = []
    for number, at in enumerate(at_ms):
        time_ns = e.EPOCH_NS + at * MS
        records = [e.timestamp(time_ns - 3 * MS), HEADER] if stamps else [HEADER]
        sample = e.flow_sample(*records, sequence=number)
        packets.append((time_ns, e.packet(e.datagram(sample, sequence=number))))
    path = folder / "small.pcap"
    path.write_bytes(e.pcap(packets))
    return path


@pytest.fixture
def receiver() -> Generator[UdpReceiver]:
    made = UdpReceiver("127.0.0.1", 0)
    made.start()
    yield made
    made.stop()


def read_all(receiver: UdpReceiver) -> Telemetry:
    """All that came, decoded."""
    receiver.stop()
    decoding, faults = Ingest(), Faults()
    flows, counters = [], []
    for batch in receiver:
        piece = decoding.add(batch, faults)
        flows.append(piece[0])
        counters.append(piece[1])
    return replace(
        decoding.telemetry(faults.errors()),
        flows=FlowBatch.concat(flows),
        counters=CounterBatch.concat(counters),
    )


class Led(Clock):
    """A clock that is told the time, and where waiting waits for the receiver instead."""

    def __init__(self, receiver: UdpReceiver) -> None:
        super().__init__()
        self._time_ns = super().now_ns()
        self._receiver = receiver
        self.sender: Sender | None = None
        self.waits: list[int] = []

    def now_ns(self) -> int:
        return self._time_ns

    def sleep_until(self, due_ns: int) -> None:
        assert due_ns > self._time_ns
        self.waits.append(due_ns - self._time_ns)
        self._time_ns = due_ns
        while self.sender is not None and self._receiver.reception().datagrams < self.sender.sent:
            pass


def led_replay(path: Path, receiver: UdpReceiver, speed: float = 1) -> tuple[Led, Sender]:
    """Replay a capture without waiting for time to pass."""
    clock = Led(receiver)
    with closing(command._connect(f"127.0.0.1:{receiver.port}")) as connection:
        sender = Sender(connection, clock)
        clock.sender = sender
        for departures in Replay([path], speed, keep_time=False).departures(clock.now_ns):
            sender.send(departures)
    return clock, sender


def test_a_replayed_fabric_is_the_captured_one(
    capture: Callable[..., Capture], receiver: UdpReceiver
) -> None:
    """Every column of every sample, all times moved by one constant."""
    path = capture("dp_ring", level="starved").pcap
    led_replay(path, receiver)
    read, told = ingest([path]), read_all(receiver)
    assert receiver.reception().kernel_drops == receiver.reception().backlog_drops == 0
    assert (told.flows.time_basis == TimeBasis.EXPORTER).all()
    assert len(told.flows) == len(read.flows) > 500
    for name in COLUMNS:
        before, after = getattr(read.flows, name), getattr(told.flows, name)
        if name in ("time_ns", "time_min_ns"):
            assert np.unique(after - before).tolist() == [
                told.flows.time_ns[0] - read.flows.time_ns[0]
            ]
        else:
            assert np.array_equal(before, after), name
    for name in COUNTER_COLUMNS:
        if name != "time_ns":
            before, after = getattr(read.counters, name), getattr(told.counters, name)
            assert np.array_equal(before, after), name
    assert told.exporters == read.exporters
    assert (told.datagrams, told.lost_datagrams) == (read.datagrams, read.lost_datagrams)


def test_spacing_is_kept_and_speed_scales_it(tmp_path: Path, receiver: UdpReceiver) -> None:
    # Nobody waits, so stamps are ahead of the arrival; by more than 20 ms they would be corrected.
    path = small(tmp_path, [0, 0, 4, 5, 5, 15])
    clock, sender = led_replay(path, receiver)
    assert clock.waits == [4 * MS, 1 * MS, 10 * MS]
    clock, _ = led_replay(path, receiver, speed=4)
    assert clock.waits == [1 * MS, 250_000, 2_500_000]
    assert sender.sent == 6
    told = read_all(receiver).flows
    assert (np.diff(told.time_ns[:6]) // MS).tolist() == [0, 4, 1, 0, 10]
    assert len(told) == 12


def test_nothing_leaves_before_it_is_due(tmp_path: Path, receiver: UdpReceiver) -> None:
    """How late it may be depends on the machine; early it must not be."""
    at_ms = [0, 30, 30, 90]
    path = small(tmp_path, at_ms)
    assert command.run([path], f"127.0.0.1:{receiver.port}", 1, keep_time=False) == 0
    receiver.stop()
    decoding, faults = Ingest(), Faults()
    early_ms = []
    for batch in receiver:
        flows, *_ = decoding.add(batch, faults)
        # Stamps lie 3 ms before the time at which their datagram is due.
        early_ms += ((flows.time_ns + 3 * MS - batch.arrival_ns) / MS).tolist()
    assert len(early_ms) == 4
    assert max(early_ms) < 1  # two clocks of one machine


def ringscope(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "api", "replay", *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S * 5,
    )


def test_help_names_the_options() -> None:
    said = ringscope("--help").stdout
    for option in ("CAPTURE...", "--to", "--speed", "--keep-time"):
        assert option in said


def test_the_command(tmp_path: Path, receiver: UdpReceiver) -> None:
    to = f"127.0.0.1:{receiver.port}"
    run = ringscope(small(tmp_path, [0, 5, 9]), "--to", to, "--speed", "2")
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == f"ringscope: {to}: datagrams sent: 3\n"
    told = read_all(receiver)
    assert np.diff(told.flows.time_ns).tolist() == [5 * MS / 2, 2 * MS]
    (exporter,) = told.exporters
    assert (exporter.agent, exporter.datagrams, exporter.lost_datagrams) == ("10.255.0.1", 3, 0)


def test_kept_time_is_sent_as_it_is(tmp_path: Path, receiver: UdpReceiver) -> None:
    path = small(tmp_path, [0])
    assert command.run([path], f"127.0.0.1:{receiver.port}", 1, keep_time=True) == 0
    receiver.stop()
    (batch,) = receiver
    stamp = e.timestamp(e.EPOCH_NS - 3 * MS)
    assert payloads(batch) == [e.datagram(e.flow_sample(stamp, HEADER, sequence=0), sequence=0)]


def test_another_speed_without_timestamps_is_refused(
    tmp_path: Path, receiver: UdpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small(tmp_path, [0, 1], stamps=False)
    to = f"127.0.0.1:{receiver.port}"
    assert command.run([path], to, 2, keep_time=False) == 2
    assert "2 of 2 flow samples carry no exporter timestamp" in capsys.readouterr().err
    assert command.run([path], to, 1, keep_time=False) == 0
    receiver.stop()
    assert sum(len(batch) for batch in receiver) == 2


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("nowhere", "'nowhere' is not HOST:PORT"),
        (":6343", "':6343' is not HOST:PORT"),
        ("127.0.0.1:0", "'127.0.0.1:0' is not HOST:PORT"),
        ("127.0.0.1:x", "'127.0.0.1:x' is not HOST:PORT"),
        ("127.0.0.1:65536", "'127.0.0.1:65536' is not HOST:PORT"),
        ("no such host:6343", "no such host:6343: "),
        (f"{'x' * 70}.example:6343", "no host has this name"),
    ],
)
def test_addresses_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str, says: str
) -> None:
    assert command.run([small(tmp_path, [0])], to, 1, keep_time=False) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_ipv6_in_brackets(tmp_path: Path) -> None:
    receiver = UdpReceiver("::1", 0)
    receiver.start()
    code = command.run([small(tmp_path, [0])], f"[::1]:{receiver.port}", 1, keep_time=False)
    receiver.stop()
    assert (code, sum(len(batch) for batch in receiver)) == (0, 1)


def unused_port() -> int:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("at_ms", [[0], [0, 0, 0], [0, 1, 2]])
def test_nobody_listens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], at_ms: list[int]
) -> None:
    to = f"127.0.0.1:{unused_port()}"
    assert command.run([small(tmp_path, at_ms)], to, 1, keep_time=False) == 2
    assert capsys.readouterr().err == f"ringscope: {to}: nobody listens there\n"


def one_byte_each(count: int, due_ns: int) -> Departures:
    return Departures(
        buffer=np.arange(count, dtype=np.uint8),
        offset=np.arange(count),
        length=np.ones(count, np.int64),
        due_ns=np.full(count, due_ns),
    )


def test_a_collector_that_restarts_finds_us_still_sending() -> None:
    """As a switch would: what nobody took is gone, the rest comes."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        first = UdpReceiver("127.0.0.1", 0)
        first.start()
        sending.connect(("127.0.0.1", first.port))
        sender = Sender(sending, Clock())
        sender.send(one_byte_each(4, due_ns=0))
        first.stop()
        sender.send(one_byte_each(3, due_ns=0))
        assert sender.unreachable > 0
        second = UdpReceiver("127.0.0.1", first.port)
        second.start()
        sender.send(one_byte_each(5, due_ns=0))
        second.stop()
    assert sender.sent == 12
    assert [sum(map(len, receiver)) for receiver in (first, second)] == [4, 5]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENETUNREACH, "no route to its network"),
        (errno.EPERM, "Operation not permitted"),
    ],
)
def test_a_network_that_never_worked(
    tmp_path: Path,
    receiver: UdpReceiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    says: str,
) -> None:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("collector.mmsg.MessageWriter.write", fail)
    to = f"127.0.0.1:{receiver.port}"
    assert command.run([small(tmp_path, [0])], to, 1, keep_time=False) == 2
    assert capsys.readouterr().err == f"ringscope: {to}: {says}\n"


def test_a_network_that_fails_for_a_while(
    tmp_path: Path,
    receiver: UdpReceiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The second and third datagram have no route; the fourth has one again."""
    write = MessageWriter.write
    calls: list[int] = []

    def falter(writer: MessageWriter, buffer: U8, offset: I64, length: I64) -> int:
        calls.append(len(offset))
        if len(calls) in (2, 3):
            raise OSError(errno.EHOSTUNREACH, "No route to host")
        return write(writer, buffer, offset[:1], length[:1])

    monkeypatch.setattr("collector.mmsg.MessageWriter.write", falter)
    to = f"127.0.0.1:{receiver.port}"
    assert command.run([small(tmp_path, [0, 0, 0, 0])], to, 1, keep_time=False) == 0
    assert capsys.readouterr().err == (
        f"ringscope: {to}: could not be reached 2 times: not everything arrived\n"
        f"ringscope: {to}: datagrams sent: 2\n"
    )
    assert calls == [1, 3, 2, 1]
    (exporter,) = read_all(receiver).exporters
    assert (exporter.datagrams, exporter.lost_datagrams) == (2, 2)


def test_what_could_not_be_read_is_said(
    tmp_path: Path, receiver: UdpReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = small(tmp_path, [0]), tmp_path / "text.pcap"
    bad.write_text("no capture")
    to = f"127.0.0.1:{receiver.port}"
    assert command.run([bad, good], to, 1, keep_time=False) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"ringscope: {bad}: offset ")
    assert said.endswith(f"ringscope: {to}: datagrams sent: 1\n")
    assert command.run([bad], to, 1, keep_time=False) == 2
    assert "text.pcap: offset " in capsys.readouterr().err


def test_interrupting_ends_it(tmp_path: Path, receiver: UdpReceiver) -> None:
    """The second datagram is due in a year."""
    path = small(tmp_path, [0, 365 * 86_400_000])
    with subprocess.Popen(
        [sys.executable, "-m", "api", "replay", str(path), "--to", f"127.0.0.1:{receiver.port}"],
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert receiver.take(PATIENCE_S * 5) is not None
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, said) == (2, "ringscope: interrupted\n")
