"""Volume and rhythm of every connection of a job: how much per iteration, and when in it.

`Flow` rows are what `patterns` reads. The volume is the slope of sequence progress against the
job's own clock, turns + share of the turn's samples gone by, so it needs no sample at a turn's
very ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import I32, I64
from reconstruct.bins import Progress, ProgressBins
from reconstruct.jobs import Candidate
from reconstruct.restarts import restarts, spans, undisturbed
from reconstruct.rounds import ambiguous
from reconstruct.stops import CYCLES
from reconstruct.traffic import written
from reconstruct.volumes import contradicts

PHASES: Final = 50
SHARP: Final = 1 / PHASES  # of a turn: how well a sample's time must be known to have a phase
LOOSE: Final = 0.35  # and where there are few such, how well at least
ENOUGH_SHARP: Final = 100
STRAIGHT_SAMPLES: Final = 20
STRAIGHT_ERROR: Final = 0.02
UNROLLED_ERROR: Final = 0.006
SMALL: Final = 0.2  # of a connection's mean packet


@dataclass(frozen=True, slots=True)
class Sightings:
    """Moments at which connections were seen sending, as well as bins tell them: one row each.

    Parameters
    ----------
    flow : int64[m]
        Row in `Flows`. Bins of far smaller packets than the others of a connection are left out:
        a library's notices run against its data (Gloo says when it is ready to receive).
    time_ns : int64[m]
        Of a bin's first sample, and of its last one where that is another.
    slack_ns : int64[m]
        How much earlier that may have been.
    """

    flow: I64
    time_ns: I64
    slack_ns: I64


@dataclass(frozen=True, slots=True)
class Flows:
    """The connections of a job, one row each.

    Parameters
    ----------
    connection, src, dst : int32[f]
        Ids in the window's `Progress`.
    bytes_per_turn : float64[f]
        Payload per iteration by sequence progress; by count of samples where the two contradict;
        nan where fewer than two samples tell. Of a connection that a restart ended or began, in
        the iterations that it served.
    share : float64[f]
        Share of the iterations that it served.
    error : float64[f]
        Its relative standard error.
    samples : int64[f]
        Samples inside the turns.
    recurring : float64[f]
        Turns with a sample, over those expected of as many samples spread evenly.
    phases : float64[f, PHASES]
        Samples by phase of the turn.
    classes : int64[f, classes]
        Canonical message lengths read, see `collector.messages`.
    message_lengths : tuple of int
        Bytes of the classes.
    mean_message_bytes : float64[f]
        By acknowledgements, nan where unknown.
    written : bool[f]
        Whether RDMA writes carry it, as NCCL's connections.
    sightings : Sightings
        When each was seen sending, inside the turns.
    """

    connection: I32
    src: I32
    dst: I32
    bytes_per_turn: NDArray[np.float64]
    share: NDArray[np.float64]
    error: NDArray[np.float64]
    samples: I64
    recurring: NDArray[np.float64]
    phases: NDArray[np.float64]
    classes: I64
    message_lengths: tuple[int, ...]
    mean_message_bytes: NDArray[np.float64]
    written: NDArray[np.bool_]
    sightings: Sightings

    def __len__(self) -> int:
        return len(self.connection)

    def together(self, rows: NDArray[np.integer] | slice = slice(None)) -> float:
        """Bytes per iteration of some connections together."""
        return float(np.nansum(self.bytes_per_turn[rows] * self.share[rows]))


def measure(progress: Progress, job: Candidate) -> Flows:
    """Volume per turn, phases and message lengths of each connection of a job."""
    bins, connections = progress.bins, progress.connections
    count = len(job.connections)
    row_of = np.full(len(connections), -1, np.int64)
    row_of[job.connections] = np.arange(count)
    rows = np.flatnonzero(row_of[bins.connection] >= 0)
    time = bins.last_ns[rows]
    turn = np.searchsorted(job.turns_ns, time, "right") - 1
    length = np.diff(job.turns_ns)
    whole, share = _served(progress, job, row_of)
    inside = (turn >= 0) & (turn < len(whole))
    inside[inside] = whole[turn[inside]]
    rows, time, turn = rows[inside], time[inside], turn[inside]
    owner = row_of[bins.connection[rows]]
    weight = bins.samples[rows].astype(np.float64)
    phase = (time - job.turns_ns[turn]) / length[turn]
    phases = _phases(owner, phase, weight, bins.slack_ns[rows] / length[turn], count)
    clock = turn + _share_gone_by(phases.sum(axis=0), phase)
    volume, error = _slope(owner, clock, bins.last_seq[rows], count)
    samples = np.bincount(owner, weight, count).astype(np.int64)
    turns = int(whole.sum())
    volume *= connections.unit_bytes[job.connections]
    payload_share = connections.mean_payload / np.maximum(connections.mean_frame, 1)
    counted = np.bincount(owner, bins.scaled_bytes[rows], count) / np.maximum(share * turns, 1)
    counted *= payload_share[job.connections]
    # A straight line through many samples is no accident, whatever rate the exporter claims.
    straight = (samples >= STRAIGHT_SAMPLES) & (error <= STRAIGHT_ERROR)
    # Where rounds of a counter go by unseen, any volume may look straight.
    unclear = ambiguous(progress)[job.connections]
    doubtful = contradicts(volume, counted, samples) & ~(straight & ~unclear)
    doubtful |= unclear & (error > UNROLLED_ERROR)
    volume = np.where(doubtful, counted, volume)
    error = np.where(doubtful, 1 / np.sqrt(np.maximum(samples, 1)), error)
    seen = np.unique(owner * len(length) + turn) // len(length)
    served = np.where(share * turns >= CYCLES, share * turns, turns)
    expected = served * (1 - (1 - 1 / served) ** samples)
    at = job.connections
    return Flows(
        connection=at,
        src=connections.src[at],
        dst=connections.dst[at],
        bytes_per_turn=volume,
        share=share,
        error=error,
        samples=samples,
        recurring=np.bincount(seen, minlength=count) / np.maximum(expected, 1e-9),
        phases=phases,
        classes=connections.message_classes[at],
        message_lengths=progress.message_lengths,
        mean_message_bytes=connections.mean_message_bytes[at],
        written=written(connections)[at],
        sightings=_sightings(progress.bins, rows, owner),
    )


def _served(
    progress: Progress, job: Candidate, row_of: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Turns to measure by, and which share of them each connection served.

    All turns, and all of them by every connection; but where the job was started again no turn
    that was cut short, and of the others only those of a connection's own runs.
    """
    length = np.diff(job.turns_ns)
    share = np.ones(len(job.connections))
    breaks = restarts(progress, job.connections)
    whole = undisturbed(job.turns_ns[:-1], job.turns_ns[1:], breaks)
    if not len(breaks) or not whole.any():
        return np.ones(len(length), np.bool_), share
    resumed = breaks[:, 1]
    middle = job.turns_ns[:-1] + length // 2
    run = np.searchsorted(resumed, middle[whole], "right")
    in_run = np.bincount(run, minlength=len(breaks) + 1)
    until = np.concatenate([[0], np.cumsum(in_run)])
    held, first, last = spans(progress, job.connections)
    since_run, until_run = (np.searchsorted(resumed, time, "right") for time in (first, last))
    share[row_of[held]] = (until[until_run + 1] - until[since_run]) / until[-1]
    return whole, share


