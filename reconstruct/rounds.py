"""Rounds: how often a sequence counter went round between two samples.

A TCP counter goes round every 4 GiB, at 400 Gbit/s twelve times a second: where few packets are
sampled, nobody can say from two samples how much went by. But a job sends as much in every turn.
Of all volumes per turn that the count of samples allows, one makes all samples of a connection
agree on where its counter stood, as one frequency makes all echoes of a signal agree in phase.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import Transport
from reconstruct.acknowledgements import PSN_BITS
from reconstruct.bins import Connections, Progress, Verb
from reconstruct.jobs import Candidate

TCP_BITS: Final = 32
AMBIGUOUS: Final = 0.04  # of a round between two samples: half of one is then no accident
FEWEST_SAMPLES: Final = 12
SIGMAS: Final = 4.0  # of the count of samples, within which the volume is looked for
LEAST_RANGE: Final = 0.15  # and of the volume itself, as samples may be lost
FINE: Final = 6  # volumes tried per one that the window's turns tell apart
SURE: Final = 8.0  # nats above what the best of as many volumes reaches by chance
PROFILE: Final = 50  # steps of a turn
ALIKE: Final = 0.7  # cosine of the profiles of connections that send at the same time
SAME: Final = 0.01  # of a volume: others so near are equal
FEWEST_ALIKE: Final = 3
SEVERAL: Final = 0.1  # of the connections that have a volume in common
RIVAL: Final = 0.8  # of the best agreement: another volume as good leaves it open


def round_of(connections: Connections) -> NDArray[np.float64]:
    """Units in a round of each connection's counter; float64[c]."""
    roce = connections.transport == Transport.ROCEV2
    return np.where(roce, 2.0**PSN_BITS, 2.0**TCP_BITS)


def ambiguous(progress: Progress) -> NDArray[np.bool_]:
    """Connections whose samples lie so far apart that rounds go by unseen; bool[c]."""
    bins, connections = progress.bins, progress.connections
    count = len(connections)
    samples = np.bincount(bins.connection, bins.samples, count)
    scaled = np.bincount(bins.connection, bins.scaled_bytes, count)
    payload_share = connections.mean_payload / np.maximum(connections.mean_frame, 1)
    step = scaled / np.maximum(samples, 1) * payload_share / connections.unit_bytes
    recorded = connections.verbs & Verb.RECORDED != 0
    return np.asarray((step >= AMBIGUOUS * round_of(connections)) & ~recorded)


def unrolled(progress: Progress, job: Candidate) -> Progress:
    """The progress with rounds put in that a job's turns tell, and no sample alone.

    Parameters
    ----------
    progress : Progress
    job : Candidate

    Returns
    -------
    Progress
        As it came where no counter goes round unseen. What stays open is left as it was.
    """
    unclear = ambiguous(progress)
    wanted = job.connections[unclear[job.connections]]
    if not len(wanted):
        return progress
    seen = _seen(progress, wanted, job.turns_ns)
    first_seq, last_seq = progress.bins.first_seq.copy(), progress.bins.last_seq.copy()
    told = [_volume(one, _likely(one)) for one in seen]
    usual = _usual([volume for volume in told if volume is not None])
    for one, volume in zip(seen, told, strict=True):
        # What several connections send is likelier than what one alone does.
        volume = _volume(one, usual) or volume
        if volume is None:
            continue
        start = _start(one, volume)
        unseen = np.rint((start + volume * one.clock - one.position) / one.round_units)
        moved = (unseen * one.round_units).astype(np.int64)
        first_seq[one.rows] += moved
        last_seq[one.rows] += moved
    return replace(progress, bins=replace(progress.bins, first_seq=first_seq, last_seq=last_seq))


@dataclass(frozen=True, slots=True)
class _Seen:
    """A connection's rows: turns gone by at each, position there; which lie in a turn."""

    rows: slice
    clock: NDArray[np.float64]
    position: NDArray[np.int64]
    inside: NDArray[np.bool_]
    per_turn: float  # units, by count
    samples: int
    round_units: float


