"""What a picture of a job shows: its groups, with equal rails folded into one drawing."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from statistics import median
from typing import Final

from patterns.result import Claim, Edge, Group, Iteration, JobResult

KINDS: Final = ("dp", "tp", "pp", "cp", "ep")
_NO_REASON: Final = "no reason given"
_KIND_ORDER: Final = (*KINDS, "unknown")

_Parents = tuple[tuple[str, str], ...]  # (child, parent), sorted
_Outline = tuple[tuple[str, ...], tuple[_Parents, ...]]  # nodes in order, distinct trees
_Head = tuple[str, str, str | None, str, int]  # the first five fields of a Block


@dataclass(frozen=True, slots=True)
class Shape:
    """One drawing, and how many groups it stands for."""

    nodes: tuple[str, ...]  # ring: along its edges; chain: by stage; else as the group lists them
    trees: tuple[Mapping[str, str], ...]  # child -> parent, one per distinct tree
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """All groups of one kind, algorithm, collective and size."""

    kind: str
    algorithm: str
    variant: str | None
    collective: str
    size: int
    shapes: tuple[Shape, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(group for shape in self.shapes for group in shape.groups)

    @property
    def bytes_per_iteration(self) -> float | None:
        """Median over the block's groups, bytes; None if none is known."""
        known = [
            group.bytes_per_iteration
            for group in self.groups
            if group.bytes_per_iteration is not None
        ]
        return median(known) if known else None

    @property
    def confidence(self) -> float:
        """Of the least sure group."""
        return min(group.confidence for group in self.groups)


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration as the strip shows it."""

    iteration: Iteration
    relative: float | None  # duration over the median of complete iterations; None: cut
    slow: bool


def blocks_of(job: JobResult) -> tuple[Block, ...]:
    """Groups of a job, folded, in the order dp, tp, pp, cp, ep, unknown and by falling bytes."""
    host_of = {rank.endpoint: rank.host for rank in job.ranks}
    nics_of = Counter(host_of.values())
    folded: dict[tuple[_Head, _Outline], list[Group]] = defaultdict(list)
    for group in job.groups:
        folded[_head(group), _outline(group, _by_host(group, host_of))].append(group)

    shapes: dict[_Head, list[Shape]] = defaultdict(list)
    for (head, outline), groups in folded.items():
        alone = groups[0]
        if len(groups) == 1 and any(nics_of[host_of.get(m, m)] > 1 for m in alone.members):
            # The host's name would not say which of its NICs is meant.
            outline = _outline(alone, {member: member for member in alone.members})
        nodes, trees = outline
        shapes[head].append(Shape(nodes, tuple(dict(tree) for tree in trees), tuple(groups)))
    blocks = [
        Block(*head, shapes=tuple(sorted(found, key=lambda shape: [*map(natural, shape.nodes)])))
        for head, found in shapes.items()
    ]
    return tuple(
        sorted(
            blocks,
            key=lambda b: (_KIND_ORDER.index(b.kind), -(b.bytes_per_iteration or 0), -b.size),
        )
    )


def _head(group: Group) -> _Head:
    return group.kind, group.algorithm, _variant(group), group.collective, len(group.members)


def _variant(group: Group) -> str | None:
    for algorithm in group.algorithms:
        if algorithm.algorithm == group.algorithm:
            return algorithm.variant
    return None


def _by_host(group: Group, host_of: Mapping[str, str]) -> dict[str, str]:
    """Member -> host, or member -> member where a host would stand twice."""
    names = {member: host_of.get(member, member) for member in group.members}
    if len(set(names.values())) < len(names):
        return {member: member for member in group.members}
    return names


def _outline(group: Group, names: Mapping[str, str]) -> _Outline:
    """What makes two groups the same drawing: nodes in order, and distinct trees."""
    parents: set[_Parents] = set()
    for algorithm in group.algorithms:
        if algorithm.algorithm == "tree":
            for channel in algorithm.channels:
                if channel.parent:
                    parents.add(
                        tuple(
                            sorted(
                                (names[child], names[up]) for child, up in channel.parent.items()
                            )
                        )
                    )
    nodes = tuple(names[member] for member in group.members)
    if group.algorithm == "ring":
        nodes = _rotated(nodes)
    elif group.algorithm != "chain":
        nodes = tuple(sorted(nodes, key=natural))
    return nodes, tuple(sorted(parents))


def _rotated(ring: tuple[str, ...]) -> tuple[str, ...]:
    start = ring.index(min(ring, key=natural))
    return ring[start:] + ring[:start]


def host_edges_of(job: JobResult) -> dict[str, set[Edge]]:
    """Edges between hosts by kind of group, as the data flows, whichever NICs carry them."""
    host_of = {rank.endpoint: rank.host for rank in job.ranks}
    edges: dict[str, set[Edge]] = defaultdict(set)
    for group in job.groups:
        between = {(host_of.get(src, src), host_of.get(dst, dst)) for src, dst in group.edges}
        edges[group.kind] |= {(src, dst) for src, dst in between if src != dst}
    return {kind: edges[kind] for kind in _KIND_ORDER if kind in edges}


def host_rows_of(job: JobResult) -> list[tuple[str, ...]]:
    """The hosts of a job, row by row: a row is a largest group that shares no host with others.

    Within a row hosts stand in the group's order, and rows in the order of a chain's stages; hosts
    of no group are the last row.
    """
    host_of = {rank.endpoint: rank.host for rank in job.ranks}
    rows: list[tuple[str, ...]] = []
    placed: set[str] = set()
    for group in sorted(job.groups, key=lambda g: (-len(g.members), _KIND_ORDER.index(g.kind))):
        row = tuple(dict.fromkeys(host_of.get(member, member) for member in group.members))
        if placed.isdisjoint(row):
            rows.append(_rotated(row) if group.algorithm == "ring" else row)
            placed.update(row)
    stage_of = {
        host_of.get(member, member): stage
        # Of a chain that was seen in part, the first stage is none: the longest has the last word.
        for group in sorted(job.groups, key=lambda group: len(group.members))
        if group.algorithm == "chain"
        for stage, member in enumerate(group.members)
    }
    rows.sort(key=lambda row: min(stage_of.get(host, 0) for host in row))
    rest = tuple(sorted(set(job.hosts) - placed, key=natural))
    return [*rows, rest] if rest else rows


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key under which "10.0.0.9" comes before "10.0.0.10"."""
    return tuple(
        (int(piece) if piece.isdigit() else -1, piece) for piece in re.split(r"([0-9]+)", name)
    )


