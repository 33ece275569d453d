from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

from api.reports.chart import MOST_MARKS, chart_svg
from api.reports.picture import steps_of
from api.reports.series import series_of
from patterns.result import JobResult, Subject
from tests.api import made

END_NS = made.START_NS + 8 * made.SECOND_NS


def _chart(job: JobResult) -> str:
    series = series_of(job, steps_of(job), END_NS, MOST_MARKS)
    assert series is not None
    drawn = chart_svg(series, job)
    ElementTree.fromstring(drawn)
    return drawn


def _count(drawn: str, kind: str) -> int:
    return len(re.findall(rf'class="{kind}"', drawn))


def test_every_complete_iteration_has_a_dot_and_a_step() -> None:
    drawn = _chart(made.job())
    assert _count(drawn, "dot") == 6
    assert _count(drawn, "slow") == 1
    (line,) = re.findall(r'<path class="line" d="([^"]*)"', drawn)
    assert (line.count("M"), line.count("H")) == (1, 6)
    assert "iteration 5: 1.55 s from 2026-11-30 12:19:04" in drawn
    assert ">5: 1.55 s</text>" in drawn
    assert _count(drawn, "gap") == 0


def test_slow_ones_stand_higher_and_the_period_is_marked() -> None:
    drawn = _chart(made.job())
    heights = [float(y) for y in re.findall(r'class="dot" cx="[^"]*" cy="([^"]*)"', drawn)]
    assert min(range(6), key=heights.__getitem__) == 4
    (usual,) = re.findall(r'class="usual" [^>]* y1="([^"]*)"', drawn)
    assert abs(float(usual) - heights[0]) < 0.2
    assert _count(drawn, "interval") == 1
    assert _count(_chart(made.job(period_s=None, period_ci_s=None)), "usual") == 0


def test_line_breaks_at_a_gap() -> None:
    cut = [replace(i, complete=i.index != 3) for i in made.iterations([1.0] * 7, cut_first=False)]
    drawn = _chart(made.job(iterations=tuple(cut), anomalies=()))
    assert re.findall(r'class="line" d="([^"]*)"', drawn)[0].count("M") == 2
    assert _count(drawn, "gap") == 1
    assert "no complete iteration from 12:19:03.449 to 12:19:04.449" in drawn
    assert _count(drawn, "dot") == 6


def test_many_iterations_make_no_larger_a_picture() -> None:
    drawn = _chart(made.job(iterations=made.iterations([1.0, 1.2] * 50_000), anomalies=()))
    assert _count(drawn, "dot") == 0
    assert MOST_MARKS / 2 < _count(drawn, "spread") <= MOST_MARKS
    assert len(drawn) < 200_000


def test_what_takes_very_long_is_cut_and_says_how_long() -> None:
    steps = made.iterations([1.0] * 9 + [300.0], cut_first=False)
    slow = replace(made.job().anomalies[0], start_ns=steps[9].start_ns, end_ns=steps[9].end_ns)
    drawn = _chart(made.job(iterations=steps, anomalies=(slow,)))
    assert ">9: 300 s</text>" in drawn
    assert "300 s</text>" not in drawn.replace(">9: 300 s</text>", "")


def test_other_findings_are_bars_and_their_texts_are_escaped() -> None:
    job = made.job()
    hang = replace(
        job.anomalies[0],
        kind="hang",
        severity="critical",
        end_ns=None,
        subjects=(Subject("host", "h"),),
        summary='"><script>alert(1)</script>',
    )
    drawn = _chart(made.job(anomalies=(*job.anomalies, hang)))
    assert _count(drawn, "bar critical") == 1
    assert "<script" not in drawn


def test_one_iteration_is_drawn_too() -> None:
    drawn = _chart(made.job(iterations=made.iterations([1.0], cut_first=False), anomalies=()))
    assert _count(drawn, "dot") == 1
