"""Provisional iterations: where each turn of a job's cycle begins.

A template of the cycle is learned from the signal itself and followed from turn to turn, so that
a step time that wanders does not smear it. The cut lies in the longest pause; `patterns.timeline`
moves it to where roles say that an iteration ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

REACH: Final = 0.25  # one turn may be shorter or longer than the period by this share
ROUNDS: Final = 3
TEMPLATE_BINS: Final = 200
LONG: Final = 0.6  # price of one turn longer than REACH allows; a turn's likeness is up to 1
SAME_CUT: Final = 0.6  # of a period: cuts nearer than this are one
STIFFNESS: Final = 0.15  # weight of "as long as the period" against "looks like the template"


def follow_cycle(
    time_ns: NDArray[np.int64], weight: NDArray[np.float64], period_s: float
) -> NDArray[np.int64]:
    """Start of every turn of the cycle.

    Parameters
    ----------
    time_ns : int64[n]
        Sample times, sorted.
    weight : float64[n]
    period_s : float
        As found by `reconstruct.period`; the true one may wander by `REACH`.

    Returns
    -------
    int64[k]
        Times in the middle of the longest pause between turns, ascending; turn i runs from
        entry i to entry i + 1. Empty where fewer than two turns fit.
    """
    if len(time_ns) < 2:
        return np.zeros(0, np.int64)
    step_ns = period_s * 1e9 / TEMPLATE_BINS
    # In whole numbers: a double holds a time since the epoch to 256 ns only.
    first_ns, last_ns, period_ns = int(time_ns[0]), int(time_ns[-1]), round(period_s * 1e9)
    start = first_ns - period_ns
    slot = ((time_ns - start) / step_ns).astype(np.int64)
    counts = np.bincount(slot, weight, int(slot[-1]) + TEMPLATE_BINS + 1)
    signal: NDArray[np.float64] = gaussian_filter1d(counts.astype(np.float64), 1.0)
    turns = np.arange(TEMPLATE_BINS, len(signal) - TEMPLATE_BINS, TEMPLATE_BINS)
    template = _template(signal, turns[len(turns) // 2 : len(turns) // 2 + 1])
    for _ in range(ROUNDS):
        turns = _track(_match(signal, template))
        template = _template(signal, turns)
    cut = _longest_pause(template)
    edges = turns + cut
    if cut > TEMPLATE_BINS // 2:
        edges = edges - TEMPLATE_BINS
    edges = np.append(edges, edges[-1] + TEMPLATE_BINS) if len(edges) else edges
    moments = start + (edges * step_ns).astype(np.int64)
    active = (moments > first_ns - period_ns) & (moments < last_ns + period_ns)
    return _with_samples(np.asarray(moments[active], np.int64), time_ns)


def follow_tempo(
    time_ns: NDArray[np.int64],
    weight: NDArray[np.float64],
    tempo: Sequence[tuple[int, float]],
) -> NDArray[np.int64]:
    """Start of every turn of a cycle whose period changes now and then.

    Parameters
    ----------
    time_ns : int64[n]
        Sample times, sorted.
    weight : float64[n]
    tempo : sequence of (int, float)
        Until when (ns), and the period in seconds; in order.

    Returns
    -------
    int64[k]
        As of `follow_cycle`.
    """
    turns = np.zeros(0, np.int64)
    since_ns = int(time_ns[0]) if len(time_ns) else 0
    for until_ns, period_s in tempo:
        period_ns = round(period_s * 1e9)
        # The first and the last turn of what is followed are not well placed: look beyond.
        begin, end = np.searchsorted(time_ns, (since_ns - period_ns, until_ns + period_ns))
        found = follow_cycle(time_ns[begin:end], weight[begin:end], period_s)
        if len(turns):
            # Where two periods meet, both see the same pause.
            found = found[found > turns[-1] + SAME_CUT * period_ns]
        if until_ns != tempo[-1][0]:
            found = found[found < until_ns + (1 - SAME_CUT) * period_ns]
        turns = np.append(turns, found)
        since_ns = until_ns
    return turns


def _with_samples(moments: NDArray[np.int64], time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The moments without turns in the silence before the first and after the last sample."""
    if len(moments) < 2:
        return moments
    held = np.flatnonzero(np.diff(np.searchsorted(time_ns, moments)))
    return moments[held[0] : held[-1] + 2] if len(held) else moments[:0]


