"""`ringscope anomalies`: what is wrong with the jobs, newest first."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from api.cli.cells import SEVERITY_STYLE, ago, sure
from api.cli.exit import DONE, exit_code_of
from api.cli.page import answers_of, clean, show, show_json, table
from api.client import Client, Document
from api.reports.reading import read_anomaly
from api.reports.units import human_duration


def run(url: str, job: str | None, *, open_only: bool, as_json: bool) -> int:
    """List anomalies.

    Parameters
    ----------
    url
        Of the service.
    job
        Only those of this job.
    open_only
        Only those that have not ended.
    as_json
        The answer of REST.

    Returns
    -------
    int
        The exit code: DONE, or NOTHING_DONE where the service does not answer.
    """

    def work() -> int:
        client = Client(url)
        if job is not None:
            client.job(job)  # one that is not there must not look like one that is well
        # REST leaves out what has ended where `open` is there at all.
        answer = client.ask("/anomalies", ("anomalies",), job=job, open=open_only or None)
        if as_json:
            show_json(answer)
            return DONE
        with answers_of(client):
            rows = anomaly_table(clean(answer["anomalies"]), time.time_ns())
        show([rows if answer["anomalies"] else Text("no anomaly")])
        return DONE

    return exit_code_of(work)


def anomaly_table(anomalies: Sequence[Document], now_ns: int) -> Table:
    """Anomalies as REST gives them, a row each.

    Parameters
    ----------
    now_ns
        The time, ns since the epoch.
    """
    rows = table("began", "lasted", "job", "severity", "kind", "verdict", "sure", "what", "where")
    for document in anomalies:
        anomaly = read_anomaly(document)
        lasted = "open"
        if anomaly.end_ns is not None:
            lasted = human_duration((anomaly.end_ns - anomaly.start_ns) / 1e9)
        rows.add_row(
            Text(ago(anomaly.start_ns, now_ns)),
            Text(lasted),
            Text(document["job"]),
            Text(anomaly.severity, SEVERITY_STYLE[anomaly.severity]),
            Text(anomaly.kind),
            Text(anomaly.verdict),
            sure(anomaly.confidence),
            Text(anomaly.summary),
            Text(", ".join(f"{subject.type} {subject.id}" for subject in anomaly.subjects)),
        )
    return rows
