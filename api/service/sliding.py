"""Sliding analysis: slices of bins in, jobs and iterations out, turn by turn.

Each turn reads the iterations that have ended (cheap, when they are due), looks now and then for
jobs among the traffic that belongs to none, and studies jobs anew in the time that is left. What
changed goes to the results in one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from api.contract import unassigned_document
from api.errors import ResultsError
from api.logs import Log
from api.results.records import Document, WindowRecord
from api.service.doubts import NO_DOUBTS, Doubts, doubts_of
from api.service.records import restored, update_of
from collector.inventory import Inventory
from collector.schema import Transport
from patterns.analyse import known_hosts, unassigned
from patterns.live import SETTLED, LiveJob, reach_back_ns, rested, study, track
from patterns.result import Unassigned
from reconstruct.bins import Progress
from reconstruct.hashing import mix
from reconstruct.identity import identify
from reconstruct.jobs import Candidate, discover
from reconstruct.merging import outside
from reconstruct.outflow import lengthened, stream_bytes
from reconstruct.progress import join
from reconstruct.slices import Slice
from reconstruct.traffic import classify
from reconstruct.volumes import window_volumes
from reconstruct.window import Window

if TYPE_CHECKING:
    from api.results.database import Results

DISCOVER_S: Final = 5.0  # of event time from one discovery to the next, at least
STUDY_AGAIN_S: Final = 120.0  # of event time, once a job is firm
FEWEST_PERIODS: Final = 3  # between two studies: less would say the same
TRACK_S: Final = 0.2  # of a turn for ends that could wait
PATIENCE_S: Final = 1.0  # of the five seconds beyond a period: the rest is for samples on their way
GROWN: Final = 1.5  # times the iterations of the last study: worth another
# Shares of the time that may go into what can wait, so that what is due is never late for long.
DISCOVER_SHARE: Final = 0.2
STUDY_SHARE: Final = 0.4
MOST_CREDIT_S: Final = 1.0  # of studies in one turn, after turns without any
# Discoveries that agreed, and how surely it is one job and whole, before a job's traffic is left
# out of the next.
SETTLED_SIGHTINGS: Final = 3
SETTLED_SURE: Final = 0.9
SAME_PERIOD: Final = 0.03  # of the period: a new job so near to a known one may be a part of it


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the analysis stands.

    Attributes
    ----------
    window_start_ns, window_end_ns, window_rows
        See `reconstruct.window.Window`.
    ticks, busy_s
        Turns so far, and the time they took.
    failure
        Why results of the last turn were not stored, or a job could not be analysed; None = all
        went well.
    """

    window_start_ns: int
    window_end_ns: int
    window_rows: int
    ticks: int
    busy_s: float
    failure: str | None


