"""Splits: which pause inside a turn's traffic is an optimiser's, and which a bucket's.

A sharded optimiser steps between a reduce-scatter and an all-gather: behind half of the bytes, or
behind two thirds where gradients are wider than parameters. Buckets of a backward pass pause as
well, and may do so there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.pauses import Pace, Pause, shortest_visible

HALF: Final = 1 / 2  # reduce-scatter's share of the bytes where both run in one width
OPTIMISER_HIDDEN: Final = 0.02  # of the period: many optimiser steps are shorter than this
TWO_THIRDS: Final = 2 / 3  # gradients in fp32, parameters in bf16
SHARE_WITHIN: Final = 0.012
STEPS_WITHIN: Final = 1.2  # steps of the pace: how well few samples place a pause
UNLIKE: Final = 1.6  # ratio from which on two trains of bursts have different causes
OTHERS_SPREADS: Final = 6.0  # median deviations of the other pauses, and
OTHERS_SHARE: Final = 0.2  # of their median, by which one of another kind differs
ALIKE: Final = 0.2  # of a pause's length or a burst's bytes: others so near are of the same train
FEWEST_EQUAL: Final = 3  # buckets in a row, before their size says where the last one ends
ODD: Final = 0.2  # of a train's pauses: so many may be of another length


def blind_s(pace: Pace) -> float:
    """The longest pause that would not show where an optimiser's may lie."""
    limit_s = shortest_visible(pace)
    at = [round(share * pace.steps) + near for share in (HALF, TWO_THIRDS) for near in (-1, 0)]
    return float(limit_s[at].max())


def could_hide(pace: Pace) -> bool:
    """Whether the pause of an optimiser may be there and not show."""
    return blind_s(pace) > OPTIMISER_HIDDEN * pace.period_s


def is_split(share: float, pace: Pace) -> bool:
    """Whether a share of the volume is what a reduce-scatter has of it and an all-gather's."""
    within = max(SHARE_WITHIN, STEPS_WITHIN / pace.steps)
    return min(abs(share - HALF), abs(share - TWO_THIRDS)) <= within


def stands_out(split: Pause, found: list[Pause]) -> bool:
    """Whether a pause is of another kind than those between the buckets of one backward pass.

    It is, where its length is not theirs, or where it parts two trains of unlike pace or unlike
    buckets.
    """
    others = [pause.seconds for pause in found if pause is not split]
    if not others:
        return True
    before = [pause.seconds for pause in found if pause.share < split.share]
    after = [pause.seconds for pause in found if pause.share > split.share]
    if before and after and _unlike(before, after):
        return True
    shares = np.array([0.0, *(pause.share for pause in found), 1.0])
    at = int(np.searchsorted(shares, split.share))
    bursts_before, bursts_after = np.diff(shares[: at + 1]), np.diff(shares[at:])
    even = max(_odd(bursts_before), _odd(bursts_after)) <= ODD
    if even and _unlike(list(bursts_before), list(bursts_after)):
        return True
    middle = float(np.median(others))
    spread = float(np.median(np.abs(np.array(others) - middle)))
    return abs(split.seconds - middle) > max(OTHERS_SPREADS * spread, OTHERS_SHARE * middle)


def parts_trains(share: float, found: list[Pause]) -> bool:
    """Whether pauses are of one length before a share of the volume, and of another one behind."""
    return uneven(share, found) <= ODD


def uneven(share: float, found: list[Pause]) -> float:
    """Share of the pauses on either side of a share of the volume that are not as long as others.

    1 where one side has too few of them, or where both sides have pauses of one length.
    """
    before = [pause.seconds for pause in found if pause.share < share]
    after = [pause.seconds for pause in found if pause.share > share]
    if min(len(before), len(after)) < 2 or not _unlike(before, after):
        return 1.0
    return max(_odd(np.array(side)) for side in (before, after))


def _odd(of_a_train: NDArray[np.float64]) -> float:
    """Share of some lengths that are not nearly their median."""
    median = np.median(of_a_train)
    return float(np.mean(np.abs(of_a_train - median) > ALIKE * median))


def behind_half(split: Pause, found: list[Pause]) -> bool:
    """Whether a pause is but one of the train behind half of the bytes, where another one ends."""
    after = [pause.seconds for pause in found if pause.share > split.share]
    if split.share - HALF <= SHARE_WITHIN or not after or not parts_trains(HALF, found):
        return False
    return abs(split.seconds - float(np.median(after))) <= ALIKE * float(np.median(after))


def as_buckets(split: Pause, found: list[Pause]) -> bool:
    """Whether equal buckets of one all-reduce may pause so, but for the length of one pause."""
    if len(found) == 1 or parts_trains(split.share, found):
        return False
    bursts = np.diff([0.0, *(pause.share for pause in found), 1.0])
    times = bursts / bursts.min()
    return bool(np.all(np.abs(times - np.rint(times)) <= ALIKE))


def behind_buckets(found: list[Pause], pace: Pace) -> float | None:
    """The share of equal buckets, where what follows is an all-gather's and no pause parts them.

    Pauses as long as theirs would show behind the last one.
    """
    usual_s = float(np.median([pause.seconds for pause in found]))
    parting = [pause.share for pause in found if pause.seconds >= usual_s / UNLIKE]
    shares = np.array([0.0, *parting])
    bursts = np.diff(shares)
    if len(bursts) < FEWEST_EQUAL or _odd(bursts) > 0:
        return None
    end = float(shares[-1] + np.median(bursts))
    hidden_s = shortest_visible(pace)[round(end * pace.steps) : -1].max(initial=0.0)
    return end if is_split(end, pace) and hidden_s < usual_s else None


def equal_bursts(found: list[Pause]) -> bool:
    """Whether bursts carry as much in the first half of the volume as in the second."""
    shares = np.array([0.0, *(pause.share for pause in found), 1.0])
    first = float(np.median(np.diff(shares[shares < HALF])))
    second = float(np.median(np.diff(shares[shares > HALF])))
    return abs(first - second) <= ALIKE * max(first, second)


def _unlike(one: Sequence[float], other: Sequence[float]) -> bool:
    low, high = sorted((float(np.median(one)), float(np.median(other))))
    return high > UNLIKE * low
