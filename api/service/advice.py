"""What becomes of traffic that arrives: jobs, or why there is none, and how much more would do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from api.reports.units import human_duration
from api.service.doctor import Finding
from api.service.doubts import Doubts, Pending
from patterns.live import FEWEST_TURNS, FIRM_S, SIGHTINGS
from reconstruct.period import CYCLES

# Of a job in one iteration: from 50 on its period is found practically always, from 12 on mostly.
PERIOD_SAMPLES: Final = 50
# Of a connection in the window: with fewer, some that there are show none at all.
SHAPE_SAMPLES: Final = 4
_SHOWN: Final = 5  # of what waits to become a job
_USUAL_S: Final = 1.0  # an iteration to reckon with where none is known
_COMMON_LEAST: Final = 256  # 1 in so many is the most that common switches sample


def job_findings(
    jobs: Mapping[str, int] | None, doubts: Doubts, window_s: float, rates: Sequence[int]
) -> tuple[Finding, ...]:
    """What is found at the end of the way.

    Parameters
    ----------
    jobs
        How many are told of by status, without those that ended; None: the results cannot be
        read.
    doubts
        What the last discovery saw.
    window_s
        Length of the window that is analysed, in seconds.
    rates
        N of every sampling rate 1:N in use.
    """
    findings = []
    if jobs:
        findings.append(_told(jobs))
    findings += (_pending(each, doubts, window_s, rates) for each in doubts.pending[:_SHOWN])
    if len(doubts.pending) > _SHOWN:
        rest = len(doubts.pending) - _SHOWN
        findings.append(Finding("jobs", "note", f"{rest} more like these are not told of yet"))
    if not findings and jobs is not None:
        findings += _no_cycle(doubts, window_s, rates)
    return tuple(findings)


def _told(jobs: Mapping[str, int]) -> Finding:
    count = sum(jobs.values())
    states = ", ".join(f"{number:,} {status}" for status, number in sorted(jobs.items()))
    text = f"{count:,} job{'s' * (count != 1)} told of ({states}): ringscope jobs"
    if jobs.get("training"):
        return Finding("jobs", "ok", text)
    return Finding("jobs", "note", text, "nothing of theirs is sampled any more: see exporters")


def _pending(pending: Pending, doubts: Doubts, window_s: float, rates: Sequence[int]) -> Finding:
    """Why something that repeats is no job yet."""
    samples = pending.samples_per_turn
    seen = (
        f"{pending.endpoints} endpoints, {pending.first} the first, repeat something every"
        f" {human_duration(pending.period_s)}, with {_number(samples)} samples an iteration"
        f" ({_number(samples / pending.endpoints)} an endpoint)"
    )
    if not pending.studied:
        return Finding("jobs", "note", f"{seen}: not looked at closely yet", "wait some seconds")
    if not pending.shaped:
        have = samples * pending.turns / max(pending.connections, 1)
        if have >= SHAPE_SAMPLES:
            return Finding(
                "jobs",
                "note",
                f"{seen}: no ring, tree, chain or all-to-all carries most of it",
                "it may be no training job; a neighbour exchange or parameter servers look so",
            )
        wait_s = doubts.doubted_s * (SHAPE_SAMPLES / max(have, 0.01))
        return Finding(
            "jobs",
            "note" if wait_s < window_s else "wrong",
            f"{seen}: {_number(have)} samples a connection are too few to see who talks to whom;"
            f" {SHAPE_SAMPLES} would do",
            (f"wait {wait_s - doubts.doubted_s:.0f} s, or " if wait_s < window_s else "")
            + _more(SHAPE_SAMPLES / max(have, 0.01), rates),
        )
    if doubts.doubted_s < FIRM_S:
        return Finding(
            "jobs",
            "note",
            f"{seen}: seen for {doubts.doubted_s:.0f} s, {FIRM_S:.0f} s are needed",
            "wait",
        )
    if pending.longer:
        return Finding(
            "jobs",
            "note",
            f"{seen}: a longer cycle shows, not yet {CYCLES} times",
            f"wait; in {window_s:g} s (analysis.window_s) one of up to"
            f" {human_duration(window_s / CYCLES)} is found",
        )
    if samples < PERIOD_SAMPLES:
        return Finding(
            "jobs",
            "wrong",
            f"{seen}: its period is not believed; {PERIOD_SAMPLES} samples an iteration make it"
            " sure",
            f"{_more(PERIOD_SAMPLES / max(samples, 0.01), rates)}; it will be told of, with its"
            f" period in doubt, after {SIGHTINGS} looks ({pending.sightings} so far)",
        )
    return Finding(
        "jobs",
        "note",
        f"{seen}: two looks that agree are wanted, {FEWEST_TURNS} iterations long each"
        f" ({pending.turns} seen)",
        "wait some seconds",
    )


def _no_cycle(doubts: Doubts, window_s: float, rates: Sequence[int]) -> Iterator[Finding]:
    """Why nothing repeats."""
    if not doubts.looked_s:
        yield Finding("jobs", "note", "nothing has been looked at yet", "wait some seconds")
        return
    if not doubts.samples:
        yield Finding(
            "jobs",
            "wrong",
            f"no data of RoCE or TCP was sampled in the last {doubts.looked_s:.0f} s",
            "does telemetry still come? The counters above are since the start",
        )
        return
    if not doubts.doubted:
        classes = (
            (doubts.storage, "storage"),
            (doubts.management, "management"),
            (doubts.control, "small messages"),
        )
        what = ", ".join(f"{count:,} of {name}" for count, name in classes if count)
        yield Finding("jobs", "ok", f"no job seems to run: {doubts.samples:,} samples, {what}")
        return
    span_s = doubts.doubted_s
    traffic = f"{doubts.endpoints} endpoints outside of jobs"
    if span_s < FIRM_S:
        yield Finding(
            "jobs",
            "note",
            f"{traffic} have been seen for {span_s:.0f} s",
            f"wait: a job is told of after {CYCLES} iterations, and not before {FIRM_S:.0f} s",
        )
        return
    each_s = doubts.doubted / span_s
    shown = (
        f"nothing repeats among {doubts.doubted:,} samples of {traffic} in {span_s:.0f} s"
        f" ({_number(each_s / doubts.endpoints)} an endpoint and second)"
    )
    shortest_s, longest_s = PERIOD_SAMPLES / each_s, span_s / CYCLES
    if shortest_s > _USUAL_S:
        most_s = window_s / CYCLES
        yield Finding(
            "jobs",
            "wrong",
            f"{shown}: an iteration must have some {PERIOD_SAMPLES}, so one of less than"
            f" {human_duration(round(shortest_s, 1))} cannot be told",
            f"for iterations of {_USUAL_S:g} s, {_more(shortest_s / _USUAL_S, rates)}"
            + (f"; no longer ones than {human_duration(most_s)} are found" * (shortest_s > most_s)),
        )
        return
    yield Finding(
        "jobs",
        "note",
        f"{shown}: no iterations of up to {human_duration(round(longest_s, 1))}",
        "it may be no job"
        + ("; longer iterations need more time, so wait" * (longest_s < window_s / CYCLES)),
    )


def _more(factor: float, rates: Sequence[int]) -> str:
    """Advice to sample so many times as often, as a rate where there is one rate."""
    if len(set(rates)) != 1:
        return f"sample {math.ceil(factor)} times as often"
    wanted = max(_rounded_down(rates[0] / factor), 1)
    least = f" (many switches go no lower than {_COMMON_LEAST})" * (wanted < _COMMON_LEAST)
    return f"sample 1:{wanted:,} instead of 1:{rates[0]:,}{least}"


def _rounded_down(number: float) -> int:
    """Two digits of a number, the rest zero; never above it."""
    number *= 1 + 1e-9  # what arithmetic has put just below a whole number is one
    if number < 10:
        return int(number)
    unit = 10 ** (int(math.log10(number)) - 1)
    return int(number // unit * unit)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
