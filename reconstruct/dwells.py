"""Dwells: the cycle of what connections in lockstep send, found along their way.

Along that way a cycle never wanders: each turn moves the same bytes, however long it takes. What
repeats there is how long the connections dwell at a place, and a beat inside the cycle, all of
whose bursts look alike in time, repeats less of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from reconstruct.lockstep import Walk
from reconstruct.period import Period
from reconstruct.stops import CYCLES

CELL_ROWS: Final = 1.5  # rows between two of which a dwell may lie anywhere
BLUR: Final = 2.0  # times what connections are apart
FEWEST_CELLS: Final = 4  # of a turn
MOST_PEAKS: Final = 24
PARTS: Final = 16  # of a cycle that may be several
REFINED: Final = (-1.0, -0.5, 0.0, 0.5, 1.0)  # cells, over all turns together
AS_WELL: Final = 0.015  # of what is foretold: several turns together foretell nearly as much as one
NEARLY: Final = 0.06  # the same, where the order of sampling may make the difference
BY_CHANCE: Final = 3.0  # the same of a cycle that was found in time: standard errors
ODD: Final = 0.005  # of a beat, by which one of a cycle's is longer than the others, and
ODD_ERRORS: Final = 5.0  # standard errors
CLEAR: Final = 0.2  # of the dwells, that turns foretell of each other where there is a cycle
FEWEST_TURNS: Final = 2
PAUSE: Final = 1.5  # times the usual one, as roots: without so long a dwell nothing pauses
SAME: Final = 0.1  # of a turn's volume: cycles that differ by less are one


@dataclass(frozen=True, slots=True)
class VolumeCycle:
    """A cycle on the axis of volume.

    Parameters
    ----------
    turns_ns : int64[k]
        As of `reconstruct.iterations.follow_cycle`.
    period : Period
    """

    turns_ns: NDArray[np.int64]
    period: Period


def find_cycle(walks: Sequence[Walk], turns_ns: NDArray[np.int64] | None) -> VolumeCycle | None:
    """The cycle of dwells along some walks; None where there is none but that which is known.

    Parameters
    ----------
    walks : sequence of Walk
        Over one time.
    turns_ns : int64[k] or None
        Turns of the cycle that was found in time.

    Notes
    -----
    Of all lags the one is the cycle whose turns foretell each other's dwells best: a beat inside it
    misses what comes once in many beats, and of several cycles together there are fewer turns to
    foretell from. Where it is too long to be seen `CYCLES` times, none is told.
    """
    if not walks:
        return None
    cells = _cells(walks)
    longest = cells // CYCLES
    if longest <= FEWEST_CELLS:
        return None
    likeness = _likeness(walks, cells)
    known = 0.0 if turns_ns is None else _moved(walks[0], turns_ns) * cells
    lags = _peaks(likeness, cells // FEWEST_TURNS)
    if 0 < known < FEWEST_CELLS:
        return None
    if known:
        lags = np.append(lags, known)
    found = [_foretold(walks, _refined(likeness, lag), cells) for lag in lags.tolist()]
    if not found:
        return None
    most, whole = max(found)
    if whole > longest or _is_known(found, most, known):
        return None
    shorter = {lag for _, lag in found if lag < whole}
    for parts in range(2, PARTS + 1):
        if whole / parts >= FEWEST_CELLS:
            shorter |= {whole / parts, _refined(likeness, whole / parts)}
    # All by the same turns: one odd turn more or less would make the difference.
    span = int(cells / whole) * whole / cells
    found = [_foretold(walks, lag, cells, span) for lag in (whole, *sorted(shorter))]
    most, _ = max(found)
    if _is_known(found, most, known):
        return None
    told, lag = min((one for one in found if one[0] >= most - AS_WELL), key=lambda one: one[1])
    chance = BY_CHANCE * 2 * float(np.sqrt(max(most, 0.0) / cells)) * (1 - most)
    for share, part in sorted(found, key=lambda one: one[1]):
        short = max(chance, NEARLY) if abs(part - known) <= SAME * known else NEARLY
        if share >= most - short and _is_part(part, lag) and _all_alike(walks, lag, part, cells):
            told, lag = share, part
    if told < CLEAR or abs(lag - known) <= SAME * known:
        return None
    # What was found in time is given up for a part of it only where all of these are alike.
    if lag < known and not (_is_part(lag, known) and _all_alike(walks, known, lag, cells)):
        return None
    dwell = _usual(walks, lag / cells, cells)
    if dwell.max() < PAUSE * np.median(dwell):
        return None
    turns_ns = _turns(walks, lag / cells, cells)
    inside = [one[0] for one in found if _is_part(one[1], lag)]
    period = Period(
        seconds=float(np.median([walk.busy_ns[-1] for walk in walks])) * lag / cells / 1e9,
        similarity=told,
        sigmas=told * float(np.sqrt(cells / 2)),
        rival=max(inside, default=0.0) / told,
    )
    return VolumeCycle(turns_ns, period)


def find_cuts(walks: Sequence[Walk], turns_ns: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Moments in the longest dwell of each turn of a known cycle.

    Parameters
    ----------
    walks : sequence of Walk
        Over one time.
    turns_ns : int64[k]
        Of the cycle, from any of its moments on.

    Returns
    -------
    int64[k] or None
        None where dwells do not repeat with the cycle.
    """
    if not walks:
        return None
    cells = _cells(walks)
    lag = _moved(walks[0], turns_ns) * cells
    if lag < FEWEST_CELLS:
        return None
    told, lag = _foretold(walks, _refined(_likeness(walks, cells), lag), cells)
    return _turns(walks, lag / cells, cells)[1:-1] if told >= CLEAR else None


