"""Iterations that took clearly longer than those of their regime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.claim import claim
from patterns.regimes import MAD_TO_SIGMA, regimes
from patterns.result import Anomaly, Iteration, Subject
from reconstruct.outflow import Outflow

SLOWER: Final = 1.2  # by a fifth at least: less is what collectives do by themselves
SPREADS: Final = 8.0  # and by this many robust standard deviations of the window
FEWEST: Final = 8  # complete iterations before a spread means anything
CEILING: Final = 0.95
NEEDED: Final = 50.0  # samples per iteration, from which boundaries are dependable
SILENT: Final = 0.05  # of the mean: less than that between a job's endpoints is silence
MORE: Final = 3.0  # times as much to others, and
IN_SILENCE: Final = 0.5  # so much of it while the job is silent: it writes a checkpoint


def slow_iterations(
    job: str, iterations: Sequence[Iteration], samples: int, flow: Outflow
) -> list[Anomaly]:
    """One finding per slow iteration, in order of time.

    A job whose steps become longer for good has another regime from then on, and no slow ones. One
    in which a checkpoint was written was meant to take long.

    Parameters
    ----------
    job : str
        Id of the job, the subject.
    iterations : sequence of Iteration
        Only complete ones count.
    samples : int
        Samples of the job in all of them.
    flow : Outflow
        Of the job.
    """
    complete = [i for i in iterations if i.complete]
    if len(complete) < FEWEST:
        return []
    durations = np.array([i.duration_s for i in complete])
    usual = np.concatenate([np.full(r.last - r.first, r.median_s) for r in regimes(durations)])
    spread = MAD_TO_SIGMA * float(np.median(np.abs(durations - usual)))
    excess_s = np.pad(durations - usual, 1)
    # A boundary put too late makes one iteration long and its neighbour as short.
    neighbours_s = np.minimum(0.0, np.minimum(excess_s[:-2], excess_s[2:]))
    slow = excess_s[1:-1] + neighbours_s > np.maximum((SLOWER - 1) * usual, SPREADS * spread)
    meant = _checkpoints(complete, slow, flow)
    out = []
    for i in np.flatnonzero(slow & ~meant).tolist():
        iteration, duration, typical = complete[i], float(durations[i]), float(usual[i])
        ratio = duration / typical
        excess = (duration - typical) / max(spread, 0.01 * typical)
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
                    "duration_s": duration,
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


def _checkpoints(
    iterations: Sequence[Iteration], slow: NDArray[np.bool_], flow: Outflow
) -> NDArray[np.bool_]:
    """In which of the slow iterations the job fell silent and sent to others instead; bool[k]."""
    out = np.zeros(len(iterations), np.bool_)
    if not len(flow.time_ns) or slow.all():
        return out
    begin = np.searchsorted(flow.time_ns, [i.start_ns for i in iterations])
    end = np.searchsorted(flow.time_ns, [i.end_ns for i in iterations])
    silent = flow.inside <= SILENT * flow.inside.mean()
    sent = np.concatenate([[0.0], np.cumsum(flow.out)])
    quietly = np.concatenate([[0.0], np.cumsum(flow.out * silent)])
    rate = (sent[end] - sent[begin]) / np.maximum(end - begin, 1)
    usual = float((sent[end] - sent[begin])[~slow].sum() / max((end - begin)[~slow].sum(), 1))
    in_silence = quietly[end] - quietly[begin] >= IN_SILENCE * (sent[end] - sent[begin])
    return np.asarray(slow & (rate > MORE * usual) & in_silence)
