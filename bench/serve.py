"""How the running service keeps up with a fleet: 64 jobs on 800 NICs at 50,000 samples a second.

    python bench/serve.py [--seconds 600] [--samples-per-s 50000]

`ringscope serve` has one core to itself, the sender and this watcher another. The fleet knows when
each iteration truly ended; the results database is watched for the moment at which the service
has it as final. That is counted from the moment on that the service tells of the job. Exits with 1
where the service falls short of what it promises.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, its own folder would come first

from bench.compare import Document  # noqa: E402
from bench.fleet import Fleet  # noqa: E402
from bench.pairing import nanoseconds  # noqa: E402

PROMISED_S: Final = 5.0  # an iteration is final within its job's period and so much
LOOK_S: Final = 0.25  # how often the results are looked at: what a delay is known to
GROWTH: Final = 1.25  # resident memory at the end over that when half of the time had passed
SAME: Final = 0.05  # of the period: an end so near to a true one is that one
SETTLE_S: Final = 15.0  # after the last datagram, for the last iterations
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Watched:
    """What was seen of the service, second by second.

    Attributes
    ----------
    final_at_ns
        Moment at which an iteration (job, number) was first seen to be final.
    ends_ns, complete
        Its end, and whether it is whole.
    told
        Iterations that were final when the job was first told of: they waited for that.
    rss_bytes
        Resident memory at each look.
    """

    final_at_ns: dict[tuple[str, int], int] = field(default_factory=dict)
    ends_ns: dict[tuple[str, int], int] = field(default_factory=dict)
    complete: dict[tuple[str, int], bool] = field(default_factory=dict)
    told: set[tuple[str, int]] = field(default_factory=set)
    endpoints: dict[str, frozenset[str]] = field(default_factory=dict)
    rss_bytes: list[int] = field(default_factory=list)

    def look(self, database: Path, process: int) -> None:
        """Take note of what is final by now."""
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
        self.rss_bytes.append(int(pages) * _PAGE)
        if not database.exists():
            return
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as reading:
            rows = reading.execute(
                'SELECT job_id, "index", end_ns, complete FROM iterations'
                " WHERE final AND end_ns >= ?",
                (max(self.ends_ns.values(), default=0) - 120_000_000_000,),
            ).fetchall()
            now_ns = time.time_ns()
            known = set(self.endpoints)
            for job, index, end_ns, complete in rows:
                key = (job, index)
                if key in self.final_at_ns:
                    continue
                self.final_at_ns[key] = now_ns
                self.ends_ns[key] = end_ns
                self.complete[key] = bool(complete)
                if job not in known:
                    self.told.add(key)
            for job in {row[0] for row in rows} - known:
                self.endpoints[job] = _endpoints(reading, job)


def _endpoints(reading: sqlite3.Connection, job: str) -> frozenset[str]:
    (text,) = reading.execute("SELECT summary FROM jobs WHERE id = ?", (job,)).fetchone()
    return frozenset(json.loads(text)["endpoints"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the watching came to.

    Attributes
    ----------
    exact, jobs
        Jobs told of with the right endpoints, and true ones.
    false
        Jobs told of with other endpoints.
    beyond_period_s
        Of each iteration that became final: how much longer after its true end than a period.
    misnumbered
        By job with an iteration lost or doubled: which.
    """

    exact: int
    jobs: int
    false: int
    beyond_period_s: NDArray[np.float64]
    misnumbered: tuple[str, ...]


def compare(watched: Watched, truth: Document) -> Outcome:
    """What was watched beside the truth of the fleet."""
    true = {frozenset(job["endpoints"]): job for job in truth["jobs"]}
    beyond: list[float] = []
    misnumbered: list[str] = []
    exact = false = 0
    for job, endpoints in watched.endpoints.items():
        if endpoints not in true:
            false += 1
            continue
        exact += 1
        whole = true[endpoints]
        period_ns = float(whole["period_s"]) * 1e9
        ends = np.array([nanoseconds(i["end"]) for i in whole["iterations"]], np.int64)
        keys = sorted(key for key in watched.final_at_ns if key[0] == job)
        place = [int(np.abs(ends - watched.ends_ns[key]).argmin()) for key in keys]
        near = [
            not watched.complete[key]  # the service does not say that it ended there
            or abs(int(ends[at]) - watched.ends_ns[key]) <= SAME * period_ns
            for key, at in zip(keys, place, strict=True)
        ]
        steps = np.diff(place)
        if (steps != 1).any() or not all(near):
            odd = [key[1] for key, good in zip(keys, near, strict=True) if not good]
            after = [keys[at][1] for at in np.flatnonzero(steps != 1)]
            misnumbered.append(
                f"{job}, truly {whole['id']} of {whole['period_s']:.3f} s:"
                f" no next one after {after}, no true end near that of {odd}"
            )
        beyond += [
            (watched.final_at_ns[key] - int(ends[at]) - period_ns) / 1e9
            for key, at in zip(keys, place, strict=True)
            if key not in watched.told and watched.complete[key]
        ]
    return Outcome(exact, len(true), false, np.array(beyond), tuple(misnumbered))


