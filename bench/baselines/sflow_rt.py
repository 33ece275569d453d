"""sFlow-RT's period: how far apart the fabric-wide rate crosses its slow mean on its way up.

What the application "AI Metrics" for sFlow-RT does (github.com/sflow-rt/ai-metrics,
scripts/metrics.js, version 0.2), in our own words: the rate of all traffic at the edge is smoothed
over 0.1 s; a baseline of the last 20 of its values, one a second, gives a threshold; an event is
raised where the rate rises above it, and armed again once it has been below for 0.2 s; the period
is the mean of the last 20 times between events. Left out is that it learns anew after a load far
from the baseline, in which time it says nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.signal import lfilter

from bench.baselines.flow_records import F64

FAST_S: Final = 0.1  # time constant of the rate
STEP_S: Final = 0.01  # the rate is worked out so often; sFlow-RT does so with every sample
POLL_S: Final = 1.0  # the baseline takes a value so often
WINDOW: Final = 20  # values of a baseline
TIMEOUT_S: Final = 0.2  # below the threshold before another event can be


def period_s(time_s: F64, size: F64, duration_s: float) -> float | None:
    """The one period of a fabric; None before there are two events.

    Parameters
    ----------
    time_s, size : float64, shape (samples,): when a packet was sampled, and bytes it stands for
    """
    between = np.diff(events(smoothed(time_s, size, duration_s)))[-WINDOW:]
    return float(between.mean()) if len(between) else None


def smoothed(time_s: F64, size: F64, duration_s: float) -> F64:
    """The rate every `STEP_S`, bytes per second, exponentially smoothed with `FAST_S`."""
    count = int(np.ceil(duration_s / STEP_S)) + 1
    rate = np.bincount((time_s / STEP_S).astype(np.int64), size, count) / STEP_S
    weight = 1.0 - np.exp(-STEP_S / FAST_S)
    return np.asarray(lfilter([weight], [1.0, weight - 1.0], rate), np.float64)


def events(rate: F64) -> F64:
    """When the rate rises above the threshold, seconds, ascending.

    The threshold is the mean that the baseline had when it was last set: as soon as it is full,
    and whenever that value left the range of the baseline's values.
    """
    poll = round(POLL_S / STEP_S)
    polled = rate[::poll]
    found: list[float] = []
    threshold = np.inf
    below = 0
    for second in range(WINDOW, len(polled) + 1):
        held = polled[second - WINDOW : second]
        if not held.min() <= threshold <= held.max():
            threshold = float(held.mean())
        first = (second - 1) * poll
        for step, value in enumerate(rate[first : first + poll], first):
            if value < threshold:
                below += 1
            else:
                if below >= round(TIMEOUT_S / STEP_S):
                    found.append(step * STEP_S)
                below = 0
    return np.array(found)
