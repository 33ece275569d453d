"""The sample store: telemetry on disk as Parquet files by slices of event time.

    DIR/flows/      sampled packets, as `schema.FlowBatch`
    DIR/counters/   interface counters, as `schema.CounterBatch`
    DIR/reports/    what each exporter sent and lost, one row per batch and exporter
    DIR/errors/     what could not be read
    DIR/.writing-*  one folder per writer, with files that are not whole yet

A file appears under its name only when it is whole and on the disk, and is never changed after. So
a reader needs no lock, and a store needs no repair, whatever happened to its writer. Rows name
their exporter by (agent, sub-agent, protocol), so that numbers need not last over restarts.
"""

from __future__ import annotations

from collector.store.reader import read
from collector.store.settings import StoreSettings
from collector.store.since import since
from collector.store.writer import Store, StoreStatus

__all__ = ["Store", "StoreSettings", "StoreStatus", "read", "since"]
