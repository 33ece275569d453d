"""Lockstep: connections that move together, and how far they had come, when.

All connections of a ring carry the same bytes at the same pace, so that their samples together draw
one line: the way that all of them go. It places the samples of each of them better than these few
alone do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from reconstruct.bins import Progress

FEWEST_ROWS: Final = 8  # of a connection, to know how far it had come
FEWEST_TOGETHER: Final = 100  # of a walk
MOST_ROWS: Final = 8_000  # of a walk: more place its dwells no better than a cycle needs
MOST_WALKS: Final = 4
HEAVY: Final = 0.25  # of what the largest connections carry: what carries less leads to other sets
ROUNDS: Final = 12
TOGETHER: Final = 1.0  # rows: what moves together is no further apart
APART: Final = 3.0  # times the distance of those nearest to the common way: no part of the set
FIRM: Final = 0.25  # of the connections: the nearest
SHED: Final = 0.25  # of the connections, the furthest, are left out at once


@dataclass(frozen=True, slots=True)
class Walk:
    """How far some connections in lockstep had come.

    Parameters
    ----------
    time_ns : int64[n]
        Ascending.
    gone : float64[n]
        Share of the way, 0 to 1, ascending.
    apart : float
        Usual distance of a connection from this way, in rows.
    busy_ns : float64[n]
        Since the begin, less the stops.
    """

    time_ns: NDArray[np.int64]
    gone: NDArray[np.float64]
    apart: float
    busy_ns: NDArray[np.float64]

    def when(self, gone: NDArray[np.float64]) -> NDArray[np.int64]:
        """When places of the way were reached; int64[k], ns."""
        since = (self.time_ns - self.time_ns[0]).astype(np.float64)
        return np.asarray(self.time_ns[0] + np.interp(gone, self.gone, since).astype(np.int64))

    def dwells(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Square roots of how long the connections stayed between edges; float64[k - 1].

        Roots, as one long dwell would drown all others.
        """
        return np.sqrt(np.maximum(np.diff(np.interp(edges, self.gone, self.busy_ns)), 0))


def find_walks(
    progress: Progress,
    rows: NDArray[np.intp],
    time_ns: NDArray[np.int64],
    stops_ns: NDArray[np.int64] | None = None,
) -> list[Walk]:
    """Ways of those connections that carry most, one for each set of endpoints, over one time.

    Parameters
    ----------
    progress : Progress
    rows : intp[n]
        Bins in order of time.
    time_ns : int64[n]
        Their times.
    stops_ns : int64[k, 2] or None
        Stretches that are no part of a cycle, see `reconstruct.stops`.

    Returns
    -------
    list of Walk
        The best sampled ones; none of sets whose connections gave way to others.
    """
    bins, connections = progress.bins, progress.connections
    count = len(connections)
    owner, place = bins.connection[rows], bins.last_seq[rows].astype(np.float64)
    begin, end = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(begin, owner, place)
    np.maximum.at(end, owner, place)
    known = np.bincount(owner, minlength=count) >= FEWEST_ROWS
    if not known.any():
        return []
    carried = np.where(known, end - begin, 0.0)
    heavy = np.flatnonzero(carried >= HEAVY * np.quantile(carried[known], 0.9))
    edges = coo_array(
        (np.ones(len(heavy)), (connections.src[heavy], connections.dst[heavy])),
        shape=(len(progress.endpoints),) * 2,
    )
    _, label = connected_components(edges, directed=False)
    of_set = np.full(count, -1, np.intp)
    of_set[heavy] = label[connections.src[heavy]]
    held = np.bincount(of_set[owner] + 1, minlength=2)[1:]
    largest = np.argsort(-held, kind="stable")[:MOST_WALKS]
    walks = []
    for one in largest[held[largest] >= FEWEST_TOGETHER].tolist():
        mine = np.flatnonzero(of_set[owner] == one)
        mine = _best_sampled(mine, owner)
        walk = _walk(time_ns[mine], place[mine], owner[mine])
        if walk is not None:
            walks.append(walk)
    return _over_one_time(walks, np.zeros((0, 2), np.int64) if stops_ns is None else stops_ns)


def _best_sampled(rows: NDArray[np.intp], owner: NDArray[np.int32]) -> NDArray[np.intp]:
    """Rows of the connections with most of them, about `MOST_ROWS`, in order."""
    held = np.bincount(owner[rows])
    order = np.argsort(-held, kind="stable")
    enough = int(np.searchsorted(np.cumsum(held[order]), MOST_ROWS)) + 1
    kept = np.zeros(len(held), np.bool_)
    kept[order[:enough]] = True
    return rows[kept[owner[rows]]]


