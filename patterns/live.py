"""A live job: what is known of it, as a value that goes on from window to window.

`study` looks at everything (groups, roles, sizes, the beat) and is asked now and then; `track`
only reads the ends of iterations by the beat and is asked once an iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from collector.inventory import Inventory
from collector.schema import I64, U64
from patterns.analyse import known_hosts
from patterns.beat import Beat, find_ends
from patterns.job import Study, study_job
from patterns.numbering import (
    SAME_PHASE,
    Numbering,
    finish,
    phase_between,
    phase_shift,
    settle,
)
from patterns.result import Iteration, JobResult
from patterns.rhythm import only_told_steps, why_untold
from reconstruct.activity import timed
from reconstruct.bins import Progress
from reconstruct.jobs import Candidate, renew
from reconstruct.merging import sent_by, those
from reconstruct.outflow import NO_OUTFLOW, Outflow
from reconstruct.progress import join
from reconstruct.restarts import restarts
from reconstruct.slices import Slice
from reconstruct.traffic import classify
from reconstruct.volumes import window_volumes

SETTLED: Final = 0.9  # of a period behind an end: the next burst shows, or has failed to come
AGREE: Final = 0.03  # of a period: two studies that differ by less say the same
FEWEST_TURNS: Final = 8  # in a study, before its period is believed if another agrees
ENOUGH_TURNS: Final = 40  # in a study, before its period is believed by itself
STILL_TURNS: Final = 12  # in a study, before iterations are counted from an end that moved,
TOLD_TURNS: Final = 20  # or from one that may not be the end
MOVED: Final = 0.02  # of a period: two studies that differ by more took different ends
FIRM_S: Final = 20.0  # of telemetry: what takes longer than half of this is not seen before
STUDY_ROWS: Final = 200_000
STUDY_TURNS: Final = (20, 40)  # fewest and most that a study looks back
STUDY_S: Final = 60.0
TRACK_ROWS: Final = 6_400
TRACK_TURNS: Final = (6, 40)
OVERLAP_TURNS: Final = 4  # before the last numbered end: enough to tell the moment it was taken at
STOPPED_TURNS: Final = 1.5
IDLE_TURNS: Final = 3.0
IDLE_S: Final = 10.0
ENDED_TURNS: Final = 20.0
ENDED_S: Final = 120.0
SIGHTINGS: Final = 12  # discoveries of the same endpoints: told of, though its period is in doubt

Status = Literal["training", "idle", "ended"]


@dataclass(frozen=True, slots=True)
class LiveJob:
    """One job over its life.

    Parameters
    ----------
    id : str
    endpoints : frozenset of str
    keys : uint64[e]
        Keys of its endpoints.
    found : Candidate
        As last discovered; the ids in it are of that window.
    sightings : int
        Discoveries in a row that found these endpoints.
    first_seen_ns, last_seen_ns : int
        Event time of its traffic.
    status : str
    result : JobResult or None
        Of the last study; its iterations are those of that window.
    beat : Beat or None
    firm : bool
        Whether its period is believed, and its iterations are counted.
    numbering : Numbering
    provisional : tuple of Iteration
        What follows the numbered ones.
    flow : Outflow
        What its endpoints sent of late.
    breaks : int64[r, 2]
        Restarts in the window that was read last, see `reconstruct.restarts`.
    offered_s : float or None
        The period by the last study.
    offered_shift_s : float
        How far into the turn of the numbered iterations the ends of the last study lie.
    studied_ns, studied_turns : int
        End of the window of the last study, and its iterations; 0 before the first.
    due_ns : int
        Event time from which on the next end may be final.
    """

    id: str
    endpoints: frozenset[str]
    keys: U64
    found: Candidate
    sightings: int
    first_seen_ns: int
    last_seen_ns: int
    status: Status = "training"
    result: JobResult | None = None
    beat: Beat | None = None
    firm: bool = False
    numbering: Numbering = field(default_factory=Numbering)
    provisional: tuple[Iteration, ...] = ()
    flow: Outflow = NO_OUTFLOW
    breaks: I64 = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    offered_s: float | None = None
    offered_shift_s: float = 0.0
    studied_ns: int = 0
    studied_turns: int = 0
    due_ns: int = 0

    @property
    def period_s(self) -> float:
        """The period as far as it is known."""
        if self.beat is not None:
            return self.beat.period_s
        counted = [i.duration_s for i in self.numbering.iterations if i.complete]
        return float(np.median(counted)) if counted else self.found.period.seconds

    @property
    def in_doubt(self) -> bool:
        """Whether the last study took another moment of the turn for its end."""
        return abs(self.offered_shift_s) > SAME_PHASE * self.period_s

    @property
    def confirmed(self) -> bool:
        """Whether this is a job to be told of."""
        return self.result is not None and (self.firm or self.sightings >= SIGHTINGS)


def reach_back_ns(job: LiveJob, now_ns: int, *, fully: bool) -> int:
    """The moment since which a study (fully) or a track of the job wants slices."""
    if fully and (job.beat is None or not job.firm):
        return 0  # a longer cycle shows only in all there is
    rows, (fewest, most) = (STUDY_ROWS, STUDY_TURNS) if fully else (TRACK_ROWS, TRACK_TURNS)
    turns = most
    if job.beat is not None:
        a_turn = job.beat.samples_per_turn if fully else job.beat.marks_per_turn
        turns = min(max(rows // max(a_turn, 1), fewest), most)
    length_s = max((turns + 1) * job.period_s, STUDY_S if fully else 0.0)
    since_ns = now_ns - int(length_s * 1e9)
    last_ns = job.numbering.last_end_ns
    if last_ns is None:
        return since_ns
    # Where the analysis fell behind, what it did not see yet is not to be lost.
    return min(since_ns, last_ns - int(OVERLAP_TURNS * job.period_s * 1e9))


def study(job: LiveJob, slices: Sequence[Slice], inventory: Inventory) -> LiveJob:
    """The job as these slices show it: structure, beat, and iterations.

    Parameters
    ----------
    job
    slices
        In order of time; not empty.
    inventory
        Names hosts; may be empty.
    """
    progress = replace(join(slices, sent_by(job.keys)), message_lengths=inventory.message_lengths)
    now_ns = progress.window_end_ns
    job = replace(job, studied_ns=now_ns)
    members = np.flatnonzero(np.isin(progress.endpoints.key, job.keys)).astype(np.int32)
    traffic = classify(progress, inventory.storage)
    candidate = renew(progress, traffic, members, job.found)
    if candidate is None:
        return job
    hosts = known_hosts(progress, inventory)
    seen = study_job(progress, window_volumes(progress), candidate, hosts, job.id)
    if seen is None:
        # What was firm may be hidden by a bad stretch; what was not may have been an accident.
        return job if job.firm else replace(job, result=None, beat=None, offered_s=None)
    period = seen.beat.period_s
    agreed = job.offered_s is not None and _agree(period, job.offered_s)
    turns = sum(i.complete for i in seen.result.iterations)
    # What it draws says which moment of a turn is its end.
    drawn = bool(seen.result.groups)
    doubt = why_untold(seen.result, candidate.period, candidate.known_ns)
    believed = drawn and doubt is None and _may_count(progress, candidate, turns, agreed=agreed)
    # Of a job that has come to a stop there is no more to see.
    goes_on = now_ns - job.last_seen_ns < STOPPED_TURNS * period * 1e9
    if not job.firm and goes_on:
        believed = believed and not _end_may_move(job, seen, turns)
    counted_s = job.period_s
    job = replace(job, offered_s=period, studied_turns=turns)
    if job.firm and not _agree(period, counted_s) and not (agreed and believed):
        return job  # once is no reason to count otherwise, nor is a short look
    firm = job.firm or believed
    told = seen.result
    if not firm:
        told = only_told_steps(told, candidate.period, candidate.known_ns)
    shift_s = (phase_shift(job.numbering, seen.cuts_ns, period) or 0.0) / 1e9
    elsewhere = abs(shift_s) > SAME_PHASE * period
    # Another moment of the turn is its end only where two studies say so.
    again = job.numbering.anew or abs(shift_s - job.offered_shift_s) <= SAME_PHASE * period
    anew = elsewhere and again
    job = replace(
        job,
        result=told,
        beat=seen.beat,
        firm=firm,
        offered_shift_s=0.0 if anew else shift_s,
    )
    return _settled(job, seen.cuts_ns, progress, anew=anew) if len(seen.cuts_ns) else job


def track(job: LiveJob, slices: Sequence[Slice]) -> LiveJob:
    """The job with the iterations that have ended since.

    Parameters
    ----------
    job
        With a beat.
    slices
        In order of time; not empty.
    """
    if job.beat is None:
        return job
    progress = join(slices, those(job.beat.connections))
    return _settled(job, find_ends(progress, job.beat), progress, anew=False)


def rested(job: LiveJob, now_ns: int) -> LiveJob:
    """The job with its status by how long it has been silent."""
    silent_s = (now_ns - job.last_seen_ns) / 1e9
    if silent_s > max(ENDED_S, ENDED_TURNS * job.period_s):
        numbering, _ = finish(job.numbering, job.last_seen_ns)
        return replace(job, status="ended", numbering=numbering, provisional=())
    idle = silent_s > max(IDLE_S, IDLE_TURNS * job.period_s)
    return replace(job, status="idle" if idle else "training")


def _settled(
    job: LiveJob, ends_ns: NDArray[np.int64], progress: Progress, *, anew: bool
) -> LiveJob:
    period_ns = int(job.period_s * 1e9)
    window = _seen_since(progress), progress.window_end_ns
    member = np.isin(progress.endpoints.key, job.keys)
    inside = member[progress.connections.src] & member[progress.connections.dst]
    breaks = restarts(progress, np.flatnonzero(inside).astype(np.int32))
    settled = settle(
        job.numbering,
        ends_ns,
        period_s=job.period_s,
        volume_bytes=None if job.beat is None else job.beat.volume_bytes,
        window_ns=window,
        last_seen_ns=int(timed(progress.bins, np.arange(len(progress.bins)))[1].max(initial=0)),
        # What is not believed yet is shown, but not counted.
        horizon_ns=window[1] - int(SETTLED * period_ns) if job.firm else 0,
        breaks=breaks,
        anew=anew,
    )
    last = settled.numbering.last_end_ns
    wanted = window[1] if last is None else last + int((1 + SETTLED) * period_ns)
    return replace(
        job,
        numbering=settled.numbering,
        provisional=settled.provisional,
        breaks=breaks,
        due_ns=max(wanted, window[1] + period_ns // 10),
    )


def _seen_since(progress: Progress) -> int:
    """Start of the window, or of the job where it began in it."""
    return int(progress.bins.first_ns.min(initial=progress.window_end_ns))


def _may_count(progress: Progress, candidate: Candidate, turns: int, *, agreed: bool) -> bool:
    """Whether a period is believed so far that iterations are counted by it.

    A short window shows the beat of buckets or micro-batches only; and numbers stay.
    """
    bins = progress.bins
    # Its own traffic: the window may be far older than the job.
    rows = np.isin(bins.connection, candidate.connections)
    looked_ns = bins.last_ns[rows].max(initial=0) - bins.first_ns[rows].min(initial=1 << 62)
    if looked_ns < FIRM_S * 1e9:
        return False
    return turns >= ENOUGH_TURNS or (agreed and turns >= FEWEST_TURNS)


def _end_may_move(job: LiveJob, seen: Study, turns: int) -> bool:
    """Whether more turns may show another moment of the turn to be its end; and numbers stay.

    Few turns may not show the pause of an optimiser, or only that of a bucket.
    """
    if not seen.told and turns < TOLD_TURNS:
        return True
    before = np.array([turn.end_ns for turn in job.provisional if turn.complete], np.int64)
    shift_ns = phase_between(before, seen.cuts_ns, seen.beat.period_s) or 0.0
    return turns < STILL_TURNS and abs(shift_ns) > MOVED * seen.beat.period_s * 1e9


def _agree(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) <= AGREE * max(one_s, other_s)
