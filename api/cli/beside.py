"""A result beside the truth: what the two say of jobs, groups and iterations, line by line.

Both are documents of the contract, and the result is of a replay of the capture that the truth
tells of. What a result leaves open is not wrong; what it states otherwise, invents or lacks is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from api.cli.times import time_ns
from api.contract import Document
from api.reports.units import human_bytes, human_duration

# How far a number may be off, relative to the true one; an end of an iteration by the period.
PERIOD_ERROR: Final = 0.005
BYTES_ERROR: Final = 0.01
END_ERROR: Final = 0.02
_KINDS: Final = ("dp", "tp", "pp", "cp", "ep")


class Verdict(StrEnum):
    """What became of one thing that the truth knows."""

    RIGHT = "right"
    OPEN = "open"  # the result says that it does not know
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing of the truth beside the result's."""

    what: str
    true: str
    said: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Passage:
    """How times of a capture became times of its replay.

    Attributes
    ----------
    captured_ns, replayed_ns
        When the first datagram came, and when it was sent again; ns since the epoch.
    speed
        How much faster the replay was.
    """

    captured_ns: int
    replayed_ns: int
    speed: float = 1.0

    def back_ns(self, replayed_ns: int) -> int:
        """A time of the replay as one of the capture, ns since the epoch."""
        return self.captured_ns + round((replayed_ns - self.replayed_ns) * self.speed)


def compare(truth: Document, result: Document, passage: Passage) -> list[Line]:
    """Everything of a truth beside the result's: jobs, sizes, groups, volumes, iterations.

    Parameters
    ----------
    truth, result
        Documents that are valid by the contract.
    passage
        Takes the result's times to those of the truth.
    """
    said = list(result["jobs"])
    pairs = _pairs(truth["jobs"], said)
    # What ends behind the capture is not the truth's to tell.
    until_ns = time_ns(truth["window"]["end"])
    lines: list[Line] = []
    for true in truth["jobs"]:
        lines += _job(true, pairs.get(true["id"]), passage, until_ns)
    known = [job["id"] for job in pairs.values()]
    lines += [
        Line(f"{job['id']} of the result", "none", _size(job), Verdict.WRONG)
        for job in said
        if job["id"] not in known
    ]
    return lines or [Line("jobs", "none", "none", Verdict.RIGHT)]


def agree(lines: Sequence[Line]) -> bool:
    """Whether nothing of a comparison is wrong."""
    return all(line.verdict is not Verdict.WRONG for line in lines)


def _pairs(true: Sequence[Document], said: Sequence[Document]) -> dict[str, Document]:
    """By id of the truth's job the result's that shares most endpoints, one to one."""
    common = [
        (len(set(one["endpoints"]) & set(other["endpoints"])), one["id"], nth)
        for one in true
        for nth, other in enumerate(said)
    ]
    found: dict[str, int] = {}
    for shared, name, nth in sorted(common, key=lambda each: -each[0]):
        if shared and name not in found and nth not in found.values():
            found[name] = nth
    return {name: said[nth] for name, nth in found.items()}


def _job(true: Document, said: Document | None, passage: Passage, until_ns: int) -> Iterator[Line]:
    name = true["id"]
    if said is None:
        yield Line(name, _size(true), "none", Verdict.WRONG)
        return
    same = set(true["endpoints"]) == set(said["endpoints"])
    yield Line(name, _size(true), f"{_size(said)}, as {said['id']}", _verdict(same))
    yield _sizes(name, true["parallelism"], said["parallelism"])
    yield from _groups(true, said)
    yield from _volumes(true, said)
    yield from _period(true, said, passage.speed)
    yield from _iterations(true, said, passage, until_ns)


def _size(job: Document) -> str:
    return f"{len(job['hosts'])} hosts, {len(job['endpoints'])} endpoints"


def _sizes(name: str, true: Document, said: Document) -> Line:
    kinds = [kind for kind in _KINDS if true.get(kind) is not None]
    stated = {kind: said[kind] for kind in kinds if said.get(kind) is not None}
    candidates = said.get("candidates") or ()
    possible = any(
        all(true.get(kind) == size for kind, size in candidate.items()) for candidate in candidates
    )
    text = " ".join(f"{kind} {stated.get(kind, '?')}" for kind in kinds)
    verdict = Verdict.RIGHT
    if any(size != true[kind] for kind, size in stated.items()):
        verdict = Verdict.WRONG
    elif len(stated) < len(kinds):
        verdict = Verdict.RIGHT if possible else Verdict.OPEN
        text += f", the truth {'is' if possible else 'not'} among {len(candidates)} candidates"
    return Line(f"{name} sizes", " ".join(f"{kind} {true[kind]}" for kind in kinds), text, verdict)


def _groups(true: Document, said: Document) -> Iterator[Line]:
    """A line per drawing: groups on other rails that look alike are counted, not repeated."""
    host_of = {rank["endpoint"]: rank["host"] for rank in said.get("ranks") or ()}
    there = {(group["kind"], frozenset(group["members"])): group for group in said["groups"]}
    members = {frozenset(group["members"]): group for group in said["groups"]}
    lines: Counter[Line] = Counter()
    for group in true["groups"]:
        place = frozenset(group["members"])
        answer = there.pop((group["kind"], place), None) or members.get(place)
        what = f"{true['id']} {group['kind']} {group['algorithm']}"
        text = "none" if answer is None else _drawn(answer, host_of, group["kind"])
        verdict = Verdict.WRONG if answer is None else _same_group(group, answer)
        lines[Line(what, _drawn(group, host_of, group["kind"]), text, verdict)] += 1
    known = {frozenset(group["members"]) for group in true["groups"]}
    for (kind, place), group in there.items():
        if kind != "unknown" or place not in known:
            what = f"{true['id']} {kind} {group['algorithm']}"
            lines[Line(what, "none", _drawn(group, host_of, kind), Verdict.WRONG)] += 1
    for line, count in lines.items():
        times = f" ×{count}" if count > 1 else ""
        yield Line(line.what + times, line.true, line.said, line.verdict)


