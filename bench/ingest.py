"""How the receiving side keeps up with the wire: live UDP into the store.

    python bench/ingest.py [--seconds 60] [--only full|share|held]

A sender on one core, the receiving side (socket, decoder, store on a scratch disk) on another:

- full: 80,000 datagrams (480,000 samples) a second. Nothing may be lost, memory stays flat.
- share: 50,000 samples a second. At most 15 % of the core, by processor time.
- held: the receiving side has a small socket buffer and is stopped half of the time. The loss that
  it reports is the true one, by sequence numbers and by the kernel's count.

Exits with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing as mp
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

import numpy as np

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, its own folder would come first

from bench.ring import SAMPLES, Sender, make_ring, renew  # noqa: E402
from collector.allow import AllowList  # noqa: E402
from collector.intake import Intake  # noqa: E402
from collector.malloc import keep_freed  # noqa: E402
from collector.store import Store, StoreSettings  # noqa: E402
from collector.udp import RECEIVE_BUFFER_BYTES, UdpReceiver  # noqa: E402
from collector.warm import warm  # noqa: E402

FULL_PER_S: Final = 80_000  # datagrams
SHARE_PER_S: Final = 50_000 // SAMPLES
MOST_SHARE: Final = 0.15
GROWTH: Final = 1.15  # largest resident memory of the second half over that of the first
LOSS_ERROR: Final = 0.001
SMALL_BUFFER_BYTES: Final = 1 << 20
HELD_S: Final = 0.05  # of every 0.1 s

_WARM_S: Final = 3.0  # until memory and compiled code are what they will be
_LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Received:
    """What the receiving side says at the end.

    Attributes
    ----------
    datagrams, samples
        Decoded.
    kernel_drops, backlog_drops, sequence_lost
        What it reports to have lost: before the socket, before the decoder, and, by the
        exporters' numbers, anywhere.
    rows_stored, rows_lost
    cpu_s
        Processor time from the first datagram to the last.
    """

    datagrams: int
    samples: int
    kernel_drops: int
    backlog_drops: int
    sequence_lost: int
    rows_stored: int
    rows_lost: int
    cpu_s: float


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def receive(parent: Connection, folder: Path, core: int, buffer_bytes: int) -> None:
    """The receiving side, a process of its own; anything from `parent` tells it to stop."""
    os.sched_setaffinity(0, {core})
    keep_freed()  # as the service does
    warm()
    receiver = UdpReceiver("127.0.0.1", 0, receive_buffer_bytes=buffer_bytes)
    receiver.start()
    # A list of networks costs as much as it does in a service that has one.
    networks = [ip_network("127.0.0.0/8"), ip_network("10.0.0.0/8"), ip_network("fd00::/8")]
    with Store(folder, StoreSettings()) as store:
        intake = Intake(receiver, AllowList(networks), store, StoreSettings().hold_s)
        parent.send((receiver.port, receiver.reception().receive_buffer_bytes))
        told = None
        began_cpu_s = _cpu_s()
        while not parent.poll():
            if (taken := intake.take(0.2)) is not None:
                told = taken.told
        intake.stop()
        while (taken := intake.take(0.2)) or not intake.finished:
            told = taken.told if taken else told
        intake.close()
        cpu_s = _cpu_s() - began_cpu_s
        standing = intake.standing()
    assert told is not None
    parent.send(
        Received(
            datagrams=told.datagrams,
            samples=told.flow_samples,
            kernel_drops=standing.reception.kernel_drops,
            backlog_drops=standing.reception.backlog_drops,
            sequence_lost=told.lost_datagrams,
            rows_stored=standing.stored.stored_rows,
            rows_lost=standing.stored.lost_rows,
            cpu_s=cpu_s,
        )
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run.

    Attributes
    ----------
    sent
        Datagrams that left.
    seconds
        How long sending took.
    behind_s
        How far the sender was behind its schedule at the worst.
    rss_bytes
        Resident memory of the receiving side, look by look, from `_WARM_S` on.
    received
    """

    sent: int
    seconds: float
    behind_s: float
    rss_bytes: list[int]
    received: Received


@contextlib.contextmanager
def _receiving(
    cores: Sequence[int], buffer_bytes: int
) -> Iterator[tuple[BaseProcess, Connection, int]]:
    """A receiving process, the pipe to it, and its port."""
    spawn = mp.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with tempfile.TemporaryDirectory() as scratch:
        process = spawn.Process(
            target=receive, args=(theirs, Path(scratch), cores[0], buffer_bytes)
        )
        process.start()
        theirs.close()
        try:
            port, _granted = ours.recv()
            yield process, ours, port
        finally:
            process.kill()
            process.join()


