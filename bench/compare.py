"""Elementary comparisons of what two documents say: numbers, rings, chains, trees.

A *document* is a result or a truth by `docs/schema/result.schema.json`; a *group* is one entry of
a job's `groups`. Nothing here counts or weighs; `bench.score` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

Document = Mapping[str, Any]
Ring = tuple[str, ...]
Edge = tuple[str, str]
Pair = frozenset[str]


class Verdict(Enum):
    """What became of one thing that the truth knows."""

    RIGHT = "right"
    REVERSED = "reversed"  # an order that is right when read backwards
    IN_CANDIDATES = "in candidates"  # not stated, but the truth is among what was left open
    ABSTAINED = "abstained"
    WRONG = "wrong"
    MISSING = "missing"  # the group or job it belongs to was not found


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one thing the truth knows; `subject` is its job and name."""

    subject: str
    verdict: Verdict
    true: str
    said: str


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of the truth beside the result's; `error` is relative, None if none was said."""

    subject: str
    true: float
    said: float | None
    error: float | None


def relative_error(said: float | None, true: float | None) -> float | None:
    """``|said - true| / |true|``; None where either is unknown or the truth is zero."""
    if said is None or not true:
        return None
    return abs(said - true) / abs(true)


def rotated(ring: Sequence[str]) -> Ring:
    """The rotation of `ring` that is smallest in lexical order: equal rings have equal ones."""
    n = len(ring)
    return min((tuple(ring[k:]) + tuple(ring[:k]) for k in range(n)), default=())


def edges_of(group: Document) -> set[Edge]:
    """Directed edges of a group."""
    return {(src, dst) for src, dst in group.get("edges") or ()}


def pairs_of(group: Document) -> set[Pair]:
    """Edges of a group without their direction, loops left out."""
    return {frozenset(edge) for edge in edges_of(group) if edge[0] != edge[1]}


def channels_of(group: Document) -> list[Document]:
    """All channels of the group's main algorithm."""
    return [
        channel
        for entry in group.get("algorithms") or ()
        if entry.get("algorithm") == group.get("algorithm")
        for channel in entry.get("channels") or ()
    ]


def orders_of(group: Document) -> list[Ring]:
    """Orders a group states: those of its channels, each once.

    A group without `algorithms` states its members' order, since by the contract the members of a
    ring follow its edges and those of a chain its stages. A channel whose order is null states
    none.
    """
    if not group.get("algorithms"):
        return [tuple(group.get("members") or ())]
    stated = (tuple(channel.get("order") or ()) for channel in channels_of(group))
    return list(dict.fromkeys(order for order in stated if order))


def parents_of(group: Document) -> set[frozenset[tuple[str, str]]]:
    """Parent maps of a group's trees, each as its set of (child, parent); equal ones count once."""
    maps = (channel.get("parent") for channel in channels_of(group))
    return {frozenset(parent.items()) for parent in maps if parent}


def has_order(group: Document) -> bool:
    """Whether the order of this group says anything: two on a ring have only one."""
    algorithm = group.get("algorithm")
    if algorithm == "ring":
        return len(set(group.get("members") or ())) > 2
    return algorithm in ("chain", "tree")


def states_order(group: Document) -> bool:
    """Whether the group states a ring order, a chain order or tree parents."""
    if not has_order(group):
        return False
    return bool(parents_of(group) if group.get("algorithm") == "tree" else orders_of(group))


def compare_order(true: Document, said: Document) -> Verdict:
    """Whether `said` states the order of `true`.

    ring: the same set of rings, each up to its rotation; REVERSED when only the direction of every
    ring is wrong. chain: the same stages, first stage first; REVERSED when the last stage was
    taken for the first. tree: the same set of parent maps. Equal channels count once; an order of
    another algorithm is wrong.
    """
    if not states_order(said):
        return Verdict.ABSTAINED
    if said["algorithm"] != true.get("algorithm"):
        return Verdict.WRONG
    compare = {"ring": _compare_rings, "chain": _compare_chains, "tree": _compare_trees}
    return compare[said["algorithm"]](true, said)


def _compare_rings(true: Document, said: Document) -> Verdict:
    stated = orders_of(said)
    rings = {rotated(order) for order in orders_of(true)}
    if {rotated(order) for order in stated} == rings:
        return Verdict.RIGHT
    backwards = {rotated(order[::-1]) for order in stated}
    return Verdict.REVERSED if backwards == rings else Verdict.WRONG


def _compare_chains(true: Document, said: Document) -> Verdict:
    # The first channel states the order of the stages; others may run either way, since
    # activations and gradients do.
    stated = orders_of(said)
    stages = next(iter(orders_of(true)), ())
    if not {stages, stages[::-1]}.issuperset(stated):
        return Verdict.WRONG
    return Verdict.RIGHT if stated[0] == stages else Verdict.REVERSED


def _compare_trees(true: Document, said: Document) -> Verdict:
    return Verdict.RIGHT if parents_of(said) == parents_of(true) else Verdict.WRONG


def jaccard(a: frozenset[object], b: frozenset[object]) -> float:
    """``|a and b| / |a or b|``; 0 for two empty sets."""
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def unordered_pairs(members: Iterable[str]) -> set[Pair]:
    """Every two different members once."""
    distinct = sorted(set(members))
    return {frozenset((a, b)) for index, a in enumerate(distinct) for b in distinct[index + 1 :]}
