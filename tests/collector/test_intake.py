from __future__ import annotations

import socket
import time
from collections.abc import Generator
from contextlib import closing
from ipaddress import ip_network
from pathlib import Path

import pytest

from collector.allow import AllowList
from collector.intake import Intake, Taken
from collector.store import Store, read
from collector.udp import UdpReceiver
from tests.collector import encode as e

PATIENCE_S = 60.0
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))


@pytest.fixture
def receiver() -> Generator[UdpReceiver]:
    made = UdpReceiver("127.0.0.1", 0)
    made.start()
    yield made
    made.stop()


def send(receiver: UdpReceiver, *payloads: bytes) -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        for payload in payloads:
            sending.sendto(payload, ("127.0.0.1", receiver.port))


def datagram(number: int) -> bytes:
    sample = e.flow_sample(e.timestamp(time.time_ns()), HEADER, sequence=number)
    return e.datagram(sample, sequence=number)


def with_samples(intake: Intake) -> Taken:
    while True:
        taken = intake.take(PATIENCE_S)
        assert taken is not None
        if len(taken.flows):
            return taken


def test_what_comes_is_stored_handed_on_and_accounted_for(
    receiver: UdpReceiver, tmp_path: Path
) -> None:
    allow = AllowList([ip_network("127.0.0.0/8")])
    with Store(tmp_path) as store:
        intake = Intake(receiver, allow, store, hold_s=1e9)
        assert intake.port == receiver.port
        send(receiver, datagram(1), datagram(2), datagram(5))
        while receiver.reception().datagrams < 3:
            pass
        before_ns = time.time_ns()
        taken = with_samples(intake)
        assert taken.flows.dest_qp.tolist() == [0x11] * 3
        assert taken.now_ns < before_ns
        assert (taken.told.datagrams, taken.told.lost_datagrams) == (3, 2)
        standing = intake.standing()
        assert (standing.reception.datagrams, standing.refused) == (3, 0)
        assert standing.stored.held_rows == 3
        intake.close()
        assert intake.take(PATIENCE_S) is None
        assert intake.finished
        assert intake.standing().stored.stored_rows == 3
    assert read(tmp_path).lost_datagrams == 2


def test_notices_of_dropped_packets_are_stored(receiver: UdpReceiver, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        intake = Intake(receiver, AllowList(()), store, hold_s=1e9)
        sample = e.flow_sample(e.timestamp(time.time_ns()), HEADER, sequence=1)
        send(receiver, e.datagram(e.discard(HEADER, reason=258), sample, sequence=1))
        with_samples(intake)
        intake.close()
    told = read(tmp_path)
    assert told.discards.reason.tolist() == [258]
    assert told.discards.packets.dest_qp.tolist() == [0x11]
    assert told.exporters[0].discard_samples == 1


def test_silence_tells_the_time(receiver: UdpReceiver, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        intake = Intake(receiver, AllowList([]), store, hold_s=1e9)
        before_ns = time.time_ns()
        taken = intake.take(0.001)
        assert taken is not None
        assert len(taken.flows) == taken.told.datagrams == 0
        assert before_ns <= taken.now_ns <= time.time_ns()


def test_rows_are_not_held_for_longer_than_said(receiver: UdpReceiver, tmp_path: Path) -> None:
    now_s = [0.0]
    with Store(tmp_path, clock=lambda: now_s[0]) as store:
        intake = Intake(receiver, AllowList([]), store, 10.0, lambda: now_s[0])
        send(receiver, datagram(1))
        with_samples(intake)
        assert store.status.held_rows == 1
        now_s[0] = 10.0  # nothing more comes
        intake.take(0.001)
        assert store.status.stored_rows == 1
