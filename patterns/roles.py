"""Roles: what a part of a job's traffic is for, and what a pair is drawn by.

What it serves is told of all parts together, see `patterns.kinds`. Two members draw one picture
whatever they run: there the kind says what it is, or the messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from collector.messages import CLASS_NAMES
from patterns import messages
from patterns.claim import AMBIGUOUS_CEILING, MESSAGES_CEILING, claim
from patterns.families import Drawn
from patterns.kinds import SERVES_ANY, Verdict
from patterns.layers import Part
from patterns.result import AlgorithmName, Claim, Kind
from patterns.shape import MISSABLE
from reconstruct.edges import Flows

SAMPLES_FOR_PHASE: Final = 30.0
SAMPLES_FOR_SHAPE: Final = 3.0
ONCE_OR_TWICE: Final = 3  # samples of an edge: its way back may be missed, whatever its messages
ALIKE_CEILING: Final = 0.92  # larger groups of the job draw it with messages of that length
AS_LARGER_CEILING: Final = 0.7  # they reduce as much on rings
# What two members run who serve a kind.
PAIRED: Final[dict[Kind, AlgorithmName]] = {"pp": "chain", "ep": "all_to_all", "cp": "ring"}
COLLECTIVES: Final[dict[str | None, AlgorithmName]] = {"ring_simple": "ring", "tree_simple": "tree"}


@dataclass(frozen=True, slots=True)
class Role:
    """What a part is for, and what a pair is drawn by.

    Parameters
    ----------
    kind : str
    algorithm : str
    kind_claim, algorithm_claim : Claim
    sent : bool
        Whether messages are those of send and receive.
    """

    kind: Kind
    algorithm: AlgorithmName
    kind_claim: Claim
    algorithm_claim: Claim
    sent: bool


def collectives_seen(drawn: Iterable[Drawn]) -> dict[int, AlgorithmName]:
    """By length of messages, what larger groups of the job draw with them, where that is one."""
    found: dict[int, set[AlgorithmName]] = {}
    for item in drawn:
        length, shape = item.part.message_class, item.shape
        if len(shape.members) > 2 and length != messages.UNKNOWN and shape.ambiguous is None:
            found.setdefault(length, set()).add(shape.algorithm)
    return {length: names.pop() for length, names in found.items() if len(names) == 1}


def least_on_rings(flows: Flows, drawn: Iterable[Drawn]) -> float:
    """The smallest buffer that rings of more than two members move, bytes; inf without such.

    What NCCL reduces on rings, it does so among fewer members too: rings lose by their length only.
    """
    rings = [i for i in drawn if i.shape.algorithm == "ring" and len(i.shape.members) > 2]
    moved = [_buffer_bytes(flows, item) for item in rings if _written(flows, item)]
    return min((each for each in moved if each > 0), default=math.inf)


def _buffer_bytes(flows: Flows, item: Drawn) -> float:
    """Bytes that a ring reduces in a turn: each member sends 2 (n - 1) / n times as much."""
    n = len(item.shape.members)
    return flows.together(item.part.flows) / (2 * (n - 1))


def _written(flows: Flows, item: Drawn) -> bool:
    return bool(flows.written[item.part.flows].all())


def role_of(
    flows: Flows,
    item: Drawn,
    verdict: Verdict,
    seen: Mapping[int, AlgorithmName],
    on_rings: float = math.inf,
) -> Role:
    """Role of a part with a shape.

    Parameters
    ----------
    flows : Flows
    item : Drawn
    verdict : Verdict
        What it serves.
    seen : mapping
        See `collectives_seen`.
    on_rings : float
        See `least_on_rings`.
    """
    samples, needed = verdict.samples, SAMPLES_FOR_SHAPE
    if verdict.kind == "dp":
        samples, needed = int(flows.samples[item.part.flows].sum()), SAMPLES_FOR_PHASE
    elif verdict.kind == "unknown":
        samples = 0
    kind = claim(verdict.ceiling, samples, needed, verdict.basis)
    if len(item.shape.members) == 2:
        algorithm, drawn = _of_pair(flows, item, kind, verdict.kind, seen, on_rings)
    else:
        algorithm, drawn = item.shape.algorithm, _shown(item)
    sent = messages.is_point_to_point(item.part.message_class)
    unread = item.part.message_class == messages.UNKNOWN
    fewest = MISSABLE if sent else ONCE_OR_TWICE if unread else 0
    if algorithm == "ring" and verdict.kind == "unknown" and item.samples < fewest:
        one_way = "an interleaved pipeline of which one way is seen draws a ring, too"
        algorithm, drawn = "unknown", claim(0.5, 0, 1.0, one_way)
    return Role(verdict.kind, algorithm, kind, drawn, sent)


def _shown(item: Drawn) -> Claim:
    """How sure a shape of more than two members is."""
    shape, samples = item.shape, item.samples
    if shape.algorithm == "chain" and shape.collective is None:
        return claim(0.98, samples, 2.0, f"path of {len(shape.members)}, both ways")
    drawn, ceiling = f"edges draw one {shape.variant or shape.algorithm}", 0.98
    if shape.algorithm == "all_to_all" and shape.variant is None:
        drawn = "every member sends to every other"
    if shape.collective in SERVES_ANY or shape.algorithm == "all_to_all":
        ceiling = 0.95
    if shape.ambiguous and class_name(item.part) == "tree_simple" and shape.algorithm == "tree":
        ceiling, drawn = 0.93, drawn + ", and its messages are those of trees"
    elif shape.ambiguous:
        ceiling, drawn = AMBIGUOUS_CEILING, drawn + f"; {shape.ambiguous} looks the same"
    return claim(ceiling, samples, 2.0, drawn)


def _of_pair(
    flows: Flows,
    item: Drawn,
    sure: Claim,
    kind: Kind,
    seen: Mapping[int, AlgorithmName],
    on_rings: float,
) -> tuple[AlgorithmName, Claim]:
    """What two members run, of whose kind we are so `sure`."""
    if kind in PAIRED:
        return PAIRED[kind], sure
    name = class_name(item.part)
    total = int(flows.samples[item.part.flows].sum())
    told, basis = COLLECTIVES.get(name), f"messages of {name} both ways"
    larger = seen.get(item.part.message_class)
    if larger is not None and larger in COLLECTIVES.values() and told in (larger, None):
        alike = claim(ALIKE_CEILING, total, SAMPLES_FOR_SHAPE, basis + ", as in larger groups")
        return larger, alike
    if told is not None:
        return told, claim(MESSAGES_CEILING, total, SAMPLES_FOR_SHAPE, basis)
    unread = item.part.message_class == messages.UNKNOWN
    if kind == "dp" and unread and _written(flows, item) and _buffer_bytes(flows, item) >= on_rings:
        basis = "no length of message was read; larger groups reduce no more, on rings"
        return "ring", claim(AS_LARGER_CEILING, total, SAMPLES_FOR_SHAPE, basis)
    return "unknown", claim(0.5, 0, 1.0, "two members draw a ring, a tree and stages alike")


def class_name(part: Part) -> str | None:
    """Name of the length of a part's messages, where one was read."""
    known = part.message_class != messages.UNKNOWN
    return CLASS_NAMES[part.message_class] if known else None
