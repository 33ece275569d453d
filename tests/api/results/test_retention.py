from __future__ import annotations

from api.results.database import Results
from tests.api.made import SECOND_NS, START_NS
from tests.api.results.made import anomaly, iterations, record, tallies, update


def at(seconds: int) -> int:
    return START_NS + seconds * SECOND_NS


def test_an_ended_job_goes_with_all_it_has(results: Results) -> None:
    whole = (iterations([0, 1]), iterations([2], final=False), [anomaly(end_s=None)])
    results.save(
        None,
        [
            update(record("job-0", status="ended", last_s=10), *whole),
            update(record("job-1", status="ended", last_s=20), iterations([30])),
            update(record("job-2", status="hung", last_s=10), iterations([30])),
        ],
    )
    assert results.forget(at(20)) == 5
    assert [job.id for job in results.jobs()] == ["job-1", "job-2"]
    assert results.iterations("job-0") == []
    assert results.anomalies() == []
    assert results.forget(at(20)) == 0


def test_old_iterations_of_a_job_that_runs_go(results: Results) -> None:
    results.save(
        None,
        [
            update(record("job-0"), iterations(range(5)), iterations([5], final=False)),
            update(record("job-1"), iterations(range(3, 6))),
        ],
    )
    # The one of index 2 ends at 3 s, which is not before.
    assert results.forget(at(3)) == 2
    assert [one.index for one in results.iterations("job-0")] == [2, 3, 4, 5]
    assert [one.index for one in results.iterations("job-1")] == [3, 4, 5]


def test_counts_of_a_job_that_runs_do_not_fall(results: Results) -> None:
    results.save(None, [update(record(), iterations(range(5)))])
    assert results.forget(at(100)) == 5
    assert results.iterations("job-0") == []
    tally = tallies(results)["job-0"]
    assert (tally.iterations, tally.next_index, tally.last) == (5, 5, None)
    results.save(None, [update(record(), iterations([5]))])
    tally = tallies(results)["job-0"]
    assert (tally.iterations, tally.next_index, tally.last) == (6, 6, iterations([5])[0])


def test_anomalies_go_when_they_ended_before(results: Results) -> None:
    kept = [anomaly("late", end_s=30), anomaly("open", end_s=None)]
    results.save(None, [update(record(), anomalies=[anomaly("old", end_s=29), *kept])])
    assert results.forget(at(30)) == 1
    assert {found.id for _, found in results.anomalies()} == {"late", "open"}
