"""Kinds: which dimension of a job's parallelism a family of groups serves.

One family never tells alone; how the families lie to each other does. Megatron-Core's rank map
(core/parallel_state.py, order "tp-cp-ep-dp-pp") and every other we know of agree in this: ranks
that share their parameters reduce one gradient together, and they are spread over data and context
parallelism. So partners in context or expert parallelism are inside one gradient group, and those
in tensor or pipeline parallelism, which hold unlike parameters, are each in another. Replicas of an
expert are inside a gradient group too, and across the groups that exchange tokens.

Time tells gradients from the rest: they pass once a turn, and all else passes in every layer or
micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Literal

import numpy as np

from patterns import phases
from patterns.alternation import alternate
from patterns.claim import ROLE_CEILING, WEAK_ROLE_CEILING
from patterns.equality import equal_volume
from patterns.families import Drawn, Family, families, lie
from patterns.result import Kind
from reconstruct.edges import Flows

BURST: Final = 0.6  # a gradient burst fills less of the turn than this
THROUGHOUT: Final = 0.4  # and what every layer sends fills more than this,
LONGER: Final = 1.3  # more by this factor than the gradients do, and
BRIEF: Final = 0.15  # a pipeline would rest for six sevenths of the turn
BESIDE: Final = 0.3  # of its samples lie where the gradients are still
TOGETHER: Final = 0.5  # of one family's samples in the other's phases: they pass together
SAMPLES_FOR_TIME: Final = phases.FEWEST_OF_A_SET  # of a family: fewer leave phases empty

LIKE_SHARDS: Final = 0.04  # of a ratio of volumes
VOLUME_TOLD: Final = 0.02  # relative error up to which volumes show whether they are unlike
LOOSE: Final = 0.02  # share of the bytes without a shape that may hide a family
ALONE_CEILING: Final = 0.93  # nothing in the job says anything else

REDUCING: Final = ("ring", "tree", "recursive", "pair")
SERVES_ANY: Final = ("broadcast", "all_gather", "all_to_all", "unknown")

When = Literal["throughout", "together", "apart"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a family serves.

    Parameters
    ----------
    kind : str
    ceiling : float
        Confidence with endless samples.
    basis : str
    samples : int
        Of the weakest edges of the family's groups, which tell together.
    """

    kind: Kind
    ceiling: float
    basis: str
    samples: int = 0


def verdicts(flows: Flows, drawn: Sequence[Drawn], loose: float) -> list[Verdict]:
    """What each part with a shape serves, all families told together.

    Parameters
    ----------
    flows : Flows
    drawn : sequence of Drawn
    loose : float
        Share of the job's bytes in parts without a shape: what is not seen may be among them.
    """
    every = families(flows, drawn)
    gradients = _gradients(every)
    said = {}
    for family in every:
        verdict = _verdict(flows, family, every, gradients, loose)
        seen = sum(item.samples for item in family.items)
        said.update({id(item): replace(verdict, samples=seen) for item in family.items})
    return [said[id(item)] for item in drawn]


def _gradients(every: Sequence[Family]) -> list[Family]:
    """The families that reduce gradients over all replicas, those of experts left out.

    Of two families that cross each other one holds what the other shares: gradients pass once a
    turn, in a burst. Where times do not part them, none is taken.
    """
    found = [f for f in every if _may_reduce(f) and f.messages != "point_to_point"]
    if any(f.size > 2 for f in found):
        # Two members without a message read may be anything.
        found = [f for f in found if f.size > 2 or f.messages is not None]
    found = found or [f for f in every if _may_reduce(f) and f.size > 2]
    found = [f for f in found if all(lie(f, [g]) != "inside" for g in found if g is not f)]
    out = set(map(id, found))
    for one, other in combinations(found, 2):
        if "across" not in (lie(one, [other]), lie(other, [one])):
            continue
        ways = when(one, other), when(other, one)
        if ways[0] == "throughout":
            out.discard(id(one))
        elif ways[1] == "throughout":
            out.discard(id(other))
        elif "together" not in ways or not (is_burst(one) and is_burst(other)):
            out -= {id(one), id(other)}
    return [f for f in found if id(f) in out]


def _may_reduce(family: Family) -> bool:
    return (
        family.algorithm in REDUCING
        and not family.apart
        and family.items[0].shape.collective not in SERVES_ANY
    )


def is_burst(family: Family) -> bool:
    """Whether a family passes in a small part of the turn."""
    return bool(phases.active(family.profile).mean() < BURST)


def when(family: Family, other: Family) -> When | None:
    """When in a turn a family passes, beside another.

    Returns
    -------
    str or None
        "throughout" where it fills much of the turn while the other is still, "together" where one
        of them passes in the other's phases, "apart" where neither does; None where either has too
        few samples.
    """
    if min(family.profile.sum(), other.profile.sum()) < SAMPLES_FOR_TIME:
        return None
    mine, theirs = phases.active(family.profile), phases.active(other.profile)
    inside = float(family.profile[theirs].sum() / family.profile.sum())
    reverse = float(other.profile[mine].sum() / other.profile.sum())
    longer = mine.mean() >= max(THROUGHOUT, LONGER * theirs.mean())
    if longer and 1 - inside >= BESIDE:
        return "throughout"
    return "together" if max(inside, reverse) >= TOGETHER else "apart"


