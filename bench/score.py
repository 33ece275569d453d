"""Every score by formula, over one truth and one result document.

Both documents follow `docs/schema/result.schema.json`. Jobs are paired by endpoints first, then
the groups of paired jobs (`bench.pairing`); a truth without a pair counts as not found in every
score, a result without one counts wherever something false is counted.

Symbols in the formulas: T truth, R result, |X| the number of elements, P the truth's period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from bench.claims import KINDS, Claim, claims_of
from bench.compare import (
    Document,
    Edge,
    Judged,
    Measured,
    Pair,
    Verdict,
    compare_order,
    edges_of,
    has_order,
    pairs_of,
    relative_error,
    unordered_pairs,
)
from bench.observable import undecidable
from bench.pairing import (
    JobPair,
    anomalies_of,
    first_subject,
    pair_anomalies,
    pair_boundaries,
    pair_documents,
    pair_groups,
    seconds,
)

CONFIDENT: Final = 0.9
EDGE: Final = 0.005  # of a period: so well are ends to be known at best


@dataclass(frozen=True, slots=True)
class Ratio:
    """``hits / of``; None where there is nothing to score."""

    hits: float = 0.0
    of: float = 0.0

    @property
    def value(self) -> float | None:
        return self.hits / self.of if self.of else None

    def __add__(self, other: Self) -> Self:
        return type(self)(self.hits + other.hits, self.of + other.of)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Sizes of a true set, a stated set and what they have in common.

    precision = common / said, recall = common / true, F1 = 2 common / (true + said); None where
    the divisor is zero.
    """

    common: int = 0
    true: int = 0
    said: int = 0

    @property
    def precision(self) -> float | None:
        return self.common / self.said if self.said else None

    @property
    def recall(self) -> float | None:
        return self.common / self.true if self.true else None

    @property
    def f1(self) -> float | None:
        both = self.true + self.said
        return 2 * self.common / both if both else None

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.common + other.common, self.true + other.true, self.said + other.said
        )


