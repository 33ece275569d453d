"""`ringscope demo` as a process of its own, on captures that hold no job."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from api.contract import rfc3339, to_contract
from tests.api import made
from tests.api.serving import ENVIRONMENT, PATIENCE_S, REPOSITORY, ringscope, wait_until
from tests.collector import encode as e

HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
LENGTH_NS = e.SECOND


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A second of telemetry without a job, and the truth that there is none."""
    times = [e.EPOCH_NS + nth * LENGTH_NS // 10 for nth in range(11)]
    packets = [
        (at, e.packet(e.datagram(e.flow_sample(e.timestamp(at), HEADER, sequence=n), sequence=n)))
        for n, at in enumerate(times)
    ]
    (tmp_path / "capture.pcap").write_bytes(e.pcap(packets))
    (tmp_path / "inventory.toml").write_text('[[hosts]]\nname = "gpu-001"\nnics = ["10.0.0.1"]\n')
    window = {"start": rfc3339(times[0]), "end": rfc3339(times[-1])}
    write_truth(tmp_path, {"schema_version": 1, "window": window, "jobs": []})
    return tmp_path


def write_truth(folder: Path, truth: object) -> None:
    (folder / "truth.json").write_text(json.dumps(truth))


class Demo:
    """A running `ringscope demo --keep`, once a line of it begins with `until`."""

    def __init__(self, process: subprocess.Popen[str], until: str) -> None:
        self.process = process
        self.said = ""
        assert process.stdout is not None
        for line in process.stdout:
            self.said += line
            if line.startswith(until):
                break
        found = re.search(r"^The page: (http://127\.0\.0\.1:\d+)/$", self.said, re.MULTILINE)
        assert found is not None, self.said
        self.url = found[1]

    def answers(self) -> bool:
        try:
            return bool(httpx.get(f"{self.url}/api/v1/jobs", timeout=PATIENCE_S).is_success)
        except httpx.TransportError:
            return False


@contextmanager
def kept(folder: Path, until: str = "Still serving") -> Generator[Demo]:
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "api", "demo", str(folder), "--keep"],
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Demo(process, until)
        finally:
            process.kill()


def test_truth_and_result_agree(folder: Path) -> None:
    with kept(folder) as demo:
        assert "11 of 11 datagrams received, 11 samples" in demo.said
        assert "✓ truth and result agree" in demo.said
        assert demo.answers()
        # As a terminal does it: to all of its processes.
        os.killpg(demo.process.pid, signal.SIGINT)
        assert demo.process.wait(PATIENCE_S) == 0
        assert not demo.answers()


def test_truth_and_result_differ(folder: Path) -> None:
    truth = to_contract(made.analysis(made.job(anomalies=())), made.telemetry())
    write_truth(folder, truth)
    with kept(folder) as demo:
        assert re.search(r"job-1 +4 hosts, 8 endpoints +none +✗", demo.said)
        assert "✗ truth and result differ" in demo.said
        os.killpg(demo.process.pid, signal.SIGINT)
        assert demo.process.wait(PATIENCE_S) == 1


def test_the_service_does_not_outlive_the_command(folder: Path) -> None:
    with kept(folder, "The page") as demo:
        assert demo.answers()
        demo.process.kill()
        wait_until(lambda: not demo.answers())


@pytest.mark.parametrize("name", ["capture.pcap", "inventory.toml", "truth.json"])
def test_a_file_is_missing(folder: Path, name: str) -> None:
    (folder / name).unlink()
    run = ringscope("demo", folder)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"ringscope: {folder / name}: no such file")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("truth.json", "{", "not JSON"),
        ("truth.json", '{"schema_version": 1, "jobs": []}', "'window' is a required property"),
        ("inventory.toml", "[[hosts]]\nname = 1\n", "inventory.toml"),
        ("capture.pcap", "no capture", "capture.pcap"),
    ],
)
def test_a_file_cannot_be_used(folder: Path, name: str, content: str, reason: str) -> None:
    (folder / name).write_text(content)
    run = ringscope("demo", folder)
    assert run.returncode == 2
    assert reason in run.stderr
    assert "internal error" not in run.stderr


def test_a_port_that_is_taken(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = ringscope("demo", folder, "--port", str(port))
    assert run.returncode == 2
    assert f"127.0.0.1:{port}" in run.stderr


def test_a_speed_that_cannot_be(folder: Path) -> None:
    run = ringscope("demo", folder, "--speed", "0")
    assert run.returncode == 2
    assert "speed 0" in run.stderr
