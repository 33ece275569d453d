"""Sizes of a job's parallel dimensions, and what the wire cannot tell about them.

What stays inside a host is never seen: tensor parallelism over eight GPUs and eight data-parallel
ranks per host draw the same eight rail rings. Nor are GPUs seen that share a NIC. So groups tell
how many hosts a dimension spans, and sizes that depend on what a host holds are null with their
candidates.

The dense grid has tp * cp * dp * pp ranks, neighbours in tp first, then in cp (Megatron-Core,
core/parallel_state.py): a dimension leaves a host only when those before it fill the host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from patterns.claim import claim, weakest
from patterns.groups import Found
from patterns.result import Kind, Parallelism

GPUS_PER_HOST: Final = (1, 2, 4, 8, 16)  # of servers on sale; a NIC may serve several GPUs
SAMPLES_TO_MISS_A_PIPELINE: Final = 400  # a pipeline may carry 1 % of the bytes: 4 expected
STRAYS: Final = 3  # samples of full packets outside all groups that may be a pipeline's
MAJORITY: Final = 0.6  # of the chains that must agree on a length
ALIKE: Final = 0.8  # of a kind's groups that must span as many hosts
KINDS: Final[tuple[Kind, ...]] = ("dp", "tp", "pp", "cp", "ep")


@dataclass(frozen=True, slots=True)
class Layout:
    """What sizes are read from, beside the groups.

    Parameters
    ----------
    hosts, rail : mapping
        Host of each endpoint id of the job, and which of its host's NICs it is.
    samples : int
        Samples of the job's data in its iterations.
    strays : int
        Those of full packets that no group explains.
    known : bool
        Whether hosts are known; else each endpoint counts as one.
    """

    hosts: Mapping[int, str]
    rail: Mapping[int, int]
    samples: int
    strays: int
    known: bool

    @property
    def rails(self) -> int:
        """NICs of a host that the job uses, the most common number."""
        return Counter(Counter(self.hosts.values()).values()).most_common(1)[0][0]

    def span(self, item: Found) -> frozenset[str]:
        """Hosts of a group's members."""
        return frozenset(self.hosts[v] for v in item.shape.members)


@dataclass(frozen=True, slots=True)
class Spans:
    """Hosts that one group of each kind spans; 1 where none leaves a host.

    Parameters
    ----------
    replicas : int
        Hosts of a gradient group of dense layers.
    tp, cp, ep : int
    cp_rails : int
        NICs of a host that belong to groups of context parallelism.
    stages : int
        Of the pipeline; where chains do not show them, what gradient groups say.
    """

    replicas: int
    tp: int
    cp: int
    ep: int
    cp_rails: int
    stages: int


def parallelism(found: Sequence[Found], layout: Layout) -> Parallelism:
    """Sizes with basis and candidates; what the wire cannot tell is None."""
    if not found:
        return _said({}, (), dict.fromkeys(KINDS, "no group is told"), 0.5)
    basis: dict[str, str] = {}
    stages, sure = _stages(found, layout, basis)
    spans = {kind: _common(found, layout, kind) for kind in ("tp", "cp", "ep")}
    replicas = _common(found, layout, "dp")
    for kind in ("cp", "ep"):
        basis[kind] = "no such traffic between hosts; inside a host it is not visible"
    if not replicas or None in spans.values():
        for kind in ("dp", "tp", *(k for k, span in spans.items() if span is None)):
            basis[kind] = "no gradient groups of one size" if not replicas else "unequal groups"
        return _said({"pp": stages}, (), basis, sure)
    seen = Spans(
        replicas=replicas,
        tp=spans["tp"] or 1,
        cp=spans["cp"] or 1,
        ep=spans["ep"] or 1,
        cp_rails=_rails_of(found, layout, "cp"),
        stages=stages or max(1, host_sets(found, layout)),
    )
    candidates = tuple(_candidates(seen, layout.rails))
    sizes = {**_agreed(seen, candidates), "pp": stages}
    _explain(seen, layout.rails, sizes, basis)
    told = [f.role.kind_claim for f in found if f.role.kind in ("tp", "cp", "ep")]
    if any(sizes[k] is not None for k in ("dp", "tp", "cp", "ep")):
        sure = min(sure if stages else 1.0, weakest(told))
    return _said(sizes, candidates, basis, sure)