def run(
    per_s: float, seconds: float, buffer_bytes: int, cores: Sequence[int], *, held: bool, seed: int
) -> Outcome:
    """Receive on the first core what is sent from the last."""
    ring = make_ring(seed)
    renew(ring, 0, 0, 0)  # compiles
    with _receiving(cores, buffer_bytes) as (process, pipe, port):
        pid = process.pid
        assert pid is not None
        sender = Sender(ring, port)
        rss: list[int] = []
        stopped = False
        next_s = _WARM_S

        def each(passed_s: float) -> None:
            nonlocal next_s, stopped
            if passed_s >= next_s:
                next_s += _LOOK_S
                rss.append(_rss_bytes(pid))
            if held and ((passed_s % (2 * HELD_S)) < HELD_S) != stopped:
                stopped = not stopped
                os.kill(pid, signal.SIGSTOP if stopped else signal.SIGCONT)

        began_s = time.perf_counter()
        sender.send(per_s, seconds, each)
        took_s = time.perf_counter() - began_s
        os.kill(pid, signal.SIGCONT)
        sender.finish()
        sender.close()
        pipe.send("stop")
        received = pipe.recv()
    return Outcome(sender.sent, took_s, sender.behind_s, rss, received)


def _rss_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


Line = tuple[str, str, bool]


def _lossless(outcome: Outcome) -> list[Line]:
    got = outcome.received
    lost = outcome.sent - got.datagrams
    unstored = outcome.sent * SAMPLES - got.rows_stored
    return [
        ("datagrams sent, lost", f"{outcome.sent:,}, {lost:,}", lost == 0),
        ("samples not stored", f"{unstored:,}", unstored == 0),
        ("loss reported", f"{got.sequence_lost:,}", got.sequence_lost == lost),
    ]


def _memory(outcome: Outcome) -> list[Line]:
    rss_mb = np.array(outcome.rss_bytes, np.float64) / 1e6
    if len(rss_mb) < 8:
        return []
    first, second = (float(half.max()) for half in np.array_split(rss_mb, 2))
    return [
        (
            "memory, first half, second half",
            f"{first:.0f} MB, {second:.0f} MB",
            second <= GROWTH * first,
        )
    ]


def full(seconds: float, cores: Sequence[int], seed: int) -> list[Line]:
    """The whole rate, and nothing lost."""
    outcome = run(FULL_PER_S, seconds, RECEIVE_BUFFER_BYTES, cores, held=False, seed=seed)
    got = outcome.received
    per_s = outcome.sent / outcome.seconds
    return [
        ("datagrams a second", f"{per_s:,.0f}", per_s >= 0.99 * FULL_PER_S),
        ("sender behind by at most", f"{outcome.behind_s * 1e3:.0f} ms", True),
        *_lossless(outcome),
        ("processor time a sample", f"{got.cpu_s / got.samples * 1e6:.2f} µs", True),
        ("of one core", f"{got.cpu_s / outcome.seconds:.0%}", True),
        *_memory(outcome),
    ]


def share(seconds: float, cores: Sequence[int], seed: int) -> list[Line]:
    """What the usual rate takes."""
    outcome = run(SHARE_PER_S, seconds, RECEIVE_BUFFER_BYTES, cores, held=False, seed=seed)
    of_core = outcome.received.cpu_s / outcome.seconds
    return [
        ("samples a second", f"{outcome.sent * SAMPLES / outcome.seconds:,.0f}", True),
        *_lossless(outcome),
        ("of one core", f"{of_core:.1%} (at most {MOST_SHARE:.0%})", of_core <= MOST_SHARE),
        *_memory(outcome),
    ]


def held(seconds: float, cores: Sequence[int], seed: int) -> list[Line]:
    """What is said of loss where there is much of it."""
    outcome = run(FULL_PER_S, seconds, SMALL_BUFFER_BYTES, cores, held=True, seed=seed)
    got = outcome.received
    lost = outcome.sent - got.datagrams
    lines: list[Line] = [
        ("datagrams sent, lost", f"{outcome.sent:,}, {lost / outcome.sent:.1%}", lost > 0)
    ]
    for name, said in (
        ("by sequence numbers", got.sequence_lost),
        ("by the kernel and our queue", got.kernel_drops + got.backlog_drops),
    ):
        off = abs(said - lost) / max(lost, 1)
        lines.append((f"loss reported {name}", f"{said:,}, off by {off:.3%}", off <= LOSS_ERROR))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each part")
    parser.add_argument("--only", choices=("full", "share", "held"))
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(argv)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        print("bench/ingest.py: needs two cores: one to send, one to receive", file=sys.stderr)
        return 2
    os.sched_setaffinity(0, {cores[-1]})
    good = True
    for part in (full, share, held):
        if chosen.only in (None, part.__name__):
            print(f"{part.__name__}, {chosen.seconds:g} s")
            for what, value, fine in part(chosen.seconds, cores, chosen.seed):
                good &= fine
                print(f"  {what:36} {value}{'' if fine else '   MISSED'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
