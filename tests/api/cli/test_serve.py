"""`ringscope serve` as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from api.cli.replay import Clock, Sender, _connect
from api.cli.times import time_ns
from collector.ingest import ingest
from collector.replay import Replay
from collector.schema import COLUMNS
from collector.store import read
from tests.collector import encode as e

if TYPE_CHECKING:
    from bench.captures import Capture

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE_S = 300.0
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


class Served:
    """A running service."""

    def __init__(self, process: subprocess.Popen[str], store: Path) -> None:
        self.process = process
        self.store = store
        assert process.stderr is not None
        first = process.stderr.readline()
        found = re.fullmatch(r"ringscope: listening on udp \[::1\]:(\d+), storing in (.+)\n", first)
        assert found is not None, first + process.stderr.read()
        assert found[2] == str(store)
        self.port = int(found[1])

    def send(self, *payloads: bytes) -> None:
        with closing(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as sending:
            for payload in payloads:
                sending.sendto(payload, ("::1", self.port))

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """The exit code and what was said since the start."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, said


@contextmanager
def serving(store: Path, *options: str) -> Generator[Served]:
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "api", "serve"),
            *("--store", str(store), "--listen", "[::1]:0", *options),
        ],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Served(process, store)
        finally:
            process.kill()


def ringscope(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "api", *map(str, arguments)],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def datagrams(numbers: range) -> list[bytes]:
    return [
        e.datagram(
            e.flow_sample(e.timestamp(time.time_ns()), HEADER, sequence=number), sequence=number
        )
        for number in numbers
    ]


def stored_rows(store: Path) -> int:
    return len(read(store).flows) if (store / "flows").is_dir() else 0


