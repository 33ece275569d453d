"""What the results database takes and gives: plain values, no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from patterns.result import Anomaly, Iteration

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job as the last analysis left it.

    Attributes
    ----------
    id
        "job-N", by `Results.next_job_number`.
    document
        The contract's job object without "iterations" and "anomalies", which have rows of their
        own. Its "status" says whether the job has ended. Once saved, it must not be changed.
    state
        What the analysis wants back after a restart; JSON that nobody else reads. It must not be
        changed either.
    window_start_ns, window_end_ns
        The window that `document` and `state` are of.
    first_seen_ns, last_seen_ns
        Event time of the job's first and last traffic.
    """

    id: str
    document: Document
    state: Document
    window_start_ns: int
    window_end_ns: int
    first_seen_ns: int
    last_seen_ns: int


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """What one turn of the analysis says of one job.

    Attributes
    ----------
    record
        Takes the place of the job's last record.
    final
        Iterations that will not change; those stored already are left as they are.
    provisional
        Iterations that may still change; they take the place of all provisional ones of the job.
    anomalies
        New ones, and known ones (by id) that changed.
    """

    record: JobRecord
    final: tuple[Iteration, ...]
    provisional: tuple[Iteration, ...]
    anomalies: tuple[Anomaly, ...]


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """The last analysed window.

    Attributes
    ----------
    start_ns, end_ns
        Event time, ns since the epoch.
    telemetry, unassigned
        The contract's objects of these names.
    """

    start_ns: int
    end_ns: int
    telemetry: Document
    unassigned: Document


@dataclass(frozen=True, slots=True)
class Tally:
    """What there is of one job, counted.

    Attributes
    ----------
    iterations
        Final and complete ones of the job's life: forgetting old ones does not lower it.
    next_index
        One more than the highest index of a final iteration of the job's life.
    last
        The newest final and complete iteration that is stored.
    anomalies_open, anomalies
        Stored anomalies without an end, and all stored ones.
    """

    iterations: int
    next_index: int
    last: Iteration | None
    anomalies_open: int
    anomalies: int


@dataclass(frozen=True, slots=True)
class Life:
    """Where one job stands, without what is said of it.

    Attributes
    ----------
    id, first_seen_ns, window_end_ns
        As in its `JobRecord`.
    status
        Its document's.
    iterations
        As in its `Tally`.
    """

    id: str
    status: str
    first_seen_ns: int
    window_end_ns: int
    iterations: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A job in short.

    Attributes
    ----------
    id, first_seen_ns, last_seen_ns
        As in `JobRecord`.
    document
        Its document by `summary.summarized`: groups are counted, ranks and edges are None.
    digest
        Differs where what `document` lacks differs.
    tally
        Of the same moment.
    """

    id: str
    document: Document
    digest: str
    first_seen_ns: int
    last_seen_ns: int
    tally: Tally
