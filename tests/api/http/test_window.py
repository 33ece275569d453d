from __future__ import annotations

from dataclasses import replace

from api.contract import validate
from api.http.schemas import Exporters
from tests.api.http import made
from tests.api.http.made import Service

WINDOW = {"start": "2026-11-30T12:19:00.449747801Z", "end": "2026-11-30T12:19:08.449747801Z"}
TELEMETRY = {
    "datagrams": 3,
    "flow_samples": 4,
    "flow_records": 0,
    "counter_samples": 2,
    "lost_datagrams": 1,
    "decode_errors": 0,
    "errors": [],
    "exporters": [
        {
            "agent": "10.255.0.1",
            "sub_agent": 100000,
            "protocol": "sflow5",
            "datagrams": 3,
            "flow_samples": 4,
            "counter_samples": 2,
            "sampling_rates": [1000],
            "time_basis": "exporter",
            "clock_offset_s": None,
            "clock": {
                "basis": "none",
                "error_s": None,
                "samples": 0,
                "reason": "its samples carry no time",
                "corrected_s": 0.0,
                "skew_ppm": None,
                "jitter_s": None,
            },
            "lost_datagrams": 1,
            "duplicate_datagrams": 0,
            "lost_samples": 0,
            "dropped_samples": 0,
            "expected_samples": 0,
            "pooled_samples": 0,
            "due_samples": 0,
            "counted_samples": 0,
            "discard_samples": 0,
            "unknown_samples": 0,
            "flow_records": 0,
            "lost_records": 0,
            "unread_records": 0,
            "waiting_sets": 0,
            "dropped_sets": 0,
            "decode_errors": 0,
            "restarts": 0,
            "state": "ok",
            "notes": [],
        }
    ],
    "discards": [],
    "unknown_tags": [],
    "roce": {"opcodes": {"0x06": 2, "0x0a": 1}, "queue_pairs": 3},
}
SERVICE = {
    "started_at": "2026-11-29T12:19:00.449747801Z",
    "datagrams": 1001,
    "payload_bytes": 1_200_345,
    "kernel_drops": 3,
    "backlog_drops": 4,
    "refused_datagrams": 5,
    "flow_samples": 4006,
    "flow_records": 0,
    "counter_samples": 207,
    "decode_errors": 8,
    "rows_stored": 4100,
    "rows_held": 90,
    "rows_lost": 23,
    "late_samples": 11,
    "window": WINDOW,
    "window_rows": 512,
    "analysis_lag_s": 3.25,
    "ticks": 77,
    "analysis_s": 6.5,
    "exporters": [
        {
            "agent": "10.255.0.1",
            "sub_agent": 7,
            "protocol": "sflow5",
            "datagrams": 900,
            "flow_samples": 4000,
            "counter_samples": 200,
            "sampling_rates": [1000, 2000],
            "time_basis": "interpolated",
            "clock_offset_s": -3.204,
            "clock": {
                "basis": "hops",
                "error_s": 0.000_02,
                "samples": 5387,
                "reason": "",
                "corrected_s": -3.2045,
                "skew_ppm": 1.25,
                "jitter_s": 0.000_31,
            },
            "lost_datagrams": 2,
            "duplicate_datagrams": 1,
            "lost_samples": 12,
            "dropped_samples": 30,
            "expected_samples": 5000,
            "pooled_samples": 3990,
            "due_samples": 8000,
            "counted_samples": 4000,
            "discard_samples": 6,
            "unknown_samples": 0,
            "flow_records": 0,
            "lost_records": 0,
            "unread_records": 0,
            "waiting_sets": 0,
            "dropped_sets": 0,
            "decode_errors": 8,
            "restarts": 1,
            "state": "ok",
            "notes": [
                {
                    "time": WINDOW["start"],
                    "kind": "restarted",
                    "text": "its agent started again: its uptime fell",
                    "count": 1,
                },
                {
                    "time": WINDOW["end"],
                    "kind": "rate_changed",
                    "text": "sampling rate of a port changed: 1:1,000 -> 1:2,000",
                    "count": 64,
                },
            ],
        },
        {
            "agent": "2001:db8::9",
            "sub_agent": 0,
            "protocol": "sflow5",
            "datagrams": 101,
            "flow_samples": 0,
            "counter_samples": 7,
            "sampling_rates": [],
            "time_basis": "arrival",
            "clock_offset_s": None,
            "clock": {
                "basis": "none",
                "error_s": None,
                "samples": 0,
                "reason": "its samples carry no time",
                "corrected_s": 0.0,
                "skew_ppm": None,
                "jitter_s": None,
            },
            "lost_datagrams": 0,
            "duplicate_datagrams": 0,
            "lost_samples": 0,
            "dropped_samples": 0,
            "expected_samples": 0,
            "pooled_samples": 0,
            "due_samples": 0,
            "counted_samples": 0,
            "discard_samples": 0,
            "unknown_samples": 0,
            "flow_records": 0,
            "lost_records": 0,
            "unread_records": 0,
            "waiting_sets": 0,
            "dropped_sets": 0,
            "decode_errors": 0,
            "restarts": 0,
            "state": "counters_only",
            "notes": [],
        },
    ],
}


def test_exporters(service: Service) -> None:
    answer = service.json("/api/v1/exporters")
    assert answer == {"window": WINDOW, "telemetry": TELEMETRY, "service": SERVICE}
    Exporters.model_validate(answer)


def test_result_is_the_contract_s(service: Service) -> None:
    result = service.json("/api/v1/result")
    validate(result, strict=True)
    assert {name: value for name, value in result.items() if name != "jobs"} == {
        "schema_version": 1,
        "window": WINDOW,
        "telemetry": TELEMETRY,
        "unassigned": {
            "bytes": 1_500_000,
            "endpoints": ["10.9.0.1"],
            "by_class": {"storage": 1_400_000, "unknown": 100_000},
        },
    }
    # The job of the day before is no part of the window.
    assert result["jobs"] == [service.json("/api/v1/jobs/job-1")]


def test_nothing_analysed_yet(empty: Service) -> None:
    empty.view.now = replace(made.ACCOUNT, window_start_ns=0, window_end_ns=0, exporters=())
    assert empty.json("/api/v1/exporters") == {
        "window": None,
        "telemetry": None,
        "service": {**SERVICE, "window": None, "exporters": []},
    }
    assert empty.json("/api/v1/result", 404) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "no window has been analysed yet",
        "instance": "/api/v1/result",
    }
