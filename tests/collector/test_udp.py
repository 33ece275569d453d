from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.addresses import to_text
from collector.errors import ListenError
from collector.ingest import Ingest
from collector.link import DatagramBatch
from collector.mmsg import MOST_DATAGRAMS
from collector.packets import Faults
from collector.udp import UdpReceiver, bind
from tests.collector import encode as e
from tests.collector.test_mmsg import payloads

PATIENCE_S = 60.0  # a busy machine is slow; only a fault takes this long

Make = Callable[..., UdpReceiver]


@pytest.fixture
def make() -> Generator[Make]:
    """Makes receivers on a port of the system's choice, and stops them."""
    made: list[UdpReceiver] = []

    def start(host: str = "127.0.0.1", port: int = 0, **options: object) -> UdpReceiver:
        receiver = UdpReceiver(host, port, **options)  # type: ignore[arg-type]
        made.append(receiver)
        receiver.start()
        return receiver

    yield start
    for receiver in made:
        receiver.stop()
    assert not [t.name for t in threading.enumerate() if t.name.startswith("udp-")]


def send(receiver: UdpReceiver, data: Iterable[bytes], host: str = "127.0.0.1") -> int:
    """Send to a receiver from one socket; returns its port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_DGRAM)) as sending:
        sending.connect((host, receiver.port))
        for payload in data:
            sending.send(payload)
        return int(sending.getsockname()[1])


def next_batch(receiver: UdpReceiver) -> DatagramBatch:
    batch = receiver.take(PATIENCE_S)
    assert batch is not None
    return batch


@pytest.mark.parametrize(
    ("listen", "host", "source"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("::1", "::1", "::1"),
        ("::", "127.0.0.1", "127.0.0.1"),
        ("::", "::1", "::1"),
        ("0.0.0.0", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_datagrams_sent_one_by_one(make: Make, listen: str, host: str, source: str) -> None:
    receiver = make(listen)
    stamps: list[int] = []
    for number in range(20):
        sent = b"%d" % number
        port = send(receiver, [sent], host)
        batch = next_batch(receiver)
        assert payloads(batch) == [sent]
        assert to_text(batch.src_hi[0], batch.src_lo[0]) == source
        assert batch.src_port.tolist() == [port]
        assert batch.dst_port.tolist() == [receiver.port]
        stamps += batch.arrival_ns.tolist()
    assert stamps == sorted(stamps)
    assert stamps[0] > 0
    got = receiver.reception()
    assert (got.datagrams, got.payload_bytes) == (20, 10 + 2 * 10)
    assert (got.kernel_drops, got.backlog_drops) == (0, 0)


def test_nothing_happens_before_the_start() -> None:
    before = threading.active_count()
    receiver = UdpReceiver("127.0.0.1", 0)
    assert threading.active_count() == before
    assert receiver.reception().receive_buffer_bytes == 0
    receiver.stop()
    assert receiver.finished
    assert receiver.take() is None


def test_stopping_takes_what_the_kernel_holds_and_ends_the_iteration(make: Make) -> None:
    receiver = make()
    sent = [b"%d" % number for number in range(MOST_DATAGRAMS + 44)]
    send(receiver, sent)
    receiver.stop()
    receiver.stop()
    assert [payload for batch in receiver for payload in payloads(batch)] == sent
    assert receiver.finished
    with pytest.raises(RuntimeError, match="starts once"):
        receiver.start()


def test_stopping_wakes_who_waits(make: Make) -> None:
    receiver = make()
    ended = threading.Event()

    def drain() -> None:
        for _ in receiver:
            pass
        ended.set()

    draining = threading.Thread(target=drain)
    draining.start()
    receiver.stop()
    assert ended.wait(PATIENCE_S)
    draining.join()


def test_nothing_in_time(make: Make) -> None:
    receiver = make()
    assert receiver.take(timeout_s=0.001) is None
    assert not receiver.finished


def test_the_size_of_the_buffer_is_what_the_kernel_granted(make: Make) -> None:
    assert make(receive_buffer_bytes=100_000).reception().receive_buffer_bytes == 100_000
    # Less than the kernel's least: it grants that.
    assert 1 < make(receive_buffer_bytes=1).reception().receive_buffer_bytes < 100_000


def test_what_overload_costs_is_counted(make: Make) -> None:
    receiver = make(receive_buffer_bytes=20_000, backlog_bytes=50_000)
    sent = 0
    while not receiver.reception().kernel_drops or not receiver.reception().backlog_drops:
        sent += 2_000
        send(receiver, (b"%1000d" % number for number in range(2_000)))
    # What the kernel dropped last shows only with a later datagram that it had room for.
    while sum(seen(receiver)) < sent:
        sent += 1
        send(receiver, [b"room again?"])
    receiver.stop()
    delivered = sum(len(batch) for batch in receiver)
    datagrams, kernel_drops = seen(receiver)
    assert sent == datagrams + kernel_drops
    assert datagrams == delivered + receiver.reception().backlog_drops
    assert receiver.reception().backlog_drops > 0
    assert delivered > 0


def seen(receiver: UdpReceiver) -> tuple[int, int]:
    got = receiver.reception()
    return got.datagrams, got.kernel_drops


def test_random_bytes_do_not_stop_it(make: Make) -> None:
    receiver, ingest, faults = make(), Ingest(), Faults()
    draw = random.Random(5)
    good = e.datagram(e.flow_sample(e.raw_header(e.roce(e.bth(4, 1, 2)))))
    rows = 0
    noise = [draw.randbytes(draw.randrange(1500)) for _ in range(300)]
    noise += [good[: draw.randrange(len(good))] for _ in range(100)]
    for at in range(0, len(noise), 50):
        send(receiver, noise[at : at + 50])
        while receiver.reception().datagrams < at + 50:  # or a small buffer would overflow
            pass
    send(receiver, [good])
    while rows == 0:
        flows, *_ = ingest.add(next_batch(receiver), faults)
        rows += len(flows)
    telemetry = ingest.telemetry(faults.errors())
    assert telemetry.datagrams == 401
    assert telemetry.flow_samples == rows == 1
    assert telemetry.decode_errors == 400
    assert {error.file for error in telemetry.errors} == {None}


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=2_000), min_size=1, max_size=20))
def test_any_bytes_arrive_as_they_were_sent(data: list[bytes]) -> None:
    receiver = UdpReceiver("127.0.0.1", 0)
    receiver.start()
    try:
        send(receiver, data)
    finally:
        receiver.stop()
    assert [payload for batch in receiver for payload in payloads(batch)] == data


def test_ingest_reads_a_batch_from_the_wire_as_one_from_a_file(make: Make) -> None:
    """Offsets of faults count from the start of each datagram; times are the kernel's."""
    receiver, ingest, faults = make(), Ingest(), Faults()
    sample = e.flow_sample(e.raw_header(e.roce(e.bth(4, 1, 2))))
    send(receiver, [e.datagram(sample, sample, sequence=1), e.datagram(sample, sequence=3)[:40]])
    receiver.stop()
    batches = list(receiver)
    arrivals = np.concatenate([batch.arrival_ns for batch in batches])
    times: list[int] = []
    for batch in batches:
        flows, counters, *_ = ingest.add(batch, faults)
        times += flows.time_ns.tolist()
        assert len(counters) == 0
    assert times == [arrivals[0]] * 2
    telemetry = ingest.telemetry(faults.errors())
    assert (telemetry.datagrams, telemetry.flow_samples, telemetry.lost_datagrams) == (2, 2, 1)
    (error,) = telemetry.errors
    assert (error.exporter, error.file, error.offset) == ("10.255.0.1", None, 28)
    assert len(telemetry.flows) == 0