def _said(
    sizes: Mapping[str, int | None],
    candidates: tuple[Mapping[str, int], ...],
    basis: Mapping[str, str],
    sure: float,
) -> Parallelism:
    return Parallelism(
        **{kind: sizes.get(kind) for kind in KINDS},
        candidates=candidates,
        basis=basis,
        confidence=sure,
    )


def dense(found: Sequence[Found]) -> list[Found]:
    """Gradient groups that lie in no larger one: those of experts are left out."""
    groups = [f for f in found if f.role.kind == "dp"]
    sets = [frozenset(f.shape.members) for f in groups]
    largest: dict[int, frozenset[int]] = {}
    for members in sorted(sets, key=len):
        largest.update(dict.fromkeys(members, members))
    return [
        f
        for f, members in zip(groups, sets, strict=True)
        if not any(members < largest[v] for v in members)
    ]


def _common(found: Sequence[Found], layout: Layout, kind: Kind) -> int | None:
    """Hosts that most groups of a kind span: 0 where there is none, None where they differ."""
    groups = dense(found) if kind == "dp" else [f for f in found if f.role.kind == kind]
    if not groups:
        return 0
    span, count = Counter(len(layout.span(f)) for f in groups).most_common(1)[0]
    return span if count >= ALIKE * len(groups) else None


def _rails_of(found: Sequence[Found], layout: Layout, kind: Kind) -> int:
    """NICs of a host that are in groups of a kind, the most common number; 0 without any."""
    ends = {v for f in found if f.role.kind == kind for v in f.shape.members}
    count = Counter(Counter(layout.hosts[v] for v in ends).values())
    return count.most_common(1)[0][0] if count else 0