def _walk(
    time_ns: NDArray[np.int64], place: NDArray[np.float64], owner: NDArray[np.int32]
) -> Walk | None:
    """The common way of some connections, less those that do not keep to it; None without one."""
    if eras(owner).any():
        return None
    kept, gone, apart = together(place, owner)
    span, usual = float(np.ptp(gone)), float(np.median(apart))
    if span <= 0 or usual > TOGETHER:
        return None
    time_ns = time_ns[kept]
    return Walk(time_ns, (gone - gone[0]) / span, usual, (time_ns - time_ns[0]).astype(np.float64))


def eras(owner: NDArray[np.integer]) -> NDArray[np.intp]:
    """Which era each row belongs to; intp[n]. No connection has rows in two of them.

    Of connections that gave way to others, nothing says how far the ones had come by the others.
    """
    _, first, of = np.unique(owner, return_index=True, return_inverse=True)
    last = len(owner) - 1 - np.unique(owner[::-1], return_index=True)[1]
    order = np.argsort(first)
    reached = np.maximum.accumulate(last[order])
    era = np.zeros(len(first), np.intp)
    era[order[1:]] = np.cumsum(first[order][1:] > reached[:-1])
    return np.asarray(era[of])


def together(
    place: NDArray[np.float64], owner: NDArray[np.integer]
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """The connections that keep to a common way, and that way.

    One whose place is wrong draws the way to itself: those furthest off are left out, and all are
    looked at again.

    Parameters
    ----------
    place : float64[n]
        How far each row's connection had come, in order of time; in any unit, from anywhere.
    owner : int[n]

    Returns
    -------
    rows : intp[k]
        Of connections that keep to the way.
    gone : float64[k]
        See `common_way`.
    apart : float64[connections]
    """
    rows = np.arange(len(place))
    while True:
        gone, apart = common_way(place[rows], owner[rows])
        limit = max(TOGETHER, APART * float(np.quantile(apart, FIRM)))
        if apart.max() <= limit:
            return rows, gone, apart
        strayed = apart >= max(limit, float(np.quantile(apart, 1 - SHED)))
        rows = rows[~strayed[np.unique(owner[rows], return_inverse=True)[1]]]


def common_way(
    place: NDArray[np.float64], owner: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The way that all connections went, and how far each is off it.

    Each connection's place is a line of the common way, and that way rises through all of them;
    the two are fitted in turn.

    Returns
    -------
    gone : float64[n]
        About 0 to 1.
    apart : float64[connections]
        In rows.
    """
    _, of = np.unique(owner, return_inverse=True)
    rows = np.bincount(of)
    first = np.full(len(rows), np.inf)
    np.minimum.at(first, of, place)
    place = place - first[of]
    mean = np.bincount(of, place) / rows
    gone = (np.arange(len(of)) + 0.5) / len(of)
    own = gone
    for _ in range(ROUNDS):
        middle = np.bincount(of, gone) / rows
        away = gone - middle[of]
        square = np.bincount(of, away**2)
        slope = np.bincount(of, away * (place - mean[of])) / np.maximum(square, 1e-30)
        own = (place - mean[of]) / np.maximum(slope, 1e-9)[of] + middle[of]
        gone = isotonic_regression(own).x
    return gone, len(of) * np.sqrt(np.bincount(of, (own - gone) ** 2) / rows)


def _over_one_time(walks: Sequence[Walk], stops_ns: NDArray[np.int64]) -> list[Walk]:
    """The walks between the last one's begin and the first one's end, as shares of that way."""
    if not walks:
        return []
    begin = max(int(walk.time_ns[0]) for walk in walks)
    end = min(int(walk.time_ns[-1]) for walk in walks)
    out = []
    for walk in walks:
        low, high = np.interp((begin, end), walk.time_ns, walk.gone)
        inside = (walk.time_ns > begin) & (walk.time_ns < end)
        if high <= low:
            continue
        time = np.concatenate([[begin], walk.time_ns[inside], [end]])
        gone = (np.concatenate([[low], walk.gone[inside], [high]]) - low) / (high - low)
        stopped = np.clip(time[:, None], *stops_ns.T) - stops_ns[:, 0] if len(stops_ns) else 0
        busy = (time - begin - np.sum(stopped, axis=-1)).astype(np.float64)
        # What several rows say of one place they say in order.
        out.append(Walk(time, gone + np.arange(len(gone)) * 1e-13, walk.apart, busy))
    return out
