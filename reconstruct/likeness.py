"""Likeness of rhythm: which components pause and burst together.

The correlation of two components' activity is divided by the root of their reliabilities
(Spearman 1904): few samples weaken it, a different rhythm removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from reconstruct.activity import timed
from reconstruct.bins import Progress
from reconstruct.hashing import mix

BIN_NS: Final = 50_000_000
MOST_BINS: Final = 20_000
MOST_CELLS: Final = 10_000_000  # bins times components: 160 MB for both halves
SAME: Final = 0.6  # between rails of a job 0.8 and up, between jobs at most 0.03
SAME_APART: Final = 0.8  # for components that share no host
RELIABLE: Final = 0.1  # below this split-half reliability a rhythm says nothing


def same_rhythm(
    progress: Progress,
    usable: NDArray[np.bool_],
    component: NDArray[np.int32],
    host_of: Mapping[int, str],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
    """Job of each component by rhythm.

    Parameters
    ----------
    progress : Progress
    usable : bool[c]
        Connections that count.
    component : int32[e]
        Component of each endpoint, -1 for none.
    host_of : mapping
        Host of an endpoint id where it is known.

    Returns
    -------
    label : int32[n]
        Job of each component.
    lowest : float64[jobs]
        Lowest likeness that joined two of its components; 1 where there is one.
    parts : intp[jobs]
        Components of each job.
    weakest : float64[jobs]
        Lowest reliability of a component's rhythm.

    Notes
    -----
    Components too sparse to have a rhythm of their own are joined where they have the same hosts.
    """
    count = int(component.max()) + 1
    like, reliable = likeness(progress, usable, component, count)
    shared, same = _hosts(component, host_of, count)
    known = np.diagonal(shared) > 0
    apart = np.outer(known, known) & (shared == 0)
    told = np.minimum.outer(reliable, reliable) >= RELIABLE
    joined = np.where(told, like >= np.where(apart, SAME_APART, SAME), same)
    np.fill_diagonal(joined, False)
    jobs, label = connected_components(joined, directed=False)
    lowest = np.ones(jobs)
    one, other = np.nonzero(joined)
    # What is joined by its hosts alone shows no likeness at all.
    shown = np.where(told[one, other], np.maximum(0.0, like[one, other]), 0.0)
    np.minimum.at(lowest, label[one], shown)
    weakest = np.ones(jobs)
    np.minimum.at(weakest, label, reliable)
    return label.astype(np.int32), lowest, np.bincount(label, minlength=jobs), weakest


def _hosts(
    component: NDArray[np.int32], host_of: Mapping[int, str], count: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Hosts that components share, int64[n, n], and whether they have just the same ones."""
    held = [(component[e], name) for e, name in host_of.items() if component[e] >= 0]
    names = {name: i for i, name in enumerate(sorted({name for _, name in held}))}
    incidence = np.zeros((count, len(names)), np.float32)
    for owner, name in held:
        incidence[owner, names[name]] = 1
    shared = (incidence @ incidence.T).astype(np.int64)
    size = np.diagonal(shared)
    same = (shared == size[:, None]) & (shared == size[None, :]) & (shared > 0)
    return shared, np.asarray(same)


def likeness(
    progress: Progress, usable: NDArray[np.bool_], component: NDArray[np.int32], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Disattenuated correlation between components, float64[n, n], and reliabilities float64[n]."""
    bins = progress.bins
    rows = np.flatnonzero(usable[bins.connection])
    rows = rows[component[progress.connections.src[bins.connection[rows]]] >= 0]
    rows, time, known_ns = timed(bins, rows)
    owner = component[progress.connections.src[bins.connection[rows]]]
    start = progress.window_start_ns - known_ns
    span = progress.window_end_ns + 1 - start
    cells = max(1, min(MOST_BINS, MOST_CELLS // count))
    width = max(BIN_NS, 2 * known_ns, -(-span // cells))
    length = max(1, -(-span // width))
    # Samples of one datagram share its time: only whole datagrams are thinnings of a signal. Drawn
    # by hash, as taking every other one would make the halves alike by itself.
    key = owner.astype(np.uint64) << np.uint64(40)
    half = (mix(key ^ time.astype(np.uint64)) >> np.uint64(63)).astype(np.int64)
    slot = np.clip((time - start) // width, 0, length - 1)
    cell = (half * count + owner) * length + slot
    counted = np.bincount(cell, bins.samples[rows], 2 * count * length)
    first, second = counted.astype(np.float64).reshape(2, count, length)
    split = (_standard(first) * _standard(second)).mean(axis=1)
    reliable = np.clip(2 * split / (1 + split), 0, 1)
    whole = _standard(first + second)
    raw = whole @ whole.T / length
    scale = np.sqrt(np.maximum(np.outer(reliable, reliable), 1e-9))
    return np.minimum(raw / scale, 1.0), reliable


def _standard(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows with mean 0 and variance 1; a constant row is all zero."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0))