class Led(Clock):
    """A clock where waiting waits for the service instead: nothing can be dropped."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._time_ns = super().now_ns()
        self._place = f":{port:04X}"

    def now_ns(self) -> int:
        return self._time_ns

    def sleep_until(self, due_ns: int) -> None:
        self._time_ns = due_ns
        while self._waiting_bytes():
            time.sleep(0.0005)

    def _waiting_bytes(self) -> int:
        """What the kernel holds for the port, as proc(5) tells it."""
        for line in Path("/proc/net/udp6").read_text().splitlines():
            _, local, _, _, queues, *_ = line.split()
            if local.endswith(self._place):
                return int(queues.split(":")[1], 16)
        raise AssertionError("nobody listens any more")


def shape(document: dict[str, Any]) -> list[object]:
    """Who does what with whom."""
    return [
        (
            job["hosts"],
            job["endpoints"],
            job["parallelism"]["candidates"],
            [
                (
                    group["kind"],
                    group["members"],
                    group["algorithm"],
                    group["collective"],
                    [part["order"] for each in group["algorithms"] for part in each["channels"]],
                )
                for group in job["groups"]
            ],
        )
        for job in document["jobs"]
    ]


def starts_ns(document: dict[str, Any]) -> list[int]:
    return [time_ns(turn["start"]) for job in document["jobs"] for turn in job["iterations"]]


def test_a_served_replay_is_analysed_as_its_capture(
    capture: Callable[..., Capture], tmp_path: Path
) -> None:
    labelled = capture("dp_ring", level="normal")
    with serving(tmp_path / "store") as served:
        with closing(_connect(f"[::1]:{served.port}")) as connection:
            clock = Led(served.port)
            sender = Sender(connection, clock)
            for departures in Replay([labelled.pcap], 1, keep_time=False).departures(clock.now_ns):
                sender.send(departures)
        code, said = served.end(signal.SIGTERM)
    was, told = ingest([labelled.pcap]), read(tmp_path / "store")
    samples = was.flow_samples + was.counter_samples
    assert code == 0
    assert said.splitlines()[-1] == (
        f"ringscope: datagrams {was.datagrams}, samples {samples}, rows stored {samples},"
        " rows held 0, lost rows 0, kernel drops 0, backlog drops 0,"
        f" lost before arrival {was.lost_datagrams}, decode errors 0"
    )
    # Exporters are numbered, and rows are kept, in another order; all moved by one constant.
    assert sorted(told.exporters, key=str) == sorted(was.exporters, key=str)
    before, after = (
        np.lexsort((f.time_ns, f.seq, f.opcode, f.dest_qp, f.src_port, f.src_lo, f.dst_lo))
        for f in (was.flows, told.flows)
    )
    (moved_ns,) = np.unique(told.flows.time_ns[after] - was.flows.time_ns[before]).tolist()
    for name in sorted(set(COLUMNS) - {"exporter", "time_ns", "time_min_ns"}):
        ours, theirs = getattr(told.flows, name), getattr(was.flows, name)
        assert np.array_equal(ours[after], theirs[before]), name

    by_capture = ringscope("analyze", labelled.pcap, "--inventory", labelled.inventory)
    by_store = ringscope("analyze", "--store", served.store, "--inventory", labelled.inventory)
    ours, theirs = json.loads(by_store.stdout), json.loads(by_capture.stdout)
    assert len(theirs["jobs"]) == 1
    assert shape(ours) == shape(theirs)
    # Bins stand at absolute times, so what moved falls into other ones: that much may differ.
    (job,), (original,) = ours["jobs"], theirs["jobs"]
    assert job["period_s"] == pytest.approx(original["period_s"], rel=0.01)
    volumes = (
        [group["bytes_per_iteration"] for group in each["groups"]] for each in (job, original)
    )
    assert next(volumes) == pytest.approx(next(volumes), rel=0.01)
    assert len(starts_ns(theirs)) > 10
    late_ns = np.array(starts_ns(ours)) - np.array(starts_ns(theirs)) - moved_ns
    assert np.abs(late_ns).max() < 0.01 * original["period_s"] * 1e9


def test_what_replay_sends_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "small.pcap"
    packets = [(e.EPOCH_NS, e.packet(payload)) for payload in datagrams(range(3))]
    path.write_bytes(e.pcap(packets))
    with serving(tmp_path / "store") as served:
        assert ringscope("replay", path, "--to", f"[::1]:{served.port}").returncode == 0
        code, _ = served.end(signal.SIGTERM)
    asked = ringscope("query", "SELECT count(*) AS n FROM flows", "--store", served.store)
    assert (code, json.loads(asked.stdout)) == (0, [{"n": 3}])


def test_a_killed_service_leaves_what_it_had_flushed(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.send(*datagrams(range(30)))
        end_s = time.monotonic() + PATIENCE_S
        while stored_rows(tmp_path) < 30:  # nothing else arrives: it is flushed by time
            assert time.monotonic() < end_s
            time.sleep(0.1)
        served.send(*datagrams(range(30, 40)))
        code, _ = served.end(signal.SIGKILL)
    assert code == -signal.SIGKILL
    kept = read(tmp_path)
    assert 30 <= len(kept.flows) <= 40
    assert kept.errors == ()
    with serving(tmp_path) as served:
        served.send(*datagrams(range(50, 60)))
        code, said = served.end(signal.SIGINT)
        assert (code, "rows stored 10," in said) == (0, True)
    assert len(read(tmp_path).flows) == len(kept.flows) + 10
    assert list(tmp_path.glob(".writing-*")) == []


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as taken:
        taken.bind(("::1", 0))
        to = f"[::1]:{taken.getsockname()[1]}"
        run = ringscope("serve", "--store", tmp_path / "store", "--listen", to)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"ringscope: udp {to}: Address already in use\n"
    assert not (tmp_path / "store").exists()


def test_a_store_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = ringscope("serve", "--store", tmp_path / "file", "--listen", "[::1]:0")
    assert run.returncode == 2
    assert re.fullmatch(r"ringscope: \S+/file\S*: .+\n", run.stderr)


@pytest.mark.parametrize("address", ["nowhere", "::1:6343", "[::1]", ":6343", "127.0.0.1:65536"])
def test_addresses_that_are_none(tmp_path: Path, address: str) -> None:
    run = ringscope("serve", "--store", tmp_path / "store", "--listen", address)
    assert run.returncode == 2
    assert run.stderr.startswith(f"ringscope: udp {address}: not HOST:PORT")
    assert not (tmp_path / "store").exists()


def test_an_age_that_is_none(tmp_path: Path) -> None:
    run = ringscope("serve", "--store", tmp_path, "--keep-age", "forever")
    assert (run.returncode, "'forever' is no duration" in run.stderr) == (2, True)


def test_old_samples_are_forgotten_as_asked(tmp_path: Path) -> None:
    """Of two samples half an hour apart, the older is beyond a minute's keeping."""
    now_ns = time.time_ns()
    with serving(tmp_path, "--keep-age", "1m") as served:
        for number, stamp_ns in enumerate((now_ns - 1_800_000_000_000, now_ns)):
            sample = e.flow_sample(e.timestamp(stamp_ns), HEADER, sequence=number)
            served.send(e.datagram(sample, sequence=number))
        code, said = served.end(signal.SIGTERM)
    assert (code, "rows stored 2," in said) == (0, True)
    assert read(tmp_path).flows.time_ns.tolist() == [now_ns]


def test_help_names_the_options() -> None:
    said = ringscope("serve", "--help").stdout
    for option in ("--store", "--listen", "--keep-age", "24h", "--keep-bytes"):
        assert option in said