@contextmanager
def served(folder: Path, core: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A running service on one core, and its UDP port; killed at the end if it still runs."""
    environment = {**os.environ, "RINGSCOPE_LOG__FORMAT": "json"}
    command = [
        *(sys.executable, "-m", "api", "serve", "--store", str(folder / "store")),
        *("--inventory", str(folder / "fleet.toml")),
        *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
    ]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log, text=True) as process,
    ):
        os.sched_setaffinity(process.pid, {core})
        try:
            yield process, _port(process, folder / "log")
        finally:
            process.kill()


def _port(process: subprocess.Popen[str], log: Path) -> int:
    while process.poll() is None:
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "listening":
                return int(re.sub(r".*:", "", event["udp"]))
        time.sleep(0.1)
    raise SystemExit(f"the service did not start: {log.read_text()}")


def run(seconds: int, samples_per_s: int, seed: int, folder: Path) -> tuple[Watched, Document, Any]:
    """Serve and send; what was watched, the truth, and the service's last account."""
    cores = sorted(os.sched_getaffinity(0))
    inventory = Fleet(seed=seed, samples_per_s=samples_per_s, duration_s=1).inventory
    (folder / "fleet.toml").write_text(inventory)
    os.sched_setaffinity(0, {cores[-1]})
    watched, database = Watched(), folder / "store" / "results.sqlite"
    with served(folder, cores[0]) as (process, port):
        fleet = [
            *(sys.executable, "-m", "bench.fleet", "--to", f"127.0.0.1:{port}"),
            *("--seconds", str(seconds), "--samples-per-s", str(samples_per_s)),
            *("--seed", str(seed), "--truth", str(folder / "truth.json")),
        ]
        with subprocess.Popen(fleet, cwd=ROOT) as sender:
            while sender.poll() is None:
                watched.look(database, process.pid)
                time.sleep(LOOK_S)
        end_s = time.monotonic() + SETTLE_S
        while time.monotonic() < end_s:
            watched.look(database, process.pid)
            time.sleep(LOOK_S)
        cpu_s = _cpu_s(process.pid)
        process.send_signal(signal.SIGTERM)
        process.wait()
    events = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    account = [event for event in events if event["event"] == "account"][-1]
    account["cpu_s"] = cpu_s
    account["errors"] = [event for event in events if event["level"] == "error"]
    truth: Document = json.loads((folder / "truth.json").read_text())
    return watched, truth, account


def _cpu_s(process: int) -> float:
    """Time that a process has had of its cores; proc(5)."""
    user, system = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def lines(
    watched: Watched, outcome: Outcome, account: Any, seconds: int
) -> list[tuple[str, str, bool]]:
    """What is to be said: what, how much, and whether that is good enough."""
    lost = account["kernel_drops"] + account["backlog_drops"] + account["rows_lost"]
    late = account["late_samples"]
    rss_mb = np.array(watched.rss_bytes, np.float64) / 1e6
    half_mb, most_mb = float(rss_mb[: len(rss_mb) // 2].max()), float(rss_mb.max())
    beyond = outcome.beyond_period_s
    median, p95 = np.percentile(beyond, (50, 95)) if len(beyond) else (np.inf, np.inf)
    share = account["cpu_s"] / (seconds + SETTLE_S)
    return [
        ("samples taken in", f"{account['samples']}", True),
        ("datagrams or rows lost", f"{lost}", lost == 0),
        ("samples too late to be analysed", f"{late}", late == 0),
        ("of its one core", f"{share:.0%}", True),
        (
            "resident memory in the first half, in all",
            f"{half_mb:.0f} MB, {most_mb:.0f} MB",
            most_mb <= GROWTH * half_mb,
        ),
        (
            "jobs exact, false",
            f"{outcome.exact} of {outcome.jobs}, {outcome.false}",
            outcome.exact == outcome.jobs and not outcome.false,
        ),
        (
            "jobs with iterations lost or doubled",
            f"{len(outcome.misnumbered)}",
            not outcome.misnumbered,
        ),
        ("iterations that became final", f"{len(beyond)}", len(beyond) > 0),
        ("final after their end, median", f"a period and {median:.2f} s", True),
        ("final after their end, p95", f"a period and {p95:.2f} s", p95 < PROMISED_S),
        ("errors said", f"{len(account['errors'])}", not account["errors"]),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--samples-per-s", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(argv)
    if len(os.sched_getaffinity(0)) < 2:
        print("bench/serve.py: needs two cores: one for the service, one to send", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        watched, truth, account = run(
            chosen.seconds, chosen.samples_per_s, chosen.seed, Path(scratch)
        )
    outcome = compare(watched, truth)
    said = lines(watched, outcome, account, chosen.seconds)
    table = Table(box=SIMPLE_HEAD)
    for name in (f"{chosen.samples_per_s} samples/s for {chosen.seconds} s", "", ""):
        table.add_column(name)
    for what, value, good in said:
        table.add_row(what, value, "" if good else "✗")
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    for line in (*outcome.misnumbered, *account["errors"][:10]):
        print(line)
    return 0 if all(good for *_, good in said) else 1


if __name__ == "__main__":
    sys.exit(main())