def _beats(walk: Walk, length: float, count: int, cells: int) -> NDArray[np.float64]:
    """How long each of `count` equal parts of a cycle takes, turn by turn; float64[turns, count].

    Parted where the connections send: a pause there would belong now to one part, now to the next.
    """
    dwell = np.median(_folded(walk, length / count, cells), axis=0)
    busiest = int(np.convolve(np.tile(dwell, 2), np.ones(3), "valid").argmin()) + 1
    turns = int(1 / length) - 1
    edges = length / count * (np.arange(turns * count + 1) + (busiest + 0.5) / len(dwell))
    return np.asarray(np.diff(np.interp(edges, walk.gone, walk.busy_ns)).reshape(turns, count))


def _all_alike(walks: Sequence[Walk], lag: float, part: float, cells: int) -> bool:
    """Whether no part of a cycle takes longer than the others, turn by turn."""
    count = round(lag / part)
    beats = np.mean([_beats(walk, lag / cells, count, cells) for walk in walks], axis=0)
    mean = beats.mean(axis=0)
    error = float((beats - mean).std()) / np.sqrt(max(len(beats) - 1, 1))
    longer = float(mean.max() - np.median(mean))
    return bool(longer <= max(ODD * float(np.median(mean)), ODD_ERRORS * error))


def _cells(walks: Sequence[Walk]) -> int:
    """Into how many cells the way is cut, so that a dwell is known to lie in one of them."""
    rows = float(np.median([len(np.unique(walk.time_ns)) for walk in walks]))
    apart = float(np.median([walk.apart for walk in walks]))
    return int(rows / max(CELL_ROWS, BLUR * apart))


def _is_known(found: Sequence[tuple[float, float]], most: float, known: float) -> bool:
    """Whether the cycle found in time foretells as much as any."""
    return any(told >= most - AS_WELL and abs(lag - known) <= SAME * known for told, lag in found)


def _is_part(lag: float, whole: float) -> bool:
    """Whether a lag is a whole part of another one."""
    times = whole / lag
    return times > 1 + SAME and abs(times - round(times)) <= SAME


def _likeness(walks: Sequence[Walk], cells: int) -> NDArray[np.float64]:
    """Autocorrelation of the dwells along the walks; float64[cells]."""
    out = np.zeros(cells)
    edges = np.linspace(0, 1, cells + 1)
    size = next_fast_len(2 * cells)
    for walk in walks:
        dwell = walk.dwells(edges)
        raw = irfft(np.abs(rfft(dwell - dwell.mean(), size)) ** 2, size)[:cells]
        out += raw / np.arange(cells, 0, -1) / max(float(raw[0]) / cells, 1e-30)
    return out / len(walks)


