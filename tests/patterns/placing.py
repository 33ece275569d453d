"""Ends of iterations over all connections of a made job."""

from __future__ import annotations

import numpy as np

from patterns.timeline import Timeline, place
from patterns.turns import Marks
from reconstruct.bins import Progress
from reconstruct.iterations import follow_cycle


def placed(progress: Progress, period_s: float, marks: Marks = "burst") -> Timeline:
    """What `place` says of a job of one group, followed at about its period."""
    time = np.sort(progress.bins.last_ns)
    turns = follow_cycle(time, np.ones(len(time)), period_s)
    every = np.arange(len(progress.connections), dtype=np.int32)
    found = place(progress, [every], turns, marks)
    assert found is not None
    return found
