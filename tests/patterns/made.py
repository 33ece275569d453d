"""`Flows` of a job made by hand: one connection after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collector.messages import CLASS_NAMES, MESSAGE_LENGTHS
from reconstruct.edges import PHASES, Flows, Sightings

MIB = float(1 << 20)
TURN_NS, TURNS = 100_000_000, 20


@dataclass(frozen=True, slots=True)
class Wire:
    """One connection from `src` to `dst`.

    `active` are the phases, as shares of a turn, between which its samples fall evenly; `lengths`
    counts message lengths read by class name.
    """

    src: int
    dst: int
    bytes: float = 100 * MIB
    samples: int = 100
    recurring: float = 1.0
    active: tuple[float, float] = (0.6, 0.8)
    lengths: dict[str, int] = field(default_factory=dict)
    mean_message_bytes: float = float("nan")
    written: bool = True


def flows_of(wires: Sequence[Wire]) -> Flows:
    """The job's connections, numbered in the order given."""
    count = len(wires)
    return Flows(
        connection=np.arange(count, dtype=np.int32),
        src=np.array([w.src for w in wires], np.int32),
        dst=np.array([w.dst for w in wires], np.int32),
        bytes_per_turn=np.array([w.bytes for w in wires]),
        share=np.ones(count),
        error=np.array([1 / np.sqrt(max(w.samples, 1)) / 100 for w in wires]),
        samples=np.array([w.samples for w in wires], np.int64),
        recurring=np.array([w.recurring for w in wires]),
        phases=np.array([_profile(w) for w in wires]).reshape(count, PHASES),
        classes=np.array(
            [[w.lengths.get(name, 0) for name in CLASS_NAMES] for w in wires], np.int64
        ).reshape(count, len(CLASS_NAMES)),
        message_lengths=MESSAGE_LENGTHS,
        mean_message_bytes=np.array([w.mean_message_bytes for w in wires]),
        written=np.array([w.written for w in wires], np.bool_),
        sightings=sightings_of(wires),
    )


def sightings_of(wires: Sequence[Wire]) -> Sightings:
    """Every sample of each wire, in turns of `TURN_NS`, at a time drawn from its active phases."""
    rng = np.random.default_rng(7)
    flow = np.repeat(np.arange(len(wires)), [w.samples for w in wires])
    low, high = np.array([w.active for w in wires]).reshape(-1, 2)[flow].T
    phase = low + (high - low) * rng.random(len(flow))
    time = ((rng.integers(0, TURNS, len(flow)) + phase) * TURN_NS).astype(np.int64)
    return Sightings(flow.astype(np.int64), time, np.zeros(len(flow), np.int64))


def _profile(wire: Wire) -> NDArray[np.float64]:
    """Samples by phase; a part of a slot counts as that part."""
    low, high = (edge * PHASES for edge in wire.active)
    slots = np.arange(PHASES)
    inside = np.clip(np.minimum(slots + 1, high) - np.maximum(slots, low), 0, 1)
    return np.asarray(wire.samples * inside / inside.sum())


def rows(flows: Flows) -> NDArray[np.intp]:
    """All its rows."""
    return np.arange(len(flows))
