"""The one contract: results as the JSON documents of `docs/schema/result.schema.json`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from api.errors import ContractViolation
from collector.schema import ABSENT_U8, ABSENT_U32, ExporterHealth, FlowBatch, Telemetry
from patterns.result import (
    Algorithm,
    Analysis,
    Anomaly,
    Claim,
    EdgeVolume,
    Group,
    Hint,
    Iteration,
    JobResult,
    Parallelism,
    Rank,
    Unassigned,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema import Draft202012Validator

SCHEMA_VERSION: Final = 1
_NS_PER_S: Final = 1_000_000_000
# What an exporter sent beside samples, what it lost, and what it sent in vain.
_COUNTS: Final = (
    "lost_datagrams",
    "duplicate_datagrams",
    "lost_samples",
    "dropped_samples",
    "expected_samples",
    "pooled_samples",
    "due_samples",
    "counted_samples",
    "discard_samples",
    "unknown_samples",
    "flow_records",
    "lost_records",
    "unread_records",
    "waiting_sets",
    "dropped_sets",
)

Document = dict[str, Any]


def schema() -> Document:
    """The JSON Schema of the contract, as it is installed with the package."""
    text = files("api").joinpath("result.schema.json").read_text(encoding="utf-8")
    loaded: Document = json.loads(text)
    return loaded


def validate(document: object, *, strict: bool = False) -> None:
    """Check a document against the contract.

    Parameters
    ----------
    document
        A parsed JSON document: a truth or a result.
    strict
        Ask for everything that a result has, and for nothing that only a truth has.

    Raises
    ------
    ContractViolation
        With the place and reason of the most telling violation.
    """
    from jsonschema.exceptions import best_match

    error = best_match(_validator(strict).iter_errors(document))
    if error is not None:
        raise ContractViolation(error.json_path, error.message)


@cache
def _validator(strict: bool) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    whole = schema()
    if strict:
        whole = {**whole, "$ref": "#/$defs/result"}
    return Draft202012Validator(whole)


def rfc3339(time_ns: int) -> str:
    """A time in ns since the epoch as RFC 3339 in UTC with nanoseconds.

    Examples
    --------
    >>> rfc3339(1_796_041_140_449_747_801)
    '2026-11-30T12:19:00.449747801Z'
    """
    seconds, ns = divmod(int(time_ns), _NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z"


def to_contract(analysis: Analysis, telemetry: Telemetry) -> Document:
    """The result document of one window.

    Parameters
    ----------
    analysis
        What `patterns` says of the window.
    telemetry
        What `collector` read in it.

    Returns
    -------
    dict
        Holds only JSON types; fits `validate(..., strict=True)`. Volumes are whole bytes.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "window": window_document(analysis.window_start_ns, analysis.window_end_ns),
        "telemetry": telemetry_document(telemetry),
        "jobs": [job_document(job) for job in analysis.jobs],
        "unassigned": unassigned_document(analysis.unassigned),
    }


def window_document(start_ns: int, end_ns: int) -> Document:
    """The contract's "window"; times in ns since the epoch."""
    return {"start": rfc3339(start_ns), "end": rfc3339(end_ns)}


def telemetry_document(telemetry: Telemetry) -> Document:
    """The contract's "telemetry"."""
    return {
        "datagrams": telemetry.datagrams,
        "flow_samples": telemetry.flow_samples,
        "flow_records": telemetry.flow_records,
        "counter_samples": telemetry.counter_samples,
        "lost_datagrams": telemetry.lost_datagrams,
        "decode_errors": telemetry.decode_errors,
        "errors": [
            {
                "exporter": error.exporter,
                "file": error.file,
                "offset": error.offset,
                "reason": error.reason,
                "count": error.count,
            }
            for error in telemetry.errors
        ],
        "exporters": [exporter_document(exporter) for exporter in telemetry.exporters],
        "discards": _discards(telemetry),
        "unknown_tags": [
            {
                "exporter": telemetry.exporters[tag.exporter].agent,
                "kind": tag.kind,
                "enterprise": tag.enterprise,
                "format": tag.format,
                "count": tag.count,
            }
            for tag in telemetry.unknown_tags
        ],
        "roce": _roce(telemetry.flows),
    }


