"""Alternation: whether sets of connections are used in turn or at once.

Steps of one collective follow each other; neighbours of a simulation are served together. Two
sets that are busy at once are seen in the same short slots of time as often as each of them alone
would have it; sets that take turns are never seen in one slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns import phases
from reconstruct.edges import Flows

SLOTS_NS: Final = (2_000_000, 5_000_000, 10_000_000)  # the shortest with enough pairs decides
WIDE_SLOTS_NS: Final = (*SLOTS_NS, 20_000_000, 50_000_000, 100_000_000, 200_000_000)
NO_CHANCE: Final = 3.5  # standard deviations by which pairs of both sets are too few for one use
ENOUGH_PAIRS: Final = 100  # of sightings of one set in one slot: a likeness is known to 0.1
IN_TURN: Final = 0.25  # likeness up to which sets take turns: steps of a slot's length touch
AT_ONCE: Final = 0.5  # and from which on they do not; ranks that come late stay above 1/3
OUTWEIGHED: Final = 4  # pairs in turn for each that is used at once
FOLDED: Final = 0.6  # time in common, folded by phase: steps up to 0.41, a grid's 0.9
SURE_TURN: Final = 4.0  # standard deviations by which that must be less than chance would have it,
SURE_ONCE: Final = 2.0  # or more than `FOLDED`


def alternate(flows: Flows, sets: Sequence[NDArray[np.intp]]) -> bool | None:
    """Whether sets of connections take turns.

    Parameters
    ----------
    flows : Flows
    sets : sequence of intp[k]
        Rows of each set.

    Returns
    -------
    bool or None
        False where two of them are used at once; None where there is no telling. A step that is
        shorter than a slot touches its neighbours: many pairs in turn outweigh one that is not.
    """
    told = [_two(flows, one, other) for one, other in combinations(sets, 2)]
    at_once = sum(taking is False for taking in told)
    if at_once and told.count(True) < OUTWEIGHED * at_once:
        return False
    return True if told and all(told) else None


def _two(flows: Flows, one: NDArray[np.intp], other: NDArray[np.intp]) -> bool | None:
    alike = likeness(flows, one, other)
    if alike is None:
        if _apart(flows, one, other):
            return True
        # Times are not good enough: what is left is when in a turn each is used.
        common = phases.in_common(flows, one, other)
        if common is None:
            return None
        if common.share <= FOLDED and common.share + SURE_TURN * common.error < 1:
            return True
        # Where samples are few, turns are cut so badly that what takes turns overlaps as well.
        enough = common.samples >= phases.FEWEST_OF_A_SET
        at_once = common.share - SURE_ONCE * common.error > FOLDED
        return False if enough and at_once else None
    if alike <= IN_TURN:
        return True
    return False if alike >= AT_ONCE else None


def likeness(flows: Flows, one: NDArray[np.intp], other: NDArray[np.intp]) -> float | None:
    """How alike two sets' activity is in time, endpoint by endpoint: 0 in turn, 1 at once.

    The cosine of both sets' rates over slots and the endpoints that both have, whether they send or
    receive. Sums of squares count pairs of sightings, none with itself, so that few samples make no
    set unlike another.

    Returns
    -------
    float or None
        None where no width of slots has enough pairs of sightings.
    """
    seen = flows.sightings
    shared = _ends(flows, one) & _ends(flows, other)
    side = np.zeros(len(flows), np.int8)
    side[one], side[other] = 1, 2
    mine = side[seen.flow]
    for width in SLOTS_NS:
        used = np.flatnonzero((mine > 0) & (seen.slack_ns <= width))
        slot = seen.time_ns[used] // width
        flow, which = seen.flow[used], mine[used]
        end = np.concatenate([flows.src[flow], flows.dst[flow]]).astype(np.int64)
        kept = shared[end]
        place = np.tile(slot, 2)[kept] * len(shared) + end[kept]
        _, cell = np.unique(place, return_inverse=True)
        which = np.tile(which, 2)[kept]
        first = np.bincount(cell, which == 1).astype(np.float64)
        second = np.bincount(cell, which == 2).astype(np.float64)
        pairs = float(np.sum(first * (first - 1))), float(np.sum(second * (second - 1)))
        if min(pairs) >= ENOUGH_PAIRS:
            return float(np.sum(first * second) / np.sqrt(pairs[0] * pairs[1]))
    return None


def _apart(flows: Flows, one: NDArray[np.intp], other: NDArray[np.intp]) -> bool:
    """Whether two sets of few samples keep apart in a slot, all endpoints taken together.

    Steps that are shorter than a slot do not, and how long steps are is not known: so only sets
    that do say anything. As many pairs of one of each are expected of sets used at once as the
    geometric mean of those of one set.
    """
    seen = flows.sightings
    side = np.zeros(len(flows), np.int8)
    side[one], side[other] = 1, 2
    mine = side[seen.flow]
    for width in WIDE_SLOTS_NS:
        used = np.flatnonzero((mine > 0) & (seen.slack_ns <= width))
        _, slot = np.unique(seen.time_ns[used] // width, return_inverse=True)
        first, second = (np.bincount(slot, mine[used] == which) for which in (1, 2))
        pairs = np.sum(first * (first - 1)), np.sum(second * (second - 1))
        expected = float(np.sqrt(pairs[0] * pairs[1]))
        seen_pairs = float(np.sum(first * second))
        few = expected - seen_pairs >= NO_CHANCE * np.sqrt(expected)
        if expected and few and seen_pairs <= IN_TURN * expected:
            return True
    return False


def _ends(flows: Flows, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which endpoints some connections have; bool[highest endpoint of all + 1]."""
    out = np.zeros(int(max(flows.src.max(initial=-1), flows.dst.max(initial=-1))) + 1, np.bool_)
    out[flows.src[rows]] = True
    out[flows.dst[rows]] = True
    return out
