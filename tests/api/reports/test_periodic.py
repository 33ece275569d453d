from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from api.contract import job_document, telemetry_document, unassigned_document
from api.reports import periodic
from api.reports.job import job_report
from api.reports.periodic import Reports
from api.reports.shelf import Shelf
from api.results.connections import sqlite_url
from api.results.database import Results
from api.results.records import JobRecord, JobUpdate, WindowRecord
from api.settings.model import ReportsSection
from tests.api import made
from tests.api.http.made import ACCOUNT, steps

SECOND_NS = made.SECOND_NS
NOON_NS = 1_796_040_000 * SECOND_NS  # 2026-11-30 12:00:00


class Log:
    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, object]]] = []

    def say(self, level: str, event: str, **fields: object) -> None:
        self.said.append((event, fields))


class Bench:
    """Reports over a database that a test fills, with a clock that it moves."""

    def __init__(self, results: Results, directory: Path) -> None:
        self.results = results
        self.directory = directory
        self.log = Log()
        self.clock_s = 0.0
        self.reports = self.opened()

    def opened(self, keep: int = 100, every_s: float = 60.0, keep_age_s: float = 3600.0) -> Reports:
        return Reports(
            self.results,
            self.directory,
            ReportsSection(every_s=every_s, keep=keep),
            keep_age_s,
            lambda: ACCOUNT,
            self.log,
            lambda: self.clock_s,
        )

    def save(
        self,
        now_s: float,
        *,
        job: str = "job-1",
        status: str = "training",
        iterations: int = 7,
        first_s: float = -300.0,
    ) -> None:
        """A turn of the analysis: times in s after noon."""
        now_ns = NOON_NS + round(now_s * SECOND_NS)
        ended_ns = now_ns if status == "ended" else None
        document = job_document(made.job(id=job, status=status, ended_at_ns=ended_ns))
        del document["iterations"], document["anomalies"]
        record = JobRecord(
            job, document, {}, now_ns - 10**11, now_ns, NOON_NS + round(first_s * SECOND_NS), now_ns
        )
        window = WindowRecord(
            now_ns - 10**11,
            now_ns,
            telemetry_document(made.telemetry()),
            unassigned_document(made.analysis().unassigned),
        )
        anomalies = made.job().anomalies if iterations else ()
        self.results.save(window, [JobUpdate(record, steps(iterations), (), anomalies)])

    def names(self, job: str = "job-1") -> list[str]:
        folder = self.directory / job
        if not folder.is_dir():
            return []
        stems = sorted(path.stem for path in folder.iterdir() if path.suffix == ".html")
        assert stems == sorted(path.stem for path in folder.iterdir() if path.suffix == ".json")
        return [stem[9:15] for stem in stems]

    def document(self, clock: str) -> Any:
        return json.loads((self.directory / "job-1" / f"20261130T{clock}Z.json").read_text())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(Results(sqlite_url(tmp_path / "results.sqlite"))) as results:
        yield Bench(results, tmp_path / "reports")


def test_never_is_never(bench: Bench) -> None:
    bench.save(1.5)
    never = bench.opened(every_s=0.0)
    never.write_due()
    never.run(threading.Event())  # comes back at once
    assert not bench.directory.exists()


def test_nothing_is_due_before_a_window(bench: Bench) -> None:
    bench.reports.write_due()
    assert not bench.directory.exists()
    assert bench.log.said == []


def test_one_report_each_minute_of_event_time(bench: Bench) -> None:
    for now_s in (1.5, 2.5, 59.5, 60.5, 61.5, 200.5):
        bench.save(now_s)
        bench.reports.write_due()
        bench.reports.write_due()
    assert bench.names() == ["120001", "120100", "120320"]
    assert bench.log.said == []
    page = (bench.directory / "job-1" / "20261130T120320Z.html").read_text()
    assert "ringscope, 2026-11-30 12:03:20 UTC" in page
    assert 'Samples too late to be analysed: <b class="warn">11</b>' in page
    document = bench.document("120320")
    assert document["window"]["end"] == "2026-11-30T12:03:20.500000000Z"
    assert [i["index"] for i in document["jobs"][0]["iterations"]] == list(range(7))
    assert [a["id"] for a in document["jobs"][0]["anomalies"]] == ["slow-5"]


def test_job_without_iterations_has_no_report_until_it_has(bench: Bench) -> None:
    bench.save(1.5, iterations=0)
    bench.reports.write_due()
    assert bench.names() == []
    bench.save(2.5, iterations=3)
    bench.reports.write_due()
    assert bench.names() == ["120002"]


def test_job_that_has_just_begun_waits_for_the_next_minute(bench: Bench) -> None:
    bench.save(59.5, first_s=1.0)
    bench.reports.write_due()
    assert bench.names() == []
    bench.save(60.0, first_s=1.0)
    bench.reports.write_due()
    assert bench.names() == ["120100"]


def test_restart_repeats_none_and_skips_none(bench: Bench) -> None:
    bench.save(1.5)
    bench.reports.write_due()
    bench.save(30.0)
    bench.opened().write_due()
    assert bench.names() == ["120001"]
    bench.save(70.0)
    bench.opened().write_due()
    assert bench.names() == ["120001", "120110"]


