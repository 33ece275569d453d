"""One scale of clocks: offsets of exporters from offsets between pairs of them.

Source: weighted least squares over the graph of exporters; the inverse of its Laplacian gives the
errors, as resistances give distances in a network (Klein, Randic 1993). Where the scale stands is
set by the median exporter, as no delay tells, but where clocks are so bad that arrivals know
better. Exporters that share no connection with the largest part of the graph have scales of their
own (rails do, and leaves of a rail may share none at all): those are set against it by when
datagrams arrive, where that puts them further apart than delays can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from collector.schema import I64

_MOST_JOINED: Final = 1 << 10  # exporters in one scale: the inverse is dense
_DELAYED_NS: Final = 50e6  # by no more than this are the soonest datagrams of some delayed alone
_PROMPT_NS: Final = 2e6  # what the soonest take in most networks
_FEWEST_CLOCKS: Final = 3  # before their scatter says how good they are
_LIKELY: Final = 4.0  # standard errors that the median clock may be off
_MEDIAN_COST: Final = 1.2533  # standard error of a median over that of a mean, normal values
_MAD_TO_SIGMA: Final = 1.4826


@dataclass(frozen=True, slots=True)
class Scale:
    """Offsets against the median exporter; columns of shape (exporters,).

    Attributes
    ----------
    offset_ns, error_ns : float64
        Of each clock, with its standard error; NaN where nothing ties it to others.
    samples : int64
        Pairs of samples that say so.
    """

    offset_ns: NDArray[np.float64]
    error_ns: NDArray[np.float64]
    samples: I64

    @classmethod
    def unknown(cls, exporters: int) -> Scale:
        """Nothing is known of any of them."""
        nothing = np.full(exporters, np.nan)
        return cls(nothing, nothing.copy(), np.zeros(exporters, np.int64))

    def widened(self, exporters: int) -> Scale:
        """With more exporters, of which nothing is known."""
        more = Scale.unknown(exporters - len(self.offset_ns))
        return Scale(
            np.concatenate((self.offset_ns, more.offset_ns)),
            np.concatenate((self.error_ns, more.error_ns)),
            np.concatenate((self.samples, more.samples)),
        )


def one_scale(
    exporters: int,
    ends: I64,
    apart_ns: NDArray[np.float64],
    error_ns: NDArray[np.float64],
    samples: I64,
    bounds_ns: NDArray[np.float64],
) -> Scale:
    """Offsets that fit those between pairs best.

    Parameters
    ----------
    exporters
        How many there are.
    ends : int64, shape (pairs, 2)
    apart_ns, error_ns : float64, shape (pairs,)
        How far the clock of a pair's first is ahead of its second's, and the standard error.
    samples : int64, shape (pairs,)
        What that rests on.
    bounds_ns : float64, shape (2, exporters)
        How far each clock is ahead of ours at least and at most, by arrival; infinite where that is
        not known. Of two exporters alone the one nearer to ours is taken to be right.
    """
    scale = Scale.unknown(exporters)
    for end in ends.T:
        np.add.at(scale.samples, end, samples)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (exporters, exporters))
    count, component = connected_components(graph, directed=False)
    sizes = np.bincount(component, minlength=count)
    parts = []
    for number in np.flatnonzero((sizes > 1) & (sizes <= _MOST_JOINED)):
        members = np.flatnonzero(component == number)
        own = component[ends[:, 0]] == number
        offset, spread = _least_squares(
            np.searchsorted(members, ends[own]), apart_ns[own], error_ns[own], len(members)
        )
        zero = np.median(offset)
        if len(members) == 2:
            zero = offset[np.argmin(np.abs(bounds_ns[0, members]))]
            spread = 2 * spread  # all of the pair's error is that of the one, not half
        scale.offset_ns[members] = offset - zero
        scale.error_ns[members] = spread
        parts.append(members)
    bounds_ns = bounds_ns[:, :exporters]
    alone = np.flatnonzero((sizes[component] == 1) & np.isfinite(bounds_ns).all(axis=0))
    scale.offset_ns[alone] = scale.error_ns[alone] = 0.0
    moved = _align(scale, [*parts, *alone[:, None]], bounds_ns)
    untold = np.setdiff1d(alone, moved)
    scale.offset_ns[untold] = scale.error_ns[untold] = np.nan
    _set_zero(scale, bounds_ns)
    return scale


def _set_zero(scale: Scale, bounds_ns: NDArray[np.float64]) -> None:
    """Set the scale as arrivals have it, where clocks scatter so much that their median may be off.

    In place. A delay that all datagrams have shows as all clocks being late by it, and would be
    taken for that: only where the scatter explains as much is it likelier a matter of clocks.
    """
    known = np.isfinite(scale.offset_ns) & np.isfinite(bounds_ns).all(axis=0)
    count = int(known.sum())
    if count < _FEWEST_CLOCKS:
        return
    offset = scale.offset_ns[known]
    off = float(np.median(bounds_ns[:, known].mean(axis=0) - offset))
    likely = _scatter(offset) * _MEDIAN_COST / np.sqrt(count)
    if likely > _PROMPT_NS and abs(off) <= _LIKELY * likely:
        scale.offset_ns[:] += off
        scale.error_ns[known] = np.hypot(scale.error_ns[known], _PROMPT_NS)


def _scatter(offset_ns: NDArray[np.float64]) -> float:
    """Standard deviation of clocks around their median, as robust as that."""
    return _MAD_TO_SIGMA * float(np.median(np.abs(offset_ns - np.median(offset_ns))))


def _align(scale: Scale, parts: list[I64], bounds_ns: NDArray[np.float64]) -> I64:
    """Set the scales of parts that no connection ties against that of the largest, in place.

    Returns the exporters of those that were further apart than delays can put them.
    """
    moved = np.zeros(0, np.int64)
    if len(parts) < 2:
        return moved
    # Sorted, as delays can put the most below the least.
    ahead = [
        sorted(
            (
                (bounds_ns[0, part] - scale.offset_ns[part]).max(),
                (bounds_ns[1, part] - scale.offset_ns[part]).min(),
            )
        )
        for part in parts
    ]
    # Of equal ones that nearest to our own clock.
    away = [abs(sum(each)) if np.isfinite(each).all() else np.inf for each in ahead]
    largest = max(range(len(parts)), key=lambda n: (len(parts[n]), -away[n]))
    least, most = ahead[largest]
    # Where clocks are far apart anyway, a difference is sooner theirs than a delay's.
    known = bounds_ns[:, np.isfinite(bounds_ns).all(axis=0)].mean(axis=0)
    bad = len(known) >= _FEWEST_CLOCKS and _scatter(known) > _DELAYED_NS
    delayed_ns = _PROMPT_NS if bad else _DELAYED_NS
    for number, (part, (low, high)) in enumerate(zip(parts, ahead, strict=True)):
        known = np.isfinite((low, high, least, most)).all()
        if number != largest and known and max(low - most, least - high) > delayed_ns:
            scale.offset_ns[part] += (low + high - least - most) / 2
            within = (high - low + most - least) / 2
            scale.error_ns[part] = np.hypot(scale.error_ns[part], within)
            moved = np.append(moved, part)
    return moved


def _least_squares(
    ends: I64, apart: NDArray[np.float64], error: NDArray[np.float64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Offsets of mean zero that fit the differences best, and their standard errors."""
    weight = error**-2
    laplacian = np.zeros((size, size))
    for a, b in ((0, 1), (1, 0)):
        np.add.at(laplacian, (ends[:, a], ends[:, b]), -weight)
        np.add.at(laplacian, (ends[:, a], ends[:, a]), weight)
    right = np.zeros(size)
    np.add.at(right, ends[:, 0], weight * apart)
    np.add.at(right, ends[:, 1], -weight * apart)
    # The pseudo-inverse of a connected graph's Laplacian: what is constant is not told.
    level = np.full((size, size), weight.mean() / size)
    inverse = np.linalg.inv(laplacian + level) - np.full((size, size), 1 / (weight.mean() * size))
    return inverse @ right, np.sqrt(np.maximum(np.diag(inverse), 0.0))