@dataclass(frozen=True, slots=True)
class JobCounts:
    true: int = 0
    exact: int = 0
    missed: int = 0
    false: int = 0

    @property
    def all_exact(self) -> bool:
        return self.exact == self.true and not self.false

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.true + other.true,
            self.exact + other.exact,
            self.missed + other.missed,
            self.false + other.false,
        )


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Boundary errors of one job's iterations, each in units of the truth's period.

    `raw` has one entry per complete iteration of the truth and one per invented one; `aligned`
    is the same after one constant offset, `offset_s`, was taken away.
    """

    subject: str
    raw: tuple[float, ...]
    aligned: tuple[float, ...]
    offset_s: float
    missed: int
    invented: int


@dataclass(frozen=True, slots=True)
class Score:
    """All scores of one capture."""

    scenario: str
    seed: int
    level: str
    jobs: JobCounts
    sizes: tuple[Judged, ...]
    candidates: Ratio
    role: Ratio
    misnamed: Ratio
    undecidable: Ratio
    members: Overlap
    groups_exact: Ratio
    groups_invented: int
    algorithms: tuple[Judged, ...]
    rings: tuple[Judged, ...]
    chains: tuple[Judged, ...]
    trees: tuple[Judged, ...]
    tree_edges: Overlap
    group_bytes: tuple[Measured, ...]
    edge_bytes: tuple[Measured, ...]
    periods: tuple[Measured, ...]
    boundaries: tuple[Boundaries, ...]
    anomaly_kinds: Overlap
    anomaly_subjects: Overlap
    claims: tuple[Claim, ...]


def score(truth: Document, result: Document) -> Score:
    """All scores of `result` against `truth`.

    Parameters
    ----------
    truth : what the generator wrote; `scenario`, `seed` and `level` may be absent (hand-made).
    result : what `ringscope analyze --format json` wrote.
    """
    pairs, lone = pair_documents(truth, result)
    claims = [claims_of(pair.said, pair.true, pair.groups) for pair in pairs if pair.said]
    claims += [claims_of(job, None, pair_groups((), job["groups"])) for job in lone]
    kinds, subjects = anomaly_overlaps(pairs, lone)
    return Score(
        scenario=str(truth.get("scenario", "")),
        seed=int(truth.get("seed", 0)),
        level=str(truth.get("level", "")),
        jobs=job_counts(pairs, lone),
        sizes=tuple(judged for pair in pairs for judged in size_verdicts(pair)),
        candidates=sum((candidate_ratio(pair) for pair in pairs), Ratio()),
        role=sum((role_by_bytes(pair) for pair in pairs), Ratio()),
        misnamed=sum((misnamed_by_bytes(pair) for pair in pairs), Ratio()),
        undecidable=Ratio(*undecidable(truth)),
        members=membership(truth["jobs"], result["jobs"]),
        groups_exact=sum((exact_groups(pair) for pair in pairs), Ratio()),
        groups_invented=sum(len(job["groups"]) for job in result["jobs"])
        - sum(len(pair.groups.of_result) for pair in pairs),
        algorithms=tuple(judged for pair in pairs for judged in algorithm_verdicts(pair)),
        rings=tuple(judged for pair in pairs for judged in order_verdicts(pair, "ring")),
        chains=tuple(judged for pair in pairs for judged in order_verdicts(pair, "chain")),
        trees=tuple(judged for pair in pairs for judged in order_verdicts(pair, "tree")),
        tree_edges=sum((tree_edge_overlap(pair) for pair in pairs), Overlap()),
        group_bytes=tuple(m for pair in pairs for m in group_byte_errors(pair)),
        edge_bytes=tuple(m for pair in pairs for m in edge_byte_errors(pair)),
        periods=tuple(m for pair in pairs for m in period_error(pair)),
        boundaries=tuple(b for pair in pairs for b in boundary_errors(pair, truth["window"])),
        anomaly_kinds=kinds,
        anomaly_subjects=subjects,
        claims=tuple(claim for of_job in claims for claim in of_job),
    )


def job_counts(pairs: Sequence[JobPair], lone: Sequence[Document]) -> JobCounts:
    """Exact = |pairs with equal endpoints|, missed = |T without a pair|, false = |R without|."""
    return JobCounts(
        true=len(pairs),
        exact=sum(
            pair.said is not None and set(pair.true["endpoints"]) == set(pair.said["endpoints"])
            for pair in pairs
        ),
        missed=sum(pair.said is None for pair in pairs),
        false=len(lone),
    )


def size_verdicts(pair: JobPair) -> Iterable[Judged]:
    """Per kind: RIGHT if equal to the truth, WRONG if stated and different.

    Null is IN_CANDIDATES if some candidate names this kind and agrees with the truth on every key
    it names, else ABSTAINED. One of several assignments that draw the same edges is RIGHT only if
    it is the truth.
    """
    true = pair.true["parallelism"]
    said = (pair.said or {}).get("parallelism") or {}
    agreeing = [
        candidate
        for candidate in said.get("candidates") or ()
        if all(true.get(key) == size for key, size in candidate.items())
    ]
    for kind in KINDS:
        if true.get(kind) is None:
            continue
        size = said.get(kind)
        if pair.said is None:
            verdict = Verdict.MISSING
        elif size is not None:
            verdict = Verdict.RIGHT if size == true[kind] else Verdict.WRONG
        elif any(kind in candidate for candidate in agreeing):
            verdict = Verdict.IN_CANDIDATES
        else:
            verdict = Verdict.ABSTAINED
        yield Judged(f"{pair.true['id']} {kind}", verdict, str(true[kind]), str(size))


def candidate_ratio(pair: JobPair) -> Ratio:
    """``|R candidates that draw the edges seen| / |R candidates|``.

    A candidate does if it agrees, in every kind it names, with one of the truth's candidates (all
    assignments that draw the same edges) or with the truth itself. A list that names everything
    would otherwise never leave the truth out.
    """
    sizes = pair.true["parallelism"]
    drawn = [sizes, *(sizes.get("candidates") or ())]
    said = ((pair.said or {}).get("parallelism") or {}).get("candidates") or ()
    hits = sum(
        any(all(one.get(kind) == size for kind, size in candidate.items()) for one in drawn)
        for candidate in said
    )
    return Ratio(hits, len(said))


def edge_bytes_by_group(job: Document) -> list[dict[Edge, float]]:
    """b(g, e): bytes per iteration of every edge e of every group g of a truth job.

    A group's mean is ``bytes_per_iteration / |edges|``. Where the job lists the edge's own bytes,
    these are split over the groups that hold the edge in proportion to their means, since only
    their sum stands in the truth.
    """
    own = {
        (edge["src"], edge["dst"]): edge["bytes_per_iteration"]
        for edge in job.get("edges") or ()
        if edge.get("bytes_per_iteration") is not None
    }
    held = [edges_of(group) for group in job["groups"]]
    means = [
        (group.get("bytes_per_iteration") or 0.0) / len(edges) if edges else 0.0
        for group, edges in zip(job["groups"], held, strict=True)
    ]
    totals: dict[Edge, float] = {}
    for edges, mean in zip(held, means, strict=True):
        for edge in edges:
            totals[edge] = totals.get(edge, 0.0) + mean
    return [
        {
            edge: own[edge] * mean / totals[edge] if edge in own and totals[edge] else mean
            for edge in edges
        }
        for edges, mean in zip(held, means, strict=True)
    ]


def role_by_bytes(pair: JobPair) -> Ratio:
    """``sum of b(g, e) [e is in an R group of kind(g)] / sum of b(g, e)``, over g in T, e in g."""
    return _bytes_where(pair, lambda kind, said, _: kind in said)


def misnamed_by_bytes(pair: JobPair) -> Ratio:
    """The same sum where e is in no R group of its kind, but in one of a kind that e has not.

    "unknown" is no kind, and what other T groups send over the edge is one that e has.
    """
    return _bytes_where(
        pair, lambda kind, said, true: kind not in said and bool(said - true - {"unknown"})
    )


def _bytes_where(pair: JobPair, holds: Callable[[str, set[str], set[str]], bool]) -> Ratio:
    """Bytes of the truth's edges for whose kind, stated kinds and true kinds `holds`, of all."""
    stated = _kinds_by_edge(pair.said["groups"] if pair.said else ())
    true = _kinds_by_edge(pair.true["groups"])
    hits = total = 0.0
    for group, volumes in zip(pair.true["groups"], edge_bytes_by_group(pair.true), strict=True):
        hits += sum(
            volume
            for edge, volume in volumes.items()
            if holds(group["kind"], stated.get(edge, set()), true[edge])
        )
        total += sum(volumes.values())
    return Ratio(hits, total)


