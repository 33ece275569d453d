"""What the baselines make of a labelled capture, as documents that scores can read."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np

from bench.baselines import llmprism, sflow_rt
from bench.baselines.flow_records import Ends, FlowRecords, read, sample_packets, sampled
from bench.captures import Capture
from bench.compare import Document
from bench.pairing import nanoseconds, seconds
from fixtures.truth import time_text

FULL = "LLMPrism, all flows"
SAMPLED = "LLMPrism, sampled"
SFLOW_RT = "sFlow-RT"


def baselines(made: Capture, thinned: int) -> dict[str, dict[str, Any]]:
    """By name, what each baseline says; sFlow-RT names no job, so its document is a period only.

    Notes
    -----
    Sampled flows come from packets drawn from the full records at the rate of the capture's
    exporters. They are better telemetry than the capture: nothing is lost, clocks are true.
    """
    truth = json.loads(made.truth.read_text())
    window = truth["window"]
    records, ends = read(made.flows, made.inventory)
    rng = np.random.default_rng(made.seed)
    rate = sampling_rate(truth) * thinned
    packet, time_s = sample_packets(records, rate, rng)
    size = (records.size / records.packets * rate)[packet]
    period_s = sflow_rt.period_s(time_s, size, seconds(window["end"], window["start"]))
    return {
        FULL: llmprism_document(records, ends, window),
        SAMPLED: llmprism_document(sampled(records, rate, rng), ends, window),
        SFLOW_RT: {"period_s": period_s},
    }


def sampling_rate(truth: Document) -> int:
    """The median rate of the truth's exporters, one packet in so many."""
    rates = [rate for one in truth["telemetry"]["exporters"] for rate in one["sampling_rates"]]
    return int(np.median(rates))


def llmprism_document(records: FlowRecords, ends: Ends, window: Document) -> dict[str, Any]:
    """LLMPrism's jobs; an iteration lies between two ends of steps, the period is their median."""
    epoch_ns = nanoseconds(window["start"])
    jobs = []
    for number, job in enumerate(llmprism.jobs(records, ends)):
        text = [time_text(epoch_ns + round(end * 1e9)) for end in job.step_ends_s.tolist()]
        lasted = np.diff(job.step_ends_s)
        jobs.append(
            {
                "id": f"llmprism-{number}",
                "endpoints": [ends.address[end] for end in job.endpoints],
                "groups": [],
                "period_s": float(np.median(lasted)) if len(lasted) else None,
                "iterations": [{"start": a, "end": b} for a, b in pairwise(text)],
            }
        )
    return {"window": window, "jobs": jobs}
