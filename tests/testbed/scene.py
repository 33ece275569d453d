"""One case on a fresh switch, and the folder that is left of it.

The folder has the form of any labelled capture: `capture.pcap` with the switch's datagrams,
`inventory.toml`, `truth.json`, and `matrix.json` with the switch's own count of frame bytes by
"source>destination".
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket

from tests.testbed import clocks, gloo, hosts, mpi, rooms, truth
from tests.testbed.cases import Case, Program
from tests.testbed.hosts import Host
from tests.testbed.shell import CommandFailed, running
from tests.testbed.switch import Switch, await_file, switch

COLLECTOR = "127.0.0.1:6343"
MEETING_PORT = 29500
LAST_FLUSH_S = 1.5  # the switch holds samples for up to a second
SETTLE_S = 0.5
PROGRAM_S = 240.0
BULK_S = 12


def play(case: Case, seed: int, folder: Path) -> None:
    """Run a case in this room, with ranks placed by `seed`."""
    all_hosts = [Host(i) for i in range(case.hosts)]
    names = {host.name: host.address for host in all_hosts}
    rooms.furnish(folder / "hosts", names)
    placed = placements(case, seed)
    with built(folder, all_hosts, case.mtu) as made, captured(folder):
        made.sample(case.sampling, [COLLECTOR])
        began = time.time_ns()
        run_programs(case, placed, folder)
        time.sleep(LAST_FLUSH_S)
        ended = time.time_ns()
        matrix = made.matrix()
        (folder / "inventory.toml").write_text(truth.inventory(all_hosts, made.interface_numbers()))
    jobs = [
        truth.job(name, program, on, clocks.read(folder / name, program.ranks))
        for name, program, on in named(case, placed)
        if program.drawn
    ]
    document = truth.window(began, ended, jobs)
    (folder / "truth.json").write_text(json.dumps(document, indent=1))
    (folder / "matrix.json").write_text(json.dumps(matrix, indent=1))


def placements(case: Case, seed: int) -> list[tuple[Host, ...]]:
    """The hosts of each program: different ones, in the order of its ranks."""
    wanted = sum(program.ranks for program in case.programs)
    left = list(hosts.place(wanted, case.hosts, seed))
    out = []
    for program in case.programs:
        out.append(tuple(left[: program.ranks]))
        del left[: program.ranks]
    return out


def named(
    case: Case, placed: Sequence[tuple[Host, ...]]
) -> list[tuple[str, Program, tuple[Host, ...]]]:
    """The programs of a case with a name each, and where they run."""
    pairs = enumerate(zip(case.programs, placed, strict=True))
    return [(f"{case.name}-{i}", program, on) for i, (program, on) in pairs]


@contextmanager
def built(folder: Path, all_hosts: Sequence[Host], mtu: int) -> Iterator[Switch]:
    """The hosts and the switch between them."""
    for host in all_hosts:
        hosts.build(host, mtu)
    with ExitStack() as stack:
        with rooms.deep_receive_buffers():
            made = stack.enter_context(switch(folder / "switch", all_hosts, mtu))
            time.sleep(SETTLE_S)
        yield made


@contextmanager
def captured(folder: Path) -> Iterator[Path]:
    """While it lasts, what arrives for the collector is written to `capture.pcap`."""
    pcap = folder / "capture.pcap"
    address, _, port = COLLECTOR.partition(":")
    words = ["tcpdump", "-i", "lo", "-n", "-B", "65536", "-Z", "root", "-w", str(pcap)]
    dump = [*words, "-U", "--nano", "udp", "dst", "port", port]
    # Where nobody listens, each datagram brings the switch an error instead of the next one.
    with socket(AF_INET, SOCK_DGRAM) as listening, running(dump, folder / "tcpdump.log"):
        listening.bind((address, int(port)))
        await_file(pcap)
        yield pcap


def run_programs(case: Case, placed: Sequence[tuple[Host, ...]], folder: Path) -> None:
    """All programs of a case at once, to their end."""
    with ExitStack() as stack:
        waiting = []
        for name, program, on in named(case, placed):
            (folder / name).mkdir()
            for i, words in enumerate(commands(program, on, folder / name)):
                log = folder / name / f"log-{i}"
                waiting.append((stack.enter_context(running(words, log)), log))
        if case.bulk:
            bulk(stack, folder)
        for process, log in waiting:
            ended_well(process, log)


def ended_well(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a program.

    Raises
    ------
    tests.testbed.shell.CommandFailed
        With the end of what it said.
    """
    if process.wait(PROGRAM_S):
        said = log.read_text(errors="replace")[-2000:]
        raise CommandFailed(f"{log}: {process.returncode}\n{said}")


def commands(program: Program, placed: Sequence[Host], folder: Path) -> list[list[str]]:
    """What has to be started for a program."""
    turns, pause = str(program.turns), str(program.compute_ms)
    if program.over == "mpi":
        loop = str(mpi.build(folder))
        words = [loop, program.words, str(program.floats), turns, pause, str(folder)]
        return [mpi.command(placed, program.forced, words, folder)]
    words = [program.words, turns, pause, str(folder)]
    return [gloo.command(placed, rank, MEETING_PORT, words) for rank in range(program.ranks)]


def bulk(stack: ExitStack, folder: Path) -> None:
    """A plain bulk transfer from one host to another."""
    serving, asking = Host(0), Host(1)
    server = serving.command(["iperf3", "-s", "-1"])
    stack.enter_context(running(server, folder / "iperf-server.log"))
    time.sleep(SETTLE_S)
    client = ["iperf3", "-c", serving.address, "-t", str(BULK_S), "-P", "2", "-b", "300M"]
    log = folder / "iperf-client.log"
    ended_well(stack.enter_context(running(asking.command(client), log)), log)