class Sliding:
    """The analysis of a running service; to be used by one thread.

    Parameters
    ----------
    window
        May hold slices of before a restart.
    inventory
        May be empty.
    results
        What was stored there before goes on.
    telemetry
        Gives the contract's object of that name, for a number of queue pairs seen.
    log
        Told of each job that could not be analysed.
    clock
        Seconds that pass.

    Raises
    ------
    ResultsError
        The jobs known before cannot be read.
    """

    def __init__(
        self,
        window: Window,
        inventory: Inventory,
        results: Results,
        telemetry: Callable[[int], Document],
        log: Log,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._window = window
        self._inventory = inventory
        self._results = results
        self._telemetry = telemetry
        self._log = log
        self._clock = clock
        known = restored(results)
        self._jobs = {handle: job for handle, (job, _) in enumerate(known)}
        self._documents = {job.id: document for job, document in known}
        self._next_handle = len(self._jobs)
        self._news = False
        self._saved = {job.id: job.numbering.next_index for job in self._jobs.values()}
        self._unsaved: dict[str, LiveJob] = {}
        self._unassigned = Unassigned(0.0, ())
        self._doubts = NO_DOUBTS
        self._queue_pairs = 0
        self._discover_at_ns = 0
        self._discover_at_s = 0.0
        self._study_credit_s = 0.0
        self._credited_s = clock()
        self._failure: str | None = None
        self._standing = Standing(window.start_ns, window.end_ns, window.rows, 0, 0.0, None)

    @property
    def standing(self) -> Standing:
        """Where the analysis stands; a value that any thread may read."""
        return self._standing

    @property
    def doubts(self) -> Doubts:
        """What the last discovery saw that is in no job; a value that any thread may read."""
        return self._doubts

    def tick(self, slices: Sequence[Slice]) -> None:
        """One turn.

        Parameters
        ----------
        slices
            What has been closed since the last turn, in order.
        """
        began_s = self._clock()
        self._failure = None
        for part in slices:
            if part.start_ns <= self._window.end_ns:
                self._step_back(part.start_ns)
            self._window.add(part)
            self._see(part)
        # A service that was killed may have stored results of slices that it had not stored yet:
        # what is there from before says where a job stood, and not where it stands.
        self._news = self._news or bool(slices)
        if self._news:
            self._track()
            self._discover()
            self._study()
            self._rest()
            self._save()
        self._standing = Standing(
            self._window.start_ns,
            self._window.end_ns,
            self._window.rows,
            self._standing.ticks + 1,
            self._standing.busy_s + self._clock() - began_s,
            self._failure,
        )

    def _step_back(self, now_ns: int) -> None:
        """The clock was set back: what was to happen at a time to come is due now."""
        self._discover_at_ns = 0
        for handle, job in self._jobs.items():
            self._jobs[handle] = replace(
                job,
                last_seen_ns=min(job.last_seen_ns, now_ns),
                studied_ns=0,
                due_ns=0,
                numbering=replace(job.numbering, set_back=True),
            )

    def _see(self, part: Slice) -> None:
        """Note when each job's traffic was last seen, and what it sent."""
        if not len(part.bins):
            return
        carried = stream_bytes(part)
        streams, bins = part.streams, part.bins
        heads = np.flatnonzero(np.diff(bins.connection, prepend=-1))
        newest = np.zeros(len(streams), np.int64)
        newest[bins.connection[heads]] = np.maximum.reduceat(bins.last_ns, heads)
        for handle, job in self._jobs.items():
            member = np.isin(part.endpoints.key, job.keys)
            src, dst = member[streams.src], member[streams.dst]
            last = int(newest[src & dst].max(initial=0))
            self._jobs[handle] = replace(
                job,
                last_seen_ns=max(last, job.last_seen_ns),
                flow=lengthened(job.flow, part, carried, src, dst),
            )

    def _track(self) -> None:
        """Read the ends of iterations that are due: the most urgent first, and all that must be.

        One that can wait may be read together with the next, so the busier the service, the less
        a reading costs an iteration.
        """
        now, began_s = self._window.end_ns, self._clock()
        due = [
            (job.due_ns + _patience_ns(job), handle)
            for handle, job in self._jobs.items()
            if job.firm and job.beat is not None and job.status == "training" and now >= job.due_ns
        ]
        for deadline_ns, handle in sorted(due):
            if now < deadline_ns and self._clock() - began_s > TRACK_S:
                break
            job = self._jobs[handle]
            slices = self._window.slices(reach_back_ns(job, now, fully=False))
            self._replace(handle, self._guarded(track, job, slices))

    def _discover(self) -> None:
        now, began_s = self._window.end_ns, self._clock()
        if now < self._discover_at_ns or began_s < self._discover_at_s:
            return
        settled = [
            job.keys
            for job in self._jobs.values()
            if job.firm and job.sightings >= SETTLED_SIGHTINGS and job.found.sure >= SETTLED_SURE
        ]
        progress = join(self._window.slices(), outside(settled))
        traffic = classify(progress, self._inventory.storage)
        found = discover(progress, traffic, known_hosts(progress, self._inventory))
        self._take_over(progress, found)
        self._doubts = doubts_of(progress, traffic, self._jobs.values(), self._inventory)
        results = [job.result for job in self._jobs.values() if job.id and job.result is not None]
        self._unassigned = unassigned(progress, window_volumes(progress), traffic, results)
        self._queue_pairs = _queue_pairs(self._window.slices())
        ended_s = self._clock()
        self._discover_at_ns = now + int(DISCOVER_S * 1e9)
        self._discover_at_s = ended_s + (ended_s - began_s) * (1 / DISCOVER_SHARE - 1)

    def _take_over(self, progress: Progress, found: Sequence[Candidate]) -> None:
        """Known jobs among what was found go on; what else was found is new."""
        names = progress.endpoints.names
        sets = [frozenset(names[e] for e in candidate.endpoints) for candidate in found]
        known = {handle: job.endpoints for handle, job in self._jobs.items()}
        same = identify(sets, known)
        for candidate, endpoints, handle in zip(found, sets, same, strict=True):
            keys = progress.endpoints.key[candidate.endpoints]
            if handle is None:
                first_ns = int(candidate.turns_ns[0])
                last_ns = int(progress.bins.last_ns.max())
                self._join_doubted(candidate.period.seconds)
                self._jobs[self._next_handle] = LiveJob(
                    "", endpoints, keys, candidate, 1, first_ns, last_ns
                )
                self._next_handle += 1
                continue
            job = self._jobs[handle]
            if endpoints == job.endpoints:
                job = replace(job, found=candidate, sightings=job.sightings + 1)
            else:  # what was learned was of a part of it, or of too much
                job = replace(
                    job, endpoints=endpoints, keys=keys, found=candidate, sightings=1, studied_ns=0
                )
            self._jobs[handle] = job
        for handle in known.keys() - set(same):
            job = self._jobs[handle]
            swallowed = any(2 * len(job.endpoints & one) > len(job.endpoints) for one in sets)
            if job.id and swallowed:
                self._note(replace(job, status="ended", provisional=()))
            if swallowed or not (job.id or job.confirmed):
                del self._jobs[handle]

    def _join_doubted(self, period_s: float) -> None:
        """Look again at settled jobs that a new one with their period may be a part of."""
        for handle, job in self._jobs.items():
            if abs(job.period_s - period_s) <= SAME_PERIOD * period_s:
                self._jobs[handle] = replace(job, sightings=min(job.sightings, 1))

    def _study(self) -> None:
        """Study jobs, those known least first, while there is time."""
        now, clock_s = self._window.end_ns, self._clock()
        earned_s = STUDY_SHARE * (clock_s - self._credited_s)
        self._study_credit_s = min(self._study_credit_s + earned_s, MOST_CREDIT_S)
        self._credited_s = clock_s
        wanting = [handle for handle, job in self._jobs.items() if _wants_study(job, now)]
        wanting.sort(key=lambda handle: (self._jobs[handle].firm, self._jobs[handle].studied_ns))
        for handle in wanting:
            if self._study_credit_s < 0:
                return
            began_s = self._clock()
            job = self._jobs[handle]
            slices = self._window.slices(reach_back_ns(job, now, fully=True))
            self._replace(
                handle, self._guarded(lambda j, s: study(j, s, self._inventory), job, slices)
            )
            self._study_credit_s -= self._clock() - began_s

    def _rest(self) -> None:
        """See to the jobs that fell silent."""
        for handle, job in list(self._jobs.items()):
            now = rested(job, self._window.end_ns)
            if now.status == job.status:
                continue
            # Who comes back after a silence may be another: let it be found again.
            self._replace(handle, replace(now, sightings=0))
            if now.status == "ended":
                del self._jobs[handle]

    def _replace(self, handle: int, job: LiveJob) -> None:
        """Put a job in its place; from the moment on that it is told of it has a name."""
        if not job.id and job.confirmed:
            try:
                job = replace(job, id=f"job-{self._results.next_job_number()}")
            except ResultsError as error:
                self._failure = str(error)
        self._jobs[handle] = job
        if job.id:
            self._note(job)

    def _note(self, job: LiveJob) -> None:
        self._unsaved[job.id] = job

    def _guarded(
        self,
        work: Callable[[LiveJob, Sequence[Slice]], LiveJob],
        job: LiveJob,
        slices: Sequence[Slice],
    ) -> LiveJob:
        """What a piece of analysis makes of a job; the job as it is where that fails.

        One job whose traffic we do not understand must not end the analysis of all others.
        """
        try:
            return work(job, slices)
        except Exception as error:  # noqa: BLE001  any fault in arithmetic on unforeseen traffic
            self._failure = f"{job.id or 'a new job'}: {type(error).__name__}: {error}"
            self._log.say("error", "a job could not be analysed", job=job.id, exc_info=error)
            now = self._window.end_ns
            return replace(job, studied_ns=now, due_ns=now + int(job.period_s * 1e9))

    def _save(self) -> None:
        """Store what is new; where that fails it is tried again with the next turn."""
        window = WindowRecord(
            self._window.start_ns,
            self._window.end_ns,
            self._telemetry(self._queue_pairs),
            unassigned_document(self._unassigned),
        )
        updates = [
            update_of(job, self._documents.get(name), self._saved.get(name, 0), window)
            for name, job in self._unsaved.items()
            # Named, but doubted again before it could be stored.
            if job.result is not None or name in self._documents
        ]
        try:
            self._results.save(window, updates)
        except ResultsError as error:
            self._failure = str(error)
            return
        for update in updates:
            name = update.record.id
            self._documents[name] = update.record.document
            self._saved[name] = self._unsaved[name].numbering.next_index
            if self._unsaved[name].status == "ended":
                del self._documents[name], self._saved[name]
        self._unsaved = {}


def _patience_ns(job: LiveJob) -> int:
    """How much longer than necessary an end may wait, so that it is final in time."""
    return int(((1 - SETTLED) * job.period_s + PATIENCE_S) * 1e9)


def _wants_study(job: LiveJob, now_ns: int) -> bool:
    if not job.studied_ns:
        return True
    if job.status != "training":  # a last time, with all that there was of it
        return job.studied_ns < job.last_seen_ns
    waited_s = (now_ns - job.studied_ns) / 1e9
    if waited_s < FEWEST_PERIODS * job.period_s:
        return False
    grown = waited_s >= (GROWN - 1) * job.studied_turns * job.period_s
    return waited_s >= STUDY_AGAIN_S or grown or job.in_doubt


def _queue_pairs(slices: Sequence[Slice]) -> int:
    """Distinct RoCE queue pairs that data went to in these slices."""
    keys = [np.zeros(0, np.uint64)]
    for part in slices:
        streams = part.streams
        roce = streams.transport == Transport.ROCEV2
        keys.append(np.unique(mix(part.endpoints.key[streams.dst[roce]], streams.dest_qp[roce])))
    return len(np.unique(np.concatenate(keys)))
