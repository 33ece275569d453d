"""The analysis turn by turn, over slices of a labelled capture, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from api.errors import ResultsError
from api.results.connections import sqlite_url
from api.results.database import Results
from api.service import sliding as module
from api.service.sliding import Sliding
from collector.inventory import Inventory
from patterns import live
from patterns.live import LiveJob, study
from patterns.result import Iteration
from reconstruct.slices import Slice
from reconstruct.stored import from_table, to_table
from reconstruct.window import Window
from tests.api.service.feeding import SECOND_NS, SLICE_NS, Heard, TrueJob, moved, silence

WINDOW_NS = 600 * SECOND_NS
A_TURN = 2  # slices of each turn
FIRST_AND_LAST = 2  # iterations of a capture that it may show too little of
NEAR = 0.03  # of the period
NEAR_IN_THE_DARK = 0.5
TOLD = 56  # slices, after which both jobs are told of


@pytest.fixture(scope="module", autouse=True)
def believed_at_once() -> Generator[None]:
    """Captures are short, and when ends are believed is no matter of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "TOLD_TURNS", 0)
        yield


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path / "results.sqlite")


@pytest.fixture
def results(url: str) -> Generator[Results]:
    with closing(Results(url)) as opened:
        yield opened


@pytest.fixture
def heard() -> Heard:
    return Heard()


def sliding(results: Results, heard: Heard | None = None, before: Sequence[Slice] = ()) -> Sliding:
    """An analysis for which no time passes: it studies whatever wants to be studied."""
    window = Window(WINDOW_NS, 4_000_000)
    for part in before:
        window.add(part)
    return Sliding(
        window, Inventory(), results, lambda pairs: {"pairs": pairs}, heard or Heard(), lambda: 0.0
    )


def turns(slices: Sequence[Slice]) -> Iterator[Sequence[Slice]]:
    for start in range(0, len(slices), A_TURN):
        yield slices[start : start + A_TURN]


def feed(analysis: Sliding, slices: Sequence[Slice]) -> None:
    for turn in turns(slices):
        analysis.tick(turn)
        assert analysis.standing.failure is None


def numbered(results: Results, job_id: str, *, joined: bool = True) -> list[Iteration]:
    """The final iterations of a job, which have to be numbered without a gap.

    Each begins where the one before ends, unless a clock was set back between them.
    """
    final = [each for each in results.iterations(job_id) if each.final]
    assert [each.index for each in final] == list(range(len(final)))
    for before, after in pairwise(final):
        assert after.start_ns == before.end_ns or not joined
    return final


def everything(results: Results) -> dict[str, tuple[str, frozenset[str], list[Iteration]]]:
    return {
        job.id: (
            job.document["status"],
            frozenset(job.document["endpoints"]),
            numbered(results, job.id),
        )
        for job in results.jobs()
    }


def ids_of(results: Results, truth: Sequence[TrueJob]) -> list[str]:
    """The id of each true job; no other is told of."""
    ids = {frozenset(job.document["endpoints"]): job.id for job in results.jobs()}
    assert set(ids) == {job.endpoints for job in truth}
    return [ids[job.endpoints] for job in truth]


@pytest.fixture(scope="module")
def undisturbed(
    slices: list[Slice], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[str, frozenset[str], list[Iteration]]]:
    """What comes of the capture, and the silence after it, where nothing goes wrong."""
    with closing(Results(sqlite_url(tmp_path_factory.mktemp("all") / "results.sqlite"))) as results:
        feed(sliding(results), [*slices, *silence(slices[-1], 150)])
        return everything(results)


def test_jobs_and_their_iterations_are_those_of_the_truth(
    results: Results, slices: list[Slice], truth: list[TrueJob]
) -> None:
    feed(sliding(results), [*slices, *silence(slices[-1], 20)])
    for job_id, true in zip(ids_of(results, truth), truth, strict=True):
        record = results.job(job_id)
        assert record is not None
        assert record.document["status"] == "idle"
        ends_ns = [each.end_ns for each in numbered(results, job_id)]
        assert len(true.ends_ns) - FIRST_AND_LAST <= len(ends_ns) <= len(true.ends_ns)
        assert np.abs(true.late(ends_ns)).max() < NEAR * true.period_s * SECOND_NS


def test_what_was_said_to_be_final_never_changes(results: Results, slices: list[Slice]) -> None:
    analysis = sliding(results)
    said: dict[tuple[str, int], Iteration] = {}
    for turn in turns([*slices, *silence(slices[-1], 150)]):
        analysis.tick(turn)
        final = {
            (job.id, each.index): each
            for job in results.jobs()
            for each in numbered(results, job.id)
        }
        assert {key: final[key] for key in said} == said
        said = final
    assert len(said) > 40


