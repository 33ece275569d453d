"""Roles: what a part of a job's traffic is for.

Rings, trees and recursive exchanges reduce gradients; chains pass activations on. A pair may be
either, and the lag between its directions tells: stages answer each other half a pipeline later,
members of a collective at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from patterns import messages, phases
from patterns.claim import (
    AMBIGUOUS_CEILING,
    MESSAGES_CEILING,
    ROLE_CEILING,
    WEAK_ROLE_CEILING,
    claim,
)
from patterns.layers import Part
from patterns.result import AlgorithmName, Claim, Kind
from patterns.shape import Shape
from patterns.stages import Lag
from reconstruct.bins import CLASS_NAMES
from reconstruct.edges import Flows

PIPELINE_LAG: Final = 0.05  # of the turn; pipelines 0.07 to 0.17, collectives at most 0.04
BURST: Final = 0.6  # a gradient burst fills less of the turn than this
LAG_SIGMAS: Final = 3.0
SERVES_ANY: Final = ("broadcast", "all_gather", "all_to_all", "unknown")  # of what a shape says
SAMPLES_FOR_PHASE: Final = 10.0
SAMPLES_FOR_SHAPE: Final = 3.0


@dataclass(frozen=True, slots=True)
class Role:
    """What a part is for, and what a pair is drawn by."""

    kind: Kind
    algorithm: AlgorithmName
    kind_claim: Claim
    algorithm_claim: Claim


def role_of(flows: Flows, part: Part, shape: Shape, samples: int, lag: Lag) -> Role:
    """Role of a part with a shape.

    Parameters
    ----------
    flows : Flows
    part : Part
    shape : Shape
    samples : int
        What its weakest edge rests on.
    lag : Lag
        Of a chain or pair and its like, see `patterns.stages`.
    """
    if len(shape.members) == 2:
        return _pair(flows, part, samples, lag)
    if shape.collective in SERVES_ANY or shape.algorithm == "all_to_all":
        return _serving(shape, samples)
    if shape.algorithm == "chain":
        return _pipeline(part, shape, samples, lag)
    return _reducing(flows, part, shape, samples)


def _serving(shape: Shape, samples: int) -> Role:
    drawn = f"edges draw one {shape.variant or shape.algorithm}"
    if shape.algorithm == "all_to_all" and shape.variant is None:
        drawn = "every member sends to every other"
    if shape.ambiguous:
        drawn += f"; {shape.ambiguous} looks the same"
    shown = claim(AMBIGUOUS_CEILING if shape.ambiguous else 0.95, samples, 2.0, drawn)
    may = claim(0.5, 0, 1.0, "it reduces nothing, and may serve any")
    return Role("unknown", shape.algorithm, may, shown)


def _reducing(flows: Flows, part: Part, shape: Shape, samples: int) -> Role:
    share = phases.active_share(flows, part.flows)
    burst = share < BURST
    kind = claim(
        ROLE_CEILING if burst else WEAK_ROLE_CEILING,
        int(flows.samples[part.flows].sum()),
        SAMPLES_FOR_PHASE * 3,
        f"{shape.algorithm} through {len(shape.members)} members, active in {share:.0%} of a turn",
    )
    drawn = f"edges draw one {shape.variant or shape.algorithm}"
    ceiling = AMBIGUOUS_CEILING if shape.ambiguous else 0.98
    if shape.ambiguous and _class_name(part) == "tree_simple" and shape.algorithm == "tree":
        ceiling, drawn = 0.93, drawn + ", and messages of 512 KiB agree"
    elif shape.ambiguous:
        drawn += f"; {shape.ambiguous} looks the same"
    return Role("dp", shape.algorithm, kind, claim(ceiling, samples, 2.0, drawn))


def _pipeline(part: Part, shape: Shape, samples: int, lag: Lag) -> Role:
    basis = f"path of {len(shape.members)} stages used both ways"
    sent = messages.is_point_to_point(part.message_class)
    apart = lag.sigmas >= LAG_SIGMAS
    if sent:
        basis += f", messages of {_class_name(part)}"
    if apart:
        basis += f", directions {lag.share:.0%} of a turn apart"
    # A reduction down a chain and the broadcast back up it are apart as well.
    ceiling = (ROLE_CEILING if apart else 0.95) if sent else (0.88 if apart else 0.85)
    drawn = claim(0.98, samples, 2.0, f"path of {len(shape.members)}, both ways")
    return Role("pp", "chain", claim(ceiling, samples, SAMPLES_FOR_SHAPE, basis), drawn)


def _pair(flows: Flows, part: Part, samples: int, lag: Lag) -> Role:
    total = int(flows.samples[part.flows].sum())
    name = _class_name(part)
    send_recv = messages.is_point_to_point(part.message_class)
    apart = lag.share >= PIPELINE_LAG and lag.sigmas >= LAG_SIGMAS
    if apart and (send_recv or name is None):
        basis = f"directions {lag.share:.0%} of a turn apart"
        basis += f", messages of {name}" if name else ""
        sure = claim(ROLE_CEILING if send_recv else 0.92, samples, SAMPLES_FOR_SHAPE, basis)
        return Role("pp", "chain", sure, sure)
    if send_recv:
        told = claim(MESSAGES_CEILING, samples, SAMPLES_FOR_SHAPE, f"messages of {name} both ways")
        return Role("pp", "chain", told, told)
    if name in ("ring_simple", "tree_simple"):
        basis = f"messages of {name} both ways"
        told = claim(MESSAGES_CEILING, total, SAMPLES_FOR_SHAPE, basis)
        share = phases.active_share(flows, part.flows)
        kind = claim(MESSAGES_CEILING if share < BURST else 0.6, total, SAMPLES_FOR_SHAPE, basis)
        return Role("dp", "ring" if name == "ring_simple" else "tree", kind, told)
    unsure = claim(0.5, 0, 1.0, "a pair used both ways at once: a ring, a tree or stages")
    return Role("unknown", "unknown", unsure, unsure)


def _class_name(part: Part) -> str | None:
    known = part.message_class != messages.UNKNOWN
    return CLASS_NAMES[part.message_class] if known else None