def _same_group(true: Document, said: Document) -> Verdict:
    """Of two groups with the same members: whether kind, algorithm and order are the same."""
    for member in ("kind", "algorithm"):
        if said[member] == "unknown":
            return Verdict.OPEN
        if said[member] != true[member]:
            return Verdict.WRONG
    if true["algorithm"] == "chain":
        return _verdict(list(true["members"]) == list(said["members"]))
    # The order of a ring is the direction of its edges; in a tree data goes both ways.
    as_pair = tuple if true["algorithm"] == "ring" else frozenset
    return _verdict(set(map(as_pair, true["edges"])) == set(map(as_pair, said["edges"])))


def _drawn(group: Document, host_of: Mapping[str, str], kind: str) -> str:
    """A group as text; its kind too where that is not the one expected."""
    names = [host_of.get(member, member) for member in group["members"]]
    algorithm = group["algorithm"]
    text = f"{algorithm} of {', '.join(sorted(names))}"
    if algorithm == "ring":
        first = names.index(min(names))
        text = " → ".join(names[first:] + names[:first])
    elif algorithm == "chain":
        text = " ⇄ ".join(names)
    elif algorithm == "tree":
        edges = len(set(map(frozenset, group["edges"])))
        text = f"{group['algorithms'][0]['variant'] or 'tree'} of {len(names)}, {edges} edges"
    return text if group["kind"] == kind else f"{group['kind']}: {text}"


def _volumes(true: Document, said: Document) -> Iterator[Line]:
    """Of the groups that both have, the volume that is furthest off."""
    there = {(group["kind"], frozenset(group["members"])): group for group in said["groups"]}
    found = []
    for group in true["groups"]:
        answer = there.get((group["kind"], frozenset(group["members"])))
        volume = group.get("bytes_per_iteration")
        if answer is not None and volume:
            stated = answer["bytes_per_iteration"]
            off = np.inf if stated is None else abs(stated - volume) / volume
            found.append((off, volume, stated))
    if not found:
        return
    off, volume, stated = max(found, key=lambda each: each[0])
    text = "?" if stated is None else f"{human_bytes(stated)} ({off:.2%} off)"
    verdict = Verdict.OPEN if stated is None else _verdict(off <= BYTES_ERROR)
    what = f"{true['id']} bytes (of {len(found)} groups the furthest off)"
    yield Line(what, human_bytes(volume), text, verdict)


def _period(true: Document, said: Document, speed: float) -> Iterator[Line]:
    what, period_s = f"{true['id']} period", true.get("period_s")
    if not period_s:
        return
    if said["period_s"] is None:
        yield Line(what, human_duration(period_s), "?", Verdict.OPEN)
        return
    stated_s = said["period_s"] * speed
    off = abs(stated_s - period_s) / period_s
    text = f"{human_duration(stated_s)} ({off:.3%} off)"
    yield Line(what, human_duration(period_s), text, _verdict(off <= PERIOD_ERROR))


def _iterations(true: Document, said: Document, passage: Passage, until_ns: int) -> Iterator[Line]:
    """Where the complete iterations end."""
    complete = [i for i in true["iterations"] if i.get("complete", True)]
    ends = np.array([time_ns(i["end"]) for i in complete], np.int64)
    period_s = true.get("period_s")
    if not len(ends) or not period_s:
        return
    back = [passage.back_ns(time_ns(i["end"])) for i in said["iterations"] if i["complete"]]
    stated = np.array([end for end in back if end <= until_ns], np.int64)
    # Clocks and bins are as coarse in a faster replay, and so the coarser for the capture.
    within_s = END_ERROR * period_s * max(passage.speed, 1.0)
    distance_s = np.abs(ends[:, np.newaxis] - stated[np.newaxis, :]) / 1e9
    found = (distance_s <= within_s).any(axis=1)
    # Where the first complete one starts, one ended that the capture cut off.
    starts = np.array([time_ns(i["start"]) for i in complete], np.int64)
    known = (distance_s <= within_s).any(axis=0)
    known |= (np.abs(starts[:, np.newaxis] - stated[np.newaxis, :]) / 1e9 <= within_s).any(axis=0)
    text = f"{len(stated)} complete, {int(found.sum())} of {len(ends)} ends found"
    if found.any():
        text += f", {human_duration(float(np.median(distance_s.min(axis=1)[found])))} off"
    if not known.all():
        text += f", {int((~known).sum())} elsewhere"
    # Too little of the capture may lie before the first end, or after the last, to show them.
    right = bool(found[1:-1].all() and found.any() and known.all())
    yield Line(f"{true['id']} iterations", f"{len(ends)} complete", text, _verdict(right))


def _verdict(right: bool) -> Verdict:
    return Verdict.RIGHT if right else Verdict.WRONG
