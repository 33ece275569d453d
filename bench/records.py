"""How right `ringscope analyze` is from flow records, and from interface counters alone.

Every scenario is told by flow records of one transfer each, and as caches with timeouts of 1 s and
60 s export it, whole and sampled; LLMPrism reads all flows beside. Fleets are told by counters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.baselines.documents import FULL, llmprism_document
from bench.baselines.flow_records import read
from bench.captures import Capture, CaptureFailed, capture
from bench.compare import Document
from bench.score import CONFIDENT, Score, score
from bench.timing import Timing, timing
from fixtures.flow_cache import CACHES
from fixtures.table import FLEETS, SCENARIOS

Analyse = Callable[[Sequence[Path], Path], tuple[dict[str, Any], Any]]

LEVEL: Final = "rich"
COUNTERS: Final = "counters"
# What rich captures of samples are held to: below these a figure is as good as another.
FINE_PERIOD: Final = 0.0005
FINE_BOUNDARY: Final = 0.005
ROLE_SHARE: Final = 0.95
PERIOD: Final = 0.01
COUNTED_PERIOD: Final = 0.005
BEAT: Final = 0.05  # so far off, a period is another one
COUNTED_EXACT: Final = 0.95
FEWEST_TURNS: Final = 10


@dataclass(frozen=True, slots=True)
class Told:
    """One capture by one kind of telemetry, scored; `score` is None for a baseline."""

    kind: str
    truth: Document
    said: Document
    timing: Timing
    score: Score | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One limit, what was found, and whether it is met."""

    limit: str
    found: str
    met: bool


def tell(scenario: str, seed: int, analyse: Analyse) -> list[Told]:
    """What is said of one scenario, by every kind of telemetry that tells of it.

    Raises
    ------
    bench.captures.CaptureFailed
        The generator made no capture.
    """
    if scenario in FLEETS:
        made = capture(scenario, seed, LEVEL)
        return [_told(COUNTERS, made, made.pcap, analyse)]
    made = capture(scenario, seed, LEVEL, caches=tuple(CACHES))
    out = [_told(name, made, made.records(name), analyse) for name in CACHES]
    truth = json.loads(made.truth.read_text())
    beside = llmprism_document(*read(made.flows, made.inventory), truth["window"])
    return [*out, Told(FULL, truth, beside, timing(FULL, truth, beside), None)]


def _told(kind: str, made: Capture, pcap: Path, analyse: Analyse) -> Told:
    truth = json.loads(made.truth.read_text())
    said, _ = analyse([pcap], made.inventory)
    return Told(kind, truth, said, timing(kind, truth, said), score(truth, said))


def verdicts(told: Sequence[Told]) -> list[Verdict]:
    """All limits over all captures."""
    by_kind = {kind: [one for one in told if one.kind == kind] for kind in (*CACHES, COUNTERS)}
    out = _as_good(by_kind["messages"], [one for one in told if one.kind == FULL])
    for kind in ("1s", "1s-sampled"):
        out += [
            _jobs(kind, by_kind[kind]),
            _roles(kind, by_kind[kind]),
            _periods(kind, by_kind[kind], PERIOD),
        ]
    for kind in ("60s", "60s-sampled"):
        out += [_jobs(kind, by_kind[kind]), _silent(kind, by_kind[kind])]
    for kind, some in by_kind.items():
        out.append(_confident(kind, some))
    for name in FLEETS:
        out += _counted(name, [one for one in by_kind[COUNTERS] if one.truth["scenario"] == name])
    return [one for one in out if one.found]


def _as_good(ours: Sequence[Told], theirs: Sequence[Told]) -> list[Verdict]:
    """Full records against LLMPrism on the same, scenario by scenario."""
    names = dict.fromkeys(str(one.truth["scenario"]) for one in ours)
    figures: tuple[tuple[str, Callable[[Sequence[Told]], float], float], ...] = (
        ("jobs not exact", lambda some: sum(map(_inexact, some)), 0.0),
        ("period error", partial(_median, lambda one: one.timing.periods), FINE_PERIOD),
        ("boundary error", _boundary, FINE_BOUNDARY),
        ("missed or invented", lambda some: sum(map(_uncounted, some)), 0.0),
    )
    out = []
    for name, figure, fine in figures:
        worse = []
        for scenario in names:
            mine, other = (
                figure([one for one in some if one.truth["scenario"] == scenario])
                for some in (ours, theirs)
            )
            if mine > max(other, fine):
                worse.append(f"{scenario} {mine:.3g} > {other:.3g}")
        count = f"{len(names) - len(worse)} of {len(names)} scenarios"
        found = "; ".join([count, *worse]) if names else ""
        out.append(Verdict(f"full records: {name} as LLMPrism's or better", found, not worse))
    return out


def _inexact(one: Told) -> float:
    jobs = one.timing.jobs
    return 0.0 if jobs is None else float(jobs.true - jobs.exact + jobs.false)


def _uncounted(one: Told) -> float:
    return float(one.timing.missed + one.timing.invented)


def _median(part: Callable[[Told], Iterable[Any]], some: Sequence[Told]) -> float:
    errors = [inf if m.error is None else m.error for one in some for m in part(one)]
    return median(errors) if errors else 0.0


def _boundary(some: Sequence[Told]) -> float:
    errors = [error for one in some for error in one.timing.boundaries]
    return median(errors) if errors else 0.0