def _peaks(likeness: NDArray[np.float64], longest: int) -> NDArray[np.float64]:
    """Lags at which dwells are most alike, the best ones; float64[k], in cells."""
    inside = likeness[1 : longest + 1]
    peak = (inside >= likeness[:longest]) & (inside > likeness[2 : longest + 2])
    lags = np.flatnonzero(peak) + 1
    lags = lags[lags >= FEWEST_CELLS]
    return lags[np.argsort(-likeness[lags], kind="stable")[:MOST_PEAKS]].astype(np.float64)


def _moved(walk: Walk, turns_ns: NDArray[np.int64]) -> float:
    """Share of a walk that a turn known by its times moves; 0 where it holds no whole one.

    Half of what passed did so in turns that moved more: those in a stop count nothing.
    """
    inside = turns_ns[(turns_ns >= walk.time_ns[0]) & (turns_ns <= walk.time_ns[-1])]
    if len(inside) < 2:
        return 0.0
    moved = np.sort(np.diff(np.interp(inside, walk.time_ns, walk.gone)))
    return float(moved[np.searchsorted(np.cumsum(moved), moved.sum() / 2)])


def _refined(likeness: NDArray[np.float64], lag: float) -> float:
    """A lag as its double, the double of that and so on tell it, in cells."""
    times = 1.0
    while 2 * times * lag < len(likeness) // 2:
        times *= 2
        at = round(times * lag)
        near = likeness[at - 1 : at + 2]
        lag = (at - 1 + int(near.argmax())) / times
    return lag


def _foretold(
    walks: Sequence[Walk], lag: float, cells: int, span: float = 1.0
) -> tuple[float, float]:
    """How much of the dwells the turns of a cycle foretell of each other, and its lag refined.

    `span` is the share of the way that counts.
    """
    near = [lag + off * lag / cells for off in REFINED]
    return max(
        (float(np.mean([_told(_folded(walk, one / cells, cells, span)) for walk in walks])), one)
        for one in near
    )


def _folded(walk: Walk, length: float, cells: int, span: float = 1.0) -> NDArray[np.float64]:
    """Square roots of dwells by turn and place; float64[turns, places]."""
    # A length that was refined for the whole way may be a little too long for its last turn.
    turns, places = int(span / length + 1 / cells), max(round(length * cells), FEWEST_CELLS)
    edges = np.linspace(0, turns * length, turns * places + 1)
    return walk.dwells(edges).reshape(turns, places)


def _told(dwell: NDArray[np.float64]) -> float:
    """Share of the variance that the mean of all other turns foretells; -inf with too few turns."""
    turns = len(dwell)
    if turns < FEWEST_TURNS:
        return -np.inf
    wrong = (dwell - dwell.mean(axis=0)) * turns / (turns - 1)
    spread = float(((dwell - dwell.mean()) ** 2).sum())
    return 1 - float((wrong**2).sum()) / spread if spread > 0 else -np.inf


def _usual(walks: Sequence[Walk], length: float, cells: int) -> NDArray[np.float64]:
    """Usual dwells by place of a turn, as roots; float64[places]."""
    usual = [np.median(_folded(walk, length, cells), axis=0) for walk in walks]
    return np.asarray(np.mean(usual, axis=0))


def _turns(walks: Sequence[Walk], length: float, cells: int) -> NDArray[np.int64]:
    """Times in the middle of the longest dwell of each turn, and one turn beyond at either end."""
    usual = _usual(walks, length, cells)
    at = (int(usual.argmax()) + 0.5) / len(usual) * length
    inside = walks[0].when(np.arange(at, 1, length))
    usual_ns = int(np.median(np.diff(inside)))
    return np.concatenate([[inside[0] - usual_ns], inside, [inside[-1] + usual_ns]])
