"""Metrics for Prometheus, worked out when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Final, get_args

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse, Response

from api.errors import ResultsError
from api.http.schemas import Status
from api.http.sources import From, Sources
from api.results.records import Summary
from api.service.account import Account
from collector.schema import ExporterHealth

# Of jobs that have series of their own.
_LIVE: Final = tuple(status for status in get_args(Status) if status != "ended")
_STATES: Final = (*("ok", "templates_missing", "counters_only", "rate_unknown", "silent", "moved"),)
# By exporter: no counters, as what comes late was not lost after all, and exporters may go.
_LOSSES: Final = {
    "lost_datagrams": "Datagrams an exporter sent that did not arrive, by their sequence numbers.",
    "lost_records": "Flow records that did not arrive, where an exporter numbers them.",
    "waiting_sets": "Sets of records whose template has not come.",
    "dropped_sets": "Sets of records given up, as their template did not come in time.",
    "unread_records": "Records that tell of no flow, no packet and no port.",
    "lost_samples": "Flow samples that did not arrive, by their sequence numbers.",
    "dropped_samples": "Flow samples an exporter chose and could not send, as it counts them.",
    "expected_samples": "Flow samples due by the packets that an exporter chose from.",
    "pooled_samples": "Flow samples that came of the expected ones.",
    "due_samples": "Flow samples due by the packets that passed, between two counters of a port.",
    "counted_samples": "Flow samples that came of those due.",
    "discard_samples": "Packets that a switch dropped, by its own notices.",
    "restarts": "How often an exporter started again.",
}

# Of IPFIX and NetFlow the observation domain stands for the sub-agent.
_EXPORTER: Final = ("exporter", "sub_agent", "protocol")

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(sources: From) -> Response:
    """Metrics in Prometheus' text format."""
    # A registry of our own: the global one belongs to nobody.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceCollector(sources))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