def steps_of(job: JobResult) -> tuple[Step, ...]:
    """Iterations of a job with their length in proportion, and which ones a finding calls slow."""
    lengths = [it.duration_s for it in job.iterations if it.complete]
    usual = median(lengths) if lengths else None
    slow = sorted(
        (anomaly.start_ns, inf if anomaly.end_ns is None else anomaly.end_ns)
        for anomaly in job.anomalies
        if anomaly.kind == "slow_iteration"
    )
    starts = [start for start, _ in slow]
    # The latest end of any that began before.
    ends = list(accumulate((end for _, end in slow), max, initial=-inf))
    return tuple(
        Step(
            iteration=it,
            relative=it.duration_s / usual if it.complete and usual else None,
            slow=_middle(it) < ends[bisect_right(starts, _middle(it))],
        )
        for it in job.iterations
    )


def _middle(iteration: Iteration) -> int:
    return (iteration.start_ns + iteration.end_ns) // 2


def unknowns_of(job: JobResult) -> tuple[tuple[str, str], ...]:
    """(what is not known, why) for a job, in the order a reader meets them.

    Things that share one reason share one line, as ("dp, tp", reason).
    """
    found: dict[str, list[str]] = defaultdict(list)
    if job.period_s is None:
        found[_reason(job.evidence, "period")].append("period")
    for kind in KINDS:
        if getattr(job.parallelism, kind) is None:
            found[job.parallelism.basis.get(kind, _NO_REASON)].append(kind)
    for statement in ("kind", "algorithm"):
        reasons = Counter(
            _reason(group.evidence, statement)
            for group in job.groups
            if getattr(group, statement) == "unknown"
        )
        for reason, count in reasons.items():
            found[reason].append(f"{statement} of {count} group{'s' * (count > 1)}")
    return tuple((", ".join(names), reason) for reason, names in found.items())


def _reason(evidence: Mapping[str, Claim], statement: str) -> str:
    return evidence[statement].basis if statement in evidence else _NO_REASON


def sizes_line(sizes: Sequence[Mapping[str, int]], most: int) -> str:
    """Candidates as "dp 8 tp 4, dp 32 or 3 more"; sizes of 1 are left out."""
    named = [
        " ".join(f"{kind} {size[kind]}" for kind in KINDS if size.get(kind, 1) > 1) or "one GPU"
        for size in sizes
    ]
    if len(named) > most:
        named = [*named[:most], f"{len(named) - most} more"]
    return " or ".join(filter(None, [", ".join(named[:-1]), *named[-1:]]))
