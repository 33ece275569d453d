"""Sizes of a job's parallel dimensions, and what the wire cannot tell about them.

What stays inside a host is never seen: tensor parallelism over eight GPUs and eight data-parallel
ranks per host draw the same eight rail rings. So such sizes are null with their candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from patterns.claim import claim, weakest
from patterns.groups import Found
from patterns.result import Parallelism

GPUS_PER_HOST: Final = (1, 2, 4, 8, 16)  # of servers on sale; a NIC may serve several GPUs
SAMPLES_TO_MISS_A_PIPELINE: Final = 400  # a pipeline may carry 1 % of the bytes: 4 expected


def parallelism(found: Sequence[Found], rails: int, hosts: int, samples: int) -> Parallelism:
    """Sizes with basis and candidates.

    Parameters
    ----------
    found : sequence of Found
        The job's groups.
    rails : int
        NICs of a host that the job uses (the most common number).
    hosts : int
        Hosts of the job.
    samples : int
        Samples of the job's data in its iterations.
    """
    basis: dict[str, str] = {}
    stages, pp_sure = _stages(found, samples, basis)
    replicas = _common([len(f.shape.members) for f in found if f.role.kind == "dp"])
    basis["cp"] = basis["ep"] = "no such traffic between hosts; inside a host it is not visible"
    if replicas is None:
        basis["dp"] = basis["tp"] = "no gradient groups of one size"
        candidates: tuple[Mapping[str, int], ...] = ()
    else:
        candidates = _candidates(replicas, stages, rails)
        basis["dp"] = basis["tp"] = (
            f"{replicas} hosts in each gradient group and {rails} rail(s) alike: how many of a "
            "host's GPUs share one replica is not visible"
        )
    return Parallelism(
        dp=None,
        tp=None,
        pp=stages,
        cp=None,
        ep=None,
        candidates=candidates,
        basis=basis,
        confidence=pp_sure,
    )


def _stages(
    found: Sequence[Found], samples: int, basis: dict[str, str]
) -> tuple[int | None, float]:
    chains = [f for f in found if f.role.kind == "pp"]
    if not chains:
        if samples < SAMPLES_TO_MISS_A_PIPELINE or any(f.role.kind == "unknown" for f in found):
            basis["pp"] = f"no chain seen, but {samples} samples could miss one"
            return None, 0.5
        basis["pp"] = f"no chain between hosts in {samples} samples"
        return 1, claim(0.95, samples, SAMPLES_TO_MISS_A_PIPELINE, basis["pp"]).confidence
    sizes = Counter(len(f.shape.members) for f in chains)
    if len(sizes) > 1:
        basis["pp"] = "chains of unequal length: " + ", ".join(map(str, sorted(sizes)))
        return None, 0.5
    stages = next(iter(sizes))
    basis["pp"] = f"{len(chains)} chains of {stages} stages"
    return stages, weakest([f.role.kind_claim for f in chains])


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
