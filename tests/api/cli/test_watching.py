from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from api.cli.watching import LINE_S, Moment, News, picture, watched

Document = dict[str, Any]
GROUPS = [{"kind": "dp", "algorithm": "ring", "collective": "all_reduce", "count": 4, "size": 3}]


def summary(name: str, iterations: int) -> Document:
    last = {"duration_s": 2.1} if iterations else None
    return {
        "id": name,
        "status": "training",
        "hosts": ["gpu-001", "gpu-002", "gpu-003"],
        "period_s": 2.0,
        "groups": GROUPS,
        "iterations": iterations,
        "last_iteration": last,
    }


def moment(elapsed_s: float, *jobs: Document) -> Moment:
    return Moment(elapsed_s, elapsed_s / 100, jobs, {"flow_samples": 12_345})


def test_a_job_is_news_once() -> None:
    news = News()
    assert news.lines(moment(0)) == ["    0 s  0% sent, 12,345 samples received: no job yet"]
    assert news.lines(moment(1)) == []
    job = summary("job-0", 0)
    assert news.lines(moment(2, job)) == [
        "    2 s  job-0 found: 3 hosts, period 2 s, dp ring 4 × 3"
    ]
    assert news.lines(moment(3, job)) == []
    assert news.lines(moment(LINE_S, summary("job-0", 6))) == [
        "   15 s  15% sent, 12,345 samples received: job-0 6 iterations"
    ]


def test_the_picture_has_a_row_for_each_job() -> None:
    page = StringIO()
    console = Console(file=page, width=100)
    console.print(picture(moment(7)))
    assert "no job yet" in page.getvalue()
    console.print(picture(moment(20, summary("job-0", 6), summary("job-1", 0))))
    rows = [" ".join(line.split()) for line in page.getvalue().splitlines()]
    assert "job-0 training 3 2 s dp ring 4 × 3 6 2.1 s" in rows
    assert "job-1 training 3 2 s dp ring 4 × 3 0" in rows


def test_lines_where_there_is_no_terminal_and_a_picture_where_there_is_one() -> None:
    for terminal in (False, True):
        page = StringIO()
        console = Console(file=page, width=100, force_terminal=terminal)
        with watched(console) as show:
            show(moment(20, summary("job-0", 6)))
        assert ("job-0 found" in page.getvalue()) is not terminal
        assert ("the last one" in page.getvalue()) is terminal
