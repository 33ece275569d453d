"""What is said of a job, how sure, on what basis: one row per statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from api.reports.picture import KINDS, Block, blocks_of
from api.reports.units import human_bytes, human_duration, human_share
from patterns.result import Claim, Hint, JobResult

_HINTS: Final = {
    "gradient_bytes": "{} of gradients in each replica of a stage",
    "micro_batches": "{} micro-batches an iteration",
    "pipeline_message_bytes": "{} from a NIC to the next stage in a micro-batch",
    "pipeline_bubble": "stages wait for others in {} of an iteration",
}
_STATEMENTS: Final = ("members", "kind", "algorithm", "order", "collective")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, or one that is made of several groups alike.

    Attributes
    ----------
    about
        What it is about: "job", "sizes", or groups as "dp: 8 × ring of 4".
    says
        The statement.
    confidence, most
        Of the least sure, and of the surest; None for what is said to be unknown.
    basis
        Of the least sure.
    samples
        That the least sure rests on; None: not counted.
    """

    about: str
    says: str
    confidence: float | None
    most: float | None
    basis: str
    samples: int | None


def statements_of(job: JobResult) -> tuple[Statement, ...]:
    """All statements of a job: of itself, of its sizes, of its groups, and what they hint at."""
    return (*_of_job(job), *_of_sizes(job), *_of_groups(job), *_of_hints(job))


def hint_line(name: str, hint: Hint) -> str:
    """A guess in a few words, as "12 micro-batches an iteration"."""
    units = {"micro_batches": lambda value: f"{value:.0f}", "pipeline_bubble": human_share}
    says = units.get(name, human_bytes)
    low, high = says(hint.low), says(hint.high)
    return _HINTS[name].format(low if low == high else f"{low} to {high}")


def _of_hints(job: JobResult) -> Iterator[Statement]:
    for name, hint in job.hints.items():
        yield _statement("hint", hint_line(name, hint), [hint.claim])


def _of_job(job: JobResult) -> Iterator[Statement]:
    said = {
        "endpoints": f"{len(job.endpoints)} endpoints on {len(job.hosts)} hosts belong together",
        "period": "no period" if job.period_s is None else f"period {human_duration(job.period_s)}",
    }
    for name, claim in job.evidence.items():
        yield _statement("job", said.get(name, name), [claim])


def _of_sizes(job: JobResult) -> Iterator[Statement]:
    sizes = job.parallelism
    alike: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for kind in KINDS:
        if kind in sizes.basis:
            size = getattr(sizes, kind)
            said = f"{kind} {'not known' if size is None else size}"
            alike[sizes.basis[kind], size is not None].append(said)
    for (basis, known), all_said in alike.items():
        sure = sizes.confidence if known else None
        yield Statement("sizes", ", ".join(all_said), sure, sure, basis, None)


def _of_groups(job: JobResult) -> Iterator[Statement]:
    for block in blocks_of(job):
        claims: dict[str, list[Claim]] = defaultdict(list)
        for group in block.groups:
            for name, claim in group.evidence.items():
                claims[name].append(claim)
        rest = sorted(claims.keys() - set(_STATEMENTS))
        for name in (*(name for name in _STATEMENTS if name in claims), *rest):
            yield _statement(f"{block.kind}: {named(block)}", _says(block, name), claims[name])


def named(block: Block) -> str:
    """A block in a few words, as "8 × ring of 4"."""
    count = f"{len(block.groups)} × " * (len(block.groups) > 1)
    algorithm = "group" if block.algorithm == "unknown" else block.algorithm
    return f"{count}{algorithm} of {block.size}"


def _says(block: Block, name: str) -> str:
    return {
        "members": f"{block.size} members each" if len(block.groups) > 1 else "its members",
        "kind": f"kind {block.kind}",
        "algorithm": f"algorithm {block.algorithm}",
        "order": {"tree": "who is whose parent", "chain": "order of the stages"}.get(
            block.algorithm, "order of the members"
        ),
        "collective": f"collective {block.collective}",
    }.get(name, name)


def _statement(about: str, says: str, claims: list[Claim]) -> Statement:
    least = min(claims, key=lambda claim: claim.confidence)
    most = max(claim.confidence for claim in claims)
    return Statement(about, says, least.confidence, most, least.basis, least.samples)