def _template(signal: NDArray[np.float64], turns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean of the signal over the turns, centred and of unit length; float64[TEMPLATE_BINS]."""
    whole = turns[(turns >= 0) & (turns + TEMPLATE_BINS <= len(signal))]
    rows = signal[whole[:, None] + np.arange(TEMPLATE_BINS)]
    # The root keeps one tall burst from drowning everything else that marks the phase.
    mean = np.sqrt(rows.mean(axis=0))
    mean -= mean.mean()
    length = np.linalg.norm(mean)
    return np.asarray(mean / length if length > 0 else mean)


def _match(signal: NDArray[np.float64], template: NDArray[np.float64]) -> NDArray[np.float64]:
    """Likeness of the signal from each bin on to the template, about -1 to 1."""
    root = np.sqrt(signal)
    dots = np.correlate(root, template, "valid")
    ones = np.ones(TEMPLATE_BINS)
    mean = np.convolve(root, ones, "valid") / TEMPLATE_BINS
    square = np.convolve(signal, ones, "valid")
    spread = np.sqrt(np.maximum(square - TEMPLATE_BINS * mean**2, 0))
    typical = np.median(spread[spread > 0]) if (spread > 0).any() else 1.0
    return np.asarray(dots / np.maximum(spread, 0.5 * typical))


def _track(match: NDArray[np.float64]) -> NDArray[np.int64]:
    """The chain of turns with the best total likeness, each about one period after the last.

    Dynamic programming over the place of each turn; a turn's length may differ from the template's
    by `REACH` at a price of `STIFFNESS` times the squared deviation over REACH, and be longer than
    that at the price of `LONG`: a step may take long, and the ones behind it are as before.
    """
    reach = int(REACH * TEMPLATE_BINS)
    offsets = np.arange(TEMPLATE_BINS - reach, TEMPLATE_BINS + reach + 1)
    price = STIFFNESS * ((offsets - TEMPLATE_BINS) / reach) ** 2
    total, back = _chain(match, int(offsets[0]), price)
    chain = [int(total.argmax())]
    while back[chain[-1]] >= 0:
        chain.append(int(back[chain[-1]]))
    return np.array(chain[::-1], np.int64)


@njit(cache=True)
def _chain(
    match: NDArray[np.float64], shortest: int, price: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Best total likeness of a chain that ends in each place, and the turn before it (or -1).

    `price[k]` is that of a turn of `shortest + k` bins.
    """
    n = len(match)
    total = match.copy()
    back = np.full(n, -1, np.int64)
    far_best, far_place = -np.inf, -1
    for here in range(shortest, n):
        gain, source = 0.0, -1
        for k in range(len(price)):
            before = here - shortest - k
            if before < 0:
                break
            value = total[before] - price[k]
            if value > gain:
                gain, source = value, before
        far = here - shortest - len(price)
        if far >= 0:
            if total[far] > far_best:
                far_best, far_place = total[far], far
            if far_best - LONG > gain:
                gain, source = far_best - LONG, far_place
        total[here] = match[here] + gain
        back[here] = source
    return total, back


def _longest_pause(template: NDArray[np.float64]) -> int:
    """Middle of the longest circular run of low activity in the template, as a bin."""
    quiet = template <= template.min() + 0.15 * (template.max() - template.min())
    doubled = np.concatenate([quiet, quiet])
    best_length, best_end, length = 0, 0, 0
    for i, low in enumerate(doubled):
        length = length + 1 if low else 0
        if length > best_length:
            best_length, best_end = length, i
    best_length = min(best_length, TEMPLATE_BINS)
    return int((best_end - best_length // 2) % TEMPLATE_BINS)
