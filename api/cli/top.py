"""`ringscope top`: jobs, their last iterations and the telemetry, as they are now."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from rich.text import Text

from api.cli.cells import STATUS_STYLE, UNKNOWN, ago, anomaly_count, claimed, period, spark
from api.cli.exit import DONE, exit_code_of
from api.cli.exporters import loss_line
from api.cli.keys import END, keys
from api.cli.page import answers_of, clean, in_colour, on_terminal, show, table
from api.client import Client, Document, NotThere, ServiceError
from api.reports.reading import read_time
from api.reports.text import Line
from api.reports.units import clock_time, human_duration, human_span

if TYPE_CHECKING:
    from rich.console import Console

REFRESH_S: Final = 2.0
_ITERATIONS: Final = 24  # that a job's strip shows
_ROWS_AROUND: Final = 8  # of the screen, that are no job's
_ONCE: Final = 50  # jobs shown where there is no screen


@dataclass(frozen=True, slots=True)
class Look:
    """What the service said at one moment.

    Parameters
    ----------
    now_ns : int
        When that was, ns since the epoch.
    jobs : sequence of dict
        Summaries of those shown: the live ones that were seen first.
    hidden, ended : int
        Live ones that are not shown, and ended ones.
    durations_s : dict
        Job -> its newest iterations in seconds; None: it was cut.
    service : dict
        The counters.
    """

    now_ns: int
    jobs: Sequence[Document]
    hidden: int
    ended: int
    durations_s: dict[str, list[float | None]]
    service: Document


def run(url: str) -> int:
    """Show the service until q or Ctrl-C is typed; without a terminal, once.

    Parameters
    ----------
    url
        Of the service.

    Returns
    -------
    int
        The exit code: DONE, or NOTHING_DONE where the service does not answer at first; later it
        is waited for.
    """

    def work() -> int:
        from rich.console import Console

        client = Client(url)
        console = Console(no_color=not in_colour(), highlight=False)
        if not on_terminal() or console.is_dumb_terminal:
            first = look(client, _ONCE)
            with answers_of(client):
                lines = list(page_lines(first, None, client.url))
            show(lines)
            return DONE
        with suppress(KeyboardInterrupt):  # the other way to end it
            _watch(client, console)
        return DONE

    return exit_code_of(work)


def look(client: Client, most: int) -> Look:
    """Ask for all that is shown of the first `most` live jobs.

    Raises
    ------
    ServiceError
    """
    with answers_of(client):
        jobs = clean(client.ask("/jobs", ("jobs",))["jobs"])
        live = [job for job in jobs if job["status"] != "ended"]
        durations = {job["id"]: _durations_s(client, job["id"]) for job in live[:most]}
        service = clean(client.ask("/exporters", ("service",))["service"])
        return Look(
            now_ns=time.time_ns(),
            jobs=live[:most],
            hidden=len(live[most:]),
            ended=len(jobs) - len(live),
            durations_s=durations,
            service=service,
        )


def page_lines(now: Look, before: Look | None, url: str) -> Iterator[Line]:
    """What one look shows.

    Parameters
    ----------
    before
        The look before: samples are counted since; None: since the start of the service.
    url
        Of the service.
    """
    service = now.service
    up_s = (now.now_ns - read_time(service["started_at"])) / 1e9
    yield Text.assemble(
        ("ringscope", "bold"), f"  {url}  {clock_time(now.now_ns)} UTC  up {human_span(up_s)}"
    )
    exporters = service["exporters"]
    unwell = sum(exporter["state"] not in ("ok", "moved") for exporter in exporters)
    yield Text.assemble(
        f"{_samples_per_s(now, before):,.0f} samples/s, {service['flow_samples']:,} in all,"
        f" from {len(exporters):,} exporter{'s' * (len(exporters) != 1)}",
        (f" ({unwell} not ok)", "yellow") if unwell else "",
        f"; analysis {service['analysis_lag_s']:.1f} s behind",
    )
    yield loss_line(service)
    yield Text()
    if now.jobs:
        rows = table(
            *("job", "status", "hosts", "period", "iterations", "last", "newest"),
            *("seen", "anomalies", "name"),
        )
        for job in now.jobs:
            last = job["last_iteration"]
            rows.add_row(
                claimed(job["id"], job["confidence"]),
                Text(job["status"], STATUS_STYLE[job["status"]]),
                Text(f"{len(job['hosts'])}"),
                claimed(period(job["period_s"], job["period_ci_s"]), job["period_confidence"]),
                Text(f"{job['iterations']:,}"),
                Text(UNKNOWN if last is None else human_duration(last["duration_s"])),
                Text(spark(now.durations_s[job["id"]]), "green"),
                Text(ago(read_time(job["last_seen"]), now.now_ns)),
                anomaly_count(job["anomalies"]),
                Text(job["name"] or UNKNOWN),
            )
        yield rows
    else:
        yield Text("no job: ringscope doctor says why")
    rest = [(now.hidden, "more that run"), (now.ended, "that ended")]
    if said := [f"{count:,} {what}" for count, what in rest if count]:
        yield Text(f"not shown: {', '.join(said)}", "dim")


def _durations_s(client: Client, job_id: str) -> list[float | None]:
    path = f"/jobs/{quote(job_id, safe='')}/iterations"
    try:
        newest = client.ask(path, ("iterations",), limit=_ITERATIONS, newest=True)["iterations"]
    except NotThere:  # forgotten since the list of jobs was made
        return []
    return [float(each["duration_s"]) if each["complete"] else None for each in newest]


def _samples_per_s(now: Look, before: Look | None) -> float:
    """Since the look before, or since the start where there is none or the service is another."""
    since_ns, samples = read_time(now.service["started_at"]), now.service["flow_samples"]
    if before is not None and before.service["started_at"] == now.service["started_at"]:
        since_ns, samples = before.now_ns, samples - before.service["flow_samples"]
    return float(samples / max((now.now_ns - since_ns) / 1e9, 1e-3))


def _watch(client: Client, console: Console) -> None:
    """Show look after look until a key ends it."""
    from rich.console import Group
    from rich.live import Live

    before: Look | None = None
    now = look(client, _most(console))  # a service that is not there is no screen
    failure: ServiceError | None = None
    with keys() as typed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            with answers_of(client):
                lines = list(page_lines(now, before, client.url))
            foot = Text("q ends", "dim")
            if failure is not None:
                foot = Text(f"{failure}; asked again every {REFRESH_S:g} s", "bold red")
            live.update(Group(*lines, Text(), foot), refresh=True)
            key = typed(REFRESH_S)
            if key is not None and (key == END or "q" in key.lower()):
                return
            try:
                before, now = now, look(client, _most(console))
                failure = None
            except ServiceError as error:
                failure = error


def _most(console: Console) -> int:
    return max(console.height - _ROWS_AROUND, 1)
