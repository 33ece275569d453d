from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.errors import ApiError, ResultsError
from api.results.connections import sqlite_url
from api.results.database import Results
from api.service import running
from api.service.running import Service
from api.service.sliding import Sliding
from api.settings import HostPort, Settings
from api.settings.model import AnalysisSection, HttpSection, ListenSection, StoreSection
from collector.errors import CollectorError
from collector.store import read, read_tables
from reconstruct import stored
from reconstruct.slices import Slice
from tests.api.service.feeding import Heard, moved
from tests.collector import encode as e

PATIENCE_S = 60.0
HEADER = e.raw_header(e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64))
HOST = "127.0.0.1"


def wait_until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.01)


def settings(
    store: Path, *, udp: int = 0, http: int | None = 0, inventory: Path | None = None
) -> Settings:
    return Settings(
        listen=ListenSection(udp=HostPort(HOST, udp)),
        store=StoreSection(directory=store),
        analysis=AnalysisSection(inventory=inventory, tick_s=0.05),
        http=HttpSection(listen=None if http is None else HostPort(HOST, http)),
    )


@contextmanager
def started(chosen: Settings, heard: Heard | None = None) -> Generator[Service]:
    """A service that could run, and is closed at the end of the block."""
    service = Service(chosen, heard or Heard())
    service.start()
    with service._open:
        yield service


@contextmanager
def run(chosen: Settings, heard: Heard | None = None) -> Generator[Service]:
    """A service that runs until the end of the block."""
    service = Service(chosen, heard or Heard())
    service.start()
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        yield service
    finally:
        service.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def send(service: Service, *numbers: int) -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        for number in numbers:
            sample = e.flow_sample(e.timestamp(time.time_ns()), HEADER, sequence=number)
            sending.sendto(e.datagram(sample, sequence=number), (HOST, service.udp_port))


def test_receiving_in_processes_of_their_own(tmp_path: Path) -> None:
    heard = Heard()
    chosen = settings(tmp_path)
    listen = chosen.listen.model_copy(update={"workers": 2})
    with run(chosen.model_copy(update={"listen": listen}), heard) as service:
        for number in range(6):  # each from another port
            send(service, number)
        wait_until(lambda: service.account().flow_samples == 6)
        assert failing(service) == {}
    account = service.account()
    assert (account.datagrams, account.rows_stored, account.rows_held) == (6, 6, 0)
    assert heard.events == ["account"]
    assert len(read(tmp_path).flows) == 6


