"""Ends of iterations where a job came to a stand: before the stop, if their bytes had gone by."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns.boundaries import VolumeClock
from patterns.missed import Pulse
from patterns.pauses import Pause

STOPPED: Final = 1.0  # periods of silence: no pause of the turn takes as long
BEHIND: Final = 0.05  # of the period: an end so little behind a stop was before it
MISPLACED: Final = 0.005  # of the period, by which an end may be read before it came,
LONGER: Final = 1.2  # and times the pause, as what follows it shows a little later,
AT_MOST: Final = 0.3  # but so much of the period
APART: Final = 0.5  # periods: ends nearer than this are one
GONE_BY: Final = 0.15  # of the turn's volume, that connections show of what had gone by, or less
FARTHEST: Final = 0.9  # quantile of these: some have a sample close to the stop


def before_stops(
    signal: Pulse,
    clock: VolumeClock,
    pause: Pause,
    ends_ns: NDArray[np.int64],
    period_ns: int,
) -> NDArray[np.int64]:
    """Ends at a pause of the turn, where that once took long: at its begin; int64[k].

    A job that stops there, for a checkpoint, has ended an iteration before; the time that is
    usually left from there to the turn's end leads to behind the stop. Of one that stops earlier
    in the turn, less than the share of the bytes had gone by.

    Parameters
    ----------
    signal : Pulse
    clock : VolumeClock
        Of the same connections.
    pause : Pause
        Its place in the turn, and its usual length: ends may be read so long before the stop is
        over, as what follows a pause usually does so long behind an end.
    ends_ns : int64[k]
        Ascending.
    period_ns : int
    """
    time = signal.time_ns
    silent = np.flatnonzero(np.diff(time) > STOPPED * period_ns)
    begin, end = time[silent], time[silent + 1]
    reach_ns = int(MISPLACED * period_ns + min(LONGER * pause.seconds * 1e9, AT_MOST * period_ns))
    at = np.searchsorted(end, ends_ns + reach_ns, "right") - 1
    if not len(begin):
        return ends_ns
    near = (at >= 0) & (ends_ns - end[at] <= BEHIND * period_ns)
    # Where telemetry was missing, ends lie in the silence; and no two lie close together.
    last = np.append(begin[0] - period_ns, ends_ns[:-1])
    near &= begin[at] - last > APART * period_ns
    for one in np.flatnonzero(near).tolist():
        near[one] = _gone_by(clock, int(begin[at[one]])) >= pause.share - GONE_BY
    return np.where(near, begin[at], ends_ns)


def _gone_by(clock: VolumeClock, moment_ns: int) -> float:
    """Share of its turn's volume that had gone by at a moment, as the last samples before tell."""
    before = np.flatnonzero(clock.time_s <= (moment_ns - clock.origin_ns) / 1e9)
    if not len(before):
        return 0.0
    inside = before[clock.turn[before] == clock.turn[before].max()]
    gone = np.zeros(clock.connections)
    np.maximum.at(gone, clock.owner[inside], clock.share[inside])
    return float(np.quantile(gone[np.unique(clock.owner[inside])], FARTHEST))