def _seen(
    progress: Progress, wanted: NDArray[np.int32], turns_ns: NDArray[np.int64]
) -> list[_Seen]:
    """The connections that have `FEWEST_SAMPLES`."""
    bins, connections = progress.bins, progress.connections
    count = len(turns_ns) - 1
    length = np.diff(turns_ns)
    low, high = (np.searchsorted(bins.connection, wanted + k) for k in (0, 1))
    kept, turns, phases, insides = [], [], [], []
    for rows in map(slice, low.tolist(), high.tolist()):
        turn = np.searchsorted(turns_ns, bins.last_ns[rows], "right") - 1
        inside = (turn >= 0) & (turn < count)
        if bins.samples[rows][inside].sum() < FEWEST_SAMPLES:
            continue
        held = np.clip(turn, 0, count - 1)
        phase = (bins.last_ns[rows] - turns_ns[held]) / length[held]
        kept.append(rows)
        turns.append(turn)
        phases.append(phase)
        insides.append(inside)
    pooled = _pooled([phase[inside] for phase, inside in zip(phases, insides, strict=True)])
    payload_share = connections.mean_payload / np.maximum(connections.mean_frame, 1)
    per_byte = payload_share / connections.unit_bytes / count
    rounds = round_of(connections)
    out = []
    for rows, turn, phase, inside, ranked in zip(kept, turns, phases, insides, pooled, strict=True):
        # What a connection has sent at a phase of the turn is the share of samples before it.
        before = np.searchsorted(ranked, phase, "left") + np.searchsorted(ranked, phase, "right")
        connection = int(bins.connection[rows.start])
        out.append(
            _Seen(
                rows=rows,
                clock=turn + before / 2 / len(ranked),
                position=bins.last_seq[rows],
                inside=inside,
                per_turn=float(bins.scaled_bytes[rows][inside].sum() * per_byte[connection]),
                samples=int(bins.samples[rows][inside].sum()),
                round_units=float(rounds[connection]),
            )
        )
    return out


def _pooled(phases: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Sorted phases of each connection's samples and of all those that send at the same time."""
    if not phases:
        return []
    edges = np.linspace(0.0, 1.0, PROFILE + 1)
    profile = np.array([np.histogram(phase, edges)[0] for phase in phases], np.float64)
    profile /= np.maximum(np.linalg.norm(profile, axis=1, keepdims=True), 1e-9)
    alike = profile @ profile.T >= ALIKE
    return [np.sort(np.concatenate([phases[k] for k in np.flatnonzero(row)])) for row in alike]


def _likely(one: _Seen) -> NDArray[np.float64]:
    """Units per turn that the count of samples allows, as finely as the window's turns tell."""
    spread = max(SIGMAS / np.sqrt(one.samples), LEAST_RANGE) * one.per_turn
    apart = _apart(one)
    return np.arange(max(one.per_turn - spread, apart), one.per_turn + spread, apart / FINE)


def _apart(one: _Seen) -> float:
    """By how many units per turn volumes must differ for the window's turns to tell them apart."""
    return one.round_units / float(np.ptp(one.clock[one.inside]))


def _usual(volumes: list[float]) -> NDArray[np.float64]:
    """Volumes that several connections have."""
    known = np.sort(np.array(volumes))
    together = np.searchsorted(known, known * (1 + SAME)) - np.searchsorted(
        known, known * (1 - SAME)
    )
    return np.unique(known[together >= max(FEWEST_ALIKE, SEVERAL * len(known))])


def _volume(one: _Seen, tried: NDArray[np.float64]) -> float | None:
    """The one of some volumes per turn on which all samples agree; None where several do."""
    if not len(tried):
        return None
    clock, position = one.clock[one.inside], one.position[one.inside]
    turned = 2 * np.pi * (position % one.round_units) / one.round_units
    angle = 2 * np.pi / one.round_units * tried[:, None] * clock
    agreement = np.abs(np.exp(1j * (turned - angle)).mean(axis=1))
    best = int(agreement.argmax())
    others = np.abs(tried - tried[best]) > 1.5 * _apart(one)
    rival = float(agreement[others].max(initial=0.0))
    chance = np.log(max(len(tried), 1)) + SURE
    if agreement[best] ** 2 * len(clock) < chance or rival > RIVAL * agreement[best]:
        return None
    return float(tried[best])


def _start(one: _Seen, volume: float) -> float:
    """Position at the first turn's begin, within a round."""
    moved = one.position - volume * one.clock
    turned = 2 * np.pi * (moved[one.inside] % one.round_units) / one.round_units
    return float(np.angle(np.exp(1j * turned).mean()) / (2 * np.pi) * one.round_units)