def test_job_that_ended_has_one_more_report_and_then_none(bench: Bench) -> None:
    bench.save(1.2)
    bench.reports.write_due()
    bench.save(1.7, status="ended")  # within the second that names the last report
    bench.reports.write_due()
    assert bench.names() == ["120001", "120002"]
    assert bench.document("120001")["jobs"][0]["status"] == "training"
    assert bench.document("120002")["jobs"][0]["status"] == "ended"
    assert bench.document("120002")["window"]["end"] == "2026-11-30T12:00:01.700000000Z"
    bench.save(500.0, job="job-2")
    for reports in (bench.reports, bench.opened()):
        reports.write_due()
    assert bench.names() == ["120001", "120002"]
    assert bench.names("job-2") == ["120820"]


def test_jobs_that_ended_before_reports_were_asked_for_have_none(bench: Bench) -> None:
    bench.save(1.0, job="job-1", status="ended")
    bench.save(30.0, job="job-2", status="ended")
    bench.save(80.0, job="job-3")
    bench.reports.write_due()
    assert [bench.names(job) for job in ("job-1", "job-2", "job-3")] == [
        [],
        ["120030"],
        ["120120"],
    ]


def test_only_so_many_are_kept(bench: Bench) -> None:
    reports = bench.opened(keep=2)
    for minute in range(5):
        bench.save(60.0 * minute)
        reports.write_due()
    assert bench.names() == ["120300", "120400"]


def test_reports_of_forgotten_jobs_go_with_age(bench: Bench) -> None:
    bench.save(0.0, job="job-1", status="ended")
    bench.save(0.0, job="job-2")
    bench.reports.write_due()
    assert bench.names("job-1") == ["120000"]
    bench.results.forget(NOON_NS + 1)
    bench.save(3599.0, job="job-2")
    bench.clock_s += 3600.0
    bench.reports.write_due()
    assert bench.names("job-1") == ["120000"]
    bench.save(3601.0, job="job-2")
    bench.clock_s += 3600.0
    bench.reports.write_due()
    assert not (bench.directory / "job-1").exists()
    assert bench.names("job-2") == ["120000", "125959", "130001"]


def test_full_disk_is_said_and_tried_again_and_stops_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.save(1.0, job="job-1")
    bench.save(1.0, job="job-2")
    write = Shelf.write

    def full(shelf: Shelf, job: str, *rest: Any) -> None:
        if job == "job-1":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(shelf, job, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Shelf, "write", full)
        bench.reports.write_due()
        bench.reports.write_due()  # too early for another try
    assert bench.log.said == [
        (
            "a report could not be written",
            {"job": "job-1", "reason": "[Errno 28] No space left on device"},
        )
    ]
    assert (bench.names("job-1"), bench.names("job-2")) == ([], ["120001"])
    bench.clock_s += periodic.RETRY_S
    bench.reports.write_due()
    assert bench.names("job-1") == ["120001"]


def test_job_that_cannot_be_drawn_stops_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.save(1.0, job="job-1")
    bench.save(1.0, job="job-2")

    def broken(job: dict[str, Any], *rest: Any, **options: Any) -> Any:
        return job_report(job if job["id"] != "job-1" else {}, *rest, **options)

    monkeypatch.setattr(periodic, "job_report", broken)
    bench.reports.write_due()
    ((event, fields),) = bench.log.said
    assert (event, fields["job"]) == ("a report could not be written", "job-1")
    assert isinstance(fields["exc_info"], KeyError)
    assert (bench.names("job-1"), bench.names("job-2")) == ([], ["120001"])


def test_database_that_fails_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.save(1.0)

    def fails() -> None:
        raise RuntimeError("gone")

    monkeypatch.setattr(bench.results, "lives", fails)
    bench.reports.write_due()
    assert [event for event, _ in bench.log.said] == ["reports cannot be looked after"]


def test_id_that_is_no_folder_has_no_report(bench: Bench) -> None:
    bench.save(1.0, job="../job-1")
    bench.reports.write_due()
    assert not bench.directory.exists()
    assert bench.log.said == []


def test_very_long_job_is_reported_by_its_newest_iterations(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic, "MOST_ITERATIONS", 3)
    bench.save(1.0)
    bench.reports.write_due()
    told = bench.document("120001")["jobs"][0]["iterations"]
    assert [iteration["index"] for iteration in told] == [4, 5, 6]


def test_writing_ends_when_it_is_told_to(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for job in ("job-1", "job-2"):
        bench.save(1.0, job=job)
    monkeypatch.setattr(periodic, "LOOK_S", 0.0)
    ended = threading.Event()
    waits: list[float | None] = []

    def wait(seconds: float | None = None) -> bool:
        waits.append(seconds)
        return len(waits) > 1  # the pause after the first report

    monkeypatch.setattr(ended, "wait", wait)
    bench.reports.run(ended)
    assert sorted(bench.names("job-1") + bench.names("job-2")) == ["120001"]
    assert waits[0] == 0.0
