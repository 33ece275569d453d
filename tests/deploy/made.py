"""Three jobs as a dashboard meets them, and counters that grow evenly."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from api.results.database import Results
from api.service.account import Account
from patterns.result import Iteration, JobResult, Parallelism
from tests.api import made as results_made
from tests.api.http import made

EVERY_S: Final = 15  # from one scrape to the next
STEP_S: Final = 2.5


def slurm_job(status: str, steps: int) -> JobResult:
    """A job with a name, of two hosts, whose iterations take 2.5 s each."""
    return results_made.job(
        id="job-3",
        name="llama-70b",
        user="ada",
        source="slurm",
        status=status,
        hosts=("gpu-101", "gpu-102"),
        endpoints=("10.0.0.101", "10.0.0.102", "10.0.1.101", "10.0.1.102"),
        confidence=0.875,
        parallelism=Parallelism(2, 2, 1, 1, 1, (), {}, 0.9),
        period_s=STEP_S,
        period_ci_s=(2.49, 2.51),
        iterations=tuple(_step(index) for index in range(steps)),
        anomalies=(),
    )


def fill(results: Results, *, status: str = "training", steps: int = 3) -> None:
    """The two jobs of the HTTP tests, one training and one ended, and `slurm_job` after them."""
    made.fill(results)
    save(results, status, steps)


def save(results: Results, status: str, steps: int) -> None:
    """One more turn of the analysis: `slurm_job` as it is by then."""
    first_ns = made.START_NS + made.SECOND_NS
    results.save(None, [made.update(slurm_job(status, steps), first_ns, made.END_NS)])


def account(scrapes: int) -> Account:
    """Counters after so many scrapes: a rate of its own for each."""
    passed_s = scrapes * EVERY_S
    base = made.ACCOUNT
    return replace(
        base,
        datagrams=base.datagrams + 20 * passed_s,
        kernel_drops=base.kernel_drops + 1 * passed_s,
        backlog_drops=base.backlog_drops + 2 * passed_s,
        refused_datagrams=base.refused_datagrams,
        flow_samples=base.flow_samples + 100 * passed_s,
        counter_samples=base.counter_samples + 7 * passed_s,
        decode_errors=base.decode_errors + 3 * passed_s,
        rows_stored=base.rows_stored + 90 * passed_s,
        rows_lost=base.rows_lost + 4 * passed_s,
        late_samples=base.late_samples + 5 * passed_s,
        analysis_s=base.analysis_s + 0.25 * passed_s,
    )


def _step(index: int) -> Iteration:
    length_ns = round(STEP_S * made.SECOND_NS)
    start_ns = made.START_NS + index * length_ns
    return Iteration(index, start_ns, start_ns + length_ns, 5e9, True, True)
