"""Live jobs followed slice by slice, as a running service does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from collector.inventory import Inventory
from collector.schema import ExporterHealth, FlowBatch
from patterns.analyse import known_hosts
from patterns.live import LiveJob, reach_back_ns, rested, study, track
from patterns.numbering import Numbering
from patterns.result import Iteration
from reconstruct.identity import identify
from reconstruct.jobs import discover
from reconstruct.progress import join
from reconstruct.slices import Slice
from reconstruct.slicing import Slicer
from reconstruct.traffic import classify
from reconstruct.window import Window

S = 1_000_000_000
DISCOVER_S = 5
STUDY_AGAIN_S = 30


@dataclass
class Life:
    """One job: as it is now, all its iterations that were final at some time, and its statuses."""

    job: LiveJob
    final: list[Iteration] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    firm_ns: int | None = None

    @property
    def complete(self) -> list[Iteration]:
        return [i for i in self.final if i.complete]


class Lives:
    """Follows all jobs of some telemetry by its event time; `ended` are those that did."""

    def __init__(self, inventory: Inventory, window_s: int = 600) -> None:
        self.lives: list[Life] = []
        self.ended: list[Life] = []
        self._inventory = inventory
        self._window = Window(window_s * S, 4_000_000)
        self._slicer = Slicer(S, 2 * S)
        self._discover_ns = 0
        self._fed_ns = 0

    def feed(
        self,
        flows: FlowBatch,
        exporters: Sequence[ExporterHealth],
        *,
        until_ns: int | None = None,
        turn_s: int = 1,
    ) -> None:
        """Samples from where the last ones ended, turn by turn, and the silence after them."""
        time = flows.time_ns
        now = self._fed_ns or int(time.min())
        last = int(time.max(initial=now)) + 15 * S if until_ns is None else until_ns
        while now < last:
            after = min(now + turn_s * S, last)
            self._slicer.add(flows.take((time >= now) & (time < after)), exporters, after)
            now = after
            self._turn(self._slicer.close(now))
        self._fed_ns = now

    def _turn(self, slices: Sequence[Slice]) -> None:
        for part in slices:
            self._window.add(part)
            for life in self.lives:
                life.job = _seen(life.job, part)
        now = self._window.end_ns
        if not now:
            return
        for life in self.lives:
            job = life.job
            if job.firm and job.beat is not None and job.status == "training" and now >= job.due_ns:
                since_ns = reach_back_ns(job, now, fully=False)
                self._put(life, track(job, self._window.slices(since_ns)))
        if now >= self._discover_ns:
            self._discover_ns = now + DISCOVER_S * S
            self._discover()
        for life in self.lives:
            job = life.job
            settled = job.firm and job.beat is not None and not job.in_doubt
            wait_s = STUDY_AGAIN_S if settled else DISCOVER_S
            if job.status == "training" and now >= job.studied_ns + wait_s * S:
                since_ns = reach_back_ns(job, now, fully=True)
                self._put(life, study(job, self._window.slices(since_ns), self._inventory))
        for life in list(self.lives):
            self._put(life, rested(life.job, now))
            if life.job.status == "ended":
                self.lives.remove(life)
                self.ended.append(life)

    def _discover(self) -> None:
        progress = join(self._window.slices())
        traffic = classify(progress, self._inventory.storage)
        found = discover(progress, traffic, known_hosts(progress, self._inventory))
        names = progress.endpoints.names
        sets = [frozenset(names[e] for e in candidate.endpoints) for candidate in found]
        known = {n: life.job.endpoints for n, life in enumerate(self.lives)}
        same = identify(sets, known)
        for candidate, endpoints, n in zip(found, sets, same, strict=True):
            keys = progress.endpoints.key[candidate.endpoints]
            if n is None:
                last_ns = int(progress.bins.last_ns.max())
                first_ns = int(candidate.turns_ns[0])
                job = LiveJob("job", endpoints, keys, candidate, 1, first_ns, last_ns)
                self.lives.append(Life(job))
            else:
                job = replace(self.lives[n].job, found=candidate, endpoints=endpoints, keys=keys)
                self.lives[n].job = replace(job, sightings=job.sightings + 1)

    def _put(self, life: Life, job: LiveJob) -> None:
        """What was final stays as it was, and what is new follows on it."""
        for iteration in job.numbering.iterations:
            if iteration.index < len(life.final):
                assert iteration == life.final[iteration.index]
                continue
            assert iteration.index == len(life.final)
            assert not life.final or iteration.start_ns == life.final[-1].end_ns
            life.final.append(iteration)
        if job.firm and life.firm_ns is None:
            life.firm_ns = self._window.end_ns
        if not life.statuses or life.statuses[-1] != job.status:
            life.statuses.append(job.status)
        life.job = job


def restarted(life: Life) -> Life:
    """The job as a service knows it that was started anew: what was learned of it is gone."""
    job = replace(
        life.job,
        result=None,
        beat=None,
        sightings=0,
        provisional=(),
        offered_s=None,
        offered_shift_s=0.0,
        studied_ns=0,
        studied_turns=0,
        due_ns=0,
        numbering=Numbering(life.job.numbering.iterations),
    )
    return Life(job, list(life.final), list(life.statuses), life.firm_ns)


def _seen(job: LiveJob, part: Slice) -> LiveJob:
    """The job with the time its traffic was last seen at."""
    inside = np.isin(part.endpoints.key, job.keys)
    streams, bins = part.streams, part.bins
    own = (inside[streams.src] & inside[streams.dst])[bins.connection]
    last_ns = int(bins.last_ns[own].max(initial=0))
    return replace(job, last_seen_ns=max(job.last_seen_ns, last_ns))
