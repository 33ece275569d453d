"""Accounts of several intakes as one: exporters with one numbering, their counts added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from collector.latest import Latest
from collector.schema import (
    I32,
    CounterBatch,
    DecodeError,
    ExporterHealth,
    FlowBatch,
    Telemetry,
    UnknownTag,
)
from collector.store.reports import COUNTS
from collector.store.rows import Exporter

NOTHING: Final = Telemetry(FlowBatch.empty(), CounterBatch.empty(), (), (), 0, 0, 0, 0, 0)


class Accounts:
    """Numbers the exporters of several accounts; a number never changes."""

    def __init__(self) -> None:
        self._numbers: dict[Exporter, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, told: Telemetry) -> I32:
        """For each exporter of one account its number among all; int32, shape (exporters,)."""
        return np.array([self._number(e) for e in told.exporters], np.int32)

    def sum(self, parts: Sequence[Telemetry]) -> Telemetry:
        """The sum of some accounts, without rows; exporters stand at their numbers.

        Parameters
        ----------
        parts
            Of all intakes that ever had a number here.
        """
        found: dict[int, list[ExporterHealth]] = {}
        tags: Counter[UnknownTag] = Counter()
        latest = Latest()
        for told in parts:
            number = self.number(told)
            for exporter, nth in zip(told.exporters, number.tolist(), strict=True):
                found.setdefault(nth, []).append(exporter)
            for tag in told.unknown_tags:
                here = replace(tag, exporter=int(number[tag.exporter]), count=0)
                tags[here] += tag.count
            latest.take(
                replace(told.ports, exporter=number[told.ports.exporter]),
                replace(told.hosts, exporter=number[told.hosts.exporter]),
            )
        return Telemetry(
            flows=NOTHING.flows,
            counters=NOTHING.counters,
            exporters=tuple(_one(found[number]) for number in sorted(found)),
            errors=_errors(error for told in parts for error in told.errors),
            datagrams=sum(told.datagrams for told in parts),
            flow_samples=sum(told.flow_samples for told in parts),
            flow_records=sum(told.flow_records for told in parts),
            counter_samples=sum(told.counter_samples for told in parts),
            lost_datagrams=sum(told.lost_datagrams for told in parts),
            decode_errors=sum(told.decode_errors for told in parts),
            ports=latest.ports,
            hosts=latest.hosts,
            unknown_tags=tuple(replace(tag, count=count) for tag, count in tags.items()),
        )

    def _number(self, exporter: ExporterHealth) -> int:
        name = (exporter.agent, exporter.sub_agent, exporter.protocol)
        return self._numbers.setdefault(name, len(self._numbers))


def _one(healths: list[ExporterHealth]) -> ExporterHealth:
    """One exporter as several intakes saw it: what is no count is as the busiest says."""
    if len(healths) == 1:
        return healths[0]
    rates = {rate for health in healths for rate in health.sampling_rates}
    return replace(
        max(healths, key=lambda health: health.datagrams),
        sampling_rates=tuple(sorted(rates)),
        notes=tuple(note for health in healths for note in health.notes),
        waiting_sets=sum(health.waiting_sets for health in healths),
        **{name: sum(getattr(health, name) for health in healths) for name in COUNTS},
    )


def _errors(errors: Iterable[DecodeError]) -> tuple[DecodeError, ...]:
    """Errors of one kind as one, in order of first appearance."""
    sums: dict[tuple[str | None, str | None, str], DecodeError] = {}
    for error in errors:
        key = (error.exporter, error.file, error.reason)
        before = sums.get(key)
        count = error.count + (0 if before is None else before.count)
        sums[key] = replace(before or error, count=count)
    return tuple(sums.values())
