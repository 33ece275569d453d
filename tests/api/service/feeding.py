"""What tests of the service share: slices of labelled captures, and a log that only remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from api.cli.times import time_ns
from api.settings.values import LogLevel
from collector.ingest import ingest
from collector.schema import I64, ExporterHealth, FlowBatch
from reconstruct.binning import bin_slice
from reconstruct.slices import Slice

SECOND_NS: Final = 1_000_000_000
SLICE_NS: Final = SECOND_NS // 2


@dataclass
class Heard:
    """What the service says."""

    said: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)

    def say(self, level: LogLevel, event: str, **fields: object) -> None:
        self.said.append((level, event, fields))

    @property
    def events(self) -> list[str]:
        return [event for _, event, _ in self.said]


@dataclass(frozen=True, slots=True)
class TrueJob:
    """What is true of a job: who takes part, its period, and the ends of its iterations."""

    endpoints: frozenset[str]
    period_s: float
    ends_ns: I64

    def late(self, ends_ns: Sequence[int] | I64) -> I64:
        """How much later each of these is than the nearest true end, ns; negative: sooner."""
        found = np.asarray(ends_ns, np.int64)
        away: I64 = found[:, None] - self.ends_ns[None, :]
        nearest: I64 = away[np.arange(len(found)), np.abs(away).argmin(1)]
        return nearest


def true_jobs(truth: dict[str, Any]) -> list[TrueJob]:
    """The jobs of a labelled capture; an iteration that the capture's end cuts off has no end."""
    end_ns = time_ns(truth["window"]["end"])
    return [
        TrueJob(
            frozenset(job["endpoints"]),
            job["period_s"],
            np.array([end for end in ends if end < end_ns], np.int64),
        )
        for job in truth["jobs"]
        for ends in [[time_ns(turn["end"]) for turn in job["iterations"]]]
    ]


def slices_of(pcap: Path) -> list[Slice]:
    """The slices of a capture."""
    told = ingest([pcap])
    time_ns = told.flows.time_ns
    start_ns = int(time_ns.min()) // SLICE_NS * SLICE_NS
    number = (time_ns - start_ns) // SLICE_NS
    return [
        _slice(told.flows.take(number == nth), told.exporters, start_ns + nth * SLICE_NS)
        for nth in range(int(number.max()) + 1)
    ]


def silence(after: Slice, length_s: float) -> list[Slice]:
    """Slices in which nothing comes."""
    begin_ns, end_ns = after.end_ns + 1, after.end_ns + int(length_s * SECOND_NS)
    return [
        _slice(FlowBatch.empty(), (), start_ns) for start_ns in range(begin_ns, end_ns, SLICE_NS)
    ]


def _slice(flows: FlowBatch, exporters: Sequence[ExporterHealth], start_ns: int) -> Slice:
    return bin_slice(flows, exporters, start_ns, start_ns + SLICE_NS - 1)


def moved(slices: Sequence[Slice], by_ns: int) -> list[Slice]:
    """The same at another time."""
    return [
        replace(
            part,
            start_ns=part.start_ns + by_ns,
            end_ns=part.end_ns + by_ns,
            bins=replace(
                part.bins,
                first_ns=part.bins.first_ns + by_ns,
                last_ns=part.bins.last_ns + by_ns,
            ),
            acks=replace(part.acks, time_ns=part.acks.time_ns + by_ns),
        )
        for part in slices
    ]
