from __future__ import annotations

import threading
from contextlib import closing

import pytest

from api.results.database import Results
from api.results.records import Life, Tally
from tests.api.made import SECOND_NS, START_NS
from tests.api.results.made import anomaly, iterations, record, update, window


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


def test_what_is_not_there_is_none_or_empty(results: Results) -> None:
    assert results.window() is None
    assert results.job("job-0") is None
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
    assert results.tallies() == {
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
        before = results.tallies()
    with closing(Results(url)) as results:
        assert results.window() == window()
        assert results.jobs() == [given.record]
        assert results.iterations("job-0") == [*given.final, *given.provisional]
        assert results.anomalies() == [("job-0", anomaly())]
        assert results.tallies() == before


def test_check_leaves_no_trace(results: Results) -> None:
    assert results.check() is None
    assert results.check() is None
    assert results.jobs() == []
    assert results.tallies() == {}


def test_readers_see_whole_turns_while_one_writes(results: Results) -> None:
    turns, wrong, done = 40, list[object](), threading.Event()
    results.save(None, [update(record(last_s=0), iterations([0]))])

    def look() -> None:
        try:
            while not done.is_set():
                tally = results.tallies()["job-0"]
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
    assert results.tallies()["job-0"].iterations == turns
