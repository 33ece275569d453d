"""The sample store: telemetry on disk as Parquet files by slices of event time.

    DIR/flows/      sampled packets, as `schema.FlowBatch`
    DIR/counters/   interface counters, as `schema.CounterBatch`
    DIR/records/    flow records, as `records.RecordBatch`; of slices by when the flows ended
    DIR/reports/    what each exporter sent and lost, one row per batch and exporter
    DIR/errors/     what could not be read
    DIR/NAME/       tables of any other kind, as their owner defines them (`TableStore`)
    DIR/.writing-*  one folder per writer, with files that are not whole yet

A file appears under its name only when it is whole and on the disk, and is never changed after. So
a reader needs no lock, and a store needs no repair, whatever happened to its writer. Some time
after a slice is past, a writer puts its files of it into one, which stands for them from the
moment it appears. Rows name their exporter by (agent, sub-agent, protocol), so that numbers need
not last over restarts.
"""

from __future__ import annotations

from collector.store.reader import read
from collector.store.settings import StoreSettings
from collector.store.shelf import StoreStatus
from collector.store.since import since
from collector.store.tables import TableStore, read_tables
from collector.store.writer import Store

__all__ = [
    "Store",
    "StoreSettings",
    "StoreStatus",
    "TableStore",
    "read",
    "read_tables",
    "since",
]
