"""Iterations that took clearly longer than those of their regime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from patterns.claim import claim
from patterns.regimes import MAD_TO_SIGMA, regimes
from patterns.result import Anomaly, Iteration, Subject

SLOWER: Final = 1.2  # by a fifth at least: less is what collectives do by themselves
SPREADS: Final = 8.0  # and by this many robust standard deviations of the window
FEWEST: Final = 8  # complete iterations before a spread means anything
CEILING: Final = 0.95
NEEDED: Final = 50.0  # samples per iteration, from which boundaries are dependable


def slow_iterations(job: str, iterations: Sequence[Iteration], samples: int) -> list[Anomaly]:
    """One finding per slow iteration, in order of time.

    A job whose steps become longer for good has another regime from then on, and no slow ones.

    Parameters
    ----------
    job : str
        Id of the job, the subject.
    iterations : sequence of Iteration
        Only complete ones count.
    samples : int
        Samples of the job in all of them.
    """
    complete = [i for i in iterations if i.complete]
    if len(complete) < FEWEST:
        return []
    durations = np.array([i.duration_s for i in complete])
    usual = np.concatenate([np.full(r.last - r.first, r.median_s) for r in regimes(durations)])
    spread = MAD_TO_SIGMA * float(np.median(np.abs(durations - usual)))
    out = []
    excess_s = np.pad(durations - usual, 1)
    for i, (iteration, duration, typical) in enumerate(
        zip(complete, durations, usual.tolist(), strict=True), 1
    ):
        # A boundary put too late makes one iteration long and its neighbour as short.
        with_neighbours = excess_s[i] + min(0.0, float(excess_s[i - 1]), float(excess_s[i + 1]))
        if with_neighbours <= max((SLOWER - 1) * typical, SPREADS * spread):
            continue
        ratio = float(duration) / typical
        excess = (float(duration) - typical) / max(spread, 0.01 * typical)
        out.append(
            Anomaly(
                id=f"{job}/slow_iteration/{iteration.index}",
                kind="slow_iteration",
                severity="warning" if ratio < 2 else "critical",
                start_ns=iteration.start_ns,
                end_ns=iteration.end_ns,
                verdict="undecided",
                subjects=(Subject("job", job),),
                summary=(
                    f"iteration {iteration.index} took {duration:.3f} s, "
                    f"{ratio:.2f} times the median of {typical:.3f} s"
                ),
                evidence={
                    "duration_s": float(duration),
                    "median_s": typical,
                    "spread_s": spread,
                    "iterations": len(complete),
                },
                confidence=claim(
                    min(CEILING, 0.6 + 0.02 * excess), samples // len(complete), NEEDED, "duration"
                ).confidence,
            )
        )
    return out