def _jobs(kind: str, some: Sequence[Told]) -> Verdict:
    wrong = [f"{_name(one)} ({_inexact(one):.0f})" for one in some if _inexact(one)]
    found = "; ".join([f"{len(some) - len(wrong)} of {len(some)} captures", *wrong])
    return Verdict(f"{kind}: jobs exact", found if some else "", not wrong)


def _roles(kind: str, some: Sequence[Told]) -> Verdict:
    hits = sum(one.score.role.hits for one in some if one.score)
    of = sum(one.score.role.of for one in some if one.score)
    share = hits / of if of else 1.0
    return Verdict(
        f"{kind}: roles, {ROLE_SHARE:.0%} of bytes",
        f"{share:.2%}" if of else "",
        share >= ROLE_SHARE,
    )


def _periods(kind: str, some: Sequence[Told], limit: float) -> Verdict:
    """Periods that are stated; the others are unknown."""
    errors = [(one, m.error) for one in some for m in one.timing.periods]
    stated = [(one, error) for one, error in errors if error is not None]
    wrong = [f"{_name(one)} {error:.1%}" for one, error in stated if error > limit]
    told = f"{len(stated)} of {len(errors)} stated, {len(stated) - len(wrong)} right"
    found = "; ".join([told, *wrong]) if errors else ""
    return Verdict(f"{kind}: stated periods within {limit:.1%}", found, not wrong)


def _silent(kind: str, some: Sequence[Told]) -> Verdict:
    said = [
        _name(one)
        for one in some
        if any(job["period_s"] is not None or job["iterations"] for job in one.said["jobs"])
    ]
    found = "; ".join([f"{len(some) - len(said)} of {len(some)} captures", *said])
    return Verdict(f"{kind}: nothing said about steps", found if some else "", not said)


def _confident(kind: str, some: Sequence[Told]) -> Verdict:
    wrong = [
        f"{_name(one)}: {claim.what}"
        for one in some
        if one.score
        for claim in one.score.claims
        if claim.confidence >= CONFIDENT and not claim.right
    ]
    claims = sum(len(one.score.claims) for one in some if one.score)
    found = "; ".join([f"{len(wrong)} of {claims} claims", *sorted(set(wrong))])
    return Verdict(
        f"{kind}: nothing wrong said with {CONFIDENT} or more", found if some else "", not wrong
    )


def _counted(name: str, some: Sequence[Told]) -> list[Verdict]:
    """Fleets by counters: hosts of jobs with enough turns, their periods, and no false job."""
    long = exact = 0
    periods: list[float | None] = []
    false = 0
    for one in some:
        said = {frozenset(job["hosts"]): job for job in one.said["jobs"]}
        true = [frozenset(job["hosts"]) for job in one.truth["jobs"]]
        false += sum(not any(hosts & other for other in true) for hosts in said)
        for job, hosts in zip(one.truth["jobs"], true, strict=True):
            if sum(i["complete"] for i in job["iterations"]) < FEWEST_TURNS:
                continue
            long += 1
            if hosts in said:
                exact += 1
                stated = said[hosts]["period_s"]
                off = None if stated is None else abs(stated / job["period_s"] - 1)
                periods.append(off)
    if not some:
        return []
    stated = [error for error in periods if error is not None]
    worst = f"{max(stated):.2%}" if stated else "-"
    must = name == "counters_only"  # the others are polled or refreshed too slowly to ask as much
    within = sum(error <= COUNTED_PERIOD for error in stated)
    no_beat = all(error <= BEAT for error in stated)
    return [
        Verdict(
            f"{name}: hosts exact in {COUNTED_EXACT:.0%} of jobs with {FEWEST_TURNS} turns",
            f"{exact} of {long}",
            not must or exact >= COUNTED_EXACT * long,
        ),
        Verdict(
            f"{name}: {COUNTED_EXACT:.0%} of stated periods within {COUNTED_PERIOD:.1%}, all "
            f"within {BEAT:.0%}",
            f"{within} of {len(stated)}, {len(periods) - len(stated)} unknown, worst {worst}",
            no_beat and (not must or within >= COUNTED_EXACT * len(stated)),
        ),
        Verdict(f"{name}: no false job", str(false), not false),
    ]


def _name(one: Told) -> str:
    return f"{one.truth['scenario']} {one.truth['seed']}"


def run(
    scenarios: Sequence[str],
    seeds: Sequence[int],
    analyse: Analyse,
    failures: tuple[type[Exception], ...],
    console: Console,
) -> bool:
    """Tell of all captures and print the table; True where every limit is met.

    Parameters
    ----------
    analyse : the result document of captures and an inventory, and what it took
    failures : what `analyse` raises where it has no result
    """
    told: list[Told] = []
    failed: list[str] = []
    expected: tuple[type[Exception], ...] = (CaptureFailed, *failures)
    for scenario in scenarios:
        for seed in seeds:
            try:
                told += tell(scenario, seed, analyse)
            except expected as error:
                failed.append(f"{scenario} {seed}: {error}")
    found = verdicts(told)
    table = Table("limit", "found", "met", title="From flow records and counters")
    for one in found:
        table.add_row(one.limit, one.found, "yes" if one.met else "NO")
    console.print(table)
    for text in failed:
        console.print(text)
    met = all(one.met for one in found) and not failed
    console.print("passed" if met else "FAILED", f"({len(scenarios) * len(seeds)} captures)")
    return met


EVERY: Final = (*SCENARIOS, *FLEETS)
