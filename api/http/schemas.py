"""What REST answers, as the OpenAPI document shows it.

Objects of the contract are dicts; `CONTRACT` in their JSON schema names the definition of
`docs/schema/result.schema.json` that holds for them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.responses import Response

CONTRACT: Final = "x-contract"

Status = Literal["training", "idle", "hung", "ended"]
Kind = Literal["dp", "tp", "pp", "cp", "ep", "unknown"]
AnomalyKind = Literal[
    "slow_iteration",
    "straggler",
    "slow_link",
    "link_imbalance",
    "packet_loss",
    "congestion",
    "hang",
    "restart",
    "slow_group",
    "switch_degraded",
    "miscabling",
    "telemetry_gap",
]

Time = Annotated[str, WithJsonSchema({CONTRACT: "time"})]
Window = Annotated[dict[str, Any], WithJsonSchema({CONTRACT: "window"})]
Telemetry = Annotated[dict[str, Any], WithJsonSchema({CONTRACT: "telemetry"})]
Exporter = Annotated[dict[str, Any], WithJsonSchema({CONTRACT: "exporter"})]
Parallelism = Annotated[dict[str, Any], WithJsonSchema({CONTRACT: "parallelism"})]
Group = Annotated[dict[str, Any], WithJsonSchema({CONTRACT: "group"})]
Iteration = Annotated[dict[str, Any], WithJsonSchema({CONTRACT: "iteration"})]
Job = Annotated[dict[str, Any], WithJsonSchema({CONTRACT: "job"})]
Result = Annotated[dict[str, Any], WithJsonSchema({CONTRACT: "result"})]
# One member more than the contract's, so no reference to it can hold.
AnomalyOfJob = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "description": "The contract's anomaly, and the id of its job.",
            "type": "object",
            "properties": {"id": {"type": "string"}, "job": {"type": "string"}},
            "required": ["id", "job"],
        }
    ),
]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    def response(self, status: int = 200) -> Response:
        """As JSON. Written in the caller's thread, so that a large one holds up nobody."""
        text = self.model_dump_json(by_alias=True)
        return Response(text, status_code=status, media_type="application/json")


class Problem(_Answer):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str


class GroupCount(_Answer):
    """Equal groups of a job: how many, and how many members each has."""

    kind: Kind
    algorithm: str
    collective: str
    count: int
    size: int


class AnomalyCount(_Answer):
    open: int
    all: int


class JobSummary(_Answer):
    """A job without its long lists; `iterations` counts the complete and final ones."""

    id: str
    name: str | None
    user: str | None
    source: str
    status: Status
    confidence: float
    hosts: list[str]
    endpoints: list[str]
    first_seen: Time
    last_seen: Time
    period_s: float | None
    period_ci_s: tuple[float, float] | None
    period_confidence: float | None
    parallelism: Parallelism
    groups: list[GroupCount]
    iterations: int
    last_iteration: Iteration | None
    anomalies: AnomalyCount


class Jobs(_Answer):
    jobs: list[JobSummary]


class Node(_Answer):
    endpoint: str
    host: str | None
    coordinates: dict[str, int]


class TopologyEdge(_Answer):
    """Data from `src` to `dst`; kind and algorithm are those of its largest group."""

    src: str
    dst: str
    bytes: int
    bytes_per_iteration: int | None
    groups: list[str]
    kind: Kind
    algorithm: str


class Topology(_Answer):
    job: str
    nodes: list[Node]
    edges: list[TopologyEdge]


class Groups(_Answer):
    job: str
    groups: list[Group]


class Iterations(_Answer):
    """`next_after` asks for what follows; null where nothing does yet."""

    job: str
    iterations: list[Iteration]
    next_after: int | None


class Anomalies(_Answer):
    anomalies: list[AnomalyOfJob]


class Service(_Answer):
    """Counters since the start of the service."""

    started_at: Time
    datagrams: int
    payload_bytes: int
    kernel_drops: int
    backlog_drops: int
    refused_datagrams: int
    flow_samples: int
    flow_records: int
    counter_samples: int
    decode_errors: int
    rows_stored: int
    rows_held: int
    rows_lost: int
    late_samples: int
    window: Window | None
    window_rows: int
    analysis_lag_s: float
    ticks: int
    analysis_s: float
    exporters: list[Exporter]


class Exporters(_Answer):
    """Exporters of the last window analysed, and those since the start of the service."""

    window: Window | None
    telemetry: Telemetry | None
    service: Service


class Report(_Answer):
    """Paths of a stored report; null where a form is not there."""

    job: str
    name: str
    created: Time
    html: str | None
    file: str | None = Field(alias="json")  # a model has a member `json` of its own


class Reports(_Answer):
    reports: list[Report]


class CheckState(_Answer):
    name: str
    ok: bool
    reason: str


class Health(_Answer):
    status: Literal["ok", "failing"]
    checks: list[CheckState]


class DoctorFinding(_Answer):
    """What was found at one step of a sample's way, and what to do about it."""

    step: str
    state: Literal["ok", "note", "wrong"]
    text: str
    advice: str


class Doctor(_Answer):
    """The worst of the findings' states, and jobs that have not ended (null: unknown)."""

    state: Literal["ok", "note", "wrong"]
    jobs: int | None
    findings: list[DoctorFinding]