def _candidates(seen: Spans, rails: int) -> Iterator[Mapping[str, int]]:
    """All sizes that draw these groups, for hosts of a size on sale, whole hosts used."""
    for gpus in sorted({g for g in GPUS_PER_HOST if g >= rails and g % rails == 0} | {rails}):
        for tp in (t for t in range(gpus, 0, -1) if gpus % t == 0):
            sizes = {"tp": tp, "dp": seen.replicas * gpus // tp, "cp": 1, "pp": seen.stages}
            sizes["ep"] = seen.ep * gpus if seen.ep > 1 else 1
            if seen.tp > 1:
                # What leaves the host fills it: each of its GPUs is of one group.
                if tp < gpus:
                    continue
                sizes["tp"] = gpus * seen.tp
            elif seen.cp > 1:
                # A block leaves by the NIC of the first rank of its group.
                if (tp - 1) * rails // gpus + 1 != seen.cp_rails:
                    continue
                sizes |= {"cp": seen.cp * gpus // tp, "dp": seen.replicas // seen.cp}
            yield sizes


def _agreed(seen: Spans, candidates: Sequence[Mapping[str, int]]) -> dict[str, int | None]:
    """Sizes that are the same in all candidates.

    What may lie inside a host is left open, though candidates leave it out.
    """
    sizes: dict[str, int | None] = {}
    for kind in KINDS:
        values = {one[kind] for one in candidates}
        sizes[kind] = values.pop() if len(values) == 1 else None
    if seen.cp == 1 and seen.tp == 1:
        sizes["cp"] = None
    if seen.ep == 1:
        sizes["ep"] = None
    return sizes


def _explain(
    seen: Spans, rails: int, sizes: Mapping[str, int | None], basis: dict[str, str]
) -> None:
    """Says of each size what it rests on, or why it is open."""
    open_text = (
        f"{seen.replicas} hosts in each gradient group and {rails} rail(s) alike: how many "
        "of a host's GPUs share one replica is not visible"
    )
    basis["dp"] = basis["tp"] = open_text
    if sizes["dp"] is not None:
        basis["dp"] = f"{seen.replicas} hosts in each gradient group"
    if seen.tp > 1:
        basis["tp"] = f"{seen.tp} hosts in each group, all of their GPUs: how many is not visible"
        basis["cp"] = "such groups would lie across hosts, beyond those of tensor parallelism"
    if seen.cp > 1:
        basis["cp"] = f"{seen.cp} hosts in each group, on {seen.cp_rails} of {rails} rail(s)"
        basis["dp"] += f", and {seen.cp} of them share one sequence"
    if seen.ep > 1:
        basis["ep"] = (
            f"{seen.ep} hosts exchange with each other: how many GPUs of a host belong to one "
            "group is not visible, as data leaves by the NIC of the GPU that will receive it"
        )


def _stages(
    found: Sequence[Found], layout: Layout, basis: dict[str, str]
) -> tuple[int | None, float]:
    """Pipeline stages and how sure they are.

    Chains show them; so do gradient groups, as each stage's hosts reduce among themselves.
    """
    chains = [f for f in found if f.role.kind == "pp"]
    sets = host_sets(found, layout)
    if not chains:
        return _without_chains(found, layout, sets, basis)
    stages, count = Counter(len(f.shape.members) for f in chains).most_common(1)[0]
    longest = max(len(f.shape.members) for f in chains)
    if count < MAJORITY * len(chains) or stages != longest:
        lengths = sorted({len(f.shape.members) for f in chains})
        basis["pp"] = "chains of unequal length: " + ", ".join(map(str, lengths))
        return None, 0.5
    basis["pp"] = f"{count} of {len(chains)} chains have {stages} stages"
    seen = [f for f in chains if f.alike is None]
    if len(seen) < len(chains):
        basis["pp"] += f", {len(seen)} of them seen whole"
    ceiling = 0.97
    if sets and sets != stages:
        basis["pp"] += f", but {sets} set(s) of hosts reduce gradients apart"
        ceiling = 0.7
    if sets > stages:
        return None, 0.5
    weakest_link = int(np.median([f.samples for f in seen or chains]))
    sure = claim(ceiling * count / len(chains), weakest_link, 3.0, basis["pp"]).confidence
    return stages, sure


def host_sets(found: Sequence[Found], layout: Layout) -> int:
    """Stages by the sets of hosts that reduce gradients apart.

    Hosts that share layers among them reduce apart as well, and count as one.

    Returns
    -------
    int
        0 where no group reduces, or hosts are not known: rails reduce apart, too.
    """
    if not layout.known:
        return 0
    sets = len({layout.span(f) for f in dense(found)})
    beside = _common(found, layout, "tp") or 1
    return sets // beside if sets % beside == 0 else sets


def _without_chains(
    found: Sequence[Found], layout: Layout, sets: int, basis: dict[str, str]
) -> tuple[int | None, float]:
    groups = dense(found)
    spanned = {host for f in found if f.role.kind in ("dp", "tp") for host in layout.span(f)}
    together = sets == 1 or len({layout.span(f) for f in groups}) == 1
    if together and len(spanned) == len(set(layout.hosts.values())):
        # Stages hold unlike layers, so that they share no gradients.
        basis["pp"] = "all hosts reduce one gradient"
        samples = min(f.samples for f in groups)
        return 1, claim(0.95, samples, 3.0, basis["pp"]).confidence
    if sets > 1:
        basis["pp"] = f"{sets} sets of hosts reduce gradients apart, but no chain was seen"
    elif layout.strays >= STRAYS:
        basis["pp"] = f"{layout.strays} samples outside all groups may be a pipeline's"
    elif layout.samples < SAMPLES_TO_MISS_A_PIPELINE:
        basis["pp"] = f"no chain seen, but {layout.samples} samples could miss one"
    elif any(f.role.kind == "unknown" for f in found):
        basis["pp"] = "groups of unknown kind may be stages"
    else:
        basis["pp"] = f"no chain between hosts in {layout.samples} samples"
        ceiling = 0.95 if layout.known else 0.9
        sure = claim(ceiling, layout.samples, SAMPLES_TO_MISS_A_PIPELINE, basis["pp"])
        return 1, sure.confidence
    return None, 0.5
