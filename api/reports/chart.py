"""Durations of iterations over time, as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import Final

from api.reports.axes import duration_labels, duration_ticks, time_label, time_ticks
from api.reports.series import Mark, Series
from api.reports.units import calendar_time, clock_time, human_duration
from patterns.result import Anomaly, JobResult

MOST_MARKS: Final = 400  # iterations with a dot each; beyond, they share columns of 2 px
_WIDTH: Final = 960.0
_HEIGHT: Final = 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 30.0, 34.0, 30.0  # px around the plot
_TICKS_ACROSS: Final = 8
_TICKS_UP: Final = 5
_LEAST_SPAN: Final = 0.1  # of the usual duration, between top and bottom: noise stays small
_TALLEST: Final = 2.5  # times the usual duration; what took longer is cut there
_NEAR_ZERO: Final = 0.4  # of the top: an axis that would begin lower begins at 0
_NAMED: Final = 12  # slow iterations with their number beside them
_LANE_PX: Final = 6.0  # other findings, as bars above the plot
_MOST_BARS: Final = 400


def chart_svg(series: Series, job: JobResult) -> str:
    """Draw how long each iteration took.

    A line at the height of the duration runs from an iteration's start to its end; many are folded
    into columns, with a bar from the shortest to the longest. Time without a complete iteration is
    shaded, slow iterations and the job's period are marked, and other findings are bars on top.
    """
    opened = (
        f'<svg class="chart" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" width="{_WIDTH:.0f}"'
        ' role="img" aria-label="duration of iterations over time">'
    )
    return "".join([opened, *_drawn(series, job), "</svg>"])


def _drawn(series: Series, job: JobResult) -> Iterator[str]:
    plot = _Plot(series)
    yield from plot.axes()
    for start_ns, end_ns in series.gaps:
        title = f"no complete iteration from {clock_time(start_ns)} to {clock_time(end_ns)}"
        yield plot.column("gap", start_ns, end_ns, _TOP, _HEIGHT - _BOTTOM, title)
    yield from plot.period(job)
    if series.folded:
        for mark in series.marks:
            low, high = plot.y(mark.low_s), plot.y(mark.high_s)
            yield plot.column("spread", mark.start_ns, mark.end_ns, high, low, _title(mark))
    yield f'<path class="line" d="{plot.line()}"/>'
    if not series.folded:
        for mark in series.marks:
            yield plot.dot("dot", mark, mark.middle_s, 2.2)
    slow = [mark for mark in series.marks if mark.slow_s is not None]
    for mark in slow:
        yield plot.dot("slow", mark, mark.slow_s or 0.0, 4.0 if len(slow) <= _NAMED else 2.6)
        if len(slow) <= _NAMED:
            yield plot.name(mark)
    others = [finding for finding in job.anomalies if finding.kind != "slow_iteration"]
    for finding in others[-_MOST_BARS:]:
        yield plot.bar(finding)


class _Plot:
    """Where times and durations lie in the picture."""

    def __init__(self, series: Series) -> None:
        self._series = series
        usual_s = series.usual_s
        low_s = min(mark.low_s for mark in series.marks)
        high_s = min(max(mark.high_s for mark in series.marks), _TALLEST * usual_s)
        spare_s = max(_LEAST_SPAN * usual_s - (high_s - low_s), 0.16 * (high_s - low_s)) / 2
        self._high_s = high_s + spare_s
        low_s -= spare_s
        self._low_s = low_s if low_s > _NEAR_ZERO * self._high_s else 0.0

    def x(self, time_ns: int) -> float:
        whole = self._series.end_ns - self._series.start_ns
        share = (time_ns - self._series.start_ns) / whole
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(share, 0.0), 1.0)

    def y(self, duration_s: float) -> float:
        share = (duration_s - self._low_s) / (self._high_s - self._low_s)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(max(share, 0.0), 1.0)

    def axes(self) -> Iterator[str]:
        right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        ticks = duration_ticks(self._low_s, self._high_s, _TICKS_UP)
        for tick, label in zip(ticks, duration_labels(ticks), strict=True):
            y = self.y(tick)
            yield _line("rule", (_LEFT, y), (right, y))
            yield _text("tick", _LEFT - 8, y + 4, label, "end")
        start_ns, end_ns = self._series.start_ns, self._series.end_ns
        yield _line("axis", (_LEFT, floor), (right, floor))
        for time_ns in time_ticks(start_ns, end_ns, _TICKS_ACROSS):
            x = self.x(time_ns)
            yield _line("axis", (x, floor), (x, floor + 5))
            yield _text("tick", x, floor + 19, time_label(time_ns, end_ns - start_ns), "middle")

    def period(self, job: JobResult) -> Iterator[str]:
        if job.period_s is None or not self._low_s < job.period_s < self._high_s:
            return
        y, right = self.y(job.period_s), _WIDTH - _RIGHT
        if job.period_ci_s is not None:
            low, high = self.y(job.period_ci_s[0]), self.y(job.period_ci_s[1])
            yield (
                f'<rect class="interval" x="{_LEFT:.0f}" width="{right - _LEFT:.0f}"'
                f' y="{high:.1f}" height="{max(low - high, 0.5):.1f}"/>'
            )
        yield _line("usual", (_LEFT, y), (right, y))

    def line(self) -> str:
        """Steps from iteration to iteration, broken where one does not follow another."""
        marks, gap_ns = self._series.marks, self._series.least_gap_ns
        path = [self._step("M", marks[0])]
        for before, after in pairwise(marks):
            follows = after.start_ns - before.end_ns <= gap_ns
            path.append(self._step("L" if follows else "M", after))
        return "".join(path)

    def _step(self, command: str, mark: Mark) -> str:
        y = self.y(mark.middle_s)
        return f"{command}{self.x(mark.start_ns):.1f} {y:.1f}H{self.x(mark.end_ns):.1f}"

    def dot(self, kind: str, mark: Mark, duration_s: float, radius: float) -> str:
        x = self.x((mark.start_ns + mark.end_ns) // 2)
        return (
            f'<circle class="{kind}" cx="{x:.1f}" cy="{self.y(duration_s):.1f}" r="{radius:.1f}">'
            f"<title>{escape(_title(mark))}</title></circle>"
        )

    def name(self, mark: Mark) -> str:
        """The number of a slow iteration beside its dot; its duration where that is cut."""
        slow_s = mark.slow_s or 0.0
        x, y = self.x((mark.start_ns + mark.end_ns) // 2), self.y(slow_s)
        numbers = str(mark.first_index)
        if mark.last_index > mark.first_index:
            numbers += f"–{mark.last_index}"
        label = f"{numbers}: {human_duration(slow_s)}"
        before = x > _WIDTH / 2
        return _text("mark", x - 8 if before else x + 8, y + 4, label, "end" if before else "start")

    def bar(self, finding: Anomaly) -> str:
        end_ns = self._series.end_ns if finding.end_ns is None else finding.end_ns
        title = f"{finding.kind} from {clock_time(finding.start_ns)}: {finding.summary}"
        top = _TOP - _LANE_PX - 16
        return self.column(
            f"bar {finding.severity}", finding.start_ns, end_ns, top, top + _LANE_PX, title
        )

    def column(
        self, kind: str, start_ns: int, end_ns: int, top: float, bottom: float, title: str
    ) -> str:
        x = self.x(start_ns)
        width, height = max(self.x(end_ns) - x, 1.0), max(bottom - top, 1.0)
        return (
            f'<rect class="{escape(kind)}" x="{x:.1f}" width="{width:.1f}" y="{top:.1f}"'
            f' height="{height:.1f}"><title>{escape(title)}</title></rect>'
        )


def _title(mark: Mark) -> str:
    when = f"from {calendar_time(mark.start_ns)}"
    if mark.first_index == mark.last_index:
        return f"iteration {mark.first_index}: {human_duration(mark.middle_s)} {when}"
    return (
        f"iterations {mark.first_index} to {mark.last_index}: {human_duration(mark.low_s)} to"
        f" {human_duration(mark.high_s)}, median {human_duration(mark.middle_s)} {when}"
    )


def _line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _text(kind: str, x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
