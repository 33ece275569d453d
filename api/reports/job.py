"""The report of one job: a page that can be printed, and the same as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median, quantiles
from typing import Any, Final

from markupsafe import Markup

from api.contract import SCHEMA_VERSION, Document, anomaly_document, iteration_document
from api.reports.chart import MOST_MARKS, chart_svg
from api.reports.claims import named, statements_of
from api.reports.drawing import shape_lines
from api.reports.picture import (
    KINDS,
    Step,
    blocks_of,
    host_edges_of,
    natural,
    sizes_line,
    steps_of,
    unknowns_of,
)
from api.reports.reading import read_job, read_time
from api.reports.series import series_of
from api.reports.svg import map_svg
from api.reports.templates import template
from patterns.result import Anomaly, Iteration, JobResult

_CANDIDATES_SHOWN: Final = 12
_SHAPES_SHOWN: Final = 24  # drawings per block
_ANOMALIES_SHOWN: Final = 50
_EXPORTERS_SHOWN: Final = 200
_MOST_EDGES: Final = 3_000  # of one kind in the map: more are one black disc, and many megabytes
_PRE_WIDTH: Final = 104  # columns of a drawing before it wraps: what a printed page holds
_FEWEST_RANKED: Final = 20  # iterations, before their percentiles mean anything


@dataclass(frozen=True, slots=True)
class Missed:
    """What the service was sent and did not analyse, since its start.

    Attributes
    ----------
    since_ns
        Start of the service.
    late_samples
        Samples that came when the analysis had passed their time.
    kernel_drops, backlog_drops, refused_datagrams
        Datagrams lost in the socket's buffer, before the decoder, and those of exporters outside
        the allow-list.
    """

    since_ns: int
    late_samples: int
    kernel_drops: int
    backlog_drops: int
    refused_datagrams: int


def job_report(
    job: Document,
    iterations: Sequence[Iteration],
    anomalies: Sequence[Anomaly],
    telemetry: Document,
    window: Document,
    *,
    first_seen_ns: int | None = None,
    missed: Missed | None = None,
) -> tuple[str, Document]:
    """Write down all that is known of one job.

    Parameters
    ----------
    job
        The contract's job, valid as of a result; its own iterations and anomalies are not read.
    iterations, anomalies
        Those to report, in the order of time.
    telemetry, window
        The contract's objects of these names.
    first_seen_ns
        Event time of the job's first traffic; None: not known.
    missed
        None: not known.

    Returns
    -------
    page : str
        HTML that runs nothing and loads nothing.
    document : dict
        The contract's document of this window with this job alone, and without "unassigned".
    """
    document = {
        "schema_version": SCHEMA_VERSION,
        "window": window,
        "telemetry": telemetry,
        "jobs": [
            {
                **job,
                "iterations": [iteration_document(iteration) for iteration in iterations],
                "anomalies": [anomaly_document(anomaly) for anomaly in anomalies],
            }
        ],
    }
    result = read_job(job, iterations, anomalies)
    start_ns, end_ns = read_time(window["start"]), read_time(window["end"])
    page = template("job.html.j2").render(
        job=result,
        window_start_ns=start_ns,
        window_end_ns=end_ns,
        since_ns=_since(result, first_seen_ns),
        until_ns=end_ns if result.ended_at_ns is None else result.ended_at_ns,
        telemetry=_telemetry(telemetry, result),
        missed=missed,
        kinds=(*KINDS, "unknown"),
        **_map(result),
        **_steps(result, end_ns),
        **_sizes(result),
        **_groups(result),
        statements=statements_of(result),
        anomalies=result.anomalies[: -_ANOMALIES_SHOWN - 1 : -1],
        anomalies_open=sum(anomaly.end_ns is None for anomaly in result.anomalies),
    )
    # A name may hold half a surrogate pair, which no encoding takes.
    return page.encode("utf-8", "replace").decode("utf-8"), document


def _since(job: JobResult, first_seen_ns: int | None) -> int | None:
    """When the job began, as far as it is known."""
    if job.started_at_ns is not None:
        return job.started_at_ns
    if first_seen_ns is None and job.iterations:
        return job.iterations[0].start_ns
    return first_seen_ns


def _map(job: JobResult) -> dict[str, Any]:
    counts = {kind: len(edges) for kind, edges in host_edges_of(job).items()}
    dense = {kind: count for kind, count in counts.items() if count > _MOST_EDGES}
    drawn = replace(job, groups=tuple(g for g in job.groups if g.kind not in dense))
    return {
        # The drawing escapes the names in it itself.
        "map": Markup(map_svg(drawn)),
        "dense": dense,
    }


def _steps(job: JobResult, window_end_ns: int) -> dict[str, Any]:
    steps = steps_of(job)
    series = series_of(job, steps, window_end_ns, MOST_MARKS)
    durations = [step.iteration.duration_s for step in steps if step.relative is not None]
    return {
        "series": series,
        "chart": Markup(chart_svg(series, job)) if series is not None else "",
        "complete": len(durations),
        "incomplete": len(steps) - len(durations),
        "provisional": sum(not step.iteration.final for step in steps),
        "slow": sum(step.slow for step in steps),
        "others": any(anomaly.kind != "slow_iteration" for anomaly in job.anomalies),
        "spread": _spread(durations),
        "volume_per_iteration": _volume(steps),
    }


def _spread(durations_s: list[float]) -> dict[str, float]:
    """Name -> seconds, in the order of length."""
    if not durations_s:
        return {}
    spread = {"shortest": min(durations_s), "median": median(durations_s)}
    if len(durations_s) >= _FEWEST_RANKED:
        ranked = quantiles(durations_s, n=20, method="inclusive")
        spread = {
            "shortest": spread["shortest"],
            "5 % below": ranked[0],
            "median": spread["median"],
            "95 % below": ranked[-1],
        }
    return {**spread, "longest": max(durations_s)}


def _volume(steps: Sequence[Step]) -> float | None:
    volumes = [
        step.iteration.bytes
        for step in steps
        if step.relative is not None and step.iteration.bytes is not None
    ]
    return median(volumes) if volumes else None


def _sizes(job: JobResult) -> dict[str, Any]:
    sizes = job.parallelism
    return {
        "sizes": [(kind, getattr(sizes, kind), sizes.basis.get(kind)) for kind in KINDS],
        "candidates": sizes_line(sizes.candidates, _CANDIDATES_SHOWN) if sizes.candidates else "",
        "unknowns": unknowns_of(job),
    }


def _groups(job: JobResult) -> dict[str, Any]:
    blocks = blocks_of(job)
    return {
        "blocks": [
            (
                block,
                [
                    (len(shape.groups), "\n".join(shape_lines(block, shape, _PRE_WIDTH)))
                    for shape in block.shapes[:_SHAPES_SHOWN]
                ],
                max(len(block.shapes) - _SHAPES_SHOWN, 0),
            )
            for block in blocks
        ],
        "legend": {
            kind: f"{kind}: {', '.join(map(named, alike))}"
            for kind, alike in groupby(blocks, lambda block: block.kind)
        },
    }


def _telemetry(telemetry: Document, job: JobResult) -> dict[str, Any]:
    """What the report says of the telemetry; the exporters that did worst come first."""
    exporters = sorted(
        map(_exporter, telemetry["exporters"]),
        key=lambda e: (e["state"] != "rate_unknown", -e["lost_datagrams"], natural(e["agent"])),
    )
    sent = telemetry["datagrams"] + telemetry["lost_datagrams"]
    counted, wired = (
        sum(edge.bytes_by_count for edge in job.edges),
        sum(edge.wire_bytes for edge in job.edges),
    )
    return {
        **telemetry,
        "exporters": exporters[:_EXPORTERS_SHOWN],
        "exporters_more": max(len(exporters) - _EXPORTERS_SHOWN, 0),
        "lost_share": telemetry["lost_datagrams"] / sent if sent else 0.0,
        "job_samples": sum(edge.samples for edge in job.edges),
        "by_count": counted / wired if wired else None,
    }


def _exporter(exporter: Document) -> Document:
    """With what the schema leaves open."""
    stream = exporter["sub_agent"] if "sub_agent" in exporter else exporter["domain"]
    return {"flow_samples": 0, "counter_samples": 0, **exporter, "stream": stream}