def unassigned_document(unassigned: Unassigned) -> Document:
    """The contract's "unassigned"."""
    return {
        "bytes": round(unassigned.bytes),
        "endpoints": list(unassigned.endpoints),
        "by_class": {name: round(volume) for name, volume in unassigned.by_class.items()},
    }


def exporter_document(exporter: ExporterHealth) -> Document:
    """One of the contract's "exporters"."""
    return {
        "agent": exporter.agent,
        "sub_agent" if exporter.protocol == "sflow5" else "domain": exporter.sub_agent,
        "protocol": exporter.protocol,
        "datagrams": exporter.datagrams,
        "flow_samples": exporter.flow_samples,
        "counter_samples": exporter.counter_samples,
        "sampling_rates": list(exporter.sampling_rates),
        "time_basis": exporter.time_basis.name.lower(),
        "clock_offset_s": exporter.clock.offset_s,
        "clock": {
            "basis": exporter.clock.basis,
            "error_s": exporter.clock.error_s,
            "samples": exporter.clock.samples,
            "reason": exporter.clock.reason,
            "corrected_s": exporter.clock.corrected_s,
            "skew_ppm": exporter.clock.skew_ppm,
            "jitter_s": exporter.clock.jitter_s,
        },
        **{name: getattr(exporter, name) for name in _COUNTS},
        "decode_errors": exporter.decode_errors,
        "restarts": exporter.restarts,
        "state": exporter.state,
        "notes": [
            {
                "time": rfc3339(note.time_ns),
                "kind": note.kind,
                "text": note.text,
                "count": note.count,
            }
            for note in exporter.notes
        ],
    }


def _discards(telemetry: Telemetry) -> list[Document]:
    """Packets that switches dropped and told of, by exporter and reason."""
    from collector.sflow.reasons import reason_name  # beside compiled kernels

    found = telemetry.discards
    pairs = np.stack((found.packets.exporter.astype(np.int64), found.reason.astype(np.int64)))
    kinds, counts = np.unique(pairs, axis=1, return_counts=True)
    return [
        {
            "exporter": telemetry.exporters[exporter].agent,
            "reason": reason_name(reason),
            "packets": count,
        }
        for exporter, reason, count in zip(*kinds.tolist(), counts.tolist(), strict=True)
    ]


def _roce(flows: FlowBatch) -> Document:
    from collector.keys import KeyTable  # brings compiled kernels, which who only reads needs not

    codes = np.bincount(flows.opcode[flows.opcode != ABSENT_U8], minlength=ABSENT_U8)
    has_qp = flows.dest_qp != ABSENT_U32
    tenant_and_qp = (flows.vni[has_qp].astype(np.uint64) << np.uint64(32)) | flows.dest_qp[has_qp]
    pairs = KeyTable()
    pairs.number(flows.dst_hi[has_qp], flows.dst_lo[has_qp], tenant_and_qp)
    return {
        "opcodes": {f"0x{code:02x}": int(codes[code]) for code in np.flatnonzero(codes)},
        "queue_pairs": len(pairs),
    }


def job_document(job: JobResult) -> Document:
    """One of the contract's "jobs"; its last two members are "iterations" and "anomalies"."""
    return {
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "source": job.source,
        "status": job.status,
        "contradictions": list(job.contradictions),
        "hints": {name: _hint(hint) for name, hint in job.hints.items()},
        "hosts": list(job.hosts),
        "endpoints": list(job.endpoints),
        "started_at": _time_or_none(job.started_at_ns),
        "ended_at": _time_or_none(job.ended_at_ns),
        "confidence": job.confidence,
        "evidence": _claims(job.evidence),
        "parallelism": _parallelism(job.parallelism),
        "groups": [_group(group) for group in job.groups],
        "ranks": [_rank(rank) for rank in job.ranks],
        "edges": [_edge(edge) for edge in job.edges],
        "period_s": job.period_s,
        "period_ci_s": None if job.period_ci_s is None else list(job.period_ci_s),
        "iterations": [iteration_document(iteration) for iteration in job.iterations],
        "anomalies": [anomaly_document(anomaly) for anomaly in job.anomalies],
    }


