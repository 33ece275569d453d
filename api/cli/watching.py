"""What the running service says while one watches: a picture on a terminal, else lines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from api.contract import Document
from api.reports.units import human_duration

LINE_S: Final = 15.0  # between two lines that tell how far everything is


@dataclass(frozen=True, slots=True)
class Moment:
    """What there is to be seen at one moment.

    Attributes
    ----------
    elapsed_s
        Since the first datagram was sent.
    share
        Part of the capture that has been sent, 0 to 1.
    jobs
        Summaries, as REST gives them.
    service
        The service's counters, as REST gives them.
    """

    elapsed_s: float
    share: float
    jobs: Sequence[Document]
    service: Document


@contextmanager
def watched(console: Console) -> Generator[Callable[[Moment], None]]:
    """Show moments for as long as the block lasts.

    Yields
    ------
    callable
        To be called with each moment.
    """
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            yield lambda moment: live.update(picture(moment))
    else:
        news = News()

        def show(moment: Moment) -> None:
            for line in news.lines(moment):
                console.print(line, soft_wrap=True)

        yield show


def picture(moment: Moment) -> Group:
    """All jobs of a moment."""
    table = Table(box=SIMPLE_HEAD)
    for name in ("job", "hosts", "period", "groups"):
        table.add_column(name)
    for name in ("iterations", "the last one"):
        table.add_column(name, justify="right")
    for job in moment.jobs:
        last = job["last_iteration"]
        table.add_row(
            f"{job['id']} {job['status']}",
            str(len(job["hosts"])),
            human_duration(job["period_s"]),
            _groups(job),
            str(job["iterations"]),
            "" if last is None else human_duration(last["duration_s"]),
        )
    return Group(Text(_progress(moment)), table if moment.jobs else Text("no job yet"))


class News:
    """What is new from moment to moment, as lines."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._next_s = 0.0

    def lines(self, moment: Moment) -> list[str]:
        """What is to be said of a moment: new jobs, and now and then how far everything is."""
        said = []
        for job in moment.jobs:
            if job["id"] not in self._known:
                self._known.add(job["id"])
                said.append(
                    f"{moment.elapsed_s:5.0f} s  {job['id']} found: {len(job['hosts'])} hosts,"
                    f" period {human_duration(job['period_s'])}, {_groups(job)}"
                )
        if moment.elapsed_s >= self._next_s:
            counts = [f"{job['id']} {job['iterations']} iterations" for job in moment.jobs]
            said.append(f"{_progress(moment)}: {', '.join(counts) or 'no job yet'}")
            self._next_s = moment.elapsed_s + LINE_S
        return said


def _progress(moment: Moment) -> str:
    service = moment.service
    return (
        f"{moment.elapsed_s:5.0f} s  {moment.share:.0%} sent,"
        f" {service['flow_samples']:,} samples received"
    )


def _groups(job: Document) -> str:
    """The groups of a summary: as "dp ring 4 × 3, pp chain 6 × 2"."""
    return ", ".join(
        f"{group['kind']} {group['algorithm']} {group['count']} × {group['size']}"
        for group in job["groups"]
    )