def open_files() -> set[str]:
    """What this process has open: sockets, files of the test, the database."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:
            continue  # the listing's own
    return {each for each in found if "socket:" in each or "/pytest-" in each}


def lately(slices: Sequence[Slice]) -> list[Slice]:
    """The slices as if the last had just been closed."""
    now_ns = time.time_ns() // running.SLICE_NS * running.SLICE_NS
    return moved(slices, now_ns - slices[-1].end_ns - 1)


def failing(service: Service) -> dict[str, str]:
    return {check.name: check.reason for check in service.checks() if not check.ok}


def test_what_comes_is_stored_analysed_and_answered_for(tmp_path: Path) -> None:
    heard = Heard()
    with run(settings(tmp_path), heard) as service:
        send(service, *range(5))
        wait_until(lambda: service.account().flow_samples == 5)
        assert failing(service) == {}
        said = httpx.get(f"http://{HOST}:{service.http_port}/api/v1/exporters").json()
        assert said["service"]["datagrams"] == 5
    account = service.account()
    assert (account.datagrams, account.rows_stored, account.rows_held) == (5, 5, 0)
    assert account.ticks > 0
    assert heard.events == ["account"]
    assert len(read(tmp_path).flows) == 5
    tables, errors = read_tables(tmp_path, stored.KIND, stored.SCHEMA, 0)
    assert errors == []
    assert sum(int(table["samples"].to_numpy().sum()) for _, _, table in tables) == 5
    with closing(Results(sqlite_url(tmp_path / "results.sqlite"))) as results:
        window = results.window()
    assert window is not None
    assert window.telemetry["flow_samples"] == 5
    assert window.end_ns == account.window_end_ns
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{HOST}:{service.http_port}/livez")


def test_without_http(tmp_path: Path) -> None:
    with run(settings(tmp_path, http=None)) as service:
        assert service.http_port is None
        send(service, 0)
        wait_until(lambda: service.account().datagrams == 1)


@contextmanager
def taken(kind: socket.SocketKind) -> Generator[int]:
    with closing(socket.socket(socket.AF_INET, kind)) as other:
        other.bind((HOST, 0))
        if kind == socket.SOCK_STREAM:
            other.listen()
        yield int(other.getsockname()[1])


def refused(chosen: Settings) -> str:
    """What is said of settings that cannot be used; nothing stays open."""
    before = open_files()
    with pytest.raises((CollectorError, ApiError)) as caught:
        Service(chosen, Heard()).start()
    assert open_files() <= before
    return str(caught.value)


def test_a_udp_port_that_is_taken(tmp_path: Path) -> None:
    with taken(socket.SOCK_DGRAM) as port:
        said = refused(settings(tmp_path / "store", udp=port))
    assert said == f"udp {HOST}:{port}: Address already in use"
    assert not (tmp_path / "store").exists()


def test_an_http_port_that_is_taken(tmp_path: Path) -> None:
    with taken(socket.SOCK_STREAM) as port:
        said = refused(settings(tmp_path, http=port))
    assert said == f"cannot listen on http {HOST}:{port}: Address already in use"
    with started(settings(tmp_path, http=port)) as service:
        assert failing(service) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file or directory"),
        ("[[hosts]]\nname = 3\n", "hosts[0].nics: missing"),
        ("[[", "not TOML"),
    ],
)
def test_an_inventory_that_is_none(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "inventory.toml"
    if text is not None:
        path.write_text(text)
    said = refused(settings(tmp_path / "store", inventory=path))
    assert said.startswith(str(path))
    assert says in said
    assert not (tmp_path / "store").exists()


def test_a_store_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused(settings(tmp_path / "file"))


def test_bins_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "bins").write_text("no folder")
    assert refused(settings(tmp_path)) == f"{tmp_path}: File exists"


def test_results_that_are_no_database(tmp_path: Path) -> None:
    (tmp_path / "results.sqlite").write_text("no database at all, but a text of some length" * 99)
    said = refused(settings(tmp_path))
    assert str(tmp_path / "results.sqlite") in said
    assert "not a database" in said


def test_a_check_for_each_part(tmp_path: Path) -> None:
    with started(settings(tmp_path)) as service:
        checks = service.checks()
    assert [check.name for check in checks] == ["listener", "store", "results", "analysis"]
    assert {(check.ok, check.reason) for check in checks} == {(True, "")}


def test_a_receiver_that_stopped_is_told(tmp_path: Path) -> None:
    with started(settings(tmp_path)) as service:
        service._source.stop()
        assert failing(service) == {"listener": "the receiver has stopped"}


def test_bins_that_are_not_taken_are_told(tmp_path: Path, slices: list[Slice]) -> None:
    with started(settings(tmp_path)) as service:
        (tmp_path / "bins").rmdir()
        (tmp_path / "bins").write_text("no folder any more")
        service._turn(lately(slices)[:2])
        service._bins.flush()
        assert list(failing(service)) == ["store"]
        (tmp_path / "bins").unlink()
        (tmp_path / "bins").mkdir()
        service._turn(lately(slices)[:2])
        service._bins.flush()
        assert failing(service) == {}


def no_room() -> None:
    raise ResultsError("db", "disk is full")


def test_results_that_take_nothing_are_told(
    tmp_path: Path, slices: list[Slice], monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(settings(tmp_path)) as service:
        with monkeypatch.context() as patched:
            patched.setattr(service._results._connections, "writing", no_room)
            service._turn(lately(slices)[:2])
            assert failing(service) == {"results": "disk is full", "analysis": "db: disk is full"}
        service._turn(lately(slices)[2:4])
        assert failing(service) == {}


def test_an_analysis_that_is_stuck_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(settings(tmp_path)) as service:
        assert failing(service) == {}
        service._ticked_s -= running.STUCK_TICKS + 1
        assert list(failing(service)) == ["analysis"]
        assert failing(service)["analysis"].startswith("no turn for ")


def test_one_bad_turn_does_not_end_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []
    tick = Sliding.tick

    def fragile(self: Sliding, given: Sequence[Slice]) -> None:
        turns.append(len(given))
        if len(turns) == 2:
            raise ZeroDivisionError("no such telemetry was thought of")
        tick(self, given)

    monkeypatch.setattr(Sliding, "tick", fragile)
    heard = Heard()
    with run(settings(tmp_path), heard) as service:
        wait_until(lambda: len(turns) > 4)
        assert failing(service) == {}
    assert heard.events == ["a turn of the analysis failed", "account"]


def test_a_restart_finds_its_window(tmp_path: Path, slices: list[Slice]) -> None:
    lately_seen = lately(slices)
    with started(settings(tmp_path)) as service:
        service._turn(lately_seen)
        before = service.account()
    assert before.window_rows > 0
    with started(settings(tmp_path)) as service:
        after = service.account()
    assert (after.window_start_ns, after.window_end_ns) == (
        before.window_start_ns,
        before.window_end_ns,
    )
    assert after.window_rows == sum(len(part.bins) for part in lately_seen)


def test_what_is_too_old_for_the_window_is_not_read(tmp_path: Path, slices: list[Slice]) -> None:
    with started(settings(tmp_path)) as service:
        service._turn(slices)
    with started(settings(tmp_path)) as service:
        assert service.account().window_rows == 0


def test_stored_bins_that_cannot_be_read_are_told(tmp_path: Path, slices: list[Slice]) -> None:
    with started(settings(tmp_path)) as service:
        service._turn(lately(slices))
    files = sorted((tmp_path / "bins").glob("**/*.parquet"))  # two, where a minute ends
    for file in files:
        file.write_bytes(file.read_bytes()[:-20])
    heard = Heard()
    with started(settings(tmp_path), heard) as service:
        assert service.account().window_rows == 0
    assert len(heard.said) == len(files)
    for file, (level, event, fields) in zip(files, heard.said, strict=True):
        assert (level, event) == ("warning", "a stored file cannot be read")
        assert file.name in str(fields["file"])


def test_what_the_analysis_does_not_keep_up_with_is_counted(
    tmp_path: Path, slices: list[Slice], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sum(len(part.bins) for part in slices[-3:])
    monkeypatch.setattr(running, "MOST_WAITING_ROWS", rows)
    with started(settings(tmp_path)) as service:
        for part in slices:
            service._deliver([part])
        assert service.account().late_samples == sum(
            int(part.streams.samples.sum()) for part in slices[:-3]
        )
        assert [part.start_ns for part in service._take()] == [
            part.start_ns for part in slices[-3:]
        ]
        assert service._take() == []


def test_old_results_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def forget(_: Results, before_ns: int) -> int:
        asked.append(before_ns)
        return 0

    monkeypatch.setattr(Results, "forget", forget)
    monkeypatch.setattr(running, "FORGET_S", 0.0)
    chosen: Any = settings(tmp_path)
    before_ns = time.time_ns()
    with run(chosen):
        wait_until(lambda: len(asked) > 1)
    age_ns = round(chosen.results.keep_age_s * 1e9)
    assert before_ns - age_ns <= asked[0] <= time.time_ns() - age_ns
