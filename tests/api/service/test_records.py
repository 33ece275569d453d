from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from api.contract import job_document
from api.results.database import Results
from api.results.records import WindowRecord
from api.service.records import FEWEST_COUNTED, restored, update_of
from patterns.beat import Beat
from patterns.live import LiveJob
from patterns.numbering import KEPT, Numbering
from patterns.result import Iteration
from reconstruct.jobs import Candidate
from reconstruct.period import Period
from tests.api.made import SECOND_NS, START_NS, iterations, job
from tests.api.results.conftest import results, url

__all__ = ["results", "url"]  # fixtures

WINDOW = WindowRecord(START_NS, START_NS + 60 * SECOND_NS, {"datagrams": 3}, {"bytes": 0})
NONE = np.zeros(0, np.int32)
STEPS = iterations([0.4, *[1.0] * 9, 2.5, *[1.0] * 5])
SLOW = 10  # the slow one of these


def beat(**changes: Any) -> Beat:
    values: dict[str, Any] = {
        "connections": np.array([5], np.uint64),
        "groups": (),
        "marks": "burst",
        "period_s": 1.01,
        "volume_bytes": 5e9,
        "known_ns": 0,
        "samples_per_turn": 400,
        "marks_per_turn": 40,
    }
    return Beat(**{**values, **changes})


def live(steps: tuple[Iteration, ...] = STEPS, **changes: Any) -> LiveJob:
    found = Candidate(
        endpoints=NONE,
        connections=NONE,
        period=Period(1.02, 0.9, 0.0, 0.0),
        turns_ns=np.zeros(0, np.int64),
        known_ns=0,
        rhythm=0.8,
        components=2,
        reliable=0.7,
    )
    values: dict[str, Any] = {
        "id": "job-7",
        "endpoints": frozenset(job().endpoints),
        "keys": np.array([1, 2**64 - 1], np.uint64),
        "found": found,
        "sightings": 4,
        "first_seen_ns": START_NS,
        "last_seen_ns": START_NS + 50 * SECOND_NS,
        "result": job(id="of the study", period_s=1.0),
        "beat": beat(),
        "firm": True,
        "numbering": Numbering(steps),
    }
    return LiveJob(**{**values, **changes})


def test_the_document_is_the_jobs_without_its_long_lists() -> None:
    update = update_of(live(STEPS[:3]), None, 0, WINDOW)
    expected = job_document(job(id="job-7"))
    del expected["iterations"], expected["anomalies"]
    assert update.record.document == expected
    assert update.record.id == "job-7"
    assert (update.record.window_start_ns, update.record.window_end_ns) == (
        WINDOW.start_ns,
        WINDOW.end_ns,
    )
    assert update.record.first_seen_ns == START_NS
    assert update.record.last_seen_ns == START_NS + 50 * SECOND_NS


def test_the_period_is_that_of_the_iterations_that_were_counted() -> None:
    """From five complete ones on, their median; before, the study's."""
    steps = iterations([0.4, *[1.25] * FEWEST_COUNTED])
    few, enough = (
        update_of(live(given), None, 0, WINDOW).record.document for given in (steps[:-1], steps)
    )
    assert (few["period_s"], few["period_ci_s"]) == (1.0, [0.998, 1.002])
    assert (enough["period_s"], enough["period_ci_s"]) == (1.25, [1.25, 1.25])


def test_only_what_is_not_stored_yet_is_given() -> None:
    provisional = (replace(STEPS[-1], index=16, final=False),)
    update = update_of(live(provisional=provisional), None, 12, WINDOW)
    assert [each.index for each in update.final] == [12, 13, 14, 15]
    assert update.provisional == provisional


@pytest.mark.parametrize("saved", [0, SLOW, SLOW + 1])
def test_a_slow_iteration_is_told_when_it_is_stored(saved: int) -> None:
    anomalies = update_of(live(), None, saved, WINDOW).anomalies
    assert [anomaly.id for anomaly in anomalies] == (
        [f"job-7/slow_iteration/{SLOW}"] if saved <= SLOW else []
    )


def test_times_that_are_not_good_tell_of_no_slow_iteration() -> None:
    assert update_of(live(beat=beat(known_ns=1)), None, 0, WINDOW).anomalies == ()
    assert update_of(live(beat=None), None, 0, WINDOW).anomalies == ()


def test_a_job_that_ended_says_when() -> None:
    document = update_of(live(status="ended"), None, 0, WINDOW).record.document
    assert document["status"] == "ended"
    assert document["ended_at"] is not None
    running = update_of(live(status="idle"), None, 0, WINDOW).record.document
    assert (running["status"], running["ended_at"]) == ("idle", None)


def test_a_job_that_was_not_studied_since_a_restart_keeps_its_document() -> None:
    before = update_of(live(), None, 0, WINDOW).record.document
    job_again = live(result=None, status="idle")
    assert update_of(job_again, before, 16, WINDOW).record.document == {**before, "status": "idle"}
    ended = update_of(replace(job_again, status="ended"), before, 16, WINDOW).record.document
    assert ended == update_of(live(status="ended"), None, 0, WINDOW).record.document


def test_a_job_that_was_never_studied_is_none_to_be_told_of() -> None:
    with pytest.raises(ValueError, match="never studied"):
        update_of(live(result=None), None, 0, WINDOW)


def test_a_restart_finds_a_job_as_it_was(results: Results) -> None:
    before = live()
    results.save(WINDOW, [update_of(before, None, 0, WINDOW)])
    ((after, document),) = restored(results)
    assert document == update_of(before, None, 0, WINDOW).record.document
    assert (after.id, after.endpoints, after.firm) == (before.id, before.endpoints, True)
    assert after.keys.tolist() == before.keys.tolist()
    assert after.keys.dtype == np.uint64
    assert after.period_s == 1.0  # of what was counted
    assert after.numbering == before.numbering
    assert (after.first_seen_ns, after.last_seen_ns) == (before.first_seen_ns, before.last_seen_ns)
    assert (after.found.rhythm, after.found.components, after.found.reliable) == (0.8, 2, 0.7)
    # What it looks like is found out anew.
    assert (after.result, after.beat, after.sightings, after.studied_ns) == (None, None, 0, 0)


def test_a_restart_remembers_what_a_state_does(results: Results) -> None:
    """The newest final ones; a provisional one behind them is read anew."""
    many = iterations([1.0] * (KEPT + 30))
    under_way = replace(many[-1], index=len(many), final=False)
    before = live(many, provisional=(under_way,))
    results.save(WINDOW, [update_of(before, None, 0, WINDOW)])
    ((after, _),) = restored(results)
    assert after.numbering.iterations == many[-KEPT:]
    assert after.numbering.next_index == len(many)


def test_a_restart_does_not_bring_back_what_ended(results: Results) -> None:
    jobs = [live(id="job-0"), live(id="job-1", status="ended"), live(id="job-2", status="idle")]
    results.save(WINDOW, [update_of(each, None, 0, WINDOW) for each in jobs])
    assert [each.id for each, _ in restored(results)] == ["job-0", "job-2"]


def test_a_restart_knows_a_period_that_nothing_was_counted_by(results: Results) -> None:
    results.save(WINDOW, [update_of(live((), firm=False), None, 0, WINDOW)])
    ((after, _),) = restored(results)
    assert (after.period_s, after.firm, after.numbering) == (1.01, False, Numbering())
