"""How long iterations took over time: one mark each, or as many marks as a chart has room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median
from typing import Final

from api.reports.picture import Step
from patterns.result import JobResult

_GAP: Final = 0.5  # of the usual duration without an iteration, from which it is a gap
# Silence at the end is news of a job that rests; of one that trains it is only not yet analysed.
_RESTING: Final = ("idle", "hung")


@dataclass(frozen=True, slots=True)
class Mark:
    """One complete iteration, or several that share a place.

    Attributes
    ----------
    start_ns, end_ns
        From the start of the first to the end of the last.
    low_s, middle_s, high_s
        The shortest duration, the median and the longest.
    slow_s
        The longest of those that a finding calls slow; None if none is.
    first_index, last_index
        Of the first and the last.
    """

    start_ns: int
    end_ns: int
    low_s: float
    middle_s: float
    high_s: float
    slow_s: float | None
    first_index: int
    last_index: int


@dataclass(frozen=True, slots=True)
class Series:
    """What a chart of iterations shows.

    Attributes
    ----------
    start_ns, end_ns
        Of the time axis.
    usual_s
        Median duration.
    marks
        In order of time, at least one.
    folded
        Whether marks stand for several iterations each.
    gaps
        Stretches of time without a complete iteration, in order.
    """

    start_ns: int
    end_ns: int
    usual_s: float
    marks: tuple[Mark, ...]
    folded: bool
    gaps: tuple[tuple[int, int], ...]

    @property
    def least_gap_ns(self) -> int:
        """From how long on time without a complete iteration is a gap."""
        return round(_GAP * self.usual_s * 1e9)


def series_of(
    job: JobResult, steps: Sequence[Step], window_end_ns: int, most: int
) -> Series | None:
    """The complete iterations of a job as at most `most` marks; None where there are none.

    Parameters
    ----------
    job, steps
        Whose `steps_of` these are.
    window_end_ns
        How far the job was watched.
    """
    complete = [step for step in steps if step.relative is not None]
    if not complete:
        return None
    usual_s = median(step.iteration.duration_s for step in complete)
    start_ns = complete[0].iteration.start_ns
    end_ns = complete[-1].iteration.end_ns
    if job.status in _RESTING:
        end_ns = max(end_ns, window_end_ns)
    if job.ended_at_ns is not None:
        end_ns = max(end_ns, job.ended_at_ns)
    column_ns = -(-(end_ns - start_ns) // most) or 1
    folded = len(complete) > most
    if folded:
        columns = groupby(complete, lambda step: (step.iteration.start_ns - start_ns) // column_ns)
        marks = tuple(_mark(list(column)) for _, column in columns)
    else:
        marks = tuple(_mark([step]) for step in complete)
    series = Series(start_ns, end_ns, usual_s, marks, folded, ())
    holes = _holes(complete, end_ns, series.least_gap_ns)
    return replace(series, gaps=tuple(_merged(holes, column_ns)))


def _mark(steps: Sequence[Step]) -> Mark:
    durations = [step.iteration.duration_s for step in steps]
    first, last = steps[0].iteration, steps[-1].iteration
    return Mark(
        start_ns=first.start_ns,
        end_ns=last.end_ns,
        low_s=min(durations),
        middle_s=median(durations),
        high_s=max(durations),
        slow_s=max((step.iteration.duration_s for step in steps if step.slow), default=None),
        first_index=first.index,
        last_index=last.index,
    )


def _holes(complete: Sequence[Step], end_ns: int, least_ns: int) -> Iterator[tuple[int, int]]:
    for before, after in pairwise(complete):
        hole = before.iteration.end_ns, after.iteration.start_ns
        if hole[1] - hole[0] > least_ns:
            yield hole
    if end_ns - complete[-1].iteration.end_ns > least_ns:
        yield complete[-1].iteration.end_ns, end_ns


def _merged(holes: Iterator[tuple[int, int]], within_ns: int) -> Iterator[tuple[int, int]]:
    """Those nearer to each other than a chart can tell apart, as one."""
    last: tuple[int, int] | None = None
    for hole in holes:
        if last is not None and hole[0] - last[1] < within_ns:
            last = last[0], hole[1]
            continue
        if last is not None:
            yield last
        last = hole
    if last is not None:
        yield last
