"""What the running service says of itself: its counters, and whether it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from api.service.doubts import Doubts
from collector.schema import DecodeError, ExporterHealth


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must work; `reason` says what does not, and is empty where it does."""

    name: Literal["listener", "store", "results", "analysis"]
    ok: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Account:
    """Counters since the start of the service, and where its analysis stands.

    Attributes
    ----------
    started_ns
        Start of the service.
    datagrams, payload_bytes
        Taken from the kernel, whatever became of them.
    kernel_drops, backlog_drops, refused_datagrams
        Datagrams lost in the socket's buffer, before the decoder, and those of exporters outside
        the allow-list.
    receiver_deaths
        Receiving processes that ended unasked, and were started again.
    flow_samples, flow_records, counter_samples, decode_errors
    rows_stored, rows_held, rows_lost
        Of the store of samples.
    late_samples
        Samples that came when the analysis had passed their time: stored, not analysed.
    window_start_ns, window_end_ns
        Event time of the bins in memory; both 0 before the first.
    window_rows
        Rows of bins in memory.
    analysis_lag_s
        How far the end of the window is behind the newest arrival.
    ticks, analysis_s
        Turns of the analysis, and the time they took.
    exporters
        What is known of each exporter.
    """

    started_ns: int
    datagrams: int
    payload_bytes: int
    kernel_drops: int
    backlog_drops: int
    refused_datagrams: int
    receiver_deaths: int
    flow_samples: int
    flow_records: int
    counter_samples: int
    decode_errors: int
    rows_stored: int
    rows_held: int
    rows_lost: int
    late_samples: int
    window_start_ns: int
    window_end_ns: int
    window_rows: int
    analysis_lag_s: float
    ticks: int
    analysis_s: float
    exporters: tuple[ExporterHealth, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """What the service was told, and what it sees beside its counters: why there may be no job.

    Attributes
    ----------
    listen
        HOST:PORT that telemetry is received on.
    allowed
        Networks that may send; empty = all.
    window_s
        Length of the window that is analysed.
    lateness_s
        How much later than its time a sample may come.
    hosts
        How many the inventory names.
    switches
        Name and agent address of the inventory's switches.
    errors
        What could not be read since the start.
    headers
        Flow samples since the start by `collector.schema.HeaderState`.
    transports
        The same by `collector.schema.Transport`.
    doubts
        What the last discovery saw that is in no job.
    """

    listen: str
    allowed: tuple[str, ...]
    window_s: float
    lateness_s: float
    hosts: int
    switches: tuple[tuple[str, str], ...]
    errors: tuple[DecodeError, ...]
    headers: tuple[int, ...]
    transports: tuple[int, ...]
    doubts: Doubts


class ServiceView(Protocol):
    """What HTTP may ask of the running service; from any thread."""

    def account(self) -> Account:
        """The counters of this moment."""
        ...

    def checks(self) -> tuple[Check, ...]:
        """Whether listener, store, results and analysis work."""
        ...

    def situation(self) -> Situation:
        """What the service was told and sees, at this moment."""
        ...
