"""What programs' own clocks said: when each turn of a loop began and ended on each rank."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Clocks:
    """Turns of one run; each array has shape (ranks, turns), nanoseconds since the epoch."""

    began_ns: NDArray[np.int64]
    ready_ns: NDArray[np.int64]
    ended_ns: NDArray[np.int64]


def nanoseconds(time: str) -> int:
    """Nanoseconds since the epoch of a time of a document (RFC 3339, UTC)."""
    whole, _, fraction = time.removesuffix("Z").partition(".")
    second = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return second * 1_000_000_000 + int(fraction.ljust(9, "0"))


def read(folder: Path, ranks: int) -> Clocks:
    """The clocks that the ranks of a run left in `folder`, up to the last turn that all ended."""
    lines = [
        np.loadtxt(folder / f"clock-{rank}", np.int64, ndmin=2).reshape(-1, 3)
        for rank in range(ranks)
    ]
    turns = min(len(of_rank) for of_rank in lines)
    table = np.stack([of_rank[:turns] for of_rank in lines])
    return Clocks(table[:, :, 0], table[:, :, 1], table[:, :, 2])


def ends_ns(clocks: Clocks) -> NDArray[np.int64]:
    """Ends of iterations that end with a gradient-reducing transfer: when the last rank had it."""
    return np.asarray(clocks.ended_ns.max(axis=0))


def starts_ns(clocks: Clocks) -> NDArray[np.int64]:
    """Starts of communication: when the first rank was ready for it."""
    return np.asarray(clocks.ready_ns.min(axis=0))
