from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event

from api.errors import ResultsError
from api.results.database import Results
from api.results.records import JobRecord, Tally
from tests.api.made import SECOND_NS, START_NS
from tests.api.results.made import (
    HOSTILE,
    anomaly,
    iterations,
    long_record,
    record,
    tallies,
    update,
    window,
)


def test_what_is_saved_comes_back(results: Results) -> None:
    job, final, provisional = record(), iterations([0, 1]), iterations([2], final=False)
    results.save(window(), [update(job, final, provisional, [anomaly()])])
    assert results.window() == window()
    assert results.jobs() == [job]
    assert results.job("job-0") == job
    assert results.iterations("job-0") == [*final, *provisional]
    assert results.anomalies() == [("job-0", anomaly())]


def test_nothing_is_a_turn_too(results: Results) -> None:
    results.save(None, [])
    assert results.window() is None
    assert results.jobs() == []
    assert tallies(results) == {}


def test_a_job_and_the_window_are_replaced(results: Results) -> None:
    results.save(window(600), [update(record(last_s=600))])
    results.save(window(601), [update(record(last_s=601, status="idle"))])
    assert results.window() == window(601)
    assert results.jobs() == [record(last_s=601, status="idle")]
    results.save(None, [])
    assert results.window() == window(601)


def test_a_final_iteration_is_never_changed(results: Results) -> None:
    results.save(None, [update(record(), iterations([0, 1, 2]))])
    changed = iterations([1, 2, 3], volume=1.0)
    results.save(None, [update(record(), changed, iterations([0, 4], final=False, volume=2.0))])
    kept = [*iterations([0, 1, 2]), *iterations([3], volume=1.0)]
    assert results.iterations("job-0") == [*kept, *iterations([4], final=False, volume=2.0)]
    assert tallies(results)["job-0"].iterations == 4


def test_provisional_iterations_are_replaced_and_become_final(results: Results) -> None:
    other = iterations([0, 1], final=False)
    results.save(None, [update(record("job-1"), (), other)])
    results.save(None, [update(record(), iterations([0]), iterations([1, 2, 3], final=False))])
    results.save(None, [update(record(), iterations([1]), iterations([2], final=False))])
    assert results.iterations("job-0") == [
        *iterations([0, 1]),
        *iterations([2], final=False),
    ]
    assert results.iterations("job-1") == list(other)


def test_an_iteration_given_as_both_is_final(results: Results) -> None:
    results.save(None, [update(record(), iterations([0, 0]), iterations([0], final=False))])
    assert results.iterations("job-0") == list(iterations([0]))
    assert tallies(results)["job-0"].iterations == 1


def test_a_gap_is_filled_and_counted(results: Results) -> None:
    results.save(None, [update(record(), iterations([0, 4]))])
    results.save(None, [update(record(), iterations([2, 4]))])
    assert results.iterations("job-0") == list(iterations([0, 2, 4]))
    assert tallies(results)["job-0"] == Tally(3, 5, iterations([4])[0], 0, 0)


def test_an_anomaly_is_replaced_by_its_id_within_its_job(results: Results) -> None:
    opened, closed = anomaly(end_s=None), anomaly(end_s=9)
    results.save(None, [update(record(name), anomalies=[opened]) for name in ("job-0", "job-1")])
    results.save(None, [update(record("job-1"), anomalies=[closed])])
    assert results.anomalies() == [("job-0", opened), ("job-1", closed)]


def test_of_two_anomalies_with_one_id_the_later_stays(results: Results) -> None:
    found = [anomaly(end_s=None), anomaly(end_s=9)]
    results.save(None, [update(record(), anomalies=found)])
    assert results.anomalies() == [("job-0", found[1])]


def test_hostile_texts_come_back_as_they_were(results: Results) -> None:
    updates = []
    for number, text in enumerate(HOSTILE):
        job = replace(record(text, name=text, first_s=number), state={text: [text]})
        found = replace(anomaly(text, kind=text), summary=text, evidence={text: text})
        updates.append(update(job, iterations([0]), anomalies=[found]))
    results.save(replace(window(), telemetry={"errors": list(HOSTILE)}), updates)
    assert results.jobs() == [changed.record for changed in updates]
    told = results.window()
    assert told is not None
    assert told.telemetry == {"errors": list(HOSTILE)}
    for changed in updates:
        job_id = changed.record.id
        assert results.job(job_id) == changed.record
        assert results.iterations(job_id) == list(iterations([0]))
        assert results.anomalies(job_id) == [(job_id, changed.anomalies[0])]
        assert results.anomalies(kind=job_id) == [(job_id, changed.anomalies[0])]


def test_numbers_of_numpy_are_stored_as_numbers(results: Results) -> None:
    (plain,) = iterations([3])
    odd: dict[str, Any] = {
        "index": np.int64(3),
        "start_ns": np.int64(plain.start_ns),
        "end_ns": np.int64(plain.end_ns),
        "bytes": np.float64(5e9),
        "complete": np.True_,
    }
    results.save(None, [update(record(), [replace(plain, **odd)])])
    assert results.iterations("job-0") == [plain]
    assert tallies(results)["job-0"] == Tally(1, 4, plain, 0, 0)


