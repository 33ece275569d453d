"""Likeness of rhythm: which components pause and burst together.

The correlation of two components' activity is divided by the root of their reliabilities
(Spearman 1904): few samples weaken it, a different rhythm removes it. Rails of one job are alike
by 1 whatever their rate; how far an estimate may fall short of that is its standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import I64
from reconstruct.activity import timed
from reconstruct.bins import Progress
from reconstruct.hashing import mix

BIN_NS: Final = 50_000_000
MOST_BINS: Final = 20_000
MOST_CELLS: Final = 10_000_000  # bins times components: 160 MB for both halves


@dataclass(frozen=True, slots=True)
class Moments:
    """When components were seen to send; a row is what one connection sent in one time bin.

    Parameters
    ----------
    owner : int32[r]
        Component.
    first_ns, last_ns : int64[r]
        Of the row's samples.
    samples : float64[r]
    start_ns, end_ns : int
        All times lie from start to before end.
    known_ns : int
        How well they are known; 0 where they are good.
    count : int
        Components.
    """

    owner: NDArray[np.int32]
    first_ns: I64
    last_ns: I64
    samples: NDArray[np.float64]
    start_ns: int
    end_ns: int
    known_ns: int
    count: int

    def take(self, rows: NDArray[np.intp]) -> Moments:
        """Some of the rows."""
        return Moments(
            self.owner[rows],
            self.first_ns[rows],
            self.last_ns[rows],
            self.samples[rows],
            self.start_ns,
            self.end_ns,
            self.known_ns,
            self.count,
        )


def moments(
    progress: Progress, usable: NDArray[np.bool_], component: NDArray[np.int32], count: int
) -> Moments:
    """Moments of `count` components.

    Parameters
    ----------
    progress : Progress
    usable : bool[c]
        Connections that count.
    component : int32[e]
        Component of each endpoint, -1 for none.
    """
    bins = progress.bins
    of_connection = np.where(usable, component[progress.connections.src], -1)
    rows = np.flatnonzero(of_connection[bins.connection] >= 0)
    rows, last, known_ns = timed(bins, rows)
    return Moments(
        owner=of_connection[bins.connection[rows]].astype(np.int32),
        first_ns=last - (bins.last_ns[rows] - bins.first_ns[rows]),
        last_ns=last,
        samples=bins.samples[rows].astype(np.float64),
        # A time that is not good stands in the middle of what it may be.
        start_ns=progress.window_start_ns - known_ns,
        end_ns=progress.window_end_ns + 1,
        known_ns=known_ns,
        count=count,
    )


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike the rhythms of components are.

    Parameters
    ----------
    like : float64[n, n]
        Disattenuated correlation of each pair, at most 1.
    reliable : float64[n]
        Split-half reliability of each one's rhythm, 0 to 1.
    filled : float64[n]
        Bins that each one's samples fill: (sum of counts)^2 / sum of squares.
    """

    like: NDArray[np.float64]
    reliable: NDArray[np.float64]
    filled: NDArray[np.float64]

    def error(self, one: NDArray[np.intp], other: NDArray[np.intp]) -> NDArray[np.float64]:
        """Standard error of the likeness of pairs that are alike, float64[k].

        Notes
        -----
        That of counting. A correlation of rho between signals whose noise fills n bins evenly errs
        by (1 - rho^2) / sqrt(n), and so does that of the halves.
        """
        halves = self.reliable / (2 - self.reliable)
        of_one = 2 * (1 - halves**2) / (1 + halves) ** 2 / np.sqrt(np.maximum(self.filled, 1.0))
        of_one /= np.maximum(self.reliable, 1e-9)
        rho = np.sqrt(np.maximum(self.reliable[one] * self.reliable[other], 1e-9))
        fewer = np.maximum(np.minimum(self.filled[one], self.filled[other]), 1.0)
        of_pair = (1 - rho**2) / rho / np.sqrt(fewer)
        # Likeness is divided by the roots of both reliabilities.
        return np.asarray(np.sqrt(of_pair**2 + (of_one[one] ** 2 + of_one[other] ** 2) / 4))


def likeness(seen: Moments) -> Likeness:
    """Likeness of all pairs of components."""
    first, second = _halves(seen)
    split = (_standard(first) * _standard(second)).mean(axis=1)
    reliable = np.clip(2 * split / (1 + split), 0, 1)
    first += second
    filled = first.sum(axis=1) ** 2 / np.maximum((first**2).sum(axis=1), 1e-9)
    whole = _standard(first)
    like = whole @ whole.T / whole.shape[1]
    root = np.sqrt(reliable)
    like /= np.maximum(np.outer(root, root), 3e-5)
    return Likeness(np.minimum(like, 1.0, out=like), reliable, filled)


def _halves(seen: Moments) -> NDArray[np.float64]:
    """Samples per component and bin, in two random halves; float64[2, n, bins]."""
    span = seen.end_ns - seen.start_ns
    cells = max(1, min(MOST_BINS, MOST_CELLS // seen.count))
    width = max(BIN_NS, 2 * seen.known_ns, -(-span // cells))
    length = max(1, -(-span // width))
    # A row's first and last sample stand for all between them.
    several = seen.first_ns < seen.last_ns
    counted = np.zeros(2 * seen.count * length)
    for time, owner, samples in (
        (seen.last_ns, seen.owner, np.where(several, seen.samples / 2, seen.samples)),
        (seen.first_ns[several], seen.owner[several], seen.samples[several] / 2),
    ):
        # Samples of one datagram share its time: only whole datagrams are thinnings of a signal.
        # Drawn by hash, as taking every other one would make the halves alike by itself.
        key = owner.astype(np.uint64) << np.uint64(40)
        half = (mix(key ^ time.astype(np.uint64)) >> np.uint64(63)).astype(np.int64)
        slot = np.clip((time - seen.start_ns) // width, 0, length - 1)
        cell = (half * seen.count + owner) * length + slot
        counted += np.bincount(cell, samples, len(counted))
    return counted.reshape(2, seen.count, length)


def _standard(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows with mean 0 and variance 1; a constant row is all zero."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0))
