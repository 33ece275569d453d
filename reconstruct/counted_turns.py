"""When turns end, from bytes by time as counters tell them: the period first, then each turn."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconstruct.counters import F64, STEPS
from reconstruct.iterations import follow_cycle
from reconstruct.period import CYCLES, find_period

PIECES: Final = (1, 4, 16)  # of the window: stops, as for checkpoints, repeat only in long ones
PARTS: Final = 4  # a period found may be up to so many of the true ones
MORE: Final = 3  # or the true one so many of it
SAME: Final = 1.03  # periods that differ by less are followed alike
AS_ALIKE: Final = 0.04  # score: by so much may turns of the true period be worse than multiples,
NOISE: Final = 0.5  # and by this part of what the best lack
ODD: Final = 0.75
REGULAR: Final = 0.6  # least score of a rhythm: likeness of turns less their unevenness
FINE: Final = 200  # steps of a turn, by which turns are placed
REACH: Final = 0.2  # of a turn: how far it may lie from where it was put first
ROUNDS: Final = 3
RESOLVED: Final = 10  # refreshes: in shorter turns pauses are not told from each other
PAUSE: Final = 0.15  # of the most bytes in a turn: less is a pause
SHORTEST_PAUSE: Final = 0.04  # of a turn
BEGUN: Final = 0.1  # of a burst's bytes: so the few before and behind it do not count
OVER: Final = 0.9
WHOLE: Final = 0.5  # of the usual bytes of a burst or a turn: less is none


class Turns(NamedTuple):
    """Turns of one rhythm.

    `ends_s` float64[k]: since the first bin, ascending. `similarity`: of successive turns, 0 to 1.
    `beat_s`: the shortest period that the window or its pieces show at first sight.
    """

    ends_s: F64
    similarity: float
    beat_s: float


def find_turns(signal: F64, width_s: float) -> Turns | None:
    """Turns of at least `CYCLES` cycles, or None without a period.

    Parameters
    ----------
    signal : float64[n]
        Bytes by bin, `STEPS` bins a refresh.
    width_s : float

    Notes
    -----
    A period that is found may be several true ones, or a part of one: turns of the true period are
    as alike, as long and as heavy as those of its multiples, and more so than its parts.
    """
    seen = _seen(signal, width_s)
    told: list[tuple[F64, float, float]] = []
    for period_s in _tried(seen):
        if 2 * STEPS * width_s <= period_s <= len(signal) * width_s / CYCLES:
            turns = _placed(signal, width_s, period_s)
            if len(turns) > CYCLES:
                similarity = _alike(signal, width_s, turns)
                told.append((turns, similarity, similarity - _uneven(signal, width_s, turns)))
    if not told:
        return None
    most = max(score for _, _, score in told)
    least = most - AS_ALIKE - NOISE * (1 - most)
    turns, similarity, score = next(one for one in told if one[2] >= least)
    if score < REGULAR:
        return None
    resolved = np.median(np.diff(turns)) >= RESOLVED * STEPS * width_s
    real = np.append(_real(_moved(signal, width_s, turns)), True)
    ends = _ends(signal, width_s, turns) if resolved else turns[real]
    return Turns(ends if len(ends) > CYCLES else turns, similarity, min(seen))


def _seen(signal: F64, width_s: float) -> list[float]:
    """Periods of the window and, where most agree that there is one, of its pieces."""
    out = []
    for pieces in PIECES:
        length = len(signal) // pieces
        found = [
            period.seconds
            for piece in signal[: pieces * length].reshape(pieces, length)
            if (period := find_period(piece, width_s)) is not None
        ]
        if len(found) > pieces // 2:
            out.append(float(np.median(found)))
    return out


def _tried(seen: list[float]) -> list[float]:
    """What the true period may be, ascending."""
    out: list[float] = []
    for period_s in sorted(
        factor * one
        for one in seen
        for factor in (*(1 / k for k in range(1, PARTS + 1)), *range(2, MORE + 1))
    ):
        if not out or period_s > SAME * out[-1]:
            out.append(period_s)
    return out


def _placed(signal: F64, width_s: float, period_s: float) -> F64:
    """Turns of about this period, each where it is most like the mean of all."""
    step_s = period_s / FINE
    moments = np.arange(0, len(signal) * width_s, step_s)
    fine = np.interp(moments, (np.arange(len(signal)) + 0.5) * width_s, signal)
    weight = signal / max(float(signal.mean()), 1e-9)
    time_ns = ((np.arange(len(signal)) + 0.5) * width_s * 1e9).astype(np.int64)
    turns = follow_cycle(time_ns, weight, period_s) / 1e9 / step_s
    far = int(REACH * FINE)
    # Sums over every window of a turn give its spread.
    sums, squares = (np.cumsum(np.append(0.0, v)) for v in (fine, fine**2))
    mean = (sums[FINE:] - sums[:-FINE]) / FINE
    spread = np.sqrt(np.maximum((squares[FINE:] - squares[:-FINE]) / FINE - mean**2, 1e-9))
    for _ in range(ROUNDS):
        turns = turns[(turns >= far) & (turns < len(mean) - far - 1)]
        if len(turns) <= CYCLES:
            break
        at = np.rint(turns).astype(np.int64)
        template = np.median(fine[at[:, None] + np.arange(FINE)], axis=0)
        score = np.correlate(fine, template - template.mean(), "valid") / spread
        near = score[at[:, None] + np.arange(-far, far + 1)]
        best = np.clip(near.argmax(axis=1), 1, 2 * far - 1)
        each = np.arange(len(turns))
        left, top, right = near[each, best - 1], near[each, best], near[each, best + 1]
        bend = np.minimum(left - 2 * top + right, -1e-9)
        turns = np.unique(at - far + best + np.clip(0.5 * (left - right) / bend, -0.5, 0.5))
    return np.asarray(turns * step_s)


def _rows(signal: F64, width_s: float, turns_s: F64) -> F64:
    """The signal of each turn, by `FINE` steps of the median one; float64[k, FINE]."""
    middle = (np.arange(len(signal)) + 0.5) * width_s
    steps = np.arange(FINE) / FINE * float(np.median(np.diff(turns_s)))
    return np.interp(turns_s[:, None] + steps, middle, signal)


def _alike(signal: F64, width_s: float, turns_s: F64) -> float:
    """Median correlation of each turn with the next."""
    rows = _rows(signal, width_s, turns_s)
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return float(np.median((rows[1:] * rows[:-1]).sum(axis=1)))


def _uneven(signal: F64, width_s: float, turns_s: F64) -> float:
    """How much turns differ in length and in bytes, beside their medians, added.

    By as much as one turn in four: unequal parts of one turn come in pairs, checkpoints seldom.
    """
    moved = _moved(signal, width_s, turns_s)
    real = _real(moved)
    out = 0.0
    for values in (np.diff(turns_s)[real], moved[real]):
        middle = float(np.median(values))
        out += float(np.quantile(np.abs(values - middle), ODD)) / max(middle, 1e-9)
    return out


def _moved(signal: F64, width_s: float, turns_s: F64) -> F64:
    """Bytes of each turn."""
    gone = np.append(0.0, np.cumsum(signal))
    return np.diff(np.interp(turns_s, np.arange(len(gone)) * width_s, gone))


def _real(moved: F64) -> NDArray[np.bool_]:
    """Which turns are some: one that carries next to nothing is a stop, where it is as seldom."""
    real = moved >= WHOLE * np.median(moved)
    return np.asarray(real | (real.mean() < ODD))


def _spread(values: F64) -> float:
    return float(np.median(np.abs(values - np.median(values))))


def _ends(signal: F64, width_s: float, turns_s: F64) -> F64:
    """Ends of turns: where the burst before the pause between turns is over.

    A slower step stretches all its pauses alike. The pause that varies most, beside its length, is
    the one where a step waits for what is none of its own: data, a checkpoint, other ranks.
    """
    centre = _pauses(np.median(_rows(signal, width_s, turns_s), axis=0))
    if not len(centre):
        return turns_s
    period_s = float(np.median(np.diff(turns_s)))
    begin = np.concatenate([[turns_s[0] - period_s], turns_s, [turns_s[-1] + period_s]])
    middle = (begin[:, None] + centre * period_s).ravel()
    pause = np.tile(np.arange(len(centre)), len(begin))
    order = np.argsort(middle, kind="stable")
    middle, pause = middle[order], pause[order]
    gone = np.append(0.0, np.cumsum(signal))
    time_s = np.arange(len(gone)) * width_s
    at = np.interp(middle, time_s, gone)
    moved = np.diff(at)
    begun, over = (np.interp(at[:-1] + part * moved, gone, time_s) for part in (BEGUN, OVER))
    inside = (middle[:-1] >= 0) & (middle[1:] <= time_s[-1])
    varies = []
    for number in range(len(centre)):
        behind = np.flatnonzero(pause[1:-1] == number) + 1
        behind = behind[inside[behind - 1] & inside[behind]]
        length = begun[behind] - over[behind - 1]
        varies.append(_spread(length) / max(float(np.median(length)), 1e-9))
    last = np.flatnonzero(inside & (pause[1:] == int(np.argmax(varies))))
    return np.asarray(over[last[moved[last] >= WHOLE * np.median(moved[last])]])


def _pauses(template: F64) -> F64:
    """Middles of the pauses of a turn that repeats, as shares of it; 0 to 2, float64[k]."""
    quiet = template <= PAUSE * template.max()
    if quiet.all() or not quiet.any():
        return np.zeros(0)
    first = int(np.flatnonzero(~quiet)[0])
    edges = np.diff(np.concatenate([[0], np.roll(quiet, -first).astype(np.int64), [0]]))
    begin, end = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    long = end - begin >= SHORTEST_PAUSE * len(template)
    return np.asarray(((begin + end)[long] / 2 + first) / len(template))
