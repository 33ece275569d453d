"""Volumes over the window, put right by what connections repeat in every turn.

How much a connection sent before its first sample and after its last one, nothing of its own says.
But what it sends in a turn is known from all its samples, and that the connections of a group
serve the same turns makes their ends known together: each alone says how many turns there were,
to a sample's distance, and all of them say it well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reconstruct.edges import Flows
from reconstruct.volumes import Volumes

OF_A_MEDIAN: Final = 1.25  # its standard error, times that of a mean: sqrt(pi / 2)
# Before the first sample and after the last one, together, in mean gaps between samples:
USUAL_GAP: Final = 1.678  # the median: Gamma(2) for many samples
LONGEST_GAP: Final = 16.0  # longer once in 10^6
SIGMAS: Final = 4.0  # of the volume by turns, before what was spanned contradicts it


def steadied(volumes: Volumes, flows: Flows, groups: Iterable[NDArray[np.integer]]) -> Volumes:
    """Volumes of connections that serve the same turns.

    Parameters
    ----------
    volumes : Volumes
        Of all connections over the window.
    flows : Flows
        Of a job.
    groups : iterable of int64[k]
        Rows of `flows` that run together from the first turn to the last.

    Returns
    -------
    Volumes
        Connections that a restart ended or began, that were counted (flow records, or samples
        whose progress says nothing), and those of no group are as they came. So are those that
        turns contradict: start-up happens once, and counts.
    """
    times = np.ones(len(volumes.bytes))
    followed = np.isfinite(volumes.spanned) & (volumes.spanned < volumes.bytes)
    repeated = np.isfinite(flows.error) & (flows.bytes_per_turn > 0) & (flows.share == 1)
    for group in groups:
        rows = group[followed[flows.connection[group]] & repeated[group]]
        if len(rows):
            at = flows.connection[rows]
            times[at] = _by_turns(volumes, flows, rows) / volumes.bytes[at]
    return replace(volumes, bytes=volumes.bytes * times, wire_bytes=volumes.wire_bytes * times)


def _by_turns(volumes: Volumes, flows: Flows, rows: NDArray[np.integer]) -> NDArray[np.float64]:
    """Bytes of connections that serve the same turns; float64[k].

    Notes
    -----
    What n uniform samples span of a stretch is Beta(n - 1, 2): it tells the stretch to
    sqrt(2 / ((n - 1) (n + 2))). This and the turns are weighed by their variances.
    """
    at = flows.connection[rows]
    alone, spanned, n = volumes.bytes[at], volumes.spanned[at], volumes.samples[at]
    each, each_error = flows.bytes_per_turn[rows], flows.error[rows]
    alone_variance = 2 / ((n - 1) * (n + 2))
    gap = spanned / (n - 1)
    weight = 1 / (alone_variance + each_error**2)
    turned = _median((spanned + USUAL_GAP * gap) / each, weight) * each
    variance = each_error**2 + OF_A_MEDIAN**2 / weight.sum()
    doubt = SIGMAS * np.sqrt(variance) * turned
    fits = (turned + doubt >= spanned) & (turned - doubt <= spanned + LONGEST_GAP * gap)
    both = (alone * variance + turned * alone_variance) / (variance + alone_variance)
    return np.asarray(np.where(fits, np.maximum(both, spanned), alone))


def _median(values: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Weighted median: that of two lies between them."""
    order = np.argsort(values, kind="stable")
    ordered = weight[order]
    rank = (np.cumsum(ordered) - ordered / 2) / ordered.sum()
    return float(np.interp(0.5, rank, values[order]))
