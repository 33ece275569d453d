"""Pauses inside an iteration's traffic, placed by volume.

The pace of a turn is the median time to its end after each share of its volume. A pause is a
step of it that is longer than the traffic's own unevenness explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from patterns.boundaries import VolumeClock, median_by
from patterns.regimes import regimes

MOST_STEPS: Final = 400
FEWEST_STEPS: Final = 40
EVENLY: Final = 3.0  # standard errors: so far may rows lie off the middle of a step, on average
ROWS_PER_STEP: Final = 12  # below it a step's median is noise
FIRM_STEPS: Final = 200
FIRM_ROWS: Final = 40  # of a step, to tell a pause from the traffic's unevenness
OF_PERIOD: Final = 0.003  # a shorter pause inside a burst is not told from its unevenness
SIGMAS: Final = 8.0  # and it must stand out of the unevenness around it
ONE_SIGMA_BELOW: Final = 0.1587  # quantile of a normal distribution
AROUND: Final = 12  # steps to either side that show the usual unevenness
NEAR_STEPS: Final = 10  # before a pause, that tell the pace there
REACH: Final = 2  # steps over which a pause may smear
EDGE: Final = 0.03  # a pause this near the traffic's own end is that end, smeared
SAME_STAGE: Final = 0.01  # of the period: groups of one pipeline stage start and end together
LITTLE: Final = 0.25  # of the period: a turn that is off by more stood still somewhere
BAND: Final = 0.2  # share of the volume at either end that places a group in the turn


@dataclass(frozen=True, slots=True)
class Pause:
    """After which share of the volume, how long, and how often its least visible length."""

    share: float
    seconds: float
    clearness: float


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a turn.

    Parameters
    ----------
    left_s : float64[s]
        Seconds to the end of the turn's traffic; entry i for share (i + 0.5) / s.
    period_s : float
    staged : bool
        Whether groups of other pipeline stages were left out.
    """

    left_s: NDArray[np.float64]
    period_s: float
    staged: bool

    @property
    def steps(self) -> int:
        return len(self.left_s)

    @property
    def usual_s(self) -> float:
        """Usual seconds per step."""
        return float(np.median(np.abs(np.diff(self.left_s))))

    def firm(self, rows: int) -> Pace:
        """The same in so few steps that `rows` show how uneven each is by itself."""
        pace = self
        while pace.steps > FIRM_STEPS or (
            rows < FIRM_ROWS * pace.steps and pace.steps >= 2 * FEWEST_STEPS
        ):
            pace = pace.coarser()
        return pace

    def coarser(self) -> Pace:
        """The same in half as many steps."""
        pairs = self.left_s[: self.steps // 2 * 2].reshape(-1, 2)
        return Pace(pairs.mean(axis=1), self.period_s, self.staged)

    @property
    def outer_s(self) -> float:
        """Length of the pause that the turn is counted from.

        Read a little behind its end, where no sample of the burst before it can be misplaced.
        """
        clear = round(EDGE * self.steps) + REACH
        busy_s = float(self.left_s[clear]) + (clear + 0.5) * self.usual_s
        return self.period_s - busy_s

    def before(self, pause: Pause) -> float:
        """Seconds from the moment a pause begins to the end of the turn's traffic."""
        at = pause.share * self.steps
        clear = max(0, round(at) - 1 - REACH)  # the last step that the pause did not smear
        return float(self.left_s[clear]) - (at - clear - 0.5) * self.usual_s

    def step_s(self, share: float) -> float:
        """Usual seconds per step just before a share, clear of what a pause there smears."""
        last = max(round(share * self.steps) - 1 - REACH, 1)
        steps = -np.diff(self.left_s[max(last - NEAR_STEPS, 0) : last + 1])
        return float(np.median(steps))

    def after(self, share: float) -> float:
        """Seconds to the end just behind a share (and a pause there)."""
        return float(self.left_s[min(self.steps - 1, int(share * self.steps) + REACH)])


def read_pace(clock: VolumeClock, ends_ns: NDArray[np.int64], period_s: float) -> Pace | None:
    """The pace of the connections of one pipeline stage, the one with most samples.

    Stages start and end a turn at different moments, in an order that differs between passes, so
    that their paces must not be mixed. Nor must those of turns of unlike length, where the job's
    steps changed for good: the longest such regime is read.

    Parameters
    ----------
    clock : VolumeClock
    ends_ns : int64[k]
        End of the traffic before each of the clock's pauses.
    period_s : float
        Usual length of a turn.

    Returns
    -------
    Pace or None
        None where no sample fell between two pauses.
    """
    first, last, period_s = _one_regime(ends_ns, period_s)
    inside = (clock.turn >= first) & (clock.turn < last)
    owner, turn, share = clock.owner[inside], clock.turn[inside], clock.share[inside]
    left = (ends_ns[turn] - clock.origin_ns) / 1e9 - clock.time_s[inside]
    # A turn that takes a little longer takes as much longer before each of its shares.
    lasted_s = np.diff(ends_ns / 1e9, prepend=ends_ns[0] / 1e9 - period_s)
    near = np.abs(lasted_s - period_s) <= LITTLE * period_s
    left *= np.divide(period_s, lasted_s, out=np.ones(len(lasted_s)), where=near)[turn]
    group = clock.group[owner]
    stage = _one_stage(group, share, left, period_s)
    mine = np.isin(group, stage)
    staged = not bool(mine.all())
    owner, share, left = owner[mine], share[mine], left[mine]
    if not len(owner):
        return None
    steps = int(np.clip(len(owner) // ROWS_PER_STEP, FEWEST_STEPS, MOST_STEPS))
    slot = np.minimum((share * steps).astype(np.int64), steps - 1)
    rows = np.bincount(slot, minlength=steps)
    told = np.flatnonzero(rows)
    # Flow records tell of a few shares only, far from the middles of steps. Samples fill them.
    place = np.bincount(slot, share, steps)[told] / rows[told]
    centre = (np.arange(steps) + 0.5) / steps
    off = np.abs(place - centre[told]) * steps * np.sqrt(12 * rows[told])
    if np.median(off) < EVENLY:
        place = centre[told]
    offset = np.zeros(clock.connections)
    middle = np.zeros(steps)
    for _ in range(2):
        middle = median_by(slot, left - offset[owner], steps)
        curve = np.interp(centre, place, middle[told])
        offset = median_by(owner, left - curve[slot], clock.connections)
    # A step on which few rows are wrong lies off both its neighbours; a pause moves all behind it.
    left_s = median_filter(np.interp(centre, place, middle[told]), 3, mode="nearest")
    return Pace(left_s, period_s, staged)


def _one_regime(ends_ns: NDArray[np.int64], period_s: float) -> tuple[int, int, float]:
    """First turn, last one excluded, and period of the longest stretch of like turns."""
    durations = np.diff(ends_ns) / 1e9
    found = regimes(durations) if (durations > 0).all() else []
    if len(found) < 2:
        return 0, len(ends_ns), period_s
    longest = max(found, key=lambda regime: regime.last - regime.first)
    return longest.first + 1, longest.last + 1, longest.median_s


def _one_stage(
    group: NDArray[np.intp],
    share: NDArray[np.float64],
    left: NDArray[np.float64],
    period_s: float,
) -> NDArray[np.intp]:
    """Groups that start and end their traffic together, of those sets the one with most rows."""
    count = int(group.max(initial=-1)) + 1
    rows = np.bincount(group, minlength=count)
    early, late = share <= BAND, share >= 1 - BAND
    # Shifted to the band's middle by the mean burst, so that few samples do not scatter it.
    place = np.stack([median_by(group[band], left[band], count) for band in (early, late)], axis=1)
    biggest = int(rows.argmax())
    apart = np.abs(place - place[biggest]).max(axis=1)
    spread = SAME_STAGE * period_s + _median_error(group, early, left, count)
    return np.flatnonzero((rows > 0) & (apart <= spread))


def _median_error(
    group: NDArray[np.intp], band: NDArray[np.bool_], left: NDArray[np.float64], count: int
) -> float:
    """Typical standard error of the groups' medians in a band, twice."""
    rows = np.bincount(group[band], minlength=count)
    centre = median_by(group[band], left[band], count)
    away = median_by(group[band], np.abs(left[band] - centre[group[band]]), count)
    told = rows > 0
    return 2 * float(np.median(1.85 * away[told] / np.sqrt(rows[told]))) if told.any() else 0.0


def find_pauses(pace: Pace) -> list[Pause]:
    """Pauses inside the traffic of a turn, in order of volume."""
    steps = -np.diff(pace.left_s)
    smeared = np.convolve(steps - pace.usual_s, np.ones(2 * REACH), "same")
    limit = shortest_visible(pace)
    out: list[Pause] = []
    for i in range(REACH, len(smeared) - REACH):
        near = smeared[i - REACH : i + REACH + 1]
        if smeared[i] < limit[i] or near.argmax() != REACH:
            continue
        around = np.arange(i - REACH, i + REACH)
        excess = np.clip(steps[around] - pace.usual_s, 0, None)
        share = float((excess * (around + 1)).sum() / excess.sum()) / pace.steps
        pause = Pause(share, float(smeared[i]), float(smeared[i] / limit[i]))
        if out and share - out[-1].share < EDGE:
            out[-1] = max(out[-1], pause, key=lambda p: p.seconds)
        elif EDGE <= share <= 1 - EDGE:
            out.append(pause)
    return out


def shortest_visible(pace: Pace) -> NDArray[np.float64]:
    """The shortest pause, in seconds, that would show at each step of a pace; float64[s - 1].

    Pauses make steps longer only, so the lower side of the steps around shows how uneven the
    traffic is there by itself.
    """
    steps = -np.diff(pace.left_s)
    around = sliding_window_view(np.pad(steps, AROUND, "reflect"), 2 * AROUND + 1)
    low, middle = np.quantile(around, (ONE_SIGMA_BELOW, 0.5), axis=1)
    limit = SIGMAS * math.sqrt(2 * REACH) * (middle - low)
    return np.asarray(np.maximum(OF_PERIOD * pace.period_s, limit))
