"""Sizes of a job's parallel dimensions, and what the wire cannot tell about them.

What stays inside a host is never seen: tensor parallelism over eight GPUs and eight data-parallel
ranks per host draw the same eight rail rings. So such sizes are null with their candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from patterns.claim import claim
from patterns.groups import Found
from patterns.result import Parallelism

GPUS_PER_HOST: Final = (1, 2, 4, 8, 16)  # of servers on sale; a NIC may serve several GPUs
SAMPLES_TO_MISS_A_PIPELINE: Final = 400  # a pipeline may carry 1 % of the bytes: 4 expected
STRAYS: Final = 3  # samples of full packets outside all groups that may be a pipeline's
MAJORITY: Final = 0.6  # of the chains that must agree on a length


@dataclass(frozen=True, slots=True)
class Layout:
    """What sizes are read from, beside the groups.

    Parameters
    ----------
    hosts : mapping
        Host of each endpoint id of the job.
    samples : int
        Samples of the job's data in its iterations.
    strays : int
        Those of full packets that no group explains.
    """

    hosts: Mapping[int, str]
    samples: int
    strays: int

    @property
    def rails(self) -> int:
        """NICs of a host that the job uses, the most common number."""
        return Counter(Counter(self.hosts.values()).values()).most_common(1)[0][0]


def parallelism(found: Sequence[Found], layout: Layout) -> Parallelism:
    """Sizes with basis and candidates; what the wire cannot tell is None."""
    basis: dict[str, str] = {}
    stages, sure = _stages(found, layout, basis)
    replicas = _common([len(f.shape.members) for f in found if f.role.kind == "dp"])
    basis["cp"] = basis["ep"] = "no such traffic between hosts; inside a host it is not visible"
    if replicas is None:
        basis["dp"] = basis["tp"] = "no gradient groups of one size"
        candidates: tuple[Mapping[str, int], ...] = ()
    else:
        candidates = _candidates(replicas, stages, layout.rails)
        basis["dp"] = basis["tp"] = (
            f"{replicas} hosts in each gradient group and {layout.rails} rail(s) alike: how many "
            "of a host's GPUs share one replica is not visible"
        )
    return Parallelism(
        dp=None,
        tp=None,
        pp=stages,
        cp=None,
        ep=None,
        candidates=candidates,
        basis=basis,
        confidence=sure,
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
    ceiling = 0.97
    if sets and sets != stages:
        basis["pp"] += f", but {sets} set(s) of hosts reduce gradients apart"
        ceiling = 0.7
    weakest = int(np.median([f.samples for f in chains]))
    sure = claim(ceiling * count / len(chains), weakest, 3.0, basis["pp"]).confidence
    return stages, sure


def host_sets(found: Sequence[Found], layout: Layout) -> int:
    """Sets of hosts that reduce gradients apart, one per pipeline stage."""
    return len(
        {frozenset(layout.hosts[v] for v in f.shape.members) for f in found if f.role.kind == "dp"}
    )


def _without_chains(
    found: Sequence[Found], layout: Layout, sets: int, basis: dict[str, str]
) -> tuple[int | None, float]:
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
        sure = claim(0.95, layout.samples, SAMPLES_TO_MISS_A_PIPELINE, basis["pp"])
        return 1, sure.confidence
    return None, 0.5


def _common(sizes: list[int]) -> int | None:
    """The one size that all have, None where they differ or there is none."""
    return sizes[0] if sizes and len(set(sizes)) == 1 else None


def _candidates(replicas: int, stages: int | None, rails: int) -> tuple[Mapping[str, int], ...]:
    """Every (tp, dp) that draws these groups, for hosts of a size on sale, whole hosts used."""
    out = []
    for gpus in sorted({g for g in GPUS_PER_HOST if g >= rails and g % rails == 0} | {rails}):
        for tp in range(gpus, 0, -1):
            if gpus % tp:
                continue
            sizes = {"tp": tp, "dp": replicas * gpus // tp, "cp": 1, "ep": 1}
            if stages is not None:
                sizes["pp"] = stages
            if sizes not in out:
                out.append(sizes)
    return tuple(out)