def _kinds_by_edge(groups: Iterable[Document]) -> dict[Edge, set[str]]:
    kinds: dict[Edge, set[str]] = {}
    for group in groups:
        for edge in edges_of(group):
            kinds.setdefault(edge, set()).add(group["kind"])
    return kinds


def membership(true_jobs: Sequence[Document], said_jobs: Sequence[Document]) -> Overlap:
    """Pairs of endpoints in one group of one kind, (kind, {a, b}), over all jobs: T against R."""
    true, said = _joined(true_jobs), _joined(said_jobs)
    return Overlap(len(true & said), len(true), len(said))


def _joined(jobs: Sequence[Document]) -> set[tuple[str, Pair]]:
    return {
        (group["kind"], pair)
        for job in jobs
        for group in job["groups"]
        for pair in unordered_pairs(group["members"])
    }


def exact_groups(pair: JobPair) -> Ratio:
    """``|T groups whose R group has the same kind and the same members| / |T groups|``."""
    hits = sum(
        said is not None
        and true["kind"] == said["kind"]
        and set(true["members"]) == set(said["members"])
        for _, true, said in pair.answers()
    )
    return Ratio(hits, len(pair.true["groups"]))


def algorithm_verdicts(pair: JobPair) -> Iterable[Judged]:
    """Per T group: RIGHT if its R group names the same algorithm, ABSTAINED if "unknown"."""
    for subject, true, said in pair.answers():
        if said is None:
            verdict = Verdict.MISSING
        elif said["algorithm"] == true["algorithm"]:
            verdict = Verdict.RIGHT
        elif said["algorithm"] == "unknown":
            verdict = Verdict.ABSTAINED
        else:
            verdict = Verdict.WRONG
        yield Judged(subject, verdict, true["algorithm"], said["algorithm"] if said else "none")


def order_verdicts(pair: JobPair, algorithm: str) -> Iterable[Judged]:
    """Per T group of `algorithm`: whether its R group states the same order (`compare_order`).

    Rings of two are left out, since they have one order only.
    """
    for subject, true, said in pair.answers():
        if true["algorithm"] == algorithm and has_order(true):
            verdict = Verdict.MISSING if said is None else compare_order(true, said)
            yield Judged(subject, verdict, algorithm, said["algorithm"] if said else "none")


def tree_edge_overlap(pair: JobPair) -> Overlap:
    """Edges of each T tree group, without direction, against those of its R group."""
    total = Overlap()
    for _, true, said in pair.answers():
        if true["algorithm"] == "tree":
            real, stated = pairs_of(true), pairs_of(said or {})
            total += Overlap(len(real & stated), len(real), len(stated))
    return total


def group_byte_errors(pair: JobPair) -> Iterable[Measured]:
    """Per T group: ``|R - T| / T`` of `bytes_per_iteration`."""
    for subject, true, said in pair.answers():
        volume = true.get("bytes_per_iteration")
        if volume:
            stated = said.get("bytes_per_iteration") if said else None
            yield Measured(subject, volume, stated, relative_error(stated, volume))