class ServiceCollector(Collector):
    """Yields metric families from the results and the account of this moment.

    Nothing is kept from one scrape to the next, so a job that ended leaves no series behind.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """All families. Those of jobs are missing while the results cannot be read."""
        yield InfoMetricFamily(
            "ringscope_build", "The version that runs.", {"version": version("ringscope")}
        )
        account = self._sources.view.account()
        yield from _reception(account)
        yield from _exporters(account.exporters)
        yield from _analysis(account)
        try:
            statuses = self._sources.results.statuses()
            live = self._sources.results.summaries(*_LIVE)
        except ResultsError as error:
            self._sources.log.say("warning", "metrics without jobs", reason=str(error))
            return
        yield _statuses(statuses)
        yield from _jobs(live)


def _reception(account: Account) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "ringscope_datagrams", "Datagrams taken from the kernel.", account.datagrams
    )
    dropped = CounterMetricFamily(
        "ringscope_dropped_datagrams",
        "Datagrams that arrived and were not decoded, by where they were dropped.",
        labels=["where"],
    )
    dropped.add_metric(["kernel"], account.kernel_drops)
    dropped.add_metric(["backlog"], account.backlog_drops)
    dropped.add_metric(["refused"], account.refused_datagrams)
    yield dropped
    yield CounterMetricFamily(
        "ringscope_receiver_deaths",
        "Receiving processes that ended unasked, and were started again.",
        account.receiver_deaths,
    )
    samples = CounterMetricFamily("ringscope_samples", "Samples decoded.", labels=["type"])
    samples.add_metric(["flow"], account.flow_samples)
    samples.add_metric(["counter"], account.counter_samples)
    yield samples
    yield CounterMetricFamily("ringscope_records", "Flow records decoded.", account.flow_records)
    yield CounterMetricFamily(
        "ringscope_decode_errors", "Samples or datagrams not understood.", account.decode_errors
    )
    yield CounterMetricFamily(
        "ringscope_store_rows", "Rows written to the store of samples.", account.rows_stored
    )
    yield CounterMetricFamily(
        "ringscope_store_lost_rows", "Rows the store could not write.", account.rows_lost
    )


def _exporters(exporters: Iterable[ExporterHealth]) -> Iterator[Metric]:
    known = tuple(exporters)
    states = Counter(exporter.state for exporter in known)
    by_state = GaugeMetricFamily("ringscope_exporters", "Exporters by state.", labels=["state"])
    for state in _STATES:
        by_state.add_metric([state], states[state])
    yield by_state
    for name, said in _LOSSES.items():
        lost = GaugeMetricFamily(f"ringscope_{name}", said, labels=_EXPORTER)
        for exporter in known:
            lost.add_metric(_labels(exporter), getattr(exporter, name))
        yield lost
    yield from _clocks(known)


def _clocks(exporters: tuple[ExporterHealth, ...]) -> Iterator[Metric]:
    offset = GaugeMetricFamily(
        "ringscope_clock_offset_seconds",
        "What an exporter's clock says beyond what it is, by what that is known from.",
        labels=[*_EXPORTER, "basis"],
    )
    corrected = GaugeMetricFamily(
        "ringscope_clock_corrected_seconds",
        "What is taken off an exporter's timestamps.",
        labels=_EXPORTER,
    )
    jitter = GaugeMetricFamily(
        "ringscope_arrival_jitter_seconds",
        "How unevenly an exporter's datagrams arrive (RFC 3550).",
        labels=_EXPORTER,
    )
    for exporter in exporters:
        clock = exporter.clock
        if clock.offset_s is not None:
            offset.add_metric([*_labels(exporter), clock.basis], clock.offset_s)
            corrected.add_metric(_labels(exporter), clock.corrected_s)
        if clock.jitter_s is not None:
            jitter.add_metric(_labels(exporter), clock.jitter_s)
    yield from (offset, corrected, jitter)


def _labels(exporter: ExporterHealth) -> list[str]:
    return [exporter.agent, str(exporter.sub_agent), exporter.protocol]


def _analysis(account: Account) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "ringscope_late_samples",
        "Samples stored but not analysed, as the analysis had passed their time.",
        account.late_samples,
    )
    yield CounterMetricFamily(
        "ringscope_analysis_seconds", "Time the analysis has taken.", account.analysis_s
    )
    yield GaugeMetricFamily(
        "ringscope_analysis_lag_seconds",
        "How far the end of the window is behind the newest arrival.",
        account.analysis_lag_s,
    )
    yield GaugeMetricFamily(
        "ringscope_window_rows", "Rows of the window in memory.", account.window_rows
    )


def _statuses(statuses: Mapping[str, int]) -> Metric:
    jobs = GaugeMetricFamily("ringscope_jobs", "Jobs by status.", labels=["status"])
    for status in get_args(Status):
        jobs.add_metric([status], statuses.get(status, 0))
    return jobs


def _jobs(live: Iterable[Summary]) -> Iterator[Metric]:
    job = ["train_job"]
    info = InfoMetricFamily("ringscope_job", "A job that has not ended.", labels=job)
    period = GaugeMetricFamily(
        "ringscope_job_period_seconds", "Median duration of an iteration.", labels=job
    )
    last = GaugeMetricFamily(
        "ringscope_job_last_iteration_seconds",
        "Duration of the last iteration that is complete and final.",
        labels=job,
    )
    iterations = CounterMetricFamily(
        "ringscope_job_iterations", "Iterations that are complete and final.", labels=job
    )
    hosts = GaugeMetricFamily("ringscope_job_hosts", "Hosts of the job.", labels=job)
    anomalies = GaugeMetricFamily(
        "ringscope_job_anomalies_open", "Anomalies that have not ended.", labels=job
    )
    for summary in live:
        document, tally = summary.document, summary.tally
        name = [summary.id]
        about = {key: document[key] or "" for key in ("name", "source", "status")}
        info.add_metric(name, about)
        if document["period_s"] is not None:
            period.add_metric(name, document["period_s"])
        if tally.last is not None:
            last.add_metric(name, tally.last.duration_s)
        iterations.add_metric(name, tally.iterations)
        hosts.add_metric(name, len(document["hosts"]))
        anomalies.add_metric(name, tally.anomalies_open)
    yield from (info, period, last, iterations, hosts, anomalies)