def test_a_document_that_is_no_json_changes_nothing(results: Results) -> None:
    bad = replace(record("job-1"), state={"counts": np.zeros(2)})
    with pytest.raises(TypeError, match="JSON"):
        results.save(window(), [update(record()), update(bad)])
    assert results.window() is None
    assert results.jobs() == []


def test_a_save_that_fails_changes_nothing(results: Results) -> None:
    results.save(window(600), [update(record())])

    def fail(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO anomalies"):
            raise OSError(5, "Input/output error")

    engine = results._connections._engine
    event.listen(engine, "before_cursor_execute", fail)
    with pytest.raises(ResultsError, match="Input/output error"):
        results.save(window(601), [update(record(last_s=601), iterations([0]), (), [anomaly()])])
    event.remove(engine, "before_cursor_execute", fail)
    assert results.window() == window(600)
    assert results.jobs() == [record()]
    assert results.iterations("job-0") == []


def test_statements_do_not_grow_with_jobs(results: Results) -> None:
    said: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        said.append(statement)

    event.listen(results._connections._engine, "before_cursor_execute", note)
    for jobs in (range(1), range(1, 65)):
        said.clear()
        updates = [
            update(record(f"job-{n}"), iterations([0]), iterations([1], final=False), [anomaly()])
            for n in jobs
        ]
        results.save(window(), updates)
        assert len([text for text in said if not text.startswith("BEGIN")]) == 7
    assert len(results.jobs()) == 65


@contextmanager
def noted(results: Results) -> Iterator[list[str]]:
    """Ids of the jobs whose long part is written in the block."""
    written: list[str] = []

    def note(_c: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if statement.startswith("INSERT INTO details"):
            rows = parameters if isinstance(parameters, list) else [parameters]
            written.extend(job for row in rows for job in row if str(job).startswith("job-"))

    engine = results._connections._engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield written
    finally:
        event.remove(engine, "before_cursor_execute", note)


def saved(results: Results, jobs: Sequence[JobRecord]) -> list[str]:
    """The jobs of these whose long part is written; all of them are stored then."""
    with noted(results) as written:
        results.save(None, [update(job) for job in jobs])
    for job in jobs:
        told = results.job(job.id)
        assert told == job
        assert list(told.document) == list(job.document)
    return written


def shorter(job: JobRecord, period_s: float) -> JobRecord:
    """The same with other things that each iteration changes."""
    return replace(
        job,
        document={**job.document, "period_s": period_s},
        last_seen_ns=START_NS + round(period_s * SECOND_NS),
    )


def test_a_long_part_is_written_where_it_changed(results: Results) -> None:
    first, second = long_record("job-0"), long_record("job-1")
    assert saved(results, [first, second]) == ["job-0", "job-1"]
    assert saved(results, [first, second]) == []
    assert saved(results, [shorter(first, 2.0), shorter(long_record("job-1"), 3.0)]) == []
    assert saved(results, [first, long_record("job-1", volume=8)]) == ["job-1"]
    assert saved(results, [first, long_record("job-1", volume=8)]) == []
    assert saved(results, [long_record("job-0", turns=601), second]) == ["job-0", "job-1"]


def test_an_ended_job_is_written_like_others(results: Results) -> None:
    job = long_record()
    ended = replace(job, document={**job.document, "status": "ended"})
    assert saved(results, [job]) == ["job-0"]
    assert saved(results, [ended]) == []
    assert saved(results, [ended]) == []
    assert results._written == {}


def test_after_a_restart_it_is_the_database_that_knows(url: str) -> None:
    with closing(Results(url)) as results:
        saved(results, [long_record("job-0"), long_record("job-1")])
    with closing(Results(url)) as results:
        assert saved(results, [long_record("job-0"), long_record("job-1", volume=8)]) == ["job-1"]


def test_what_another_one_wrote_is_seen(url: str) -> None:
    with closing(Results(url)) as results, closing(Results(url)) as other:
        assert saved(results, [long_record()]) == ["job-0"]
        assert saved(other, [long_record(volume=8)]) == ["job-0"]
        assert saved(results, [long_record()]) == ["job-0"]
        assert saved(other, [long_record(volume=8)]) == ["job-0"]


def test_a_job_that_was_forgotten_is_written_anew(results: Results) -> None:
    ended = long_record()
    ended = replace(ended, document={**ended.document, "status": "ended"})
    for job in (ended, long_record()):
        assert saved(results, [job]) == ["job-0"]
        saved(results, [ended])
        results.forget(START_NS + 10_000 * SECOND_NS)
        assert results.job("job-0") is None


def test_what_could_not_be_written_is_written_later(results: Results) -> None:
    saved(results, [long_record()])
    engine = results._connections._engine

    def fail(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO details"):
            raise OSError(5, "Input/output error")

    event.listen(engine, "before_cursor_execute", fail)
    with pytest.raises(ResultsError, match="Input/output error"):
        results.save(None, [update(long_record(volume=8))])
    event.remove(engine, "before_cursor_execute", fail)
    assert results.job("job-0") == long_record()
    assert saved(results, [long_record(volume=8)]) == ["job-0"]
