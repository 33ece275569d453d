"""Families: groups of one job that are alike, and how two families lie to each other.

All groups of one kind have as many members, carry as much and share no endpoint. So they are told
together: what one of them hides another shows, and how two families of groups cross says more
than either of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from patterns import messages
from patterns.layers import Part
from patterns.shape import Shape
from patterns.stages import Lag
from reconstruct.edges import Flows

LIKE_VOLUME: Final = 1.3  # ratio of bytes per edge up to which groups are of one family
PIPELINE_LAG: Final = 0.05  # of the turn; pipelines 0.07 to 0.17, collectives at most 0.04
LAG_SIGMAS: Final = 3.0
MOST: Final = 0.8  # of a family's groups that lie alike to another family's

Lie = Literal["same", "inside", "across"]
Messages = Literal["point_to_point", "collective"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A part of a job's traffic that has a shape.

    Parameters
    ----------
    part : Part
    shape : Shape
    samples : int
        Of its weakest edge.
    lag : Lag
        Of a chain or pair and its like, see `patterns.stages`.
    """

    part: Part
    shape: Shape
    samples: int
    lag: Lag


@dataclass(frozen=True, slots=True)
class Family:
    """Groups that are alike.

    Parameters
    ----------
    items : tuple of Drawn
    rows : intp[k]
        Rows of all of them in the job's `Flows`.
    profile : float64[PHASES]
        Their samples by phase of the turn.
    messages : str or None
        What the lengths of their messages are those of; None where none was read.
    """

    items: tuple[Drawn, ...]
    rows: NDArray[np.intp]
    profile: NDArray[np.float64]
    messages: Messages | None

    @property
    def size(self) -> int:
        """Members of each group."""
        return len(self.items[0].shape.members)

    @property
    def algorithm(self) -> str:
        """What each group draws; "pair" where it has two members."""
        return _figure(self.items[0].shape)

    @property
    def apart(self) -> bool:
        """Whether the two directions of its links run apart, as stages answer each other."""
        told = [
            item.lag.share >= PIPELINE_LAG and item.lag.sigmas >= LAG_SIGMAS for item in self.items
        ]
        return sum(told) > len(told) / 2

    @property
    def group_of(self) -> dict[int, int]:
        """Number of the group of each endpoint."""
        return {v: n for n, item in enumerate(self.items) for v in item.shape.members}


def families(flows: Flows, drawn: Sequence[Drawn]) -> list[Family]:
    """The parts of a job by family, each part in one.

    Alike are those with as many members and the same picture, and of these, those that carry
    nearly as much, or share no endpoint: the stages of a pipeline may carry unlike volumes.
    """
    alike: dict[tuple[str, int, bool], list[Drawn]] = {}
    for item in drawn:
        sent = messages.is_point_to_point(item.part.message_class)
        key = _figure(item.shape), len(item.shape.members), sent
        alike.setdefault(key, []).append(item)
    return [
        _family(flows, items)
        for candidates in alike.values()
        for items in _joined(_by_volume(flows, candidates))
    ]


def _figure(shape: Shape) -> str:
    return "pair" if len(shape.members) == 2 else shape.algorithm


def _by_volume(flows: Flows, items: Sequence[Drawn]) -> list[list[Drawn]]:
    """Items parted where the next heavier one carries clearly more on an edge."""
    volume = [
        float(np.nansum(flows.bytes_per_turn[i.part.flows])) / i.part.graph.number_of_edges()
        for i in items
    ]
    out: list[list[Drawn]] = []
    last = 0.0
    for n in np.argsort(volume, kind="stable").tolist():
        if not out or volume[n] > LIKE_VOLUME * last:
            out.append([])
        out[-1].append(items[n])
        last = volume[n]
    return out


def _joined(clusters: Sequence[list[Drawn]]) -> list[list[Drawn]]:
    """Clusters joined that have no endpoint in common."""
    out: list[tuple[set[int], list[Drawn]]] = []
    for items in clusters:
        ends = {v for item in items for v in item.shape.members}
        for other, members in out:
            if not ends & other:
                other |= ends
                members.extend(items)
                break
        else:
            out.append((ends, list(items)))
    return [items for _, items in out]


def _family(flows: Flows, items: Sequence[Drawn]) -> Family:
    rows = np.concatenate([item.part.flows for item in items])
    told = Counter(
        messages.is_point_to_point(item.part.message_class)
        for item in items
        if item.part.message_class != messages.UNKNOWN
    )
    read: Messages | None = None
    if told:
        read = "point_to_point" if told.most_common(1)[0][0] else "collective"
    return Family(tuple(items), rows, flows.phases[rows].sum(axis=0), read)


def lie(family: Family, others: Iterable[Family]) -> Lie | None:
    """How the groups of a family lie to those of some others, which share no endpoint.

    Returns
    -------
    str or None
        "inside" where the members of each group are in one of the others' groups, "same" where
        that one has no other members, "across" where each member is in another; None where most
        groups lie neither way, or outside of all. An exchange may join rails, on each of which it
        lies inside another.
    """
    number: dict[int, tuple[int, int]] = {}
    sizes: Counter[tuple[int, int]] = Counter()
    for which, other in enumerate(others):
        for v, group in other.group_of.items():
            number[v] = (which, group)
            sizes[which, group] += 1
    counted: Counter[Lie | None] = Counter()
    for item in family.items:
        members = item.shape.members
        found = Counter(number[v] for v in members if v in number)
        each = set(found.values())
        if found.total() < len(members) or len(each) > 1:
            counted[None] += 1
        elif each == {1}:
            counted["across"] += 1
        elif len(found) == 1:
            whole = sizes[next(iter(found))] == len(members)
            counted["same" if whole else "inside"] += 1
        elif family.algorithm == "all_to_all":
            counted["inside"] += 1
        else:
            counted[None] += 1
    [(best, count)] = counted.most_common(1)
    return best if count >= MOST * len(family.items) else None
