from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.captures import Capture
from collector.ingest import ingest
from collector.inventory import Inventory, read_inventory
from collector.schema import FlowBatch, Telemetry
from patterns import live
from patterns.analyse import analyse_window
from patterns.beat import Beat
from patterns.live import LiveJob, reach_back_ns, rested
from patterns.numbering import Numbering
from patterns.result import Analysis, Iteration, JobResult
from reconstruct.jobs import Candidate
from reconstruct.period import Period
from tests.patterns.lives import Life, Lives, restarted
from tests.reconstruct.made import START_NS, S, packets, telemetry
from tests.reconstruct.rhythm import cuts, repeated


@dataclass(frozen=True)
class Fed:
    """A labelled capture, and what `ringscope analyze` makes of all of it."""

    told: Telemetry
    inventory: Inventory
    analysis: Analysis

    @property
    def start_ns(self) -> int:
        return int(self.told.flows.time_ns.min())

    @property
    def job(self) -> JobResult:
        [job] = self.analysis.jobs
        return job

    @property
    def period_s(self) -> float:
        assert self.job.period_s is not None
        return self.job.period_s

    def at_ns(self, turns: float) -> int:
        """The moment so many periods after the start."""
        return self.start_ns + round(turns * self.period_s * S)

    def between(self, start_ns: int, end_ns: int) -> FlowBatch:
        time = self.told.flows.time_ns
        return self.told.flows.take((time >= start_ns) & (time < end_ns))

    def lives(self) -> Lives:
        return Lives(self.inventory)


@pytest.fixture(scope="module")
def fed(capture: Callable[..., Capture]) -> Callable[[str], Fed]:
    made: dict[str, Fed] = {}

    def read(scenario: str) -> Fed:
        if scenario not in made:
            found = capture(scenario, 101, "normal")
            told, inventory = ingest([found.pcap]), read_inventory(found.inventory)
            made[scenario] = Fed(told, inventory, analyse_window(told, inventory))
        return made[scenario]

    return read


def ends(iterations: Sequence[Iteration]) -> NDArray[np.int64]:
    return np.array([i.end_ns for i in iterations if i.complete], np.int64)


def only(lives: Sequence[Life]) -> Life:
    [life] = lives
    return life


def away(life: Life, fed: Fed) -> NDArray[np.float64]:
    """How far each complete end lies from the analysis' one of its number, in periods.

    Both count the same turns, from the first that both saw whole.
    """
    ours, theirs = ends(life.final), ends(fed.job.iterations)
    first = int(np.abs(theirs - ours[0]).argmin())
    count = min(len(ours), len(theirs) - first)
    return np.asarray(np.abs(ours[:count] - theirs[first : first + count]) / S / fed.period_s)


def assert_contiguous(life: Life) -> None:
    told = [*life.final, *life.job.provisional]
    assert [i.index for i in told] == list(range(len(told)))
    assert all(a.end_ns == b.start_ns for a, b in pairwise(told))


@pytest.mark.parametrize("scenario", ["dp_ring", "dp_tree", "every_hop"])
def test_iterations_come_as_the_whole_capture_shows_them(
    scenario: str, fed: Callable[[str], Fed]
) -> None:
    whole = fed(scenario)
    lives = whole.lives()
    lives.feed(whole.told.flows, whole.told.exporters)
    life = only(lives.lives)
    assert life.job.endpoints == set(whole.job.endpoints)
    assert life.job.result is not None
    assert [g.kind for g in life.job.result.groups] == [g.kind for g in whole.job.groups]
    assert [set(g.edges) for g in life.job.result.groups] == [
        set(g.edges) for g in whole.job.groups
    ]
    assert life.job.period_s == pytest.approx(whole.period_s, rel=0.005)
    assert len(life.complete) == len(ends(whole.job.iterations))
    assert [i.index for i in life.final if not i.complete] == [0]
    assert_contiguous(life)
    off = away(life, whole)
    assert len(off) == len(life.complete)
    # They were final when only half of the samples were there.
    assert np.mean(off < 0.01) >= 0.75
    assert off.max() < 0.02


