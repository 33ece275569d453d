from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import numpy as np
import pytest

from collector.accounts import NOTHING
from collector.errors import ListenError
from collector.intake import Standing, Taken
from collector.schema import FlowBatch
from collector.store import StoreSettings, StoreStatus, read
from collector.udp import Reception, bind
from collector.worker import Told, _Handing, work
from collector.workers import Workers
from tests.collector import encode as e

PATIENCE_S = 600.0  # two processes may first have to compile, on a busy machine
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
UNSEEN = Standing(Reception(0, 0, 0, 0, 0), 0, StoreStatus(0, 0, 0, None))
LOOPBACK = (ip_network("127.0.0.0/8"),)


def datagram(agent: str, number: int) -> bytes:
    sample = e.flow_sample(e.timestamp(time.time_ns()), HEADER, sequence=number)
    return e.datagram(sample, agent=agent, sequence=number)


class Switches:
    """Exporters that each send from a port of their own."""

    def __init__(self, count: int, port: int) -> None:
        self.agents = [f"10.255.0.{n + 1}" for n in range(count)]
        self._to = ("127.0.0.1", port)
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in self.agents]
        self._sequence = 0

    def send(self, rounds: int = 1) -> None:
        """A datagram of each, numbered on."""
        for _ in range(rounds):
            self._sequence += 1
            for agent, own in zip(self.agents, self._sockets, strict=True):
                own.sendto(datagram(agent, self._sequence), self._to)

    def close(self) -> None:
        for own in self._sockets:
            own.close()


@pytest.fixture
def workers(tmp_path: Path) -> Generator[Workers]:
    made = Workers(2, "127.0.0.1", 0, LOOPBACK, tmp_path, StoreSettings(hold_s=PATIENCE_S))
    yield made
    made.close()
    assert not mp.active_children()


def take_until(workers: Workers, enough: Callable[[list[Taken]], bool]) -> list[Taken]:
    end_s = time.monotonic() + PATIENCE_S
    taken: list[Taken] = []
    while not enough(taken):
        assert time.monotonic() < end_s, "waited in vain"
        if (one := workers.take(0.5)) is not None:
            taken.append(one)
    return taken


def samples(taken: Sequence[Taken]) -> int:
    return sum(len(one.flows) for one in taken)


def pids(workers: Workers) -> list[int]:
    found = [worker.process.pid for worker in workers._workers]
    return [pid for pid in found if pid is not None]


def test_each_exporter_comes_whole_and_sums_are_of_all(workers: Workers, tmp_path: Path) -> None:
    with closing(Switches(16, workers.port)) as switches:
        switches.send(rounds=3)
        taken = take_until(workers, lambda taken: samples(taken) == 48)
        by_agent = dict.fromkeys(switches.agents, 0)
        for one in taken:
            for number in one.flows.exporter.tolist():
                by_agent[one.told.exporters[number].agent] += 1
        assert by_agent == dict.fromkeys(switches.agents, 3)
        # Both of them: 16 ports fall to one with a chance of 2 in 65536.
        assert all(len(worker.told.exporters) > 0 for worker in workers._workers)
        switches._sequence += 2  # lost on the way, of each
        switches.send()
        take_until(workers, lambda taken: samples(taken) == 16)
    workers.stop()
    told = take_until(workers, lambda _: workers.finished)
    workers.close()
    standing = workers.standing()
    assert (standing.reception.datagrams, standing.refused) == (64, 0)
    assert (standing.stored.stored_rows, standing.stored.held_rows) == (64, 0)
    assert (standing.deaths, standing.unhanded_samples) == (0, 0)
    assert told[-1].told.lost_datagrams == 32
    assert {e.lost_datagrams for e in told[-1].told.exporters} == {2}
    stored = read(tmp_path)
    assert (len(stored.flows), stored.lost_datagrams) == (64, 32)


