"""A service that ends in the middle of jobs and starts again, while switches go on sending.

Three jobs send for 80 seconds in real time. What comes while nobody listens is lost for good; the
sequence numbers say afterwards how much that was.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from api.cli.times import time_ns
from bench.fleet import Fleet
from bench.fleet_templates import SAMPLE_BYTES
from collector.store import read, read_tables
from fixtures.sflow_layout import DATAGRAM_HEADER_BYTES
from reconstruct import stored
from tests.api.service.feeding import SECOND_NS, TrueJob, true_jobs
from tests.api.serving import ENVIRONMENT, REPOSITORY, Served, ringscope, serving, wait_until

Document = dict[str, Any]

SEED: Final = 109  # three jobs of 16 NICs, with periods of about two seconds
SAMPLES_PER_S: Final = 5_000
JOBS: Final = 3
NICS: Final = 48
LENGTH_S: Final = 80
FEWEST_TOLD: Final = 8  # iterations of each job, before the service is ended
HOLD_S: Final = 2
SLACK_S: Final = 10  # that a busy machine may take to do what is due
ROUND_S: Final = 8  # in which sequence numbers may go round
NEAR: Final = 0.03  # of the period
NEAR_IN_THE_DARK: Final = 0.1


@contextmanager
def sending(to: str, truth: Path) -> Generator[subprocess.Popen[bytes]]:
    """The fleet, live; its truth is written before it begins."""
    command = [sys.executable, "-m", "bench.fleet", "--to", to, "--truth", str(truth)]
    numbers = {
        "--seed": SEED,
        "--samples-per-s": SAMPLES_PER_S,
        "--jobs": JOBS,
        "--nics": NICS,
        "--seconds": LENGTH_S,
    }
    command += [text for pair in numbers.items() for text in map(str, pair)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=ENVIRONMENT, stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(service: Served) -> dict[str, list[Document]]:
    """The final iterations of each job, by its endpoints."""
    found = {}
    for job in service.ask("/jobs")["jobs"]:
        turns = service.ask(f"/jobs/{job['id']}/iterations?limit=5000")["iterations"]
        found[job["id"]] = [turn for turn in turns if turn["final"]]
    return found


def samples_sent(start_ns: int, until_ns: int) -> int:
    """Flow samples that the fleet had sent by then, if it kept its schedule."""
    count = 0
    for chunk in Fleet(SEED, SAMPLES_PER_S, JOBS, NICS, LENGTH_S).departures(start_ns):
        length = chunk.length[chunk.due_ns <= until_ns]
        count += int((length - DATAGRAM_HEADER_BYTES).sum()) // SAMPLE_BYTES
        if len(length) < len(chunk.due_ns):
            break
    return count


def missed_by(account: Document) -> int:
    """What came, and a busy machine did not take, or too late."""
    kinds = ("late_samples", "kernel_drops", "backlog_drops")
    return sum(int(account[kind]) for kind in kinds)


def check_store(service: Served, start_ns: int, killed_ns: int, account: Document) -> None:
    """All but the last seconds is there, and can be read."""
    asked = ringscope("query", "SELECT count(*) AS n FROM flows", "--store", service.store)
    (row,) = json.loads(asked.stdout)
    assert row["n"] >= account["rows_stored"] - account["counter_samples"]
    dropped = account["kernel_drops"] + account["backlog_drops"]
    most_dropped = dropped * (1_500 // SAMPLE_BYTES)
    held_ns = (HOLD_S + SLACK_S) * SECOND_NS
    assert row["n"] >= samples_sent(start_ns, killed_ns - held_ns) - most_dropped
    assert row["n"] <= samples_sent(start_ns, time.time_ns())
    assert read(service.store).errors == ()
    _, errors = read_tables(service.store, stored.KIND, stored.SCHEMA, 0)
    assert errors == []
    with closing(sqlite3.connect(service.store / "results.sqlite")) as results:
        assert results.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def check_iterations(
    turns: list[Document], true: TrueJob, dark_ns: tuple[int, int], missed: int
) -> None:
    """None is lost, none is double, and all are where they truly were.

    Where the machine is slow, samples come too late, and any stretch may be as dark. And where it
    is dark for so long that sequence numbers go round, bytes do not tell how many turns there were.
    """
    assert [turn["index"] for turn in turns] == list(range(len(turns)))
    assert all(after["start"] == before["end"] for before, after in pairwise(turns))
    ends_ns = np.array([time_ns(turn["end"]) for turn in turns])
    inside = (true.ends_ns > dark_ns[0]) & (true.ends_ns < dark_ns[1])
    long = dark_ns[1] - dark_ns[0] > (2 * SLACK_S + ROUND_S) * SECOND_NS
    unsure = inside.sum() if long else 0
    assert len(true.ends_ns) - 1 - unsure <= len(ends_ns) <= len(true.ends_ns)
    late = np.abs(true.late(ends_ns)) / (true.period_s * SECOND_NS)
    dark = (ends_ns > dark_ns[0]) & (ends_ns < dark_ns[1])
    assert late[~dark].max() < (NEAR_IN_THE_DARK if missed else NEAR)
    assert late[dark].max() < NEAR_IN_THE_DARK
    assert [turn["index"] for turn in turns if not turn["complete"]] == [0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_in_the_middle_of_jobs(tmp_path: Path, number: signal.Signals) -> None:
    store, truth = tmp_path / "store", tmp_path / "truth.json"
    with serving(store, STORE__HOLD_S=str(HOLD_S)) as first, sending(first.to, truth) as fleet:
        wait_until(lambda: sorted(map(len, told(first).values()))[:1] >= [FEWEST_TOLD])
        wait_until(lambda: len(told(first)) == JOBS)
        before, account = told(first), first.ask("/exporters")["service"]
        ended_ns = time.time_ns()
        code = first.end(number)
        assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        assert fleet.poll() is None
        document = json.loads(truth.read_text())
        if number == signal.SIGKILL:
            check_store(first, time_ns(document["window"]["start"]), ended_ns, account)
        with serving(store, "--listen", first.to, STORE__HOLD_S=str(HOLD_S)) as second:
            assert second.to == first.to
            # Ends lie up to a turn after what was seen last, and before what is seen first.
            dark_ns = ended_ns - SLACK_S * SECOND_NS, time.time_ns() + SLACK_S * SECOND_NS
            wait_until(lambda: fleet.poll() is not None)
            wait_until(lambda: {job["status"] for job in second.ask("/jobs")["jobs"]} == {"idle"})
            after, jobs = told(second), second.ask("/jobs")["jobs"]
            late = missed_by(account) + missed_by(second.ask("/exporters")["service"])
            assert second.events("a stored file cannot be read") == []
            assert second.end(signal.SIGTERM) == 0
    assert {job_id: after[job_id][: len(turns)] for job_id, turns in before.items()} == before
    true = {job.endpoints: job for job in true_jobs(document)}
    assert {frozenset(job["endpoints"]) for job in jobs} == true.keys()
    assert len(jobs) == JOBS
    for job in jobs:
        check_iterations(after[job["id"]], true[frozenset(job["endpoints"])], dark_ns, late)
