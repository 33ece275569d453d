"""One case on a fresh switch, and the folder that is left of it.

The folder has the form of any labelled capture: `capture.pcap` with the switch's datagrams,
`inventory.toml`, `truth.json`, and `matrix.json` with the switch's own count of frame bytes by
"source>destination". `untold.json` names the groups whose kind the wire does not tell.
`events.json` says what was done to the program meanwhile, and `live.json` all that a service
concluded which listened to the same switch. Where flow records were told in place of samples,
`recorder.json` says by what.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket

from tests.testbed import clocks, gloo, hosts, live, mpi, roce, rooms, truth
from tests.testbed.cases import Case, Program
from tests.testbed.clocks import Clocks
from tests.testbed.disturbances import Play
from tests.testbed.flushing import FRAMES_PCAP, watched
from tests.testbed.hosts import Host
from tests.testbed.probes import probes
from tests.testbed.recorders import RECORDER, recorded
from tests.testbed.shell import CommandFailed, running
from tests.testbed.switch import Switch, await_file, switch

COLLECTOR = "127.0.0.1:6343"
MEETING_PORT = 29500
LAST_FLUSH_S = 1.5  # the switch holds samples for up to a second
LAST_RECORDS_S = 6.0  # meters look for flows that are over every few seconds
SETTLE_S = 0.5
CONCLUDING_S = 6.0  # the service waits for late samples, then looks twice a second
PROGRAM_S = 240.0
LEAD_NS = 2_000_000_000  # until all senders of made frames are ready
BULK_S = 12


def play(case: Case, seed: int, folder: Path) -> None:
    """Run a case in this room, with ranks placed by `seed`."""
    all_hosts = [Host(i) for i in range(case.hosts)]
    rooms.furnish(folder / "hosts", {host.name: host.address for host in all_hosts})
    jobs = named(case, placements(case, seed), folder)
    targets = [COLLECTOR, live.COLLECTOR] if case.live else [COLLECTOR]
    with built(folder, all_hosts, case.mtu) as switch, ExitStack() as stack:
        inventory = folder / "inventory.toml"
        inventory.write_text(truth.inventory(all_hosts, switch.interface_numbers()))
        if case.live:
            stack.enter_context(live.served(folder, inventory))
        stack.enter_context(captured(folder))
        if case.recorder is None:
            switch.sample(case.sampling, targets)
        else:
            _keep(folder / RECORDER, {"recorder": case.recorder})
            told = (case.recorder, switch, case.sampling, COLLECTOR, folder / "meters")
            stack.enter_context(recorded(*told))
        if case.watched:
            stack.enter_context(watched(all_hosts, folder))
        if case.probed:
            where = folder / "probes"
            where.mkdir()
            stack.enter_context(probes(all_hosts, case.sampling, COLLECTOR, where))
        began = time.time_ns()
        events = perform(case, jobs, switch, targets)
        time.sleep(LAST_FLUSH_S if case.recorder is None else LAST_RECORDS_S)
        ended = time.time_ns()
        _keep(folder / "matrix.json", switch.matrix())
        if case.live:
            time.sleep(CONCLUDING_S)
            _keep(folder / "live.json", live.concluded(ended))
    documents = [
        truth.job(job.folder.name, job.program, job.placed, job.clocks())
        for job in jobs
        if job.program.drawn
    ]
    _keep(folder / "truth.json", truth.window(began, ended, documents))
    open_kinds = [group for job in jobs for group in truth.untold(job.folder.name, job.program)]
    _keep(folder / "untold.json", open_kinds)
    _keep(folder / "events.json", [{"time_ns": at, "event": event} for at, event in events])


def _keep(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=1))


@dataclass(frozen=True, slots=True)
class Job:
    """A program, the host of each of its ranks, and a folder with one more per run."""

    program: Program
    placed: tuple[Host, ...]
    folder: Path

    def clocks(self) -> list[Clocks]:
        """Of each run, the first one first."""
        runs = sorted(self.folder.glob("run-*"))
        if self.program.over == "roce":
            ports = [self.folder.parent / FRAMES_PCAP.format(host.number) for host in self.placed]
            roce.write_clocks(ports, self.program.turns, runs[0])
        return [clocks.read(run, self.program.ranks) for run in runs]


def placements(case: Case, seed: int) -> list[tuple[Host, ...]]:
    """The hosts of each program: different ones, in the order of its ranks."""
    wanted = sum(program.ranks for program in case.programs)
    left = list(hosts.place(wanted, case.hosts, seed))
    out = []
    for program in case.programs:
        out.append(tuple(left[: program.ranks]))
        del left[: program.ranks]
    return out


def named(case: Case, placed: Sequence[tuple[Host, ...]], folder: Path) -> list[Job]:
    """The programs of a case, each with a folder of its own."""
    pairs = enumerate(zip(case.programs, placed, strict=True))
    return [Job(program, on, folder / f"{case.name}-{i}") for i, (program, on) in pairs]


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


def perform(
    case: Case, jobs: Sequence[Job], switch: Switch, targets: Sequence[str]
) -> list[tuple[int, str]]:
    """All programs of a case at once, to their end, and what disturbed them."""
    events: list[tuple[int, str]] = []
    with ExitStack() as stack:
        started = [start(job, 0, stack) for job in jobs]
        if case.bulk:
            bulk(stack, switch.folder)
        if case.disturb is None:
            for run in started:
                run.end_well()
            return events
        # What is disturbed is one program, and a killed run is no failure of the testbed.
        (job,), runs = jobs, started
        under_way = Play(
            switch=switch,
            placed=job.placed,
            folder=job.folder,
            start=lambda number: runs.append(start(job, number, stack)),
            sampling=case.sampling,
            targets=targets,
        )
        case.disturb(under_way)
        runs[-1].end()
        return under_way.events


@dataclass(frozen=True, slots=True)
class Run:
    """Processes of a program that was started, each with what it says."""

    processes: tuple[tuple[subprocess.Popen[bytes], Path], ...]

    def end(self) -> list[int]:
        """Exit codes, once all have ended."""
        return [process.wait(PROGRAM_S) for process, _ in self.processes]

    def end_well(self) -> None:
        """Wait until all have ended.

        Raises
        ------
        tests.testbed.shell.CommandFailed
            With the end of what the failed one said.
        """
        for code, (_, log) in zip(self.end(), self.processes, strict=True):
            if code:
                said = log.read_text(errors="replace")[-2000:]
                raise CommandFailed(f"{log}: {code}\n{said}")


def start(job: Job, number: int, stack: ExitStack) -> Run:
    """Start a program as run `number`; it is stopped with `stack` at the latest."""
    folder = job.folder / f"run-{number}"
    folder.mkdir(parents=True)
    processes = []
    for i, words in enumerate(commands(job.program, job.placed, folder)):
        log = folder / f"log-{i}"
        processes.append((stack.enter_context(running(words, log)), log))
    return Run(tuple(processes))


def commands(program: Program, placed: Sequence[Host], folder: Path) -> list[list[str]]:
    """What has to be started for a program."""
    turns, each = str(program.turns), str(program.turn_ms)
    if program.over == "roce":
        frames = roce.write(placed, program.turns, program.turn_ms, folder)
        first_ns = time.time_ns() + LEAD_NS
        return [
            roce.command(host, paths, first_ns, program.turn_ms)
            for host, paths in zip(placed, frames, strict=True)
        ]
    if program.over == "mpi":
        loop = str(mpi.build(folder))
        words = [loop, program.words, str(program.floats), turns, each, str(folder)]
        return [mpi.command(placed, program.forced, words, folder)]
    words = [program.words, turns, each, str(folder)]
    return [gloo.command(placed, rank, MEETING_PORT, words) for rank in range(program.ranks)]


def bulk(stack: ExitStack, folder: Path) -> None:
    """A plain bulk transfer from one host to another."""
    serving, asking = Host(0), Host(1)
    server = serving.command(["iperf3", "-s", "-1"])
    stack.enter_context(running(server, folder / "iperf-server.log"))
    time.sleep(SETTLE_S)
    client = ["iperf3", "-c", serving.address, "-t", str(BULK_S), "-P", "2", "-b", "300M"]
    log = folder / "iperf-client.log"
    Run(((stack.enter_context(running(asking.command(client), log)), log),)).end_well()
