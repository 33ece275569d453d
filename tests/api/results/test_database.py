from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import event

from api.results.database import Results
from api.results.records import JobRecord, Life, Tally
from api.results.summary import long_part, summarized
from tests.api.made import SECOND_NS, START_NS
from tests.api.results.made import (
    anomaly,
    iterations,
    long_record,
    record,
    tallies,
    update,
    window,
)


def test_jobs_come_by_first_seen_then_id(results: Results) -> None:
    seen = [("job-10", 5), ("job-9", 5), ("job-b", 0), ("job-B", 5), ("job-2", 9)]
    results.save(None, [update(record(name, first_s=first)) for name, first in seen])
    assert [job.id for job in results.jobs()] == ["job-b", "job-10", "job-9", "job-B", "job-2"]


def test_lives_say_where_jobs_stand(results: Results) -> None:
    assert results.lives() == []
    results.save(
        None,
        [
            update(record(first_s=3), iterations(range(4)), iterations([4], final=False)),
            update(record("job-1", status="ended", last_s=60)),
        ],
    )
    assert sorted(results.lives(), key=lambda life: life.id) == [
        Life("job-0", "training", START_NS + 3 * SECOND_NS, START_NS + 600 * SECOND_NS, 4),
        Life("job-1", "ended", START_NS, START_NS + 60 * SECOND_NS, 0),
    ]


def test_a_summary_has_all_but_what_is_long(results: Results) -> None:
    found = [anomaly("a"), anomaly("b", end_s=None)]
    results.save(None, [update(long_record(), iterations([0, 1]), (), found)])
    (summary,) = results.summaries()
    assert summary.id == "job-0"
    assert summary.document == summarized(long_record().document)
    assert summary.first_seen_ns == long_record().first_seen_ns
    assert summary.last_seen_ns == long_record().last_seen_ns
    assert summary.tally == Tally(2, 2, iterations([1])[0], 1, 2)
    assert results.summary("job-0") == summary
    assert results.detailed("job-0") == (summary, long_part(long_record().document))


def test_a_summary_s_digest_stands_for_what_it_lacks(results: Results) -> None:
    def digest(job: JobRecord) -> str:
        results.save(None, [update(job)])
        summary = results.summary("job-0")
        assert summary is not None
        return summary.digest

    first, short = long_record(), {**long_record().document, "period_s": 9.0}
    assert digest(first) == digest(replace(first, document=short, last_seen_ns=2 * START_NS))
    assert digest(first) != digest(long_record(volume=8))
    assert digest(first) == digest(long_record(volume=7))


STATUSES = {
    # By first seen: the third is the oldest.
    "job-0": ("training", 3),
    "job-1": ("ended", 4),
    "job-2": ("training", 1),
    "job-3": ("ended", 2),
    "job-4": ("idle", 5),
    "job-5": ("ended", 6),
}


@pytest.mark.parametrize(
    ("statuses", "limit", "jobs"),
    [
        ([], None, [2, 3, 0, 1, 4, 5]),
        ([], 6, [2, 3, 0, 1, 4, 5]),
        ([], 10**30, [2, 3, 0, 1, 4, 5]),
        # The oldest of those that have ended go first, then the oldest of the others.
        ([], 5, [2, 0, 1, 4, 5]),
        ([], 4, [2, 0, 4, 5]),
        ([], 3, [2, 0, 4]),
        ([], 2, [0, 4]),
        ([], 1, [4]),
        ([], 0, []),
        ([], -1, []),
        (["training"], None, [2, 0]),
        (["training"], 1, [0]),
        (["ended"], 2, [1, 5]),
        (["training", "idle"], None, [2, 0, 4]),
        (["hung"], None, []),
        (["hung"], 5, []),
    ],
)
def test_summaries_by_status_and_number(
    results: Results, statuses: list[str], limit: int | None, jobs: list[int]
) -> None:
    results.save(
        None,
        [
            update(record(name, status=status, first_s=first))
            for name, (status, first) in STATUSES.items()
        ],
    )
    told = results.summaries(*statuses, limit=limit)
    assert [summary.id for summary in told] == [f"job-{job}" for job in jobs]
    assert results.statuses() == {"training": 2, "ended": 3, "idle": 1}


def test_summaries_read_neither_documents_nor_states(results: Results) -> None:
    results.save(None, [update(long_record())])
    read: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        read.append(statement)

    event.listen(results._connections._engine, "before_cursor_execute", note)
    assert len(results.summaries()) == len(results.summaries("training", limit=1)) == 1
    assert results.summary("job-0") is not None
    assert results.statuses() == {"training": 1}
    assert len([text for text in read if text.startswith("SELECT")]) == 4
    assert not [text for text in read if "details" in text]
    results.job("job-0")
    assert "details" in read[-1]


def test_what_is_not_there_is_none_or_empty(results: Results) -> None:
    assert results.window() is None
    assert results.job("job-0") is None
    assert results.summary("job-0") is None
    assert results.detailed("job-0") is None
    assert results.summaries() == []
    assert results.statuses() == {}
    assert results.iterations("job-0") == []
    assert results.anomalies("job-0") == []