@pytest.mark.usefixtures("believed_at_once")
@pytest.mark.parametrize(
    ("scenario", "begins"),
    [
        *(("dp_ring", begins) for begins in (12.0, 12.3, 12.6, 12.8)),
        ("dp_tree", 12.3),
        ("every_hop", 12.6),
    ],
)
def test_a_gap_in_telemetry_loses_and_doubles_no_iteration(
    scenario: str, begins: float, fed: Callable[[str], Fed]
) -> None:
    """Three iterations are missing; their bytes went by, so they were. Where in the gap each
    ended is not known better than that they are of equal length.
    """
    whole = fed(scenario)
    start, end = whole.at_ns(begins), whole.at_ns(begins + 3)
    time = whole.told.flows.time_ns
    lives = whole.lives()
    lives.feed(whole.told.flows.take((time < start) | (time >= end)), whole.told.exporters)
    life = only(lives.lives)
    assert_contiguous(life)
    assert [i.index for i in life.final if not i.complete] == [0]
    off = away(life, whole)
    assert len(off) == len(life.complete) >= len(ends(whole.job.iterations)) - 1
    assert off.max() < 0.2
    assert np.median(off) < 0.01


def test_a_job_that_stops_is_idle_and_then_ended(fed: Callable[[str], Fed]) -> None:
    whole = fed("dp_ring")
    stop = whole.at_ns(14.8)
    lives = whole.lives()
    flows = whole.between(whole.start_ns, stop)
    last_ns = int(flows.time_ns.max())
    lives.feed(flows, whole.told.exporters, until_ns=stop + 14 * S)
    life = only(lives.lives)
    assert life.statuses == ["training", "idle"]
    before = list(life.final)
    lives.feed(flows, whole.told.exporters, until_ns=stop + 135 * S)
    assert len(lives.lives) == 0
    assert life.statuses == ["training", "idle", "ended"]
    assert life.job.provisional == ()
    *counted, cut_off = life.final
    assert counted == before
    assert not cut_off.complete
    assert cut_off.final
    assert abs(cut_off.end_ns - last_ns) < 0.01 * S
    assert all(i.complete for i in counted[1:])
    assert counted[-1].end_ns < stop
    assert away(life, whole).max() < 0.02
    assert_contiguous(life)


def test_a_short_look_at_a_beat_inside_is_not_believed(fed: Callable[[str], Fed]) -> None:
    """In its first 10 s the job repeats micro-batches of a third of a second, and no step twice."""
    whole = fed("dp_zero1")
    lives = whole.lives()
    lives.feed(whole.told.flows, whole.told.exporters, until_ns=whole.start_ns + 14 * S)
    life = only(lives.lives)
    assert life.job.result is not None
    assert life.job.studied_turns > 20
    assert life.job.period_s < 0.2 * whole.period_s
    assert not life.job.firm
    assert life.final == []
    # The whole capture shows what it is, and nothing was counted by what it is not.
    lives.feed(whole.told.flows, whole.told.exporters)
    assert life.job.period_s == pytest.approx(whole.period_s, rel=0.01)
    assert all(0.9 < i.duration_s / whole.period_s < 1.1 for i in life.complete)
    assert len(life.complete) >= len(ends(whole.job.iterations)) - 1
    # Nor does one end in the silence behind it.
    assert life.complete[-1].end_ns < int(whole.told.flows.time_ns.max()) + 0.1 * S


