from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, closing

import pytest

from collector.steering import steer
from collector.udp import bind
from tests.collector import encode as e
from tests.collector.ipfix import encode

SOCKETS = 4
SENDERS = [f"127.0.0.{n}" for n in range(1, 9)]
RECORDS = {
    "ipfix": encode.message(),
    "netflow9": encode.message_9(),
    "netflow5": encode.message_5(bytes(48)),
}


@pytest.fixture(params=["::", "127.0.0.1"])
def sockets(request: pytest.FixtureRequest) -> Generator[list[socket.socket]]:
    with ExitStack() as opening:
        made: list[socket.socket] = []
        for _ in range(SOCKETS):
            port = made[0].getsockname()[1] if made else 0
            made.append(bind(request.param, port, 1 << 20, reuse_port=True))
            opening.enter_context(closing(made[-1]))
            made[-1].setblocking(False)
        if not steer(made):
            pytest.skip("this system cannot steer")
        yield made


def got(sockets: list[socket.socket], payload: bytes, sends: int) -> list[Counter[str]]:
    """What each socket gets from whom, where each sender uses as many ports as it sends."""
    for sender in SENDERS:
        for _ in range(sends):
            with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
                sending.bind((sender, 0))
                sending.sendto(payload, ("127.0.0.1", sockets[0].getsockname()[1]))
    found: list[Counter[str]] = []
    for receiving in sockets:
        found.append(Counter())
        while True:
            try:
                _, address = receiving.recvfrom(1 << 16)
            except BlockingIOError:
                break
            found[-1][address[0].rpartition(":")[2]] += 1
    return found


@pytest.mark.parametrize("protocol", RECORDS)
def test_records_of_one_sender_stay_together(sockets: list[socket.socket], protocol: str) -> None:
    found = got(sockets, RECORDS[protocol], 6)
    assert sum(found, Counter()) == dict.fromkeys(SENDERS, 6)
    for sender in SENDERS:
        assert sorted(each[sender] for each in found) == [0] * (SOCKETS - 1) + [6]
    # And senders are spread.
    assert sum(bool(each) for each in found) > 1


def test_samples_go_by_address_and_port(sockets: list[socket.socket]) -> None:
    found = got(sockets, e.datagram(), 12)
    assert sum(found, Counter()) == dict.fromkeys(SENDERS, 12)
    assert all(found)
    assert any(0 < each[SENDERS[0]] < 12 for each in found)