@pytest.mark.parametrize(
    ("after", "limit", "newest", "indices"),
    [
        (None, None, False, [0, 1, 2, 3, 4]),
        (None, None, True, [0, 1, 2, 3, 4]),
        (None, 2, False, [0, 1]),
        (None, 2, True, [3, 4]),
        (1, None, False, [2, 3, 4]),
        (1, 2, False, [2, 3]),
        (1, 2, True, [3, 4]),
        (3, 9, True, [4]),
        (4, None, False, []),
        (-1, 1, False, [0]),
        (None, 0, False, []),
        (None, -3, False, []),
        (10**30, 10**30, False, []),
        (-(10**30), 10**30, True, [0, 1, 2, 3, 4]),
    ],
)
def test_iterations_by_part(
    results: Results, after: int | None, limit: int | None, newest: bool, indices: list[int]
) -> None:
    given = [*iterations(range(3)), *iterations([3, 4], final=False)]
    results.save(
        None,
        [
            update(record(), given[:3], given[3:]),
            update(record("job-1"), iterations(range(9))),
        ],
    )
    told = results.iterations("job-0", after=after, limit=limit, newest=newest)
    assert told == [given[index] for index in indices]


def test_anomalies_by_part_the_newest_first(results: Results) -> None:
    first = anomaly("a", start_s=1, kind="hang")
    second = anomaly("b", start_s=2, end_s=None)
    third = anomaly("c", start_s=3, end_s=None, kind="hang")
    results.save(
        None,
        [
            update(record("job-0"), anomalies=[third, first]),
            update(record("job-1"), anomalies=[second]),
        ],
    )
    one, two, three = ("job-0", first), ("job-1", second), ("job-0", third)
    assert results.anomalies() == [three, two, one]
    assert results.anomalies(limit=2) == [three, two]
    assert results.anomalies("job-0") == [three, one]
    assert results.anomalies(kind="hang") == [three, one]
    assert results.anomalies(open_only=True) == [three, two]
    assert results.anomalies("job-0", kind="hang", open_only=True) == [three]
    assert results.anomalies("job-1", kind="hang") == []


def test_tallies(results: Results) -> None:
    cut = iterations([0], complete=False, volume=None)
    found = [anomaly("a"), anomaly("b", end_s=None), anomaly("c", end_s=None)]
    results.save(
        None,
        [
            update(
                record("job-0"),
                [*cut, *iterations([1, 2]), *iterations([3], complete=False)],
                iterations([4, 5], final=False),
                found,
            ),
            update(record("job-1"), cut),
            update(record("job-2"), (), iterations([0], final=False)),
        ],
    )
    assert tallies(results) == {
        "job-0": Tally(2, 4, iterations([2])[0], 2, 3),
        "job-1": Tally(0, 1, None, 0, 0),
        "job-2": Tally(0, 0, None, 0, 0),
    }


def test_a_number_is_never_given_twice(url: str) -> None:
    with closing(Results(url)) as results:
        assert [results.next_job_number() for _ in range(3)] == [0, 1, 2]
        results.save(None, [update(record("job-2", status="ended"))])
        results.forget(START_NS + 10_000 * SECOND_NS)
        assert results.jobs() == []
        assert results.next_job_number() == 3
    with closing(Results(url)) as results:
        assert results.next_job_number() == 4


def test_everything_is_there_after_a_restart(url: str) -> None:
    given = update(record(), iterations([0, 1]), iterations([2], final=False), [anomaly()])
    with closing(Results(url)) as results:
        results.save(window(), [given])
        before = tallies(results)
    with closing(Results(url)) as results:
        assert results.window() == window()
        assert results.jobs() == [given.record]
        assert results.iterations("job-0") == [*given.final, *given.provisional]
        assert results.anomalies() == [("job-0", anomaly())]
        assert tallies(results) == before


def test_check_leaves_no_trace(results: Results) -> None:
    assert results.check() is None
    assert results.check() is None
    assert results.jobs() == []
    assert tallies(results) == {}


def test_readers_see_whole_turns_while_one_writes(results: Results) -> None:
    turns, wrong, done = 40, list[object](), threading.Event()
    results.save(None, [update(record(last_s=0), iterations([0]))])

    def look() -> None:
        try:
            while not done.is_set():
                tally = tallies(results)["job-0"]
                if tally.last is None or tally.iterations != tally.last.index + 1:
                    wrong.append(tally)
                job = results.job("job-0")
                if job is None or job.state["turns"] < tally.iterations - 1:
                    wrong.append(job)
                if results.check() is not None:
                    wrong.append("check")
        except Exception as error:  # noqa: BLE001 - the test's thread shows it
            wrong.append(error)

    readers = [threading.Thread(target=look) for _ in range(4)]
    for reader in readers:
        reader.start()
    try:
        for turn in range(1, turns):
            results.save(None, [update(record(last_s=turn), iterations([turn]))])
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == []
    assert tallies(results)["job-0"].iterations == turns