def test_what_waits_when_asked_to_stop_is_taken_and_stored(
    workers: Workers, tmp_path: Path
) -> None:
    with closing(Switches(8, workers.port)) as switches:
        switches.send(rounds=20)
    workers.stop()  # while they still begin
    taken = take_until(workers, lambda _: workers.finished)
    assert samples(taken) == 160
    assert taken[-1].told.datagrams == 160
    assert len(read(tmp_path).flows) == 160


def test_one_that_dies_is_followed_by_another_and_nothing_sent_is_lost(
    workers: Workers, tmp_path: Path
) -> None:
    with closing(Switches(16, workers.port)) as switches:
        switches.send()
        take_until(workers, lambda taken: samples(taken) == 16)
        dead = pids(workers)[0]
        held = workers._workers[0].standing.stored.held_rows
        os.kill(dead, signal.SIGKILL)
        workers._workers[0].process.join()
        switches.send()  # half of it to a socket that nobody reads
        taken = take_until(workers, lambda taken: samples(taken) == 16)
        taken += take_until(workers, lambda taken: bool(taken) and taken[-1].told.datagrams == 32)
        assert dead not in pids(workers)
        told = taken[-1].told
        assert workers.standing().deaths == 1
        assert told.datagrams == 32
        assert {e.datagrams for e in told.exporters} == {2}
        assert told.lost_datagrams == 0
    workers.close()
    stored = workers.standing().stored
    # What the dead one held in memory is gone, and said to be.
    assert (stored.stored_rows, stored.lost_rows) == (32 - held, held)
    assert len(read(tmp_path).flows) == 32 - held


def test_the_slowest_sets_the_clock(workers: Workers) -> None:
    take_until(workers, lambda _: all(worker.now_ns for worker in workers._workers))
    slow, fast = workers._workers
    slow.now_ns, fast.now_ns = 5, 9
    assert workers._now_ns() == 5
    slow.heard_s -= 100.0
    assert workers._now_ns() == 9


def test_a_port_that_is_taken_is_named_and_no_folder_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with closing(bind("127.0.0.1", 0, 1 << 16)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: Address already in use"):
            Workers(2, "127.0.0.1", port, (), folder, StoreSettings())
    assert not folder.exists()


def test_a_worker_without_a_parent_stores_what_it_has_and_ends(tmp_path: Path) -> None:
    spawn = mp.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with closing(bind("127.0.0.1", 0, 1 << 20)) as bound:
        process = spawn.Process(
            target=work, args=(theirs, bound, None, (), tmp_path, StoreSettings())
        )
        process.start()
        theirs.close()
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
            sending.sendto(datagram("10.255.0.1", 1), bound.getsockname())
        while not (told := pickle.loads(ours.recv_bytes()).taken) or not len(told.flows):
            pass
        os.kill(process.pid or 0, signal.SIGTERM)  # is for the parent
        ours.close()
        process.join(PATIENCE_S)
    assert process.exitcode == 0
    assert len(read(tmp_path).flows) == 1


def test_a_parent_that_does_not_listen_loses_the_oldest_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("collector.worker.MOST_WAITING_ROWS", 3_000)
    ours, theirs = mp.Pipe()
    handing = _Handing(theirs)
    for number in range(1, 9):
        flows = replace(FlowBatch.empty(1_000), seq=np.full(1_000, number, np.uint32))
        handing.put(Taken(flows, NOTHING.records, NOTHING, number), UNSEEN)
    closing_it = threading.Thread(target=handing.close)
    closing_it.start()
    heard: list[Told] = []
    while not heard or heard[-1].taken is None or heard[-1].taken.now_ns < 8:
        heard.append(pickle.loads(ours.recv_bytes()))
    closing_it.join(PATIENCE_S)
    numbers = [told.taken.now_ns for told in heard if told.taken is not None]
    assert numbers == sorted(numbers)
    assert numbers[-3:] == [6, 7, 8]
    assert heard[-1].standing.unhanded_samples == 1_000 * (8 - len(numbers))
    assert len(numbers) < 8
