from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from api.contract import anomaly_document, iteration_document, job_document, rfc3339
from api.reports.reading import read_anomaly, read_iteration, read_job, read_time
from tests.api import made


def _over_the_wire(document: dict[str, Any]) -> Any:
    return json.loads(json.dumps(document))


def test_job_comes_back_as_it_was() -> None:
    parents = [{made.address(1, 0): made.address(0, 0)}]
    job = made.job(
        name="llama",
        user="ada",
        ended_at_ns=made.START_NS + 1,
        groups=(
            made.ring_group([0, 2, 1, 3], 0),
            made.chain_group([0, 1], 0),
            made.tree_group(parents, (made.address(0, 0), made.address(1, 0))),
        ),
        contradictions=("slurm names other hosts",),
    )
    assert read_job(_over_the_wire(job_document(job)), job.iterations, job.anomalies) == job
    unknown = replace(job, period_s=None, period_ci_s=None, started_at_ns=None, ended_at_ns=None)
    assert read_job(_over_the_wire(job_document(unknown)), job.iterations, job.anomalies) == unknown


def test_iterations_and_anomalies_come_back_as_they_were() -> None:
    job = made.job()
    for iteration in job.iterations:
        assert read_iteration(_over_the_wire(iteration_document(iteration))) == iteration
    (anomaly,) = job.anomalies
    open_one = replace(anomaly, end_ns=None)
    for each in (anomaly, open_one):
        assert read_anomaly(_over_the_wire(anomaly_document(each))) == each


def test_times_keep_their_nanoseconds() -> None:
    assert read_time("2026-11-30T12:19:00.449747801Z") == 1_796_041_140_449_747_801
    for time_ns in (0, 1, 999_999_999, made.START_NS, -1):
        assert read_time(rfc3339(time_ns)) == time_ns