def _hint(hint: Hint) -> Document:
    return {
        "value": hint.value,
        "low": hint.low,
        "high": hint.high,
        **_claim(hint.claim),
    }


def _parallelism(sizes: Parallelism) -> Document:
    return {
        "dp": sizes.dp,
        "tp": sizes.tp,
        "pp": sizes.pp,
        "cp": sizes.cp,
        "ep": sizes.ep,
        "candidates": [dict(candidate) for candidate in sizes.candidates],
        "basis": dict(sizes.basis),
        "confidence": sizes.confidence,
    }


def _group(group: Group) -> Document:
    return {
        "id": group.id,
        "kind": group.kind,
        "members": list(group.members),
        "edges": [list(edge) for edge in group.edges],
        "bytes_per_iteration": _bytes_or_none(group.bytes_per_iteration),
        "collective": group.collective,
        "algorithm": group.algorithm,
        "algorithms": [_algorithm(algorithm) for algorithm in group.algorithms],
        "confidence": group.confidence,
        "evidence": _claims(group.evidence),
    }


def _algorithm(algorithm: Algorithm) -> Document:
    return {
        "algorithm": algorithm.algorithm,
        "variant": algorithm.variant,
        "collective": algorithm.collective,
        "share": algorithm.share,
        "channels": [
            {
                "order": None if channel.order is None else list(channel.order),
                "parent": None if channel.parent is None else dict(channel.parent),
                "edges": [list(edge) for edge in channel.edges],
            }
            for channel in algorithm.channels
        ],
    }


def _rank(rank: Rank) -> Document:
    return {
        "endpoint": rank.endpoint,
        "host": rank.host,
        "coordinates": dict(rank.coordinates),
        "lag_s": rank.lag_s,
        "phases": dict(rank.phases),
    }


def _edge(edge: EdgeVolume) -> Document:
    return {
        "src": edge.src,
        "dst": edge.dst,
        "bytes": round(edge.bytes),
        "wire_bytes": round(edge.wire_bytes),
        "bytes_by_count": round(edge.bytes_by_count),
        "samples": edge.samples,
        "retransmitted_samples": edge.retransmitted_samples,
    }


def iteration_document(iteration: Iteration) -> Document:
    """One of the contract's "iterations"."""
    return {
        "index": iteration.index,
        "start": rfc3339(iteration.start_ns),
        "end": rfc3339(iteration.end_ns),
        "duration_s": iteration.duration_s,
        "bytes": _bytes_or_none(iteration.bytes),
        "complete": iteration.complete,
        "final": iteration.final,
    }


def anomaly_document(anomaly: Anomaly) -> Document:
    """One of the contract's "anomalies"."""
    return {
        "id": anomaly.id,
        "kind": anomaly.kind,
        "severity": anomaly.severity,
        "start": rfc3339(anomaly.start_ns),
        "end": _time_or_none(anomaly.end_ns),
        "verdict": anomaly.verdict,
        "subjects": [{"type": subject.type, "id": subject.id} for subject in anomaly.subjects],
        "summary": anomaly.summary,
        "evidence": dict(anomaly.evidence),
        "confidence": anomaly.confidence,
    }


def _claims(claims: Mapping[str, Claim]) -> Document:
    return {name: _claim(claim) for name, claim in claims.items()}


def _claim(claim: Claim) -> Document:
    return {"confidence": claim.confidence, "basis": claim.basis, "samples": claim.samples}


def _time_or_none(time_ns: int | None) -> str | None:
    return None if time_ns is None else rfc3339(time_ns)


def _bytes_or_none(volume: float | None) -> int | None:
    return None if volume is None else round(volume)