@pytest.fixture
def believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures are short, and when ends are believed is no matter of the test."""
    monkeypatch.setattr(live, "TOLD_TURNS", 0)
    monkeypatch.setattr(live, "STILL_TURNS", 0)


def test_a_period_is_believed_by_the_time_of_the_job_not_of_the_window() -> None:
    """Others were seen long before; this job repeats itself 25 times in its first 13 s."""
    rng = np.random.default_rng(1)
    turns = cuts(0.5, 100, 0.01, rng)
    ring = [repeated(turns, u, v, rng, micro_batches=0) for u, v in ((0, 1), (1, 2), (2, 0))]
    told = telemetry(packets([-40 * S], 901, 902), *ring)
    lives = Lives(Inventory())
    lives.feed(told.flows, told.exporters, until_ns=START_NS + 15 * S)
    life = only(lives.lives)
    assert life.job.studied_turns > 15
    assert life.firm_ns is None
    lives.feed(told.flows, told.exporters, until_ns=START_NS + 45 * S)
    assert (only(lives.lives).firm_ns or 0) > START_NS + 20 * S
    # Its first iteration began with it, and not with the window.
    assert abs(life.final[0].start_ns - START_NS) < 0.5 * S


@pytest.mark.usefixtures("believed_at_once")
def test_an_analysis_that_fell_behind_catches_up(fed: Callable[[str], Fed]) -> None:
    """No turn for half a minute, as where another job's study takes that long."""
    whole = fed("dp_ring")
    lives = whole.lives()
    lives.feed(whole.told.flows, whole.told.exporters, until_ns=whole.start_ns + 36 * S)
    life = only(lives.lives)
    assert life.job.firm
    before = len(life.final)
    lives.feed(whole.told.flows, whole.told.exporters, turn_s=30)
    lives.feed(whole.told.flows, whole.told.exporters, until_ns=whole.at_ns(27))
    assert len(life.final) > before + 5
    assert [i.index for i in life.final if not i.complete] == [0]
    assert len(life.complete) == len(ends(whole.job.iterations))
    assert_contiguous(life)


@pytest.mark.usefixtures("believed_at_once")
def test_after_a_restart_numbers_go_on(fed: Callable[[str], Fed]) -> None:
    """Nothing of the time before is in the window any more: one iteration is not complete."""
    whole = fed("dp_ring")
    first = whole.lives()
    restart = whole.at_ns(12.4)
    first.feed(whole.told.flows, whole.told.exporters, until_ns=restart)
    again = whole.lives()
    again.lives.append(restarted(only(first.lives)))
    counted = list(only(again.lives).final)
    assert len(counted) > 8
    later = restart + round(1.5 * whole.period_s * S)
    time = whole.told.flows.time_ns
    again.feed(whole.told.flows.take(time >= later), whole.told.exporters)
    life = only(again.lives)
    assert life.final[: len(counted)] == counted
    assert len(life.final) > len(counted) + 3
    assert [i.index for i in life.final if not i.complete] == [0, len(counted)]
    assert_contiguous(life)


@pytest.mark.usefixtures("believed_at_once")
def test_after_a_restart_a_short_look_is_not_believed(fed: Callable[[str], Fed]) -> None:
    """What was counted says how long a turn is, until enough says otherwise."""
    whole = fed("dp_zero1")
    first = whole.lives()
    restart = whole.start_ns + 42 * S
    first.feed(whole.told.flows, whole.told.exporters, until_ns=restart)
    assert only(first.lives).job.firm
    again = whole.lives()
    again.lives.append(restarted(only(first.lives)))
    time = whole.told.flows.time_ns
    again.feed(
        whole.told.flows.take(time >= restart), whole.told.exporters, until_ns=restart + 18 * S
    )
    life = only(again.lives)
    assert life.job.found.period.seconds < 0.2 * whole.period_s
    assert life.job.period_s == pytest.approx(whole.period_s, rel=0.02)
    again.feed(whole.told.flows, whole.told.exporters)
    assert all(0.9 < i.duration_s / whole.period_s < 1.1 for i in life.complete)
    assert_contiguous(life)


