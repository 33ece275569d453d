"""The commands that read from the running service: what they write, to the letter."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.cli import anomalies, doctor, exporters, job, jobs, top
from api.cli.exit import DONE, NOTHING_DONE
from api.cli.page import clean
from api.client import Client
from api.http.server import HttpServer
from api.reports.text import Line, render_lines
from tests.api.http import made
from tests.api.http.made import END_NS, SECOND_NS, Service

REPOSITORY = Path(__file__).resolve().parents[3]
NOW_NS = END_NS + 130 * SECOND_NS
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def url(service: Service) -> Generator[str]:
    server = HttpServer(service.app, "127.0.0.1", 0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture(scope="module")
def nowhere() -> str:
    """Where nobody answers: the port was free a moment ago, and is one that nobody is given."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def text(*lines: Line, width: int = 1000) -> str:
    return render_lines(lines, width=width, colour=False)


def test_jobs(service: Service) -> None:
    found = clean(service.json("/api/v1/jobs")["jobs"])
    assert text(jobs.job_table(found, NOW_NS)) == (
        "job           status    hosts            period             sizes             groups"
        "          iterations  last  seen       anomalies    name\n"
        "job-2 (0.50)  ended     1 (2 endpoints)  ?                  ?                 ?     "
        '          0           ?     1 d ago    -            <b>"quoted"\\�\n'
        "job-1 (0.96)  training  4 (8 endpoints)  1 s ± 2 ms (0.97)  dp ? tp ? (0.90)  "
        "2 dp ring of 4  4           1 s   2 min ago  1 open of 2  ?\n"
    )


