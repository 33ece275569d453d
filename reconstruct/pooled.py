"""Pooled counters: ports of one rhythm, read at different moments, as one port read more often.

What one port passed between two polls is spread evenly, as nothing says when it passed. Ports of
other switches were polled in between. Where all of them pause and burst together, each poll of
each says how far all of them were.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.ndimage import uniform_filter1d
from scipy.optimize import isotonic_regression

from collector.schema import I64
from reconstruct.counters import F64, Rates

# Polls over which a port may get ahead of the others or fall behind: it has traffic of its own.
AROUND: Final = 17


def pool(rates: Rates, ports: I64) -> F64:
    """Bytes of some ports together, by the bins of `rates`; float64[bins].

    Parameters
    ----------
    rates : Rates
    ports : int64[k]
        Rows of `rates` that keep one rhythm.

    Notes
    -----
    Each poll is a point of the curve of bytes gone by: the port's own bytes, scaled to those of
    all, less what it is ahead on average around. Through these points goes the rising curve of
    least squares.
    """
    edges = rates.edges_ns
    gone = np.append(0.0, np.cumsum(rates.passed[ports].sum(axis=0)))
    moments, places, weights = [], [], []
    for port in ports.tolist():
        polls = rates.polls[port]
        others = np.interp(polls.time_ns, edges, gone)
        own = polls.passed[-1] - polls.passed[0]
        ahead = polls.passed * ((others[-1] - others[0]) / max(own, 1.0)) - others
        moments.append(polls.time_ns)
        places.append(others + ahead - uniform_filter1d(ahead, AROUND, mode="nearest"))
        weights.append(np.full(len(others), max(own, 1.0)))
    time_ns = np.concatenate(moments)
    order = np.argsort(time_ns, kind="stable")
    weight = np.concatenate(weights)[order]
    curve = isotonic_regression(np.concatenate(places)[order], weights=weight / weight.mean())
    pooled = np.diff(np.interp(edges, time_ns[order], curve.x))
    late = rates.late_ns // rates.width_ns
    if late > 1:
        pooled = uniform_filter1d(pooled, late, mode="nearest")
    return np.maximum(pooled, 0.0)  # a filter of running sums leaves a little less than nothing


def read_apart_ns(rates: Rates, ports: I64) -> int:
    """Time between successive polls of any of the ports, as it is at most moments."""
    apart = np.sort(
        np.diff(np.sort(np.concatenate([rates.polls[p].time_ns for p in ports.tolist()])))
    )
    return int(apart[np.searchsorted(np.cumsum(apart), apart.sum() / 2)])