def a_job(**fields: object) -> LiveJob:
    """A job of a period of 2 s, last seen 100 s after the epoch."""
    nothing = np.zeros(0, np.int32)
    found = Candidate(nothing, nothing, Period(2.0, 0.9, 20.0, 0.0), np.zeros(0, np.int64), 0)
    plain = LiveJob("job-1", frozenset("ab"), np.zeros(0, np.uint64), found, 1, 0, 100 * S)
    return replace(plain, **fields)  # type: ignore[arg-type]


def beat_of(period_s: float, samples: int) -> Beat:
    return Beat(np.zeros(0, np.uint64), (), "burst", period_s, 1e9, 0, samples, samples)


def counted(*ends_s: float) -> Numbering:
    edges = [0.0, *ends_s]
    return Numbering(
        tuple(
            Iteration(i, round(a * S), round(b * S), None, i > 0, True)
            for i, (a, b) in enumerate(pairwise(edges))
        )
    )


@pytest.mark.parametrize(
    ("period_s", "silent_s", "status"),
    [
        (2.0, 0.0, "training"),
        (2.0, 9.9, "training"),
        (2.0, 10.1, "idle"),
        (2.0, 119.0, "idle"),
        (2.0, 121.0, "ended"),
        (30.0, 89.0, "training"),
        (30.0, 91.0, "idle"),
        (30.0, 599.0, "idle"),
        (30.0, 601.0, "ended"),
    ],
)
def test_a_silent_job_is_idle_and_then_ended(period_s: float, silent_s: float, status: str) -> None:
    job = a_job(beat=beat_of(period_s, 100))
    assert rested(job, round((100 + silent_s) * S)).status == status


def test_a_job_that_is_heard_again_trains() -> None:
    assert rested(a_job(status="idle"), 101 * S).status == "training"


def test_the_end_of_a_job_closes_its_numbers() -> None:
    numbering = counted(96.0, 98.0, 99.0)
    under_way = Iteration(3, 99 * S, 300 * S, None, False, False)
    ended = rested(a_job(numbering=numbering, provisional=(under_way,)), 300 * S)
    assert ended.numbering.iterations == (
        *numbering.iterations,
        Iteration(3, 99 * S, 100 * S, None, False, True),
    )
    assert ended.provisional == ()


def test_the_period_is_that_of_what_was_counted_until_it_is_learned_anew() -> None:
    job = a_job()
    assert job.period_s == 2.0
    restored = replace(job, numbering=counted(10.0, 13.0, 16.0, 19.1))
    assert restored.period_s == pytest.approx(3.0)
    assert replace(restored, beat=beat_of(2.5, 100)).period_s == 2.5


def test_a_job_not_known_yet_is_studied_in_all_there_is() -> None:
    assert reach_back_ns(a_job(), 100 * S, fully=True) == 0
    assert reach_back_ns(a_job(beat=beat_of(2.0, 100)), 100 * S, fully=True) == 0


def test_a_track_reaches_back_to_the_last_numbered_end() -> None:
    job = a_job(beat=beat_of(2.0, 1_000_000), firm=True)
    short = reach_back_ns(job, 1_000 * S, fully=False)
    assert 900 * S < short < 1_000 * S
    recent = replace(job, numbering=counted(995.0, 997.0))
    assert reach_back_ns(recent, 1_000 * S, fully=False) == short
    behind = replace(job, numbering=counted(700.0, 702.0))
    assert reach_back_ns(behind, 1_000 * S, fully=False) <= 700 * S


def test_a_track_of_few_samples_reaches_back_further() -> None:
    many, few = (a_job(beat=beat_of(2.0, samples), firm=True) for samples in (100_000, 10))
    assert reach_back_ns(few, 1_000 * S, fully=False) < reach_back_ns(many, 1_000 * S, fully=False)
    assert reach_back_ns(few, 1_000 * S, fully=False) > 1_000 * S - 100 * S


def test_who_is_told_of() -> None:
    assert not a_job(sightings=50).confirmed
    told = a_job(sightings=12, result=object())
    assert told.confirmed
    assert not replace(told, sightings=11).confirmed
    assert replace(told, sightings=0, firm=True).confirmed
