"""`ringscope report`: one job of the running service, as a page or a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final
from urllib.parse import quote

from api.cli.app import ReportFormat
from api.cli.exit import DONE, exit_code_of
from api.cli.output import write_whole
from api.client import Client, ServiceError
from api.contract import SCHEMA_VERSION, Document, validate
from api.errors import ContractViolation
from api.reports.job import Missed, job_report
from api.reports.reading import read_anomaly, read_iteration, read_time
from patterns.result import Anomaly, Iteration

_AT_ONCE: Final = 5000  # the most that REST gives


def run(job_id: str, url: str, output: Path, report_format: ReportFormat | None) -> int:
    """Write the report of a job.

    Parameters
    ----------
    job_id
        As the service names it.
    url
        Of the service.
    report_format
        Default: json where `output` ends so, else html.

    Returns
    -------
    int
        The exit code: DONE or NOTHING_DONE; then nothing was written.
    """
    by_suffix = ReportFormat.JSON if output.suffix.lower() == ".json" else ReportFormat.HTML

    def work() -> int:
        page, document = _report(Client(url), job_id)
        if (report_format or by_suffix) is ReportFormat.HTML:
            write_whole(page, output)
        else:
            write_whole(json.dumps(document, indent=1, allow_nan=False) + "\n", output)
        return DONE

    return exit_code_of(work)


def _report(client: Client, job_id: str) -> tuple[str, Document]:
    job = client.job(job_id)
    path = f"/jobs/{quote(job_id, safe='')}"
    iterations = _iterations(client, path)
    found = client.ask(f"{path}/anomalies", ("anomalies",), limit=_AT_ONCE)["anomalies"]
    now = client.ask("/exporters", ("window", "telemetry", "service"))
    if now["window"] is None:
        raise ServiceError(client.url, "no window has been analysed yet")
    try:
        _check(job, now)
        return job_report(
            job,
            iterations,
            _anomalies(found),
            now["telemetry"],
            now["window"],
            first_seen_ns=_first_seen_ns(client, job_id),
            missed=_missed(now["service"]),
        )
    except ContractViolation as error:
        raise ServiceError(client.url, f"its answers are not by the contract: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _stranger(client, error) from error


def _iterations(client: Client, path: str) -> list[Iteration]:
    """All of them, page by page."""
    found: list[Iteration] = []
    after: int | None = None
    while True:
        page = client.ask(
            f"{path}/iterations", ("iterations", "next_after"), after=after, limit=_AT_ONCE
        )
        try:
            found += map(read_iteration, page["iterations"])
            following = page["next_after"]
            if following is None:
                return found
            if not isinstance(following, int) or (after is not None and following <= after):
                raise ValueError("a page leads nowhere")
        except (KeyError, TypeError, ValueError) as error:
            raise _stranger(client, error) from error
        after = following


def _check(job: Document, now: Document) -> None:
    """That all is as the contract says; iterations, which may be very many, are not looked at.

    Raises
    ------
    ContractViolation
    """
    document = {
        "schema_version": SCHEMA_VERSION,
        "window": now["window"],
        "telemetry": now["telemetry"],
        "jobs": [{**job, "iterations": []}],
        "unassigned": {"bytes": 0, "endpoints": [], "by_class": {}},
    }
    validate(document, strict=True)


def _anomalies(found: list[Document]) -> list[Anomaly]:
    return [read_anomaly(anomaly) for anomaly in reversed(found)]


def _first_seen_ns(client: Client, job_id: str) -> int | None:
    """From the list of jobs: the contract's job has no place for it."""
    for summary in client.ask("/jobs", ("jobs",))["jobs"]:
        if summary["id"] == job_id:
            return read_time(summary["first_seen"])
    return None


def _missed(service: Document) -> Missed:
    return Missed(
        since_ns=read_time(service["started_at"]),
        late_samples=service["late_samples"],
        kernel_drops=service["kernel_drops"],
        backlog_drops=service["backlog_drops"],
        refused_datagrams=service["refused_datagrams"],
    )


def _stranger(client: Client, error: Exception) -> ServiceError:
    return ServiceError(client.url, f"its answers cannot be read: {type(error).__name__}: {error}")
