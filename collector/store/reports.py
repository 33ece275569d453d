"""Reports: what the exporters of each batch sent and lost, and what could not be read of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from collector.schema import DecodeError, Telemetry
from collector.store.rows import TIME, Exporter, exporter_name, named_exporter

# What files of older versions lack, and what they mean by it.
LATER_COUNTS: Final = dict.fromkeys(
    (
        *("dropped_samples", "expected_samples", "pooled_samples"),
        *("due_samples", "counted_samples", "restarts"),
        *("flow_records", "lost_records", "unread_records", "dropped_sets"),
    ),
    0,
)
COUNTS: Final = (
    "datagrams",
    "flow_samples",
    "counter_samples",
    "lost_datagrams",
    "decode_errors",
    "duplicate_datagrams",
    "lost_samples",
    "discard_samples",
    "unknown_samples",
    *LATER_COUNTS,
)
_SPAN: Final = {"first_ns": TIME, "time_ns": TIME}  # of the batch's rows, both inclusive
REPORT_SCHEMA: Final = pa.schema(
    {
        **_SPAN,
        "exporter": pa.string(),  # null: datagrams that no exporter can be told of
        "sampling_rates": pa.list_(pa.uint32()),
        **dict.fromkeys(COUNTS, pa.int64()),
    }
)
ERROR_SCHEMA: Final = pa.schema(
    {
        **_SPAN,
        "exporter": pa.string(),
        "file": pa.string(),
        "offset": pa.int64(),
        "reason": pa.string(),
        "count": pa.int64(),
    }
)


@dataclass(slots=True)
class Reports:
    """Sums of reports.

    Attributes
    ----------
    counts, rates
        By exporter; None stands for datagrams of no exporter.
    errors
        How often, and the first offset, by (exporter, file, reason).
    """

    counts: dict[Exporter | None, Counter[str]] = field(default_factory=dict)
    rates: dict[Exporter | None, set[int]] = field(default_factory=dict)
    errors: dict[tuple[str | None, str | None, str], tuple[int, int | None]] = field(
        default_factory=dict
    )

    def add(self, telemetry: Telemetry) -> None:
        """Take in what one batch says."""
        nameless = telemetry.datagrams
        for exporter in telemetry.exporters:
            nameless -= exporter.datagrams
            key = (exporter.agent, exporter.sub_agent, exporter.protocol)
            if key in self.counts and not telemetry.datagrams and not exporter.datagrams:
                continue  # most batches hold rows alone, which another one counts
            self._count(
                key,
                {name: getattr(exporter, name) for name in COUNTS},
                exporter.sampling_rates,
            )
        if nameless:
            self._count(None, {"datagrams": nameless}, ())
        for error in telemetry.errors:
            self.note(error)

    def add_tables(self, reports: pa.Table, errors: pa.Table) -> None:
        """Take in what was stored."""
        for row in reports.drop_columns(list(_SPAN)).to_pylist():
            name = row["exporter"]
            exporter = None if name is None else named_exporter(name)
            self._count(exporter, {name: row[name] for name in COUNTS}, row["sampling_rates"])
        for row in errors.drop_columns(list(_SPAN)).to_pylist():
            self.note(DecodeError(**row))

    def note(self, error: DecodeError) -> None:
        """Count one error; of equal ones the first offset is kept."""
        key = (error.exporter, error.file, error.reason)
        count, offset = self.errors.get(key, (0, error.offset))
        self.errors[key] = (count + error.count, offset)

    def decode_errors(self) -> tuple[DecodeError, ...]:
        """The errors, in order of first appearance."""
        return tuple(
            DecodeError(exporter, file, offset, reason, count)
            for (exporter, file, reason), (count, offset) in self.errors.items()
        )

    def to_tables(self, first_ns: int, last_ns: int) -> tuple[pa.Table, pa.Table]:
        """Reports and errors as tables, of batches with rows from `first_ns` to `last_ns`."""
        span = {"first_ns": first_ns, "time_ns": last_ns}
        reports = [
            {
                **span,
                "exporter": None if exporter is None else exporter_name(exporter),
                "sampling_rates": sorted(self.rates[exporter]),
                **{name: counts[name] for name in COUNTS},
            }
            for exporter, counts in self.counts.items()
        ]
        errors = [
            {
                **span,
                "exporter": error.exporter,
                "file": error.file,
                "offset": error.offset,
                "reason": error.reason,
                "count": error.count,
            }
            for error in self.decode_errors()
        ]
        return (
            pa.Table.from_pylist(reports, schema=REPORT_SCHEMA),
            pa.Table.from_pylist(errors, schema=ERROR_SCHEMA),
        )

    def _count(
        self, exporter: Exporter | None, counts: dict[str, int], rates: Iterable[int]
    ) -> None:
        self.counts.setdefault(exporter, Counter()).update(counts)
        self.rates.setdefault(exporter, set()).update(rates)


def summed_reports(tables: Iterator[pa.Table], first_ns: int, last_ns: int) -> list[pa.Table]:
    """Stored reports as one of each exporter, on rows from `first_ns` to `last_ns`."""
    sums = Reports()
    for table in tables:
        sums.add_tables(table, ERROR_SCHEMA.empty_table())
    return [sums.to_tables(first_ns, last_ns)[0]]


def summed_errors(tables: Iterator[pa.Table], first_ns: int, last_ns: int) -> list[pa.Table]:
    """Stored errors as one of each kind, on rows from `first_ns` to `last_ns`."""
    sums = Reports()
    for table in tables:
        sums.add_tables(REPORT_SCHEMA.empty_table(), table)
    return [sums.to_tables(first_ns, last_ns)[1]]
