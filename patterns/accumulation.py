"""Gradient accumulation: turns that are micro-batches of one iteration.

Where parameters are sharded, each micro-batch may gather them and reduce its gradients, and what
repeats is the micro-batch. Only the optimiser's step shows the iteration: once in so many turns,
always at one place of the turn, it takes a little longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.missed import Pulse

MOST: Final = 16  # micro-batches of an iteration
EXCESS: Final = (0.03, 0.5)  # of a turn, that the optimiser's step takes: longer is a checkpoint
FEWEST: Final = 5  # iterations: turns of fewer fall into place by chance
MANY: Final = 8  # iterations, over which longer turns come by no chance, or
CLEARLY: Final = 6.0  # times the spread of turns, by which they are longer than by chance
REGULAR: Final = 0.9  # of the turns are as long as the rule says
SHARES: Final = 200  # steps of a turn's volume, by which the place of the step is found
NEAR: Final = 0.04  # of the volume: how well that place is known


@dataclass(frozen=True, slots=True)
class Accumulation:
    """Iterations of several turns.

    Parameters
    ----------
    turns : int
        Of an iteration.
    excess_s : float
        What the longer one takes more.
    ends_ns : int64[k]
        Ends of iterations.
    """

    turns: int
    excess_s: float
    ends_ns: NDArray[np.int64]


def find_accumulation(signal: Pulse, ends_ns: NDArray[np.int64]) -> Accumulation | None:
    """The iterations of several turns; None where the turns are no parts of such.

    Parameters
    ----------
    signal : Pulse
        Of the connections that carry gradients and parameters.
    ends_ns : int64[k]
        Ends of turns, ascending.
    """
    count = len(ends_ns) - 1
    for turns in range(2, min(MOST, count // FEWEST) + 1):
        # An end that lies next to the step has it now in the turn before, now in the one behind.
        for span in (1, 2) if turns > 3 else (1,):
            lasting = (ends_ns[span:] - ends_ns[:-span]).astype(np.float64)
            found = _longer(lasting, turns, span)
            if found is None:
                continue
            longest, usual = found
            excess = float(np.median(lasting[longest]) - np.median(lasting[usual]))
            ends = _where_longer(signal, ends_ns, span, longest, usual, excess)
            return None if ends is None else Accumulation(turns, excess / 1e9, ends)
    return None


def _longer(
    lasting: NDArray[np.float64], turns: int, span: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Which `span` turns in a row are longer, if these are one in so many, and which usual."""
    place = np.arange(len(lasting)) % turns
    middle = np.array([np.median(lasting[place == k]) for k in range(turns)])
    at = int(middle.argmax())
    longest = place == at
    usual = np.abs((place - at + turns // 2) % turns - turns // 2) >= span
    length = float(np.median(lasting[usual]))
    excess = float(middle.max()) - length
    if not EXCESS[0] * length <= excess * span <= EXCESS[1] * length:
        return None
    # Of turns that differ by themselves, some few longer ones lie evenly apart by chance.
    if longest.sum() < MANY and excess < CLEARLY * float(np.std(lasting[usual])):
        return None
    above = lasting > length + excess / 2
    regular = above[longest].mean() >= REGULAR and (~above[usual]).mean() >= REGULAR
    return (longest, usual) if regular else None


def _where_longer(
    signal: Pulse,
    ends_ns: NDArray[np.int64],
    span: int,
    longest: NDArray[np.bool_],
    usual: NDArray[np.bool_],
    excess: float,
) -> NDArray[np.int64] | None:
    """The last sample of each longer stretch before it falls behind usual ones; None = not told."""
    share = (np.arange(SHARES) + 0.5) / SHARES
    bounds = np.searchsorted(signal.time_ns, ends_ns, "right")
    low, high = bounds[:-span], bounds[span:]
    if (high - low < 2).any():
        return None
    through = np.empty((len(longest), SHARES))
    for k in range(len(longest)):
        gone = np.cumsum(signal.weight[low[k] : high[k]])
        since = signal.time_ns[low[k] : high[k]] - ends_ns[k]
        through[k] = np.interp(share, gone / gone[-1], since)
    behind = np.median(through[longest], axis=0) - np.median(through[usual], axis=0)
    # Shares that fall between two bursts may be through before or after: the best step tells.
    before, after = np.abs(behind), np.abs(behind - excess)
    cost = np.append(0, np.cumsum(before)) + np.append(np.cumsum(after[::-1])[::-1], 0)
    step = int(cost.argmin())
    if step == SHARES:
        return ends_ns[span:][longest]
    if step == 0:
        return ends_ns[:-span][longest]
    out = []
    for k in np.flatnonzero(longest).tolist():
        time = signal.time_ns[low[k] : high[k]]
        gone = np.cumsum(signal.weight[low[k] : high[k]])
        around = step / SHARES + np.array([-NEAR, NEAR]) / span
        first, last = np.searchsorted(gone / gone[-1], around)
        first = max(first - 1, 0)
        gaps = np.diff(time[first : last + 1])
        out.append(int(time[first + int(gaps.argmax())]) if len(gaps) else int(time[first]))
    return np.array(out, np.int64)
