"""`ringscope job`: all that the running service knows of one job, as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from rich.table import Table
from rich.text import Text

from api.cli.cells import UNKNOWN
from api.cli.exit import DONE, exit_code_of
from api.cli.page import answers_of, clean, picture_width, show, show_json, table
from api.client import Client
from api.reports.reading import read_anomaly, read_iteration, read_job
from api.reports.text import Line, job_lines
from api.reports.units import clock_time, human_bytes, human_duration
from patterns.result import Iteration, JobResult

_NEWEST: Final = 10  # iterations in the table; the strip above it shows as many as REST gives


def run(job_id: str, url: str, *, as_json: bool) -> int:
    """Show one job.

    Parameters
    ----------
    job_id
        As the service names it.
    url
        Of the service.
    as_json
        The answer of REST: the contract's job.

    Returns
    -------
    int
        The exit code: DONE, or NOTHING_DONE where there is no such job or no service.
    """

    def work() -> int:
        client = Client(url)
        answer = client.job(job_id)
        if as_json:
            show_json(answer)
            return DONE
        width = picture_width()
        with answers_of(client):
            document = clean(answer)
            job = read_job(
                document,
                [read_iteration(each) for each in document["iterations"]],
                [read_anomaly(each) for each in document["anomalies"]],
            )
            lines = list(page_lines(job, width))
        show(lines, width)
        return DONE

    return exit_code_of(work)


def page_lines(job: JobResult, width: int) -> Iterator[Line]:
    """The picture of a job, and its newest iterations by number."""
    yield from job_lines(job, width)
    if job.iterations:
        yield Text()
        yield _iteration_table(job.iterations)


def _iteration_table(iterations: tuple[Iteration, ...]) -> Table:
    complete = [each.duration_s for each in iterations if each.complete]
    usual_s = median(complete) if complete else None
    rows = table("iteration", "start", "duration", "usual", "volume", "")
    for each in iterations[-_NEWEST:]:
        against = UNKNOWN
        if each.complete and usual_s:
            against = f"{(each.duration_s / usual_s - 1) * 100:+.1f} %"
        notes = [note for note, holds in _notes(each) if holds]
        rows.add_row(
            Text(f"{each.index}"),
            Text(clock_time(each.start_ns)),
            Text(human_duration(each.duration_s)),
            Text(against),
            Text(human_bytes(each.bytes)),
            Text(", ".join(notes), "dim"),
        )
    return rows


def _notes(iteration: Iteration) -> tuple[tuple[str, bool], ...]:
    return ("cut", not iteration.complete), ("may change", not iteration.final)
