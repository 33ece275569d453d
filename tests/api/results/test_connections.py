from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

from api.errors import ResultsError
from api.results import connections
from api.results.connections import sqlite_url
from api.results.database import Results
from tests.api.results.made import anomaly, iterations, record, tallies, update, window

SECRET = "hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


@pytest.mark.parametrize("name", ["a b.sqlite", "50%25.sqlite", "what?.sqlite", "#@:é.sqlite"])
def test_a_path_may_hold_any_character(tmp_path: Path, name: str) -> None:
    with closing(Results(sqlite_url(tmp_path / name))) as results:
        results.save(window(), [])
    assert (tmp_path / name).stat().st_size > 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://op:{SECRET}@127.0.0.1:1/ringscope",
        f"postgresql+pg8000://op:{SECRET}@127.0.0.1:1/ringscope",
        f"postgresql://127.0.0.1:1/ringscope?password={SECRET}",
        f"postgresql://op:pass@{SECRET}@127.0.0.1:1/ringscope",
        f"postgresql://op:pass@/{SECRET}@127.0.0.1/ringscope",
        f"postgresql://op:{SECRET}@[::1/ringscope",
        f"postgresql://op@127.0.0.1:{SECRET}/ringscope",
        f"postgresql+nothing://op:{SECRET}@127.0.0.1/ringscope",
        f"mysql://op:{SECRET}@127.0.0.1/ringscope",
        f"sqlite://op:{SECRET}@127.0.0.1/ringscope",
        f"sqlite://op:{SECRET}@/",
        SECRET,
        f"://{SECRET}",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with pytest.raises(ResultsError) as caught:
        Results(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert len(caught.value.reason) > 5


def test_an_error_names_the_database() -> None:
    with pytest.raises(ResultsError) as caught:
        Results("postgresql://op:x@127.0.0.1:1/ringscope?sslmode=disable")
    assert caught.value.url == "postgresql+pg8000://op:***@127.0.0.1:1/ringscope"
    assert str(caught.value) == f"{caught.value.url}: {caught.value.reason}"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ResultsError, match="a file is needed"):
        Results(url)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "none" / "results.sqlite")
    with pytest.raises(ResultsError, match="unable to open database file") as caught:
        Results(url)
    assert caught.value.url == url


def test_a_directory_in_the_files_place(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="unable to open database file"):
        Results(sqlite_url(tmp_path))


def test_what_may_not_be_written_is_read_and_checked(file: Path) -> None:
    """A read-only connection stands for a read-only file, which root may write all the same."""
    with closing(Results(sqlite_url(file))) as results:
        results.save(window(600), [])
    with closing(Results(f"sqlite:///file:{file}?mode=ro&uri=true")) as results:
        assert results.window() == window(600)
        assert results.check() == "attempt to write a readonly database"
        with pytest.raises(ResultsError, match="attempt to write a readonly database"):
            results.save(window(601), [])


@pytest.mark.parametrize("content", [b"timestamp,host\n" * 1000, b"\x00" * 8192, b"SQLite form"])
def test_a_file_that_is_no_database_is_left_alone(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(ResultsError, match="file is not a database"):
        Results(sqlite_url(file))
    assert file.read_bytes() == content


def test_a_damaged_database_is_an_error_and_no_crash(file: Path) -> None:
    with closing(Results(sqlite_url(file))) as results:
        results.save(window(), [update(record(f"job-{n}")) for n in range(500)])
    with sqlite3.connect(file) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    with file.open("r+b") as damaged:
        damaged.seek(size)
        damaged.write(b"\xff" * (file.stat().st_size - size))
    with pytest.raises(ResultsError, match="malformed"):
        Results(sqlite_url(file))


def test_a_column_that_is_no_json(file: Path) -> None:
    with closing(Results(sqlite_url(file))) as results:
        results.save(None, [update(record())])
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("UPDATE details SET state = 'x'")
        with pytest.raises(ResultsError, match="a column holds no JSON"):
            results.jobs()


def test_a_writer_waits_and_gives_up_and_readers_do_not_care(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_PATIENCE_S", 0.05)
    with (
        closing(Results(sqlite_url(file))) as results,
        closing(sqlite3.connect(file, isolation_level=None)) as other,
    ):
        results.save(window(600), [])
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ResultsError, match="database is locked"):
            results.save(window(601), [])
        assert results.check() == "database is locked"
        assert results.window() == window(600)
        other.execute("ROLLBACK")
        results.save(window(601), [])
        assert results.check() is None
        assert results.window() == window(601)


@contextmanager
def full_disk(results: Results) -> Iterator[None]:
    """SQLite's own limit stands for the disk: the database cannot grow by a single page."""
    engine = results._connections._engine

    def limit(connection: sqlite3.Connection, _record: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    engine.dispose()
    event.listen(engine, "connect", limit)
    yield
    event.remove(engine, "connect", limit)
    engine.dispose()


def test_a_full_disk_loses_nothing_and_ends(file: Path) -> None:
    before = update(record(), iterations([0]), (), [anomaly()])
    after = update(record(last_s=700), iterations(range(1, 500)))
    with closing(Results(sqlite_url(file))) as results:
        results.save(window(600), [before])
        with full_disk(results):
            for _ in range(2):
                with pytest.raises(ResultsError, match="database or disk is full"):
                    results.save(window(700), [after])
            assert results.check() == "database or disk is full"
            assert results.window() == window(600)
            assert results.jobs() == [before.record]
            assert results.iterations("job-0") == list(before.final)
        assert results.check() is None
        results.save(window(700), [after])
        assert results.window() == window(700)
        assert len(results.iterations("job-0")) == 500


WRITER = """
import sys
from api.results.connections import sqlite_url
from api.results.database import Results
from tests.api.results.made import iterations, record, update, window

results = Results(sys.argv[1])
for turn in range(100_000):
    results.save(window(turn), [update(record(last_s=turn), iterations([turn]))])
    print(turn, flush=True)
"""

UNFINISHED = """
import sys, time
from api.results.database import Results
from api.results.saving import Saving
from tests.api.results.made import iterations, record, update, window

results = Results(sys.argv[1])
results.save(window(0), [update(record(last_s=0), iterations([0]))])
with results._connections.writing() as connection:
    Saving(window(1), [update(record(last_s=1), iterations([1]))], {}).write(connection)
    print(0, flush=True)
    time.sleep(3600)
"""


@pytest.mark.parametrize(("program", "turns"), [(WRITER, 20), (UNFINISHED, 1)])
def test_a_killed_writer_leaves_whole_turns(file: Path, program: str, turns: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", program, sqlite_url(file)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(turns):
        said = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    rest, _ = writer.communicate()
    said = max([said, *map(int, rest.split())])
    with closing(Results(sqlite_url(file))) as results:
        (job,) = results.jobs()
        turn = job.state["turns"]
        # One more may have been written, but not said.
        assert turn - said in ((0,) if program is UNFINISHED else (0, 1))
        assert results.window() == window(turn)
        assert results.iterations("job-0") == list(iterations(range(turn + 1)))
        results.save(window(turn + 1), [update(record(last_s=turn + 1), iterations([turn + 1]))])
        assert tallies(results)["job-0"].iterations == turn + 2
