"""The command as a process of its own: what it imports, says and leaves behind."""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from api.contract import validate
from collector.ingest import ingest
from collector.store import Store
from tests.collector.store import made

REPOSITORY = Path(__file__).resolve().parents[3]


def ringscope(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "api", *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )


def random_datagrams(count: int) -> bytes:
    """A pcap of UDP datagrams to the sFlow port that hold random bytes."""
    draw = random.Random(7)
    packets = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for nth in range(count):
        payload = draw.randbytes(200)
        udp = struct.pack(">HHHH", 6343, 6343, 8 + len(payload), 0) + payload
        addresses = bytes([10, 0, 0, 1, 10, 0, 0, 2])
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + addresses
        frame = bytes(12) + b"\x08\x00" + ip + udp
        packets.append(struct.pack("<IIII", 1000 + nth, 0, len(frame), len(frame)) + frame)
    return b"".join(packets)


def test_help_names_the_command_and_its_options() -> None:
    assert "analyze" in ringscope("--help").stdout
    said = ringscope("analyze", "--help").stdout
    for option in ("--inventory", "--output", "--format", "--strict"):
        assert option in said


def test_version() -> None:
    assert ringscope("--version").stdout == f"ringscope {version('ringscope')}\n"


def test_help_loads_nothing_heavy() -> None:
    """Half a second for --help, held without a clock: by what it must not import."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "api", "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rsplit("|", 1)[-1].strip() for line in run.stderr.splitlines()}
    heavy = {"numpy", "numba", "scipy", "networkx", "jinja2", "jsonschema", "pyarrow", "duckdb"}
    heavy |= {"collector", "patterns"}
    assert "api.cli.app" in loaded
    assert loaded.isdisjoint(heavy)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.pcap", b"", "empty"),
        ("text.pcap", b"not a capture at all, but a note\n", "no pcap"),
        ("text.pcap.gz", gzip.compress(b"not a capture at all", mtime=0), "no pcap"),
        ("no-packets.pcap", random_datagrams(0), "no telemetry datagrams"),
    ],
    ids=["empty", "text", "gzip", "no packets"],
)
def test_nothing_to_read(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    capture = tmp_path / name
    capture.write_bytes(content)
    output = tmp_path / "result.json"
    run = ringscope("analyze", capture, "--output", output)
    assert run.returncode == 2
    assert name in run.stderr
    assert reason in run.stderr
    assert "Traceback" not in run.stderr
    assert not output.exists()


@pytest.mark.parametrize(
    ("redirected", "code", "says"),
    [
        (">&-", 2, "ringscope: standard output is closed\n"),
        (">/dev/full", 2, "ringscope: standard output: No space left on device\n"),
        ("| head -c 1", 0, ""),
        ("2>&- >/dev/null", 0, ""),
        ("</dev/null >/dev/null", 0, ""),
    ],
)
def test_streams_that_are_closed_full_or_not_read(
    tmp_path: Path, redirected: str, code: int, says: str
) -> None:
    capture = tmp_path / "noise.pcap"
    capture.write_bytes(random_datagrams(3))
    command = f'"$0" -m api analyze "$1" {redirected}'
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command, sys.executable, str(capture)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    noise = f"ringscope: {capture}: "
    said = "".join(x for x in run.stderr.splitlines(keepends=True) if not x.startswith(noise))
    assert (run.returncode, said) == (code, says)


def test_text_where_the_locale_knows_ascii_only(real: Path) -> None:
    capture = str(real / "mpi-ring" / "capture.pcap")
    run = subprocess.run(
        [sys.executable, "-m", "api", "analyze", capture, "--format", "text"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert "→" in run.stdout.decode("utf-8")


def test_a_service_without_a_home_or_a_folder_to_compile_into(tmp_path: Path) -> None:
    capture = tmp_path / "noise.pcap"
    capture.write_bytes(random_datagrams(1))
    run = subprocess.run(
        [sys.executable, "-m", "api", "analyze", str(capture)],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_CACHE_DIR": "/proc/nowhere", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0
    assert run.stderr.startswith("ringscope: no folder to keep compiled code in (set NUMBA_CACHE_")
    assert list(tmp_path.iterdir()) == [capture]


def test_missing_capture(tmp_path: Path) -> None:
    run = ringscope("analyze", tmp_path / "no-such.pcap")
    assert run.returncode == 2
    assert "no-such.pcap" in run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_random_datagrams_are_counted(tmp_path: Path, options: tuple[str, ...], code: int) -> None:
    capture = tmp_path / "noise.pcap"
    capture.write_bytes(random_datagrams(50))
    run = ringscope("analyze", capture, "--format", "json", *options)
    assert run.returncode == code
    assert "noise.pcap: offset 82: " in run.stderr
    result = json.loads(run.stdout)
    validate(result, strict=True)
    assert result["jobs"] == []
    assert result["telemetry"]["datagrams"] == 50
    assert result["telemetry"]["decode_errors"] == 50
    assert sum(error["count"] for error in result["telemetry"]["errors"]) == 50


def test_double_address_names_the_key(tmp_path: Path) -> None:
    capture = tmp_path / "noise.pcap"
    capture.write_bytes(random_datagrams(1))
    inventory = tmp_path / "inventory.toml"
    inventory.write_text(
        '[[hosts]]\nname = "a"\nnics = ["10.0.0.1"]\n[[hosts]]\nname = "b"\nnics = ["10.0.0.1"]\n'
    )
    run = ringscope("analyze", capture, "--inventory", inventory)
    assert run.returncode == 2
    assert "inventory.toml: hosts[1].nics[0]: " in run.stderr
    assert "10.0.0.1" in run.stderr


def test_truncated_capture_is_read_as_far_as_it_goes(real: Path, tmp_path: Path) -> None:
    capture = tmp_path / "cut.pcap"
    capture.write_bytes((real / "mpi-ring" / "capture.pcap").read_bytes()[:500_000])
    output = tmp_path / "result.json"
    run = ringscope("analyze", capture, "--output", output)
    assert run.returncode == 0
    assert "cut.pcap: offset " in run.stderr
    result = json.loads(output.read_text())
    validate(result, strict=True)
    assert result["telemetry"]["flow_samples"] > 2000
    assert result["telemetry"]["decode_errors"] == 1


def test_agent_that_sonic_ships(shared: Path) -> None:
    (capture,) = (shared / "corpus" / "hsflowd-agent").glob("*.pcap")
    run = ringscope("analyze", capture, "--format", "json", "--strict")
    assert (run.returncode, run.stderr) == (0, "")
    result = json.loads(run.stdout)
    telemetry = result["telemetry"]
    assert telemetry["flow_samples"] == 656
    assert telemetry["counter_samples"] == 13
    assert telemetry["decode_errors"] == 0
    # As counted in the header bytes that sflowtool prints for the same capture.
    assert telemetry["roce"] == {
        "opcodes": {"0x04": 195, "0x0c": 91, "0x11": 282, "0x81": 86},
        "queue_pairs": 4,
    }
    assert result["jobs"] == []


def test_several_captures_make_one_window(real: Path, tmp_path: Path) -> None:
    first, second = real / "mpi-ring" / "capture.pcap", real / "iperf-only" / "capture.pcap"
    both = json.loads(ringscope("analyze", second, first, "--format", "json").stdout)
    alone = [
        json.loads(ringscope("analyze", path, "--format", "json").stdout)
        for path in (first, second)
    ]
    assert both["telemetry"]["flow_samples"] == sum(
        one["telemetry"]["flow_samples"] for one in alone
    )
    assert both["window"]["start"] == alone[0]["window"]["start"]
    assert both["window"]["end"] == alone[1]["window"]["end"]


def test_page_of_a_real_capture(real: Path, tmp_path: Path) -> None:
    output = tmp_path / "result.html"
    run = ringscope(
        "analyze",
        real / "mpi-ring" / "capture.pcap",
        *("--inventory", real / "mpi-ring" / "inventory.toml"),
        *("--output", output),
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "n0 → n1 → n2 → n3 → n4 → n5 → n6 → n7 → (n0)" in output.read_text()


def test_a_store_is_analysed_as_its_capture(real: Path, tmp_path: Path) -> None:
    capture = real / "mpi-ring" / "capture.pcap"
    options = ("--inventory", real / "mpi-ring" / "inventory.toml", "--format", "json")
    with Store(tmp_path) as store:
        store.append(ingest([capture]))
    of_store = ringscope("analyze", "--store", tmp_path, *options)
    assert (of_store.returncode, of_store.stderr) == (0, "")
    of_capture = ringscope("analyze", capture, *options)
    ours, theirs = json.loads(of_store.stdout), json.loads(of_capture.stdout)
    for document in (ours, theirs):  # a store does not keep what clocks are measured by
        for exporter in document["telemetry"]["exporters"]:
            del exporter["clock"]
    assert ours == theirs

    window = ("--from", "2026-11-29T12:21:00Z", "--to", "2026-11-29T12:21:10Z")
    part = json.loads(ringscope("analyze", "--store", tmp_path, *window, *options).stdout)
    whole = json.loads(of_capture.stdout)
    assert 0 < part["telemetry"]["flow_samples"] < whole["telemetry"]["flow_samples"] / 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "either captures or --store"),
        (("a.pcap", "--store", "x"), "either captures or --store"),
        (("a.pcap", "--from", "2026-11-29"), "--from and --to choose a window"),
        (("--store", "x", "--to", "noon"), "'noon' is no time"),
        (("--store", "no-such"), "no-such: no store"),
    ],
)
def test_windows_that_cannot_be_meant(arguments: tuple[str, ...], says: str) -> None:
    run = ringscope("analyze", *arguments)
    assert run.returncode == 2
    assert says in run.stderr


def test_query(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.append(made.numbered(0, 3))
    sql = "SELECT agent, count(*) AS n FROM flows GROUP BY agent"
    run = ringscope("query", sql, "--store", tmp_path, "--csv")
    assert (run.returncode, run.stdout, run.stderr) == (0, "agent,n\n10.255.0.1,3\n", "")
    both = ringscope("query", sql, "--store", tmp_path, "--csv", "--json")
    assert (both.returncode, "exclude each other" in both.stderr) == (2, True)
