"""Numbering: ends of iterations, read again and again, become iterations that never change.

An end is taken over once, when it is old enough to be well known; from then on the iteration
before it has its number and its times, whatever later windows say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collector.schema import I64
from patterns.invented import folded
from patterns.result import Iteration
from patterns.timeline import UNSEEN
from reconstruct.restarts import undisturbed

SHORTEST: Final = 0.5  # of the period: an end that follows the last one sooner is that one again
SAME_PHASE: Final = 0.1  # of the period: ends read further away are of another phase of the turn
DRAWN: Final = 0.01  # of the period: by so much may one reading draw that phase its way
KEPT: Final = 200  # iterations that a state remembers: a median and its spread need no more
DIRECTION: Final = 2j * np.pi  # times a share of a turn: the exponent of a moment on the circle


@dataclass(frozen=True, slots=True)
class Numbering:
    """Where the numbering of a job stands; a value.

    Parameters
    ----------
    iterations : tuple of Iteration
        The newest final ones, at most `KEPT`.
    anew : bool
        Whether the next one ends at another moment of the turn than they do, if the reading that
        has it still says so.
    set_back : bool
        Whether the clock was set back after them: their times say nothing of what comes.
    """

    iterations: tuple[Iteration, ...] = ()
    anew: bool = False
    set_back: bool = False

    @property
    def next_index(self) -> int:
        return self.iterations[-1].index + 1 if self.iterations else 0

    @property
    def last_end_ns(self) -> int | None:
        """Where the next one begins; None = that is not known."""
        return self.iterations[-1].end_ns if self.iterations and not self.set_back else None


@dataclass(frozen=True, slots=True)
class Settled:
    """What one reading added.

    Parameters
    ----------
    numbering : Numbering
    final : tuple of Iteration
        Iterations that are final from now on, at most `KEPT`: the others are with the next reading.
    provisional : tuple of Iteration
        What follows them in the window: ends that may still move, and the iteration under way.
    """

    numbering: Numbering
    final: tuple[Iteration, ...]
    provisional: tuple[Iteration, ...]


def settle(
    numbering: Numbering,
    ends_ns: NDArray[np.int64],
    *,
    period_s: float,
    volume_bytes: float | None,
    window_ns: tuple[int, int],
    last_seen_ns: int,
    horizon_ns: int,
    breaks: I64,
    anew: bool = False,
) -> Settled:
    """Number what is new of the ends of iterations that a window shows.

    Parameters
    ----------
    numbering : Numbering
    ends_ns : int64[k]
        Ascending; some may have been numbered before, and are read a little differently now.
    period_s : float
    volume_bytes : float or None
        Of an iteration.
    window_ns : (int, int)
        Start and end of the window.
    last_seen_ns : int
        Of the last sample. An end read at another moment of the turn, and so moved to behind it,
        has not come.
    horizon_ns : int
        An end up to here is well known.
    breaks : int64[r, 2]
        See `reconstruct.restarts`: what spans one is not complete.
    anew : bool
        Count from now on at the moment of the turn that these ends are of, if it is another. The
        one iteration that spans the change is no step of the job, and not complete.
    """
    last = numbering.last_end_ns
    if last is not None and last > window_ns[1]:
        numbering, last = replace(numbering, set_back=True), None
    shift_ns = phase_shift(numbering, ends_ns, period_s)
    same = shift_ns is not None and abs(shift_ns) <= SAME_PHASE * period_s * 1e9
    anew = numbering.set_back or ((anew or numbering.anew) and not same)
    if anew or shift_ns is None:
        shift_ns = 0.0
    elif same:
        most_ns = DRAWN * period_s * 1e9
        shift_ns -= min(max(shift_ns, -most_ns), most_ns)
    ends = ends_ns - int(shift_ns)
    ends = ends[ends <= last_seen_ns + int(UNSEEN * period_s * 1e9)]
    shortest_ns = SHORTEST * period_s * 1e9
    begin = window_ns[0] if last is None else last
    # Between the last end and a window that begins far behind it nobody looked.
    whole = last is not None and window_ns[0] <= last + shortest_ns and not anew
    index = numbering.next_index
    final: list[Iteration] = []
    provisional: list[Iteration] = []
    for end in ends.tolist():
        if end <= begin or (last is not None and end - begin < shortest_ns):
            continue
        whole = whole and bool(undisturbed(begin, end, breaks).all())
        settled = end <= horizon_ns and len(final) < KEPT
        made = Iteration(index, begin, end, volume_bytes if whole else None, whole, settled)
        (final if settled else provisional).append(made)
        begin, last, whole, index = end, end, True, index + 1
    if begin < window_ns[1] and (final or provisional or numbering.iterations):
        provisional.append(Iteration(index, begin, window_ns[1], None, False, False))
    kept = (*numbering.iterations, *final)[-KEPT:]
    still = anew and bool(numbering.iterations) and not final
    after = Numbering(kept, still, numbering.set_back and not final)
    return Settled(after, tuple(final), tuple(provisional))


def finish(numbering: Numbering, end_ns: int) -> tuple[Numbering, Iteration | None]:
    """The end of a job: the iteration under way stays incomplete, and is final.

    Parameters
    ----------
    end_ns : int
        When its last traffic passed.
    """
    last = numbering.last_end_ns
    if last is None or end_ns <= last:
        return numbering, None
    cut_off = Iteration(numbering.next_index, last, end_ns, None, False, True)
    return replace(numbering, iterations=(*numbering.iterations, cut_off)[-KEPT:]), cut_off


def phase_shift(numbering: Numbering, ends_ns: NDArray[np.int64], period_s: float) -> float | None:
    """How much later in the turn these ends lie than those that have been numbered, ns.

    With more samples, another pause of the turn may come to look like its end; iterations that
    were counted from one are counted from it on. None where no end lies among the numbered ones.
    """
    if numbering.set_back:
        return None
    return phase_between(_counted_from(numbering), ends_ns, period_s)


def phase_between(
    known: NDArray[np.int64], ends_ns: NDArray[np.int64], period_s: float
) -> float | None:
    """How much later in the turn these ends lie than known ones, ns; None where none lies near.

    Notes
    -----
    The median around the mean direction, as moments of a turn lie on a circle: half a turn later
    and half a turn sooner are the same.
    """
    if not len(known):
        return None
    period_ns = period_s * 1e9
    near = ends_ns[(ends_ns >= known[0] - period_ns / 2) & (ends_ns <= known[-1] + period_ns / 2)]
    if not len(near):
        return None
    # Of two, a median is the mean: one that is read badly, behind missing telemetry, counts as much
    # as the good one. What comes next goes on from the newest.
    near = near[1 - len(near) % 2 :]
    at = np.searchsorted(known, near)
    before, after = known[np.maximum(at - 1, 0)], known[np.minimum(at, len(known) - 1)]
    nearest = np.where(np.abs(near - before) < np.abs(after - near), before, after)
    later = (near - nearest) / period_ns
    middle = float(np.angle(np.exp(DIRECTION * later).sum())) / (2 * np.pi)
    shift = middle + float(np.median(folded(later - middle)))
    return float(folded(np.array(shift))) * period_ns


def _counted_from(numbering: Numbering) -> NDArray[np.int64]:
    """Ends that were taken at the same moment of the turn as the last one; int64[k].

    An iteration that is not complete spans a change of that moment, or a time nobody looked.
    """
    ends: list[int] = []
    for iteration in reversed(numbering.iterations):
        ends.append(iteration.end_ns)
        if not iteration.complete:
            break
    return np.array(ends[::-1], np.int64)
