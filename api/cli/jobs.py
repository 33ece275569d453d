"""`ringscope jobs`: the jobs of the running service, a line each."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from api.cli.cells import STATUS_STYLE, UNKNOWN, ago, anomaly_count, claimed, groups, period, sizes
from api.cli.exit import DONE, exit_code_of
from api.cli.page import answers_of, clean, show, show_json, table
from api.client import Client, Document
from api.reports.reading import read_time
from api.reports.text import Line
from api.reports.units import human_duration


def run(url: str, status: str | None, *, as_json: bool) -> int:
    """List jobs.

    Parameters
    ----------
    url
        Of the service.
    status
        Only those of this status.
    as_json
        The answer of REST.

    Returns
    -------
    int
        The exit code: DONE, or NOTHING_DONE where the service does not answer.
    """

    def work() -> int:
        client = Client(url)
        answer = client.ask("/jobs", ("jobs",), status=status)
        if as_json:
            show_json(answer)
            return DONE
        with answers_of(client):
            lines = [job_table(clean(answer["jobs"]), time.time_ns())]
        show(lines if answer["jobs"] else [_none(status)])
        return DONE

    return exit_code_of(work)


def job_table(jobs: Sequence[Document], now_ns: int) -> Table:
    """Summaries of jobs as REST gives them, a row each.

    Parameters
    ----------
    now_ns
        The time, ns since the epoch.
    """
    rows = table(
        *("job", "status", "hosts", "period", "sizes", "groups", "iterations", "last"),
        *("seen", "anomalies", "name"),
    )
    for job in jobs:
        last = job["last_iteration"]
        rows.add_row(
            claimed(job["id"], job["confidence"]),
            Text(job["status"], STATUS_STYLE[job["status"]]),
            Text(f"{len(job['hosts'])} ({len(job['endpoints'])} endpoints)"),
            claimed(period(job["period_s"], job["period_ci_s"]), job["period_confidence"]),
            claimed(sizes(job["parallelism"]), job["parallelism"]["confidence"]),
            Text(groups(job["groups"])),
            Text(f"{job['iterations']:,}"),
            Text(UNKNOWN if last is None else human_duration(last["duration_s"])),
            Text(ago(read_time(job["last_seen"]), now_ns)),
            anomaly_count(job["anomalies"]),
            Text(job["name"] or UNKNOWN),
        )
    return rows


def _none(status: str | None) -> Line:
    which = "no job" if status is None else f"no job is {status}"
    return Text(f"{which}: ringscope doctor says why" if status is None else which)