def test_job(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert job.run("job-1", url, as_json=False) == DONE
    assert capsys.readouterr().out == (REPOSITORY / "tests/api/cli/job.txt").read_text()


def test_anomalies(service: Service) -> None:
    found = clean(service.json("/api/v1/anomalies")["anomalies"])
    assert text(anomalies.anomaly_table(found, NOW_NS)) == (
        "began      lasted  job    severity  kind            verdict    sure"
        "  what                                             where\n"
        "2 min ago  open    job-1  critical  hang            host       0.80"
        "  nothing is sent since 12:19:07                   host gpu-003, job job-1\n"
        "2 min ago  1.55 s  job-1  warning   slow_iteration  undecided  0.95"
        "  iteration 5 took 1.55 s, 55 % longer than usual  job job-1\n"
    )


def test_exporters(service: Service) -> None:
    found = clean(service.json("/api/v1/exporters")["service"])
    assert text(*exporters.page_lines(found, NOW_NS)) == (
        "4,006 flow and 207 counter samples in 1,001 datagrams since the start 1 d ago\n"
        "datagrams lost: 2 before arrival, 3 in the kernel, 4 before the decoder, 5 refused,"
        " 8 not readable; samples lost: 11 late, 23 not stored\n"
        "\n"
        "exporter       state          rate              time by       clock             "
        "  datagrams  flow samples  counter samples  lost  samples lost  errors\n"
        "10.255.0.1/7   ok             1:1,000, 1:2,000  interpolated  -3.204 s ± 0.02 ms"
        "  900        4,000         200              2     42            8\n"
        "2001:db8::9/0  counters_only  ?                 ?             ?                 "
        "  101        0             7                0     0             0\n"
        "10.255.0.1/7: 1,010 of 5,000 samples did not come that were due by the pools they are"
        " chosen from\n"
        "10.255.0.1/7: 4,000 of 8,000 samples did not come that were due by the packets that its"
        " ports counted\n"
        "\n"
        "2026-11-30 12:19:00  10.255.0.1/7  its agent started again: its uptime fell\n"
        "2026-11-30 12:19:08  10.255.0.1/7  sampling rate of a port changed: 1:1,000 -> 1:2,000"
        " (64 times)\n"
    )


def test_exporters_of_a_service_that_has_heard_nothing(service: Service) -> None:
    lost = (*exporters.LOST_DATAGRAMS, *exporters.LOST_SAMPLES)
    counters = dict.fromkeys((name for name, _ in lost), 0)
    found = {
        **service.json("/api/v1/exporters")["service"],
        **counters,
        "exporters": [],
    }
    assert text(*exporters.page_lines(found, NOW_NS)).splitlines()[1:] == [
        "nothing lost",
        "no exporter: ringscope doctor says how to point a switch here",
    ]


class TestTop:
    @pytest.fixture
    def seen(self, url: str) -> top.Look:
        return replace(top.look(Client(url), 50), now_ns=NOW_NS)

    def test_one_look(self, seen: top.Look) -> None:
        assert text(*top.page_lines(seen, None, "http://here")) == (
            "ringscope  http://here  12:21:18.449 UTC  up 1 d\n"
            "0 samples/s, 4,006 in all, from 2 exporters (1 not ok); analysis 3.2 s behind\n"
            "datagrams lost: 2 before arrival, 3 in the kernel, 4 before the decoder, 5 refused,"
            " 8 not readable; samples lost: 11 late, 23 not stored\n"
            "\n"
            "job           status    hosts  period             iterations  last  newest   seen"
            "       anomalies    name\n"
            "job-1 (0.96)  training  4      1 s ± 2 ms (0.97)  4           1 s   ·▂▃▂▂█▂"
            "  2 min ago  1 open of 2  ?\n"
            "not shown: 1 that ended\n"
        )

    def test_samples_are_counted_since_the_look_before(self, seen: top.Look) -> None:
        later = replace(
            seen,
            now_ns=NOW_NS + 2 * SECOND_NS,
            service={**seen.service, "flow_samples": 4006 + 3000},
        )
        assert "\n1,500 samples/s, 7,006 in all" in text(*top.page_lines(later, seen, ""))

    def test_a_service_started_anew_counts_from_its_start(self, seen: top.Look) -> None:
        anew = {**seen.service, "started_at": "2026-11-30T12:21:08.449747801Z", "flow_samples": 500}
        later = replace(seen, service=anew)
        assert "\n50 samples/s, 500 in all" in text(*top.page_lines(later, seen, ""))

    def test_jobs_beyond_the_screen_are_counted(self, url: str, own: Service) -> None:
        own.results.save(
            None,
            [
                made.update(replace(made.training(), id=f"job-{n}", anomalies=()), n, END_NS)
                for n in range(3, 6)
            ],
        )
        server = HttpServer(own.app, "127.0.0.1", 0)
        server.start()
        now = top.look(Client(f"http://127.0.0.1:{server.port}"), 2)
        server.stop()
        assert (len(now.jobs), now.hidden, now.ended) == (2, 2, 1)
        assert text(*top.page_lines(now, None, "")).splitlines()[-1] == (
            "not shown: 2 more that run, 1 that ended"
        )

    def test_without_a_terminal_it_shows_once(
        self, url: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert top.run(url) == DONE
        assert "job-1 (0.96)" in capsys.readouterr().out


def test_doctor_says_what_to_do_below_what_is_so(service: Service) -> None:
    found = clean(service.json("/api/v1/doctor")["findings"])
    lines = text(*doctor.page_lines(found), width=80).splitlines()
    assert lines[:4] == [
        "ok     service     it runs, and all of its parts work",
        "ok     datagrams   1,001 came to [::]:6343",
        "note   senders     5 datagrams were refused: their senders are not in",
        "                   listen.allow ()",
    ]
    assert lines[-1] == "ok     jobs        1 job told of (1 training): ringscope jobs"


def test_doctor_ends_with_1_where_something_is_wrong(
    own: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    server = HttpServer(own.app, "127.0.0.1", 0)
    server.start()
    where = f"http://127.0.0.1:{server.port}"
    assert doctor.run(where, as_json=False) == DONE
    own.view.now = replace(own.view.now, datagrams=0)
    assert doctor.run(where, as_json=False) == doctor.SOMETHING_WRONG
    server.stop()
    assert doctor.run(where, as_json=False) == NOTHING_DONE
    said = capsys.readouterr()
    assert "wrong  datagrams   none has come to [::]:6343" in said.out
    assert said.err.startswith(f"ringscope: {where}: nobody answers there: Connection refused\n")
    assert "systemctl status ringscope" in said.err


COMMANDS: dict[str, tuple[Callable[[str], int], str]] = {
    "jobs": (lambda url: jobs.run(url, None, as_json=True), "/api/v1/jobs"),
    "ended": (lambda url: jobs.run(url, "ended", as_json=True), "/api/v1/jobs?status=ended"),
    "job": (lambda url: job.run("job-1", url, as_json=True), "/api/v1/jobs/job-1"),
    "anomalies": (
        lambda url: anomalies.run(url, None, open_only=False, as_json=True),
        "/api/v1/anomalies",
    ),
    "open": (
        lambda url: anomalies.run(url, "job-1", open_only=True, as_json=True),
        "/api/v1/anomalies?job=job-1&open=true",
    ),
    "exporters": (lambda url: exporters.run(url, as_json=True), "/api/v1/exporters"),
    "doctor": (lambda url: doctor.run(url, as_json=True), "/api/v1/doctor"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_what_rest_answers(
    url: str, service: Service, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    run, path = COMMANDS[command]
    assert run(url) == DONE
    said = capsys.readouterr()
    assert json.loads(said.out) == service.json(path)
    assert said.out.isascii()
    assert said.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_service_nothing_is_done(
    nowhere: str, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert COMMANDS[command][0](nowhere) == NOTHING_DONE
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0] == (
        f"ringscope: {nowhere}: nobody answers there: Connection refused"
    )


def test_no_job_is_said_in_words(empty: Service, capsys: pytest.CaptureFixture[str]) -> None:
    server = HttpServer(empty.app, "127.0.0.1", 0)
    server.start()
    where = f"http://127.0.0.1:{server.port}"
    jobs.run(where, None, as_json=False)
    jobs.run(where, "idle", as_json=False)
    anomalies.run(where, None, open_only=False, as_json=False)
    top.run(where)
    server.stop()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["no job: ringscope doctor says why", "no job is idle", "no anomaly"]
    assert lines[-1] == "no job: ringscope doctor says why"


def test_anomalies_of_a_job_that_is_not_there(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert anomalies.run(url, "job-7", open_only=False, as_json=False) == NOTHING_DONE
    assert "no job has the id 'job-7': there are job-1, job-2" in capsys.readouterr().err


def ringscope(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "api", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_the_environment_says_where_the_service_is(url: str, nowhere: str) -> None:
    ended = ringscope("jobs", "--status", "ended", "--json", RINGSCOPE_URL=url)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [each["id"] for each in json.loads(ended.stdout)["jobs"]] == ["job-2"]
    there = ringscope("doctor", "--url", url, RINGSCOPE_URL=nowhere)
    assert there.returncode == 0, there.stderr
    assert ringscope("doctor", RINGSCOPE_URL=nowhere).returncode == NOTHING_DONE


def test_reading_loads_no_compiler() -> None:
    """Answers at once, held without a clock: by what is not imported."""
    names = ("jobs", "job", "anomalies", "exporters", "top", "doctor")
    code = "import sys\n" + "".join(f"import api.cli.{name}\n" for name in names)
    code += (
        "print(sorted({'numba', 'scipy', 'pyarrow', 'sqlalchemy', 'fastapi'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


class Terminal:
    """`ringscope top` on a terminal of its own."""

    def __init__(self, url: str) -> None:
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "api", "top", "--url", url],
            cwd=REPOSITORY,
            env={**os.environ, "TERM": "xterm", "LINES": "30", "COLUMNS": "200"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self._theirs = theirs
        self.said = ""

    def wait_for(self, words: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while words not in self.said:
            assert time.monotonic() < end_s, self.said
            if select.select([self.ours], [], [], 1.0)[0]:
                self.said += os.read(self.ours, 1 << 16).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def end(self) -> int:
        """The exit code; the terminal must be as it was."""
        end_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:  # who writes to a terminal nobody reads waits for ever
            assert time.monotonic() < end_s
            if select.select([self.ours], [], [], 0.1)[0]:
                self.said += os.read(self.ours, 1 << 16).decode(errors="replace")
        assert termios.tcgetattr(self._theirs) == self.before
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self._theirs)


class TestOnATerminal:
    @pytest.mark.parametrize("key", ["q", "Q"])
    def test_q_ends_it(self, url: str, key: str) -> None:
        with closing(Terminal(url)) as terminal:
            terminal.wait_for("q ends")
            terminal.type("x")
            terminal.type(key)
            assert terminal.end() == DONE
            assert "job-1" in terminal.said
            assert "training" in terminal.said

    def test_an_interrupt_ends_it(self, url: str) -> None:
        with closing(Terminal(url)) as terminal:
            terminal.wait_for("q ends")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.end() == DONE

    def test_a_service_that_goes_is_waited_for(self, own: Service) -> None:
        server = HttpServer(own.app, "127.0.0.1", 0)
        server.start()
        with closing(Terminal(f"http://127.0.0.1:{server.port}")) as terminal:
            terminal.wait_for("q ends")
            server.stop()
            terminal.wait_for("asked again")  # the rest may stand on the next line
            terminal.said = ""
            again = HttpServer(own.app, "127.0.0.1", server.port)
            again.start()
            terminal.wait_for("q ends")
            terminal.type("q")
            assert terminal.end() == DONE
            again.stop()

    def test_a_service_that_is_not_there_opens_no_screen(self, nowhere: str) -> None:
        with closing(Terminal(nowhere)) as terminal:
            assert terminal.end() == NOTHING_DONE
            assert "nobody answers there" in terminal.said
            assert "\x1b[?1049h" not in terminal.said


def documents_that_are_wrong(document: dict[str, Any]) -> Generator[dict[str, Any]]:
    for name in ("groups", "iterations", "parallelism"):
        yield {**document, name: [{"kind": "dp"}]}
        yield {**document, name: None}


def test_a_job_that_is_none_is_an_error_of_one_line(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in documents_that_are_wrong(service.json("/api/v1/jobs/job-1")):
        monkeypatch.setattr(Client, "job", lambda self, name, wrong=wrong: wrong)
        assert job.run("job-1", "http://here", as_json=False) == NOTHING_DONE
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("ringscope: http://here: its answers cannot be read: ")
        assert said.err.count("\n") == 1
