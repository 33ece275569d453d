"""What goes wrong in the midst of a program, each time at the same turn of its loop.

A disturbance is given the running `Play` and blocks until it is over. What it did is in
`Play.events`, with times.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed.hosts import Host
from tests.testbed.shell import run
from tests.testbed.switch import Switch

BEGINS_AT = 45  # turns, enough for a service to believe in the job and count
LASTS = 10  # turns
PAUSE_S = 3.0
SILENCE_S = 2.0
HUNG_S = 10.0
SHAPED = ("rate", "100mbit", "burst", "64kb", "latency", "50ms")
COARSER = 4
SUFFERING = 3  # the rank to which it happens
PATIENCE_S = 120.0


@dataclass(slots=True)
class Play:
    """A program under way: what can be done to it, and what was.

    Parameters
    ----------
    switch : the switch.
    placed : the host of each rank.
    folder : where its ranks keep their clocks.
    start : starts the program (again), as run number so and so.
    sampling, targets : of the switch's agent.
    events : (nanoseconds since the epoch, what happened).
    """

    switch: Switch
    placed: Sequence[Host]
    folder: Path
    start: Callable[[int], None]
    sampling: int
    targets: Sequence[str]
    events: list[tuple[int, str]] = field(default_factory=list)

    def tell(self, event: str) -> None:
        """Remember what happens now."""
        self.events.append((time.time_ns(), event))

    def await_turn(self, turn: int, number: int = 0) -> None:
        """Wait until rank 0 has ended so many turns of a run.

        Raises
        ------
        TimeoutError
        """
        clock = self.folder / f"run-{number}" / "clock-0"
        until = time.monotonic() + PATIENCE_S
        while not clock.exists() or clock.read_bytes().count(b"\n") < turn:
            if time.monotonic() > until:
                raise TimeoutError(f"turn {turn} not reached after {PATIENCE_S} s")
            time.sleep(0.02)


def process_of(rank: int) -> int:
    """The process that is this rank of an OpenMPI program."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            program = Path(os.readlink(process / "exe")).name
            if program == "loop" and wanted in (process / "environ").read_bytes().split(b"\0"):
                return int(process.name)
        except OSError:
            continue  # it ended, or is the kernel's
    raise ProcessLookupError(f"no rank {rank}")


def shaped_port(play: Play) -> None:
    """One host sends no faster than 100 Mbit/s for some turns."""
    host = play.placed[SUFFERING]
    discipline = ["ip", "netns", "exec", host.name, "tc", "qdisc"]
    play.await_turn(BEGINS_AT)
    run([*discipline, "add", "dev", "eth0", "root", "tbf", *SHAPED])
    play.tell(f"{host.port} shaped")
    play.await_turn(BEGINS_AT + LASTS)
    run([*discipline, "del", "dev", "eth0", "root"])
    play.tell(f"{host.port} as before")


def stopped_rank(play: Play) -> None:
    """One rank stands still for a while."""
    play.await_turn(BEGINS_AT)
    process = process_of(SUFFERING)
    os.kill(process, signal.SIGSTOP)
    play.tell(f"rank {SUFFERING} stopped")
    time.sleep(PAUSE_S)
    os.kill(process, signal.SIGCONT)
    play.tell(f"rank {SUFFERING} goes on")


def hung_rank(play: Play) -> None:
    """One rank stands still for good; in the end somebody kills the job."""
    play.await_turn(BEGINS_AT + LASTS)
    process = process_of(SUFFERING)
    os.kill(process, signal.SIGSTOP)
    play.tell(f"rank {SUFFERING} stopped")
    time.sleep(HUNG_S)
    os.kill(process, signal.SIGKILL)
    play.tell("job killed")


def restarted_job(play: Play) -> None:
    """The job is killed and started again on the same hosts."""
    play.await_turn(BEGINS_AT)
    os.kill(process_of(SUFFERING), signal.SIGKILL)
    play.tell("job killed")
    time.sleep(PAUSE_S)
    play.start(1)
    play.tell("job started again")


def restarted_exporter(play: Play) -> None:
    """The switch's agent stops, and begins again with new sequence numbers."""
    play.await_turn(BEGINS_AT)
    play.switch.silence()
    play.tell("agent stopped")
    time.sleep(SILENCE_S)
    play.switch.sample(play.sampling, play.targets)
    play.tell("agent started")


def coarser_sampling(play: Play) -> None:
    """The switch takes fewer packets from now on."""
    play.await_turn(BEGINS_AT)
    play.switch.resample(play.sampling * COARSER)
    play.tell(f"one in {play.sampling * COARSER}")