def test_a_silent_job_ends(undisturbed: dict[str, tuple[str, frozenset[str], list[Any]]]) -> None:
    assert {status for status, _, _ in undisturbed.values()} == {"ended"}


def test_all_that_a_turn_finds_is_stored_at_once(
    results: Results, slices: list[Slice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that is cut off leaves the results as they were after the one before."""
    saved: list[int] = []
    save = Results.save

    def counted(self: Results, *given: Any) -> None:
        saved.append(len(given[1]))
        save(self, *given)

    monkeypatch.setattr(Results, "save", counted)
    analysis = sliding(results)
    for number, turn in enumerate(turns(slices), start=1):
        analysis.tick(turn)
        assert len(saved) == number
        window = results.window()
        assert window is not None
        assert window.end_ns == analysis.standing.window_end_ns == turn[-1].end_ns
    assert max(saved) == 2


def failing(*_: object) -> None:
    raise ResultsError("sqlite", "database or disk is full")


@pytest.mark.parametrize("method", ["save", "next_job_number"])
@pytest.mark.parametrize("since", [0, TOLD // A_TURN - 3])
def test_a_database_that_fails_for_a_while_loses_and_doubles_nothing(
    results: Results,
    slices: list[Slice],
    undisturbed: dict[str, tuple[str, frozenset[str], list[Any]]],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    since: int,
) -> None:
    analysis = sliding(results)
    failures = []
    for number, turn in enumerate(turns([*slices, *silence(slices[-1], 150)])):
        with monkeypatch.context() as patched:
            if since <= number < TOLD // A_TURN + 2:
                patched.setattr(Results, method, failing)
            analysis.tick(turn)
        failures.append(analysis.standing.failure)
    assert any(failure and "disk is full" in failure for failure in failures)
    assert failures[-1] is None
    # Who was named first may differ.
    assert sorted(everything(results).values(), key=str) == sorted(undisturbed.values(), key=str)


def test_a_job_that_cannot_be_analysed_does_not_stop_others(
    results: Results,
    slices: list[Slice],
    truth: list[TrueJob],
    heard: Heard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad, good = truth

    def fragile(job: LiveJob, *given: Any) -> LiveJob:
        if job.endpoints & bad.endpoints:
            raise ZeroDivisionError("no such traffic was thought of")
        return study(job, *given)

    monkeypatch.setattr(module, "study", fragile)
    analysis = sliding(results, heard)
    failures = []
    for turn in turns([*slices, *silence(slices[-1], 20)]):
        analysis.tick(turn)
        failures.append(analysis.standing.failure)
    assert any(failure and "ZeroDivisionError" in failure for failure in failures)
    assert failures[-1] is None  # nothing is tried in a silence
    assert set(heard.events) == {"a job could not be analysed"}
    (job_id,) = ids_of(results, [good])
    assert len(numbered(results, job_id)) >= len(good.ends_ns) - FIRST_AND_LAST


def test_a_job_that_was_told_of_stays_where_it_can_no_longer_be_analysed(
    results: Results,
    slices: list[Slice],
    truth: list[TrueJob],
    heard: Heard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> LiveJob:
        raise ValueError("no such traffic was thought of")

    analysis = sliding(results, heard)
    feed(analysis, slices[:TOLD])
    before = everything(results)
    assert len(before) == 2
    monkeypatch.setattr(module, "study", broken)
    monkeypatch.setattr(module, "track", broken)
    for turn in turns(slices[TOLD:]):
        analysis.tick(turn)
    assert everything(results) == before
    monkeypatch.undo()
    feed(analysis, silence(slices[-1], 20))
    for job_id, true in zip(ids_of(results, truth), truth, strict=True):
        assert len(numbered(results, job_id)) >= len(true.ends_ns) - FIRST_AND_LAST


def test_no_id_is_given_twice(results: Results, slices: list[Slice]) -> None:
    """The same traffic a day later is another job, also when the first is forgotten."""
    analysis = sliding(results)
    feed(analysis, [*slices, *silence(slices[-1], 150)])
    assert {job.id for job in results.jobs()} == {"job-0", "job-1"}
    day_ns = 86_400 * SECOND_NS
    assert results.forget(slices[0].start_ns + day_ns) > 0
    assert results.jobs() == []
    feed(analysis, moved(slices, day_ns))
    assert {job.id for job in results.jobs()} == {"job-2", "job-3"}
    assert all(numbered(results, job.id) for job in results.jobs())


@contextmanager
def restarted(url: str, before: Sequence[Slice]) -> Iterator[tuple[Results, Sliding]]:
    """The service after it was started anew: with bins as the store has them."""
    with closing(Results(url)) as results:
        kept = [part for each in before if len(each.bins) for part in from_table(to_table(each))]
        yield results, sliding(results, before=kept)


@pytest.mark.parametrize("at", [20, 60, 61])
@pytest.mark.parametrize("gap", [0, 6])
def test_after_a_restart_it_goes_on(
    url: str, slices: list[Slice], truth: list[TrueJob], at: int, gap: int
) -> None:
    """`gap` slices of 0.5 s came while nobody listened; what is counted is what was sent."""
    with closing(Results(url)) as results:
        feed(sliding(results), slices[:at])
        first = everything(results)
    assert len(first) == (2 if at > TOLD else 0)
    with restarted(url, slices[:at]) as (results, analysis):
        feed(analysis, [*slices[at + gap :], *silence(slices[-1], 20)])
        again = everything(results)
        ids = ids_of(results, truth)
    for job_id, (_, endpoints, iterations) in first.items():
        assert again[job_id][1] == endpoints
        assert again[job_id][2][: len(iterations)] == iterations
    for job_id, true in zip(ids, truth, strict=True):
        ends_ns = np.array([each.end_ns for each in again[job_id][2]])
        assert len(true.ends_ns) - FIRST_AND_LAST <= len(ends_ns) <= len(true.ends_ns)
        late_ns = true.late(ends_ns)
        since_ns = ends_ns - late_ns - slices[at - 1].end_ns
        # Also the turns beside the gap are seen in part only.
        beside_ns = true.period_s * SECOND_NS
        lost = (since_ns > -beside_ns) & (since_ns <= gap * SLICE_NS + beside_ns) & (gap > 0)
        late = np.abs(late_ns) / (true.period_s * SECOND_NS)
        assert late[~lost].max() < NEAR
        assert late[lost].max(initial=0) < NEAR_IN_THE_DARK


@pytest.mark.parametrize("lost", [2, 6, 12])
def test_results_may_be_ahead_of_what_the_store_had_taken(
    url: str, slices: list[Slice], truth: list[TrueJob], lost: int
) -> None:
    """A service that is killed loses the newest slices, and nothing may come for a while."""
    at, gap = 60, 6
    with closing(Results(url)) as results:
        feed(sliding(results), slices[:at])
        first = everything(results)
    with restarted(url, slices[: at - lost]) as (results, analysis):
        for _ in range(3):
            analysis.tick(())
        assert everything(results) == first
        feed(analysis, [*slices[at + gap :], *silence(slices[-1], 20)])
        again = everything(results)
        ids = ids_of(results, truth)
    for job_id, true in zip(ids, truth, strict=True):
        assert len(again[job_id][2]) >= len(true.ends_ns) - FIRST_AND_LAST
        assert again[job_id][2][: len(first[job_id][2])] == first[job_id][2]


def test_a_restart_after_a_long_time_ends_what_is_gone(url: str, slices: list[Slice]) -> None:
    with closing(Results(url)) as results:
        feed(sliding(results), slices)
        before = everything(results)
    with restarted(url, []) as (results, analysis):
        feed(analysis, moved(silence(slices[-1], 2), 3600 * SECOND_NS))
        after = everything(results)
        feed(analysis, moved(slices, 4000 * SECOND_NS))
        assert {job.id for job in results.jobs()} == {"job-0", "job-1", "job-2", "job-3"}
    assert {status for status, _, _ in after.values()} == {"ended"}
    for job_id, (_, endpoints, iterations) in before.items():
        assert after[job_id][1] == endpoints
        assert after[job_id][2][: len(iterations)] == iterations


@pytest.mark.parametrize("back_s", [15, 3600])
def test_a_clock_that_steps_back(
    results: Results, slices: list[Slice], truth: list[TrueJob], back_s: int
) -> None:
    """Jobs go on under their ids; what ended before keeps its times, numbers go on."""
    analysis = sliding(results)
    feed(analysis, slices)
    before = everything(results)
    feed(analysis, moved(slices, (-(-len(slices) // 2) - back_s) * SECOND_NS))
    after = {job.id: numbered(results, job.id, joined=False) for job in results.jobs()}
    assert set(after) == set(before)
    for job_id, (_, _, iterations) in before.items():
        count = len(iterations)
        assert after[job_id][:count] == iterations
        (true,) = (job for job in truth if job.endpoints == before[job_id][1])
        assert len(after[job_id]) >= count + len(true.ends_ns) - 2 * FIRST_AND_LAST
        assert not after[job_id][count].complete
        assert all(each.complete for each in after[job_id][count + 1 :])
