"""A job's gradient traffic on the axis of volume, and the pauses in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns import boundaries, pauses, turns
from patterns.boundaries import VolumeClock
from patterns.calibration import calibrated
from patterns.pauses import Pace, Pause
from reconstruct.bins import Progress

NO_PACE: Final = Pace(np.zeros(1), 0.0, staged=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """Gradient traffic on the axis of volume, counted from one pause of the turn.

    Parameters
    ----------
    clock : VolumeClock
    ends_ns : int64[k]
        Ends of the traffic before that pause.
    pace : Pace
    fine : Pace
        The same in more steps, less certain each.
    pauses : list of Pause
        The other pauses.
    in_steps : bool
        Whether the clock holds only those connections that send last.
    """

    clock: VolumeClock
    ends_ns: NDArray[np.int64]
    pace: Pace
    fine: Pace
    pauses: list[Pause]
    in_steps: bool = False

    def when(self, share: float, crude_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """When each turn had moved a share of its volume; see `boundaries.reached`."""
        if self.in_steps:
            return turns.latest(self.clock, crude_ns)
        return boundaries.reached(self.clock, share, crude_ns)


def read(
    progress: Progress,
    groups: Sequence[NDArray[np.int32]],
    crude_ns: NDArray[np.int64],
    pauses_ns: NDArray[np.int64],
    *,
    in_steps: bool = False,
) -> Reading | None:
    """The reading from given pauses; None where no connection has samples around them.

    Parameters
    ----------
    progress : Progress
    groups : sequence of int32[c]
        Connections of each group.
    crude_ns : int64[k]
        End of the traffic before each pause, roughly.
    pauses_ns : int64[k]
        A moment in each, ascending.
    in_steps : bool
        See `read_turns`.
    """
    clock = boundaries.read_clock(progress, groups, pauses_ns)
    return read_turns(clock, crude_ns, in_steps=in_steps)


def read_turns(
    clock: VolumeClock, crude_ns: NDArray[np.int64], *, in_steps: bool
) -> Reading | None:
    """The reading of a clock; None where no sample of it fell between two pauses.

    Parameters
    ----------
    clock : VolumeClock
    crude_ns : int64[k]
        End of the traffic before each of its pauses, roughly.
    in_steps : bool
        Whether only those connections that send last tell when a turn ends.
    """
    if not clock.connections:
        return None
    clock = turns.of_last(clock, crude_ns) if in_steps else calibrated(clock)
    reading = Reading(clock, crude_ns, NO_PACE, NO_PACE, [], in_steps)
    ends = reading.when(1.0, crude_ns)
    pace = pauses.read_pace(clock, ends, float(np.median(np.diff(ends))) / 1e9)
    if pace is None:
        return None
    firm = pace.firm(len(clock.owner))
    return replace(reading, ends_ns=ends, pace=firm, fine=pace, pauses=pauses.find_pauses(firm))