def _sightings(bins: ProgressBins, rows: NDArray[np.intp], owner: NDArray[np.int64]) -> Sightings:
    """First and last sample of each of some rows, which belong to the given flows."""
    weight, scaled = bins.samples[rows], bins.scaled_bytes[rows]
    usual = np.bincount(owner, scaled) / np.maximum(np.bincount(owner, weight), 1)
    large = scaled >= SMALL * usual[owner] * weight
    rows, owner = rows[large], owner[large]
    several = bins.samples[rows] > 1
    return Sightings(
        flow=np.concatenate([owner, owner[several]]),
        time_ns=np.concatenate([bins.first_ns[rows], bins.last_ns[rows][several]]),
        slack_ns=np.concatenate([bins.slack_ns[rows], bins.slack_ns[rows][several]]),
    )


def _phases(
    owner: NDArray[np.int64],
    phase: NDArray[np.float64],
    weight: NDArray[np.float64],
    slack: NDArray[np.float64],
    count: int,
) -> NDArray[np.float64]:
    """Samples by phase of each connection; float64[count, PHASES].

    Only samples in good time count where a connection has `ENOUGH_SHARP` of them; else also those
    known to `LOOSE` of a turn, taken at the middle of what their time may be.
    """
    sharp = slack <= SHARP
    few = np.bincount(owner, weight * sharp, count) < ENOUGH_SHARP
    use = sharp | (few[owner] & (slack <= LOOSE))
    middle = (phase - np.where(sharp, 0, slack / 2)) % 1.0
    slot = np.minimum((middle * PHASES).astype(np.int64), PHASES - 1)
    cell = owner[use] * PHASES + slot[use]
    counted = np.bincount(cell, weight[use], count * PHASES)
    return np.asarray(counted.reshape(count, PHASES), np.float64)


def _share_gone_by(profile: NDArray[np.float64], phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of a turn's samples before each phase; float64, 0 to 1."""
    total = max(1.0, float(profile.sum()))
    gone = np.concatenate([[0.0], np.cumsum(profile) / total])
    return np.asarray(np.interp(phase, np.linspace(0, 1, len(gone)), gone))


def _slope(
    owner: NDArray[np.int64],
    clock: NDArray[np.float64],
    position: NDArray[np.int64],
    count: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least-squares slope of position over clock per owner, and its relative standard error."""
    n = np.bincount(owner, minlength=count).astype(np.float64)
    base = np.zeros(count)
    first = np.unique(owner, return_index=True)
    base[first[0]] = position[first[1]]
    y = position - base[owner]  # keeps the sums small: positions may be large
    sx, sy = np.bincount(owner, clock, count), np.bincount(owner, y, count)
    mean_x, mean_y = sx / np.maximum(n, 1), sy / np.maximum(n, 1)
    dx, dy = clock - mean_x[owner], y - mean_y[owner]
    sxx = np.bincount(owner, dx * dx, count)
    sxy = np.bincount(owner, dx * dy, count)
    syy = np.bincount(owner, dy * dy, count)
    told = (n >= 2) & (sxx > 0)
    slope = np.where(told, sxy / np.where(told, sxx, 1), np.nan)
    rest = np.maximum(syy - np.where(told, slope, 0) * sxy, 0)
    spread = np.sqrt(rest / np.maximum(n - 2, 1) / np.where(told, sxx, 1))
    error = np.where(told & (n > 2) & (slope > 0), spread / np.where(slope > 0, slope, 1), np.inf)
    return slope, error
