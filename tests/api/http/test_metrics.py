from __future__ import annotations

from importlib.metadata import version

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.errors import ResultsError
from api.results.database import Results
from tests.api.http import made
from tests.api.http.made import Service
from tests.api.made import job

OF_SERVICE = f"""\
# HELP ringscope_build_info The version that runs.
# TYPE ringscope_build_info gauge
ringscope_build_info{{version="{version("ringscope")}"}} 1.0
# HELP ringscope_datagrams_total Datagrams taken from the kernel.
# TYPE ringscope_datagrams_total counter
ringscope_datagrams_total 1001.0
# HELP ringscope_dropped_datagrams_total Datagrams that arrived and were not decoded, by where \
they were dropped.
# TYPE ringscope_dropped_datagrams_total counter
ringscope_dropped_datagrams_total{{where="kernel"}} 3.0
ringscope_dropped_datagrams_total{{where="backlog"}} 4.0
ringscope_dropped_datagrams_total{{where="refused"}} 5.0
# HELP ringscope_receiver_deaths_total Receiving processes that ended unasked, and were started \
again.
# TYPE ringscope_receiver_deaths_total counter
ringscope_receiver_deaths_total 1.0
# HELP ringscope_samples_total Samples decoded.
# TYPE ringscope_samples_total counter
ringscope_samples_total{{type="flow"}} 4006.0
ringscope_samples_total{{type="counter"}} 207.0
# HELP ringscope_records_total Flow records decoded.
# TYPE ringscope_records_total counter
ringscope_records_total 0.0
# HELP ringscope_decode_errors_total Samples or datagrams not understood.
# TYPE ringscope_decode_errors_total counter
ringscope_decode_errors_total 8.0
# HELP ringscope_store_rows_total Rows written to the store of samples.
# TYPE ringscope_store_rows_total counter
ringscope_store_rows_total 4100.0
# HELP ringscope_store_lost_rows_total Rows the store could not write.
# TYPE ringscope_store_lost_rows_total counter
ringscope_store_lost_rows_total 23.0
# HELP ringscope_exporters Exporters by state.
# TYPE ringscope_exporters gauge
ringscope_exporters{{state="ok"}} 1.0
ringscope_exporters{{state="templates_missing"}} 0.0
ringscope_exporters{{state="counters_only"}} 1.0
ringscope_exporters{{state="rate_unknown"}} 0.0
ringscope_exporters{{state="silent"}} 0.0
ringscope_exporters{{state="moved"}} 0.0
# HELP ringscope_lost_datagrams Datagrams an exporter sent that did not arrive, by their sequence \
numbers.
# TYPE ringscope_lost_datagrams gauge
ringscope_lost_datagrams{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 2.0
ringscope_lost_datagrams{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_lost_records Flow records that did not arrive, where an exporter numbers them.
# TYPE ringscope_lost_records gauge
ringscope_lost_records{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 0.0
ringscope_lost_records{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_waiting_sets Sets of records whose template has not come.
# TYPE ringscope_waiting_sets gauge
ringscope_waiting_sets{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 0.0
ringscope_waiting_sets{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_dropped_sets Sets of records given up, as their template did not come in time.
# TYPE ringscope_dropped_sets gauge
ringscope_dropped_sets{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 0.0
ringscope_dropped_sets{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_unread_records Records that tell of no flow, no packet and no port.
# TYPE ringscope_unread_records gauge
ringscope_unread_records{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 0.0
ringscope_unread_records{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_lost_samples Flow samples that did not arrive, by their sequence numbers.
# TYPE ringscope_lost_samples gauge
ringscope_lost_samples{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 12.0
ringscope_lost_samples{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_dropped_samples Flow samples an exporter chose and could not send, as it counts \
them.
# TYPE ringscope_dropped_samples gauge
ringscope_dropped_samples{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 30.0
ringscope_dropped_samples{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_expected_samples Flow samples due by the packets that an exporter chose from.
# TYPE ringscope_expected_samples gauge
ringscope_expected_samples{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 5000.0
ringscope_expected_samples{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_pooled_samples Flow samples that came of the expected ones.
# TYPE ringscope_pooled_samples gauge
ringscope_pooled_samples{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 3990.0
ringscope_pooled_samples{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_due_samples Flow samples due by the packets that passed, between two counters of \
a port.
# TYPE ringscope_due_samples gauge
ringscope_due_samples{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 8000.0
ringscope_due_samples{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_counted_samples Flow samples that came of those due.
# TYPE ringscope_counted_samples gauge
ringscope_counted_samples{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 4000.0
ringscope_counted_samples{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_discard_samples Packets that a switch dropped, by its own notices.
# TYPE ringscope_discard_samples gauge
ringscope_discard_samples{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 6.0
ringscope_discard_samples{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_restarts How often an exporter started again.
# TYPE ringscope_restarts gauge
ringscope_restarts{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 1.0
ringscope_restarts{{exporter="2001:db8::9",protocol="sflow5",sub_agent="0"}} 0.0
# HELP ringscope_clock_offset_seconds What an exporter's clock says beyond what it is, by what \
that is known from.
# TYPE ringscope_clock_offset_seconds gauge
ringscope_clock_offset_seconds{{basis="hops",exporter="10.255.0.1",protocol="sflow5",\
sub_agent="7"}} -3.204
# HELP ringscope_clock_corrected_seconds What is taken off an exporter's timestamps.
# TYPE ringscope_clock_corrected_seconds gauge
ringscope_clock_corrected_seconds{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} -3.2045
# HELP ringscope_arrival_jitter_seconds How unevenly an exporter's datagrams arrive (RFC 3550).
# TYPE ringscope_arrival_jitter_seconds gauge
ringscope_arrival_jitter_seconds{{exporter="10.255.0.1",protocol="sflow5",sub_agent="7"}} 0.00031
# HELP ringscope_late_samples_total Samples stored but not analysed, as the analysis had passed \
their time.
# TYPE ringscope_late_samples_total counter
ringscope_late_samples_total 11.0
# HELP ringscope_analysis_seconds_total Time the analysis has taken.
# TYPE ringscope_analysis_seconds_total counter
ringscope_analysis_seconds_total 6.5
# HELP ringscope_analysis_lag_seconds How far the end of the window is behind the newest arrival.
# TYPE ringscope_analysis_lag_seconds gauge
ringscope_analysis_lag_seconds 3.25
# HELP ringscope_window_rows Rows of the window in memory.
# TYPE ringscope_window_rows gauge
ringscope_window_rows 512.0
"""
OF_JOBS = """\
# HELP ringscope_jobs Jobs by status.
# TYPE ringscope_jobs gauge
ringscope_jobs{status="training"} 1.0
ringscope_jobs{status="idle"} 0.0
ringscope_jobs{status="hung"} 0.0
ringscope_jobs{status="ended"} 1.0
# HELP ringscope_job_info A job that has not ended.
# TYPE ringscope_job_info gauge
ringscope_job_info{name="",source="inferred",status="training",train_job="job-1"} 1.0
# HELP ringscope_job_period_seconds Median duration of an iteration.
# TYPE ringscope_job_period_seconds gauge
ringscope_job_period_seconds{train_job="job-1"} 1.0
# HELP ringscope_job_last_iteration_seconds Duration of the last iteration that is complete and \
final.
# TYPE ringscope_job_last_iteration_seconds gauge
ringscope_job_last_iteration_seconds{train_job="job-1"} 1.0
# HELP ringscope_job_iterations_total Iterations that are complete and final.
# TYPE ringscope_job_iterations_total counter
ringscope_job_iterations_total{train_job="job-1"} 4.0
# HELP ringscope_job_hosts Hosts of the job.
# TYPE ringscope_job_hosts gauge
ringscope_job_hosts{train_job="job-1"} 4.0
# HELP ringscope_job_anomalies_open Anomalies that have not ended.
# TYPE ringscope_job_anomalies_open gauge
ringscope_job_anomalies_open{train_job="job-1"} 1.0
"""


