"""`ringscope serve` as a process of its own."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import closing
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
from tests.api.serving import ringscope, serving, wait_until
from tests.collector import encode as e

if TYPE_CHECKING:
    from bench.captures import Capture

HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
QUIET = ("--http", "127.0.0.1:0")


def datagrams(numbers: range) -> list[bytes]:
    return [
        e.datagram(
            e.flow_sample(e.timestamp(time.time_ns()), HEADER, sequence=number), sequence=number
        )
        for number in numbers
    ]


def stored_rows(store: Path) -> int:
    return len(read(store).flows) if (store / "flows").is_dir() else 0


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
    labelled = capture("dp_ring", 3, "normal")  # a short one
    with serving(tmp_path / "store") as served:
        with closing(_connect(served.to)) as connection:
            clock = Clock()  # stamps that run ahead of time would be a wrong clock's
            sender = Sender(connection, clock)
            for departures in Replay([labelled.pcap], 1, keep_time=False).departures(clock.now_ns):
                sender.send(departures)
        code = served.end(signal.SIGTERM)
    was, told = ingest([labelled.pcap]), read(tmp_path / "store")
    samples = was.flow_samples + was.counter_samples
    assert code == 0
    assert served.account() == {
        "datagrams": was.datagrams,
        "samples": samples,
        "rows_stored": samples,
        "rows_held": 0,
        "rows_lost": 0,
        "kernel_drops": 0,
        "backlog_drops": 0,
        "refused_datagrams": 0,
        "lost_datagrams": was.lost_datagrams,
        "late_samples": served.account()["late_samples"],  # where the machine is slow
        "decode_errors": 0,
    }
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
        assert ringscope("replay", path, "--to", served.to).returncode == 0
        assert served.ask("/exporters")["service"]["kernel_drops"] == 0
        code = served.end(signal.SIGTERM)
    asked = ringscope("query", "SELECT count(*) AS n FROM flows", "--store", served.store)
    assert (code, json.loads(asked.stdout)) == (0, [{"n": 3}])


def test_a_killed_service_leaves_what_it_had_flushed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serving(store) as served:
        served.send(*datagrams(range(30)))
        wait_until(lambda: stored_rows(store) == 30)  # nothing else arrives: it is flushed by time
        served.send(*datagrams(range(30, 40)))
        code = served.end(signal.SIGKILL)
    assert code == -signal.SIGKILL
    kept = read(store)
    assert 30 <= len(kept.flows) <= 40
    assert kept.errors == ()
    with serving(store) as served:
        served.send(*datagrams(range(50, 60)))
        code = served.end(signal.SIGINT)
    assert (code, served.account()["rows_stored"]) == (0, 10)
    assert len(read(store).flows) == len(kept.flows) + 10
    assert list(store.glob("**/.writing-*")) == []


def test_only_named_networks_are_heard(tmp_path: Path) -> None:
    with serving(tmp_path / "store", LISTEN__ALLOW="10.0.0.0/8") as served:
        served.send(*datagrams(range(5)))
        code = served.end(signal.SIGTERM)
    account = served.account()
    assert (code, account["datagrams"], account["refused_datagrams"]) == (0, 5, 5)
    assert stored_rows(served.store) == 0


def test_settings_come_from_a_file_and_options_win(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as taken:
        taken.bind(("::1", 0))
        config = tmp_path / "ringscope.toml"
        config.write_text(
            f'listen.udp = "[::1]:{taken.getsockname()[1]}"\nlisten.allow = ["10.0.0.0/8"]\n'
        )
        with serving(tmp_path / "store", "--config", config) as served:
            served.send(*datagrams(range(2)))
            served.end(signal.SIGTERM)
    assert served.account()["refused_datagrams"] == 2


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as taken:
        taken.bind(("::1", 0))
        to = f"[::1]:{taken.getsockname()[1]}"
        run = ringscope("serve", "--store", tmp_path / "store", "--listen", to, *QUIET)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"ringscope: udp {to}: Address already in use\n"
    assert not (tmp_path / "store").exists()


def test_an_http_port_that_is_taken(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        run = ringscope(
            *("serve", "--store", tmp_path / "store"), *("--listen", "[::1]:0", "--http", address)
        )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"ringscope: cannot listen on http {address}: Address already in use\n"


def test_a_store_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = ringscope("serve", "--store", tmp_path / "file", "--listen", "[::1]:0", *QUIET)
    assert run.returncode == 2
    assert re.fullmatch(r"ringscope: \S+/file\S*: .+\n", run.stderr)


def test_an_inventory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "inventory.toml").write_text("[[hosts]]\nname = 3\n")
    run = ringscope(
        *("serve", "--store", tmp_path / "store", "--listen", "[::1]:0", *QUIET),
        *("--inventory", tmp_path / "inventory.toml"),
    )
    assert run.returncode == 2
    assert re.fullmatch(r"ringscope: \S+/inventory.toml: .+\n", run.stderr)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("option", "key", "address"),
    [
        ("--listen", "listen.udp", "nowhere"),
        ("--listen", "listen.udp", "::1:6343"),
        ("--listen", "listen.udp", "[::1]"),
        ("--listen", "listen.udp", ":6343"),
        ("--listen", "listen.udp", "127.0.0.1:65536"),
        ("--http", "http.listen", "nowhere"),
    ],
)
def test_addresses_that_are_none(tmp_path: Path, option: str, key: str, address: str) -> None:
    run = ringscope("serve", "--store", tmp_path / "store", option, address)
    assert run.returncode == 2
    assert run.stderr.startswith(f"ringscope: command line: {key}: not HOST:PORT, as ")
    assert not (tmp_path / "store").exists()


def test_an_age_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ringscope.toml").write_text('store.keep_age_s = "forever"\n')
    run = ringscope("serve", "--store", tmp_path / "store", "--config", tmp_path / "ringscope.toml")
    assert run.returncode == 2
    assert run.stderr.startswith(f"ringscope: {tmp_path / 'ringscope.toml'}")
    assert "keep_age_s" in run.stderr


def test_old_samples_are_forgotten_as_asked(tmp_path: Path) -> None:
    """Of two samples half an hour apart, the older is beyond a minute's keeping."""
    now_ns = time.time_ns()
    with serving(tmp_path / "store", STORE__KEEP_AGE_S="60") as served:
        for number, stamp_ns in enumerate((now_ns - 1_800_000_000_000, now_ns)):
            sample = e.flow_sample(e.timestamp(stamp_ns), HEADER, sequence=number)
            served.send(e.datagram(sample, sequence=number))
        code = served.end(signal.SIGTERM)
    assert (code, served.account()["rows_stored"]) == (0, 2)
    assert read(served.store).flows.time_ns.tolist() == [now_ns]


def test_help_names_the_options() -> None:
    said = ringscope("serve", "--help").stdout
    for option in ("--config", "--store", "--listen", "--http", "--inventory"):
        assert option in said
