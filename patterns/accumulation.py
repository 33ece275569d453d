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
from reconstruct.stops import CYCLES

MOST: Final = 16  # micro-batches of an iteration
EXCESS: Final = (0.03, 0.5)  # of a turn, that the optimiser's step takes: longer is a checkpoint
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
    lasting = np.diff(ends_ns).astype(np.float64)
    for turns in range(2, min(MOST, len(lasting) // CYCLES) + 1):
        longest = _longer(lasting, turns)
        if longest is None:
            continue
        usual = float(np.median(lasting[~longest]))
        excess = float(np.median(lasting[longest])) - usual
        ends = _where_longer(signal, ends_ns, longest, excess)
        return None if ends is None else Accumulation(turns, excess / 1e9, ends)
    return None


def _longer(lasting: NDArray[np.float64], turns: int) -> NDArray[np.bool_] | None:
    """The turns that are longer, if these are one in so many; bool[k - 1]."""
    place = np.arange(len(lasting)) % turns
    middle = np.array([np.median(lasting[place == k]) for k in range(turns)])
    longest = place == int(middle.argmax())
    usual = float(np.median(lasting[~longest]))
    excess = float(middle.max()) - usual
    if not EXCESS[0] * usual <= excess <= EXCESS[1] * usual:
        return None
    above = lasting > usual + excess / 2
    regular = above[longest].mean() >= REGULAR and (~above[~longest]).mean() >= REGULAR
    return longest if regular else None


def _where_longer(
    signal: Pulse, ends_ns: NDArray[np.int64], longest: NDArray[np.bool_], excess: float
) -> NDArray[np.int64] | None:
    """In each longer turn the last sample before it falls behind a usual one; None = not told."""
    share = (np.arange(SHARES) + 0.5) / SHARES
    bounds = np.searchsorted(signal.time_ns, ends_ns, "right")
    if (np.diff(bounds) < 2).any():
        return None
    through = np.empty((len(longest), SHARES))
    for k, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        gone = np.cumsum(signal.weight[low:high])
        through[k] = np.interp(share, gone / gone[-1], signal.time_ns[low:high] - ends_ns[k])
    behind = np.median(through[longest], axis=0) - np.median(through[~longest], axis=0)
    # Shares that fall between two bursts may be through before or after: the best step tells.
    before, after = np.abs(behind), np.abs(behind - excess)
    cost = np.append(0, np.cumsum(before)) + np.append(np.cumsum(after[::-1])[::-1], 0)
    step = int(cost.argmin())
    if step == SHARES:
        return ends_ns[1:][longest]
    if step == 0:
        return ends_ns[:-1][longest]
    out = []
    for k in np.flatnonzero(longest).tolist():
        time = signal.time_ns[bounds[k] : bounds[k + 1]]
        gone = np.cumsum(signal.weight[bounds[k] : bounds[k + 1]])
        around = step / SHARES + np.array([-NEAR, NEAR])
        low, high = np.searchsorted(gone / gone[-1], around)
        gaps = np.diff(time[max(low - 1, 0) : high + 1])
        out.append(int(time[max(low - 1, 0) + int(gaps.argmax())]) if len(gaps) else int(time[low]))
    return np.array(out, np.int64)