def edge_byte_errors(pair: JobPair) -> Iterable[Measured]:
    """Per edge e of each T group g: ``|r - b(g, e)| / b(g, e)``.

    A result has an edge's bytes over the window, v(e), where iterations are cut at both ends. So
    r is the group's bytes per iteration, split over the R group's edges in proportion to v.
    """
    window = {
        (edge["src"], edge["dst"]): edge.get("bytes")
        for edge in (pair.said or {}).get("edges") or ()
    }
    for (subject, _, said), volumes in zip(
        pair.answers(), edge_bytes_by_group(pair.true), strict=True
    ):
        whole = said.get("bytes_per_iteration") if said else None
        held = edges_of(said) if said else set()
        moved = sum(window.get(edge) or 0.0 for edge in held)
        for (src, dst), true in sorted(volumes.items()):
            if not true:
                continue
            seen = window.get((src, dst)) if (src, dst) in held else None
            stated = None if whole is None or seen is None or not moved else whole * seen / moved
            yield Measured(f"{subject} {src}>{dst}", true, stated, relative_error(stated, true))


def period_error(pair: JobPair) -> Iterable[Measured]:
    """Per T job: ``|R - T| / T`` of `period_s`."""
    period = pair.true.get("period_s")
    if period:
        stated = pair.said.get("period_s") if pair.said else None
        yield Measured(pair.true["id"], period, stated, relative_error(stated, period))


def boundary_errors(pair: JobPair, window: Document) -> Iterable[Boundaries]:
    """Ends of the complete iterations: ``|r - t| / P`` per pair, 1 per missed or invented one.

    Pairs are in order, one to one, at most P/2 apart (`pair_boundaries`). The aligned errors:
    offset = median of the signed ``r - t``; pair again and measure with ``r - offset``. An end
    without a pair within `EDGE` of a period of the window's is none of both: so near to it no
    telemetry tells on which side it lies.
    """
    period = pair.true.get("period_s")
    true = iteration_ends(pair.true, window)
    if not period or not len(true):
        return
    said = iteration_ends(pair.said or {}, window)
    matches = pair_boundaries(true, said, period / 2)
    signed = [said[r] - true[t] for t, r in matches]
    offset = float(np.median(signed)) if signed else 0.0
    moved = said - offset
    again = pair_boundaries(true, moved, period / 2)
    edge = seconds(window["end"], window["start"])
    true_counts, said_counts = (np.abs(ends - edge) > EDGE * period for ends in (true, said))
    lost = _unpaired(true_counts, [t for t, _ in matches])
    extra = _unpaired(said_counts, [r for _, r in matches])
    left = _unpaired(true_counts, [t for t, _ in again])
    left += _unpaired(said_counts, [r for _, r in again])
    yield Boundaries(
        subject=pair.true["id"],
        raw=(*(abs(error) / period for error in signed), *[1.0] * (lost + extra)),
        aligned=(*(abs(moved[r] - true[t]) / period for t, r in again), *[1.0] * left),
        offset_s=offset,
        missed=lost,
        invented=extra,
    )


def _unpaired(counts: np.ndarray[tuple[int], np.dtype[np.bool_]], paired: Sequence[int]) -> int:
    """How many of the ends that count are not paired."""
    return int(np.delete(counts, paired).sum())


def iteration_ends(job: Document, window: Document) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Ends of a job's complete iterations, seconds from the window's start, ascending."""
    complete = (i for i in job.get("iterations") or () if i.get("complete", True))
    return np.sort(np.array([seconds(i["end"], window["start"]) for i in complete], np.float64))


def anomaly_overlaps(pairs: Sequence[JobPair], lone: Sequence[Document]) -> tuple[Overlap, Overlap]:
    """Anomalies paired by kind and time, and those of them whose first subject agrees too.

    Findings of false jobs count as said, those of missed jobs as true.
    """
    true_count = said_count = same_kind = same_subject = 0
    for pair in pairs:
        true, said = anomalies_of(pair.true), anomalies_of(pair.said)
        matches = pair_anomalies(true, said, pair.true.get("period_s") or 0.0)
        true_count += len(true)
        said_count += len(said)
        same_kind += len(matches)
        same_subject += sum(first_subject(true[t]) == first_subject(said[r]) for t, r in matches)
    said_count += sum(len(job.get("anomalies") or ()) for job in lone)
    return (
        Overlap(same_kind, true_count, said_count),
        Overlap(same_subject, true_count, said_count),
    )


def confident(claims: Iterable[Claim]) -> Ratio:
    """``|right claims with confidence >= 0.9| / |right claims|``."""
    right = [claim for claim in claims if claim.right]
    return Ratio(sum(claim.confidence >= CONFIDENT for claim in right), len(right))
