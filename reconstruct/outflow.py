"""What a job's endpoints send to others, beside what they send to each other.

A job that writes a checkpoint falls silent and sends to storage instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import I64
from reconstruct.bins import Progress
from reconstruct.slices import Slice

STEP_NS: Final = 500_000_000
KEPT: Final = 2_048  # steps that a live job remembers


@dataclass(frozen=True, slots=True)
class Outflow:
    """Bytes by steps of time; steps may be missing where nothing was seen.

    Parameters
    ----------
    time_ns : int64[t]
        Start of each step, ascending.
    inside, out : float64[t]
        Estimated bytes between the job's endpoints, and from them to others.
    """

    time_ns: I64
    inside: NDArray[np.float64]
    out: NDArray[np.float64]


NO_OUTFLOW: Final = Outflow(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


def outflow(progress: Progress, endpoints: NDArray[np.int32]) -> Outflow:
    """The outflow of a job over a window.

    Parameters
    ----------
    progress : Progress
    endpoints : int32[e]
        Of the job.
    """
    member = np.zeros(len(progress.endpoints), np.bool_)
    member[endpoints] = True
    bins, connections = progress.bins, progress.connections
    begin = progress.window_start_ns
    steps = max((progress.window_end_ns - begin) // STEP_NS + 1, 1)
    step = np.clip((bins.last_ns - begin) // STEP_NS, 0, steps - 1)
    src = member[connections.src][bins.connection]
    dst = member[connections.dst][bins.connection]
    inside, out = (
        np.bincount(step, np.where(mask, bins.scaled_bytes, 0.0), int(steps)).astype(np.float64)
        for mask in (src & dst, src & ~dst)
    )
    return Outflow(begin + STEP_NS * np.arange(steps, dtype=np.int64), inside, out)


def stream_bytes(part: Slice) -> NDArray[np.float64]:
    """Estimated bytes of each stream of a slice; float64[s]."""
    bins = part.bins
    return np.asarray(np.bincount(bins.connection, bins.scaled_bytes, len(part.streams)))


def lengthened(
    known: Outflow,
    part: Slice,
    carried: NDArray[np.float64],
    src: NDArray[np.bool_],
    dst: NDArray[np.bool_],
) -> Outflow:
    """The outflow of a live job with one slice more; what is older than `KEPT` steps goes.

    Parameters
    ----------
    known : Outflow
    part : Slice
    carried : float64[s]
        See `stream_bytes`.
    src, dst : bool[s]
        Which streams begin and which end at the job's endpoints.
    """
    if len(known.time_ns) and part.start_ns <= known.time_ns[-1]:
        known = NO_OUTFLOW  # the clock was set back
    inside, out = float(carried[src & dst].sum()), float(carried[src & ~dst].sum())
    return replace(
        known,
        time_ns=np.append(known.time_ns, part.start_ns)[-KEPT:],
        inside=np.append(known.inside, inside)[-KEPT:],
        out=np.append(known.out, out)[-KEPT:],
    )