def _verdict(
    flows: Flows,
    family: Family,
    every: Sequence[Family],
    gradients: Sequence[Family],
    loose: float,
) -> Verdict:
    if any(family is one for one in gradients):
        return _reduces(family, every, gradients)
    if family.items[0].shape.collective in SERVES_ANY and family.algorithm != "all_to_all":
        return _unknown("it reduces nothing, and may serve any")
    way = lie(family, gradients)
    if way in ("inside", "same"):
        return _inside(flows, family, every, gradients, loose)
    if way == "across":
        return _across(flows, family, gradients)
    return _beside(flows, family)


def _unknown(basis: str) -> Verdict:
    return Verdict("unknown", 0.5, basis)


def _reduces(family: Family, every: Sequence[Family], gradients: Sequence[Family]) -> Verdict:
    """Gradients: sure where they pass in a burst, or while all else is still."""
    share = float(phases.active(family.profile).mean())
    basis = f"{family.algorithm} through {family.size} members, active in {share:.0%} of a turn"
    others = [f for f in every if all(f is not one for one in gradients)]
    around = [f for f in others if when(f, family) == "throughout"]
    if any(lie(family, [one]) == "across" for one in gradients if one is not family):
        return Verdict("dp", WEAK_ROLE_CEILING, basis + "; across another that passes with it")
    if family.messages == "point_to_point":
        return Verdict("dp", WEAK_ROLE_CEILING, basis + ", by messages of send and receive")
    if around:
        return Verdict("dp", ROLE_CEILING, f"{basis}, where other groups are still")
    if family.size == 2:
        return _reduces_in_pairs(family, basis)
    if is_burst(family):
        return Verdict("dp", ROLE_CEILING, basis)
    if not others and family.profile.any():
        return Verdict("dp", ALONE_CEILING, basis + "; nothing else passes between hosts")
    return Verdict("dp", WEAK_ROLE_CEILING, basis)


def _reduces_in_pairs(family: Family, basis: str) -> Verdict:
    if family.messages is None:
        return _unknown("a pair used both ways at once: a ring, a tree or stages")
    basis += ", messages of a collective both ways"
    return Verdict("dp", ALONE_CEILING if is_burst(family) else 0.6, basis)


def _inside(
    flows: Flows,
    family: Family,
    every: Sequence[Family],
    gradients: Sequence[Family],
    loose: float,
) -> Verdict:
    """Partners that reduce one gradient together: context, experts, or an expert's replicas."""
    times = {when(family, one) for one in gradients}
    crossing = [
        f for f in every if lie(family, [f]) == "across" and lie(f, gradients) in ("inside", "same")
    ]
    basis = f"{family.algorithm} of {family.size} inside the gradient groups"
    if family.apart or family.algorithm == "chain":
        return _unknown(basis + ", with directions apart as between stages")
    if family.messages != "point_to_point" and _may_reduce(family):
        tokens = [f for f in crossing if _may_exchange(f)]
        if family.size == 2 and family.messages is None and crossing and not tokens:
            # Replicas are across groups that exchange tokens, and nothing else may exchange them.
            return Verdict("ep", 0.75, basis + ", and only groups that reduce lie across it")
        if family.size > 2 and not crossing and times == {"apart"}:
            # Replicas of experts are across groups that exchange tokens.
            basis += ", at other times, and across it nothing is exchanged"
            return Verdict("cp", WEAK_ROLE_CEILING, basis)
        if "throughout" not in times and (family.size > 2 or crossing or family.messages):
            ceiling = 0.95 if tokens or "together" in times else WEAK_ROLE_CEILING
            return Verdict("dp", ceiling, basis + ", and passing with them: replicas of a part")
        if family.size > 2 and "throughout" in times:
            return Verdict("cp", 0.75, basis + ", while those are still")
        return _unknown(basis + ": context, experts or replicas of a part")
    if any(not _may_exchange(f) and f.messages != "point_to_point" for f in crossing):
        return Verdict("ep", 0.96, basis + ", and groups across it reduce with those")
    if family.algorithm == "ring":
        ceiling = 0.93 if "throughout" in times else 0.85
        return Verdict("cp", ceiling, basis + " that hand on by send and receive")
    uneven = _uneven(flows, family)
    if uneven is None or loose > LOOSE:
        return _unknown(basis + ": too little is seen to say whether experts or context")
    if lie(family, gradients) == "inside":
        # Experts that several groups hold have replicas, which reduce their gradients.
        basis += ", and no replicas of experts reduce gradients across it"
        if uneven:
            return Verdict("ep", 0.75, basis + "; its members exchange unlike volumes")
        return Verdict("cp", 0.92, basis + "; both ways equally much")
    if uneven:
        return Verdict("ep", 0.87, basis + ", its members exchanging unlike volumes")
    return _unknown(basis + ": experts, or context by heads")


def _may_exchange(family: Family) -> bool:
    return family.algorithm == "all_to_all" or (
        family.algorithm == "pair" and family.messages == "point_to_point"
    )