def test_a_port_that_is_taken_is_named(make: Make) -> None:
    port = make("127.0.0.1").port
    with pytest.raises(ListenError, match=rf"^udp 127.0.0.1:{port}: Address already in use$"):
        make("127.0.0.1", port)


def test_a_port_can_be_shared_by_all_that_ask_for_it(make: Make) -> None:
    first = make(bound=bind("127.0.0.1", 0, 1 << 20, reuse_port=True))
    second = make(bound=bind("127.0.0.1", first.port, 1 << 20, reuse_port=True))
    for _ in range(64):  # each from another port, so from another flow
        send(first, [b"x"])
    while sum(seen(first)) + sum(seen(second)) < 64:
        pass
    assert first.reception().datagrams > 0
    assert second.reception().datagrams > 0


@pytest.mark.parametrize(
    ("host", "port", "says"),
    [
        ("192.0.2.1", 0, r"udp 192\.0\.2\.1:0: Cannot assign requested address"),
        ("2001:db8::1", 5, r"udp \[2001:db8::1\]:5: "),
        ("localhost", 0, "udp localhost:0: not a numeric address"),
        ("127.0.0.1", 70_000, "udp 127.0.0.1:70000: .*port must be 0-65535"),
    ],
)
def test_addresses_that_cannot_be_had(host: str, port: int, says: str) -> None:
    with pytest.raises(ListenError, match=says):
        UdpReceiver(host, port).start()


def test_a_system_without_ipv6_listens_on_ipv4(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.binding._has_ipv6", lambda: False)
    receiver = make("::")
    send(receiver, [b"four"])
    batch = next_batch(receiver)
    assert to_text(batch.src_hi[0], batch.src_lo[0]) == "127.0.0.1"


def test_a_failure_is_told_after_what_came_before(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = make()
    send(receiver, [b"before"])
    while not receiver.reception().datagrams:
        pass

    def fail(_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("collector.mmsg.MessageReader.read", fail)
    send(receiver, [b"after"])
    assert payloads(next_batch(receiver)) == [b"before"]
    with pytest.raises(ListenError, match="Cannot allocate memory"):
        receiver.take(PATIENCE_S)
    assert receiver.finished
