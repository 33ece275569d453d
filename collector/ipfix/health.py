"""How exporters of records fare."""

from __future__ import annotations

from typing import Final

from collector.ipfix.tally import RecordExporter
from collector.schema import ClockHealth, ExporterHealth, TimeBasis

# Active timeouts are 60 s or less where anything is to be learnt; twice that is silence.
SILENT_NS: Final = 120_000_000_000
_NO_CLOCK: Final = ClockHealth(reason="messages tell whole seconds of their clock")


def health_of(exporter: RecordExporter, now_ns: int) -> ExporterHealth:
    """What is told of an exporter; its observation domain stands for the sub-agent.

    Parameters
    ----------
    exporter
    now_ns
        When the newest message of any exporter came.
    """
    rows = exporter.flow_records + exporter.flow_samples
    state = "ok"
    if exporter.heard_ns < now_ns - SILENT_NS:
        state = "silent"
    elif exporter.waiting_sets:
        state = "templates_missing"
    elif not rows:
        state = "counters_only"
    elif not exporter.rated:
        state = "rate_unknown"
    numbered_by_message = exporter.protocol == "netflow9"
    return ExporterHealth(
        agent=exporter.agent,
        sub_agent=exporter.domain,
        protocol=exporter.protocol,
        datagrams=exporter.messages,
        flow_samples=exporter.flow_samples,
        counter_samples=exporter.counter_samples,
        lost_datagrams=exporter.lost if numbered_by_message else 0,
        decode_errors=exporter.errors,
        sampling_rates=exporter.sampling_rates,
        time_basis=TimeBasis.EXPORTER if 2 * exporter.stamped > rows else TimeBasis.ARRIVAL,
        state=state,
        duplicate_datagrams=exporter.copies,
        restarts=exporter.restarts,
        clock=_NO_CLOCK,
        flow_records=exporter.flow_records,
        lost_records=0 if numbered_by_message else exporter.lost,
        unread_records=exporter.unread_records,
        waiting_sets=exporter.waiting_sets,
        dropped_sets=exporter.dropped_sets,
    )
