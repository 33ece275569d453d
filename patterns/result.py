"""What analysis says: jobs, groups, iterations and findings, as plain values.

These mirror `docs/schema/result.schema.json`; `api.contract` turns them into it. Endpoints are
address texts, times are int64 nanoseconds since the epoch, durations are seconds, volumes bytes.
A value that is not known is None and its reason stands in `evidence` or `basis`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["dp", "tp", "pp", "cp", "ep", "unknown"]
AlgorithmName = Literal["ring", "tree", "chain", "all_to_all", "recursive", "unknown"]
Collective = Literal[
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "reduce_scatter+all_gather",
    "broadcast",
    "send_recv",
    "all_to_all",
    "mixed",
    "unknown",
]
Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Claim:
    """How sure one statement is and what it rests on.

    In a group's `evidence` there is one Claim per statement: "members", "kind", "algorithm",
    "order" (ring order or tree parents) and "collective".
    """

    confidence: float
    basis: str
    samples: int


@dataclass(frozen=True, slots=True)
class Hint:
    """A guess at what a job trains: between `low` and `high`, likeliest `value`."""

    value: float
    low: float
    high: float
    claim: Claim


@dataclass(frozen=True, slots=True)
class Channel:
    """One ring, tree or chain of an algorithm, as its edges show it."""

    order: tuple[str, ...] | None
    parent: Mapping[str, str] | None
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm that a group runs and its share of the group's bytes."""

    algorithm: AlgorithmName
    variant: str | None
    collective: Collective
    share: float
    channels: tuple[Channel, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Endpoints that run one collective together (see design: groups)."""

    id: str
    kind: Kind
    members: tuple[str, ...]
    edges: tuple[Edge, ...]
    bytes_per_iteration: float | None
    collective: Collective
    algorithm: AlgorithmName
    algorithms: tuple[Algorithm, ...]
    confidence: float
    evidence: Mapping[str, Claim]


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Sizes per kind: 1 = surely absent, None = not known."""

    dp: int | None
    tp: int | None
    pp: int | None
    cp: int | None
    ep: int | None
    candidates: tuple[Mapping[str, int], ...]
    basis: Mapping[str, str]
    confidence: float


@dataclass(frozen=True, slots=True)
class Rank:
    endpoint: str
    host: str
    coordinates: Mapping[str, int]
    lag_s: float | None
    phases: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EdgeVolume:
    """Bytes of one edge over the whole window, at its one observation point.

    `bytes` is sequence progress (payload); `wire_bytes` adds headers at the observed segment size
    and TCP's bare acknowledgements; `bytes_by_count` is the count-based cross-check (frames with
    payload times rate).
    """

    src: str
    dst: str
    bytes: float
    wire_bytes: float
    bytes_by_count: float
    samples: int
    retransmitted_samples: int


@dataclass(frozen=True, slots=True)
class Iteration:
    index: int
    start_ns: int
    end_ns: int
    bytes: float | None
    complete: bool
    final: bool

    @property
    def duration_s(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Subject:
    type: Literal["host", "endpoint", "link", "port", "switch", "group", "job"]
    id: str


@dataclass(frozen=True, slots=True)
class Anomaly:
    id: str
    kind: str
    severity: Literal["info", "warning", "critical"]
    start_ns: int
    end_ns: int | None
    verdict: Literal["network", "host", "undecided"]
    subjects: tuple[Subject, ...]
    summary: str
    evidence: Mapping[str, float | int | str]
    confidence: float


@dataclass(frozen=True, slots=True)
class JobResult:
    """One training job and all that is said of it; what is left out is not known, or not there."""

    id: str
    hosts: tuple[str, ...]
    endpoints: tuple[str, ...]
    confidence: float
    evidence: Mapping[str, Claim]  # "endpoints", "period"
    parallelism: Parallelism
    name: str | None = None
    user: str | None = None
    source: Literal["inferred", "slurm", "kubernetes", "file"] = "inferred"
    status: Literal["training", "idle", "hung", "ended"] = "training"
    started_at_ns: int | None = None
    ended_at_ns: int | None = None
    groups: tuple[Group, ...] = ()
    ranks: tuple[Rank, ...] = ()
    edges: tuple[EdgeVolume, ...] = ()
    period_s: float | None = None
    period_ci_s: tuple[float, float] | None = None
    iterations: tuple[Iteration, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()
    hints: Mapping[str, Hint] = field(default_factory=dict)  # see `patterns.hints`
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unassigned:
    """Traffic that belongs to no job, in bytes by class."""

    bytes: float
    endpoints: tuple[str, ...]
    by_class: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of one window."""

    window_start_ns: int
    window_end_ns: int
    jobs: tuple[JobResult, ...]
    unassigned: Unassigned
