from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, inspect, text

from api.errors import ResultsError
from api.results.connections import sqlite_url
from api.results.database import Results
from api.results.records import JobRecord
from api.results.rows import anomaly_row, escaped
from api.results.schema import METADATA
from tests.api.made import SECOND_NS, START_NS
from tests.api.results.made import (
    HOSTILE,
    anomaly,
    iterations,
    long_record,
    record,
    update,
    window,
)

OPENER = """
import sys
from api.results.database import Results

print("ready", flush=True)
url = sys.stdin.readline().strip()
results = Results(url)
print(*(results.next_job_number() for _ in range(20)), flush=True)
results.close()
"""

LOGGER = """
import structlog
from api.logs import configure
from api.results.database import Results

configure("json", "debug")
Results(input()).close()
structlog.get_logger("test").debug("opened")
"""


def test_the_steps_lead_to_the_schema(results: Results) -> None:
    with results._connections.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        made = inspect(connection)
        for table in ("window", "numbering"):
            (check,) = made.get_check_constraints(table)
            assert check["name"] == f"one_{table}"
        (options,) = [
            index["dialect_options"]
            for index in made.get_indexes("iterations")
            if index["name"] == "iterations_provisional"
        ]
        assert "final" in str(options[f"{connection.dialect.name}_where"])


def test_processes_that_open_at_once_agree(url: str) -> None:
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write(url + "\n")
        opener.stdin.flush()
    numbers: list[int] = []
    for opener in openers:
        out, err = opener.communicate()
        assert (opener.returncode, err) == (0, "")
        numbers += map(int, out.split())
    assert sorted(numbers) == list(range(60))


@contextmanager
def first_version(url: str) -> Iterator[Connection]:
    """A database of version 0001, to be filled in the block."""
    engine = create_engine(url)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", "api.results:migrations")
        command.upgrade(config, "0001")
        yield connection
    engine.dispose()


def insert(connection: Connection, table: str, **values: object) -> None:
    names = ", ".join(f'"{name}"' for name in values)
    places = ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), values)


def insert_first_version(connection: Connection, job: JobRecord, document: str) -> None:
    """A job with one iteration and one anomaly, as version 0001 had them."""
    insert(
        connection,
        "jobs",
        id=escaped(job.id),
        status=escaped(job.document["status"]),
        first_seen_ns=job.first_seen_ns,
        last_seen_ns=job.last_seen_ns,
        window_start_ns=job.window_start_ns,
        window_end_ns=job.window_end_ns,
        next_index=1,
        complete_iterations=1,
        document=document,
        state=json.dumps(job.state),
    )
    (one,) = iterations([0])
    insert(
        connection,
        "iterations",
        job_id=escaped(job.id),
        index=0,
        start_ns=one.start_ns,
        end_ns=one.end_ns,
        bytes=one.bytes,
        complete=True,
        final=True,
    )
    row = anomaly_row(escaped(job.id), anomaly())
    insert(connection, "anomalies", **row)


def test_a_database_of_the_first_version_comes_along(url: str, tmp_path: Path) -> None:
    jobs = [
        long_record("job-0"),
        replace(record("job-1", status="ended", name="\ud800 \x00 é"), state={"é": ["\x00"]}),
        replace(record("job-2", last_s=700), document={"id": "job-2", "status": "idle"}),
        long_record(HOSTILE[3], volume=8),
    ]
    with first_version(url) as connection:
        for job in jobs:
            insert_first_version(connection, job, json.dumps(job.document))
    updates = [update(job, iterations([0]), (), [anomaly()]) for job in jobs]
    new = Results(sqlite_url(tmp_path / "new.sqlite"))
    with closing(Results(url)) as results, closing(new):
        new.save(None, updates)
        assert results.jobs() == new.jobs()
        assert results.summaries() == new.summaries()
        assert [list(told.document) for told in results.jobs()] == [
            list(told.document) for told in new.jobs()
        ]
        for job in jobs:
            assert results.job(job.id) == job
            assert results.iterations(job.id) == list(iterations([0]))
            assert results.anomalies(job.id) == [(job.id, anomaly())]
        # Rows still point to those of jobs, and what is saved and forgotten finds them.
        with (
            pytest.raises(ResultsError, match=r"(?i)foreign key"),
            results._connections.writing() as connection,
        ):
            connection.execute(text("DELETE FROM jobs"))
        results.save(None, [update(jobs[0], iterations([1])), *updates[1:]])
        assert results.iterations("job-0") == list(iterations([0, 1]))
        # One job, four iterations and one more with it, three anomalies and one more.
        assert results.forget(START_NS + 650 * SECOND_NS) == 10
        assert {job.id for job in results.jobs()} == {job.id for job in jobs} - {"job-1"}
    with closing(Results(url)) as results:
        assert len(results.jobs()) == 3


def test_a_job_that_cannot_come_along_is_named(url: str) -> None:
    with first_version(url) as connection:
        insert_first_version(connection, record("job-0"), json.dumps(record("job-0").document))
        insert_first_version(connection, record("job-1"), '{"status": "training",')
    for _ in range(2):
        with pytest.raises(ResultsError, match=r"the document of job job-1 is no JSON: Expecting"):
            Results(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        assert (
            connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "0001"
        )
        assert connection.execute(text("SELECT count(*) FROM jobs WHERE state != ''")).scalar() == 2
    engine.dispose()


def test_threads_that_open_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each its own database: what keeps processes apart keeps none of these apart."""
    threads = 6
    together = threading.Barrier(threads)

    def opened(number: int) -> int:
        together.wait()
        with closing(Results(sqlite_url(tmp_path / f"{number}.sqlite"))) as results:
            return results.next_job_number()

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(opened, range(threads))) == [0] * threads


def test_migrating_says_nothing(url: str) -> None:
    """Alembic tells each step, at "info", to whoever listens."""
    opener = subprocess.run(
        [sys.executable, "-c", LOGGER], input=url, capture_output=True, text=True, check=True
    )
    (said,) = [json.loads(line) for line in opener.stderr.splitlines()]
    assert said["event"] == "opened"


def test_a_newer_database_is_left_alone(url: str) -> None:
    with closing(Results(url)) as results:
        results.save(window(), [update(record(), iterations([0]))])
        with results._connections.writing() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = 'f00d'"))
    with pytest.raises(ResultsError, match=r"ringscope.*f00d.*knows 0002") as caught:
        Results(url)
    assert caught.value.reason.startswith("a newer ringscope wrote this database (version f00d")


def test_tables_of_another_program_are_left_alone(url: str) -> None:
    with closing(Results(url)) as results, results._connections.writing() as connection:
        # Its own alembic_version would be gone too.
        for table in (
            "iterations",
            "anomalies",
            "details",
            "window",
            "numbering",
            "alembic_version",
        ):
            connection.execute(text(f'DROP TABLE "{table}"'))
    with pytest.raises(ResultsError, match=r"jobs.* already exists") as caught:
        Results(url)
    again = caught.value.reason
    with pytest.raises(ResultsError) as caught:
        Results(url)
    assert caught.value.reason == again
