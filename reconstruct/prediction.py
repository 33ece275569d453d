"""Prediction: how well the turns of a cycle foretell each other.

A cycle that is a beat inside the true one, or several true ones together, foretells less than the
true one does: the beat misses what comes once in many beats, and of several together there are
fewer to learn from. This compares cycles of any length without a threshold for either.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

FEWEST_TURNS: Final = 3
DOUBT: Final = 1.0  # samples that are thought to lie anywhere in a turn before any is seen


def foretold(
    time_ns: NDArray[np.int64],
    weight: NDArray[np.float64],
    turns_ns: NDArray[np.int64],
    width_ns: float,
) -> float:
    """What the other turns say of when in a turn its samples come, in nats per sample.

    Parameters
    ----------
    time_ns : int64[n]
        Sample times, sorted.
    weight : float64[n]
    turns_ns : int64[k]
        Starts of turns, ascending.
    width_ns : float
        Of the steps of a turn.

    Returns
    -------
    float
        The mean logarithm of the chance that all other turns give a sample's step, over that of
        samples spread evenly; -inf with fewer than `FEWEST_TURNS` turns.
    """
    count = len(turns_ns) - 1
    if count < FEWEST_TURNS:
        return -np.inf
    length = np.diff(turns_ns)
    steps = max(round(float(np.median(length)) / width_ns), 2)
    turn = np.searchsorted(turns_ns, time_ns, "right") - 1
    inside = (turn >= 0) & (turn < count)
    turn, time, weight = turn[inside], time_ns[inside], weight[inside]
    phase = (time - turns_ns[turn]) / length[turn]
    cell = turn * steps + np.minimum((phase * steps).astype(np.int64), steps - 1)
    held = np.bincount(cell, weight, count * steps).reshape(count, steps)
    others = held.sum(axis=0) - held
    chance = (others + DOUBT / steps) / (others.sum(axis=1, keepdims=True) + DOUBT)
    # Against even chances, as a longer turn has more steps to choose from.
    return float((held * np.log(chance * steps)).sum() / max(float(held.sum()), 1e-9))
