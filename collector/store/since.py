"""`since`: what came between two accounts of one ingest, for appending to a store as it comes."""

from __future__ import annotations

from dataclasses import replace

from collector.schema import ExporterHealth, Telemetry
from collector.store.reports import COUNTS


def since(before: Telemetry | None, now: Telemetry) -> Telemetry:
    """The rows of `now`, and the counts by which it is ahead of `before`.

    Parameters
    ----------
    before, now
        Accounts of one `collector.ingest.Ingest`, whose counts only add up; `before` is None for
        the first.

    Returns
    -------
    Telemetry
        With all exporters of `now`, so that its rows can be named. A count of lost datagrams may
        be negative, where some only came late.
    """
    if before is None:
        return now
    known = {(e.agent, e.sub_agent, e.protocol): e for e in before.exporters}
    exporters = [_ahead(known.get((e.agent, e.sub_agent, e.protocol)), e) for e in now.exporters]
    noted = {(e.exporter, e.file, e.reason): e.count for e in before.errors}
    errors = []
    for error in now.errors:
        more = error.count - noted.get((error.exporter, error.file, error.reason), 0)
        if more:
            errors.append(replace(error, count=more))
    return replace(
        now,
        exporters=tuple(exporters),
        errors=tuple(errors),
        datagrams=now.datagrams - before.datagrams,
        flow_samples=now.flow_samples - before.flow_samples,
        flow_records=now.flow_records - before.flow_records,
        counter_samples=now.counter_samples - before.counter_samples,
        lost_datagrams=now.lost_datagrams - before.lost_datagrams,
        decode_errors=now.decode_errors - before.decode_errors,
    )


def _ahead(before: ExporterHealth | None, now: ExporterHealth) -> ExporterHealth:
    if before is None:
        return now
    counts = {name: getattr(now, name) - getattr(before, name) for name in COUNTS}
    return replace(now, **counts)