def _uneven(flows: Flows, family: Family) -> bool | None:
    """Whether most groups have members that send unlike volumes; None where none are told."""
    if not np.median(flows.error[family.rows]) <= VOLUME_TOLD:
        return None
    uneven = [equal_volume(flows, item.part.flows) is None for item in family.items]
    return sum(uneven) > len(uneven) / 2


def _across(flows: Flows, family: Family, gradients: Sequence[Family]) -> Verdict:
    """Partners that reduce gradients with others each: stages, or parts of one layer."""
    times = {when(family, one) for one in gradients}
    basis = f"{family.algorithm} of {family.size} across the gradient groups"
    if family.algorithm == "chain":
        return _stages(family)
    if family.algorithm == "pair" and family.apart and family.messages != "collective":
        return _stages(family)
    if family.algorithm == "pair" and family.messages == "point_to_point":
        return Verdict("pp", 0.92, basis + ", by messages of send and receive")
    if family.algorithm == "all_to_all":
        return Verdict("ep", 0.75, basis + ": everyone with everyone")
    if not _may_reduce(family) or family.messages == "point_to_point":
        return _unknown(basis + ", by messages of send and receive")
    if family.messages is None and family.size == 2:
        return _unknown(basis + ", both ways at once: stages, or parts of one layer")
    if times != {"throughout"}:
        return _unknown(basis + ", and it is not told when they pass beside gradients")
    basis += ", while those are still"
    if any(_like_shards(flows, family, one) for one in gradients):
        return Verdict("tp", 0.75, basis + "; sharding inside it would carry as much")
    return Verdict("tp", 0.93, basis)


def _like_shards(flows: Flows, family: Family, gradients: Family) -> bool:
    """Whether volumes are those of parameters sharded over a family and replicated across it.

    Parameters of P bytes are gathered twice and their gradients, once or twice as large, scattered
    once: so each of a family's edges carries (2 + f) P. A shard's gradients, f P / n, are
    all-reduced over r replicas: 2 (r - 1) / r times as much.
    """
    inner, outer = (
        float(np.nansum(flows.bytes_per_turn[f.rows]))
        / sum(item.part.graph.number_of_edges() for item in f.items)
        for f in (family, gradients)
    )
    n, r = family.size, gradients.size
    wanted = [(2 + f) * n * r / (2 * f * (r - 1)) for f in (1, 2)]
    return any(abs(inner / outer / one - 1) <= LIKE_SHARDS for one in wanted)


def _beside(flows: Flows, family: Family) -> Verdict:
    """A family whose endpoints no gradient group shows whole."""
    if family.algorithm == "chain":
        return _stages(family) if _works(family) else _burst_on_path(flows, family)
    if family.algorithm == "pair" and family.apart and family.messages != "collective":
        return _stages(family)
    return _unknown(f"{family.algorithm} of {family.size}, and no gradient groups to lie in")


def _works(family: Family) -> bool:
    """Whether a path is used through much of the turn, as far as samples tell.

    The last stage of p has sent its first gradient when the first has passed on p - 1 times what a
    stage computes in, and then that comes back as slowly: all but 1 / p of a pipeline's time lies
    between its first and its last transfer, however few micro-batches there are.
    """
    seen = family.profile.sum() >= SAMPLES_FOR_TIME
    return not seen or family.messages is not None or phases.arc(family.profile) >= THROUGHOUT


def _burst_on_path(flows: Flows, family: Family) -> Verdict:
    """No stages, but all of a path at once: in turn, a reduction to one end and its broadcast."""
    share = phases.arc(family.profile)
    basis = f"path of {family.size} used both ways within {share:.0%} of a turn"
    if share < BRIEF and all(_in_turn(flows, item) for item in family.items):
        return Verdict("dp", 0.85, basis + ", first one way, then the other: no stages compute")
    return _unknown(basis + ": stages that rest, or neighbours, or a reduction and its broadcast")


def _in_turn(flows: Flows, item: Drawn) -> bool:
    """Whether a path's directions take turns."""
    place = {v: n for n, v in enumerate(item.shape.members)}
    rows = item.part.flows
    ends = zip(flows.src[rows].tolist(), flows.dst[rows].tolist(), strict=True)
    down = np.array([place[u] < place[v] for u, v in ends], np.bool_)
    return alternate(flows, [rows[down], rows[~down]]) is True


def _stages(family: Family) -> Verdict:
    """A chain, or a pair whose directions run apart."""
    sent, apart = family.messages == "point_to_point", family.apart
    basis = f"path of {family.size} stages used both ways"
    if sent:
        basis += ", messages of send and receive"
    if apart:
        lag = float(np.median([item.lag.share for item in family.items]))
        basis += f", directions {lag:.0%} of a turn apart"
    if family.size == 2:
        return Verdict("pp", ROLE_CEILING if sent else 0.92, basis)
    # A reduction down a chain and the broadcast back up it are apart as well.
    return Verdict(
        "pp", (ROLE_CEILING if apart else 0.95) if sent else 0.88 if apart else 0.85, basis
    )