def test_metrics(service: Service) -> None:
    answer = service.ask("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text == OF_SERVICE + OF_JOBS


def test_series_of_a_job_go_with_it(own: Service) -> None:
    over = job(status="ended", iterations=(), anomalies=())
    own.results.save(None, [made.update(over, made.START_NS, made.END_NS)])
    text = own.ask("/metrics").text
    assert 'ringscope_jobs{status="ended"} 2.0' in text
    assert "train_job=" not in text


def test_names_of_jobs_cannot_break_the_format(own: Service) -> None:
    name = 'a"} 1\nringscope_jobs{status="x\\'
    named = job(id="job-3", name=name, status="hung", period_s=None, period_ci_s=None)
    own.results.save(None, [made.update(named, made.START_NS, made.END_NS)])
    families = {f.name: f for f in text_string_to_metric_families(own.ask("/metrics").text)}
    infos = {
        sample.labels["train_job"]: sample.labels
        for sample in families["ringscope_job_info"].samples
    }
    assert infos["job-3"]["name"] == name
    assert infos["job-3"]["status"] == "hung"
    # What is not known has no series.
    periods = families["ringscope_job_period_seconds"].samples
    assert [sample.labels["train_job"] for sample in periods] == ["job-1"]


@pytest.mark.parametrize("name", ["statuses", "summaries"])
def test_counters_are_there_without_results(
    service: Service, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fail(*_: object) -> None:
        raise ResultsError("sqlite:////results", "disk I/O error")

    monkeypatch.setattr(Results, name, fail)
    assert service.ask("/metrics").text == OF_SERVICE
