from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from api.errors import ResultsError
from api.results.database import Results
from api.results.schema import METADATA
from tests.api.results.made import iterations, record, update, window

OPENER = """
import sys
from api.results.database import Results

print("ready", flush=True)
url = sys.stdin.readline().strip()
results = Results(url)
print(*(results.next_job_number() for _ in range(20)), flush=True)
results.close()
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


def test_a_newer_database_is_left_alone(url: str) -> None:
    with closing(Results(url)) as results:
        results.save(window(), [update(record(), iterations([0]))])
        with results._connections.writing() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = 'f00d'"))
    with pytest.raises(ResultsError, match=r"ringscope.*f00d.*knows 0001") as caught:
        Results(url)
    assert caught.value.reason.startswith("a newer ringscope wrote this database (version f00d")


def test_tables_of_another_program_are_left_alone(url: str) -> None:
    with closing(Results(url)) as results, results._connections.writing() as connection:
        # Its own alembic_version would be gone too.
        for table in ("iterations", "anomalies", "window", "numbering", "alembic_version"):
            connection.execute(text(f'DROP TABLE "{table}"'))
    with pytest.raises(ResultsError, match=r"jobs.* already exists") as caught:
        Results(url)
    again = caught.value.reason
    with pytest.raises(ResultsError) as caught:
        Results(url)
    assert caught.value.reason == again
