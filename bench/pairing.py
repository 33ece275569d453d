"""Which part of a result answers for which part of the truth: jobs, groups, boundaries, anomalies.

Every pairing is one to one. Scores are worked out on the pairs, in `bench.score`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from bench.compare import Document, edges_of, jaccard

# Decides only between pairs that overlap equally; far below any difference of two overlaps.
_TIE_BREAK = 1e-6


def assign(gain: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pairs (row, column) of the one-to-one assignment with the largest total gain.

    Parameters
    ----------
    gain : (rows, columns) float64, not negative; zero means "never a pair".
    """
    if not gain.size:
        return []
    rows, columns = linear_sum_assignment(gain, maximize=True)
    return [(int(r), int(c)) for r, c in zip(rows, columns, strict=True) if gain[r, c] > 0]


def pair_jobs(truth: Document, result: Document) -> list[tuple[int, int]]:
    """Indices (truth job, result job) with the most endpoints in common over all pairs.

    Jobs without a common endpoint are never a pair. Among equal overlaps the pair with fewer
    endpoints too many or too few wins.
    """
    true = [frozenset(job["endpoints"]) for job in truth["jobs"]]
    said = [frozenset(job["endpoints"]) for job in result["jobs"]]
    gain = np.zeros((len(true), len(said)))
    for row, a in enumerate(true):
        for column, b in enumerate(said):
            gain[row, column] = len(a & b) + _TIE_BREAK * jaccard(a, b)
    return assign(gain)


@dataclass(frozen=True, slots=True)
class GroupPairs:
    """Groups of one truth job beside those of its result job.

    `best` also answers for result groups that are left over: the truth's group they overlap most
    with (None without any overlap), so that one half of a split group is judged by the whole.
    """

    of_truth: dict[int, int]
    of_result: dict[int, int]
    best: tuple[int | None, ...]


def pair_groups(true_groups: Sequence[Document], said_groups: Sequence[Document]) -> GroupPairs:
    """Pair groups by the Jaccard overlap of members and edges together, then by kind.

    Members and directed edges form one set per group; a truth group and a result group may be a
    pair when these sets meet. Kind and algorithm decide only between equal overlaps.
    """
    true = [_fabric(group) for group in true_groups]
    said = [_fabric(group) for group in said_groups]
    holders = defaultdict(list)
    for row, items in enumerate(true):
        for item in items:
            holders[item].append(row)
    gain = np.zeros((len(true), len(said)))
    for column, items in enumerate(said):
        for row in {row for item in items for row in holders.get(item, ())}:
            alike = sum(
                weight * (true_groups[row].get(key) == said_groups[column].get(key))
                for key, weight in (("kind", 2.0), ("algorithm", 1.0))
            )
            gain[row, column] = jaccard(true[row], items) + _TIE_BREAK * alike
    pairs = assign(gain)
    of_result = {column: row for row, column in pairs}
    best = tuple(
        of_result.get(column, int(np.argmax(gain[:, column])) if gain[:, column].any() else None)
        for column in range(len(said))
    )
    return GroupPairs(dict(pairs), of_result, best)


@dataclass(frozen=True, slots=True)
class JobPair:
    """A truth job, its result job (or none), and which group answers for which."""

    true: Document
    said: Document | None
    groups: GroupPairs

    def answers(self) -> Iterable[tuple[str, Document, Document | None]]:
        """Each truth group: its label, itself, its result group or None."""
        for index, group in enumerate(self.true["groups"]):
            column = self.groups.of_truth.get(index)
            said = self.said["groups"][column] if self.said and column is not None else None
            yield f"{self.true['id']} {group.get('id', index)}", group, said


def pair_documents(truth: Document, result: Document) -> tuple[list[JobPair], list[Document]]:
    """Every truth job with its result job, and the result jobs that are left over."""
    answer = dict(pair_jobs(truth, result))
    pairs = []
    for index, true in enumerate(truth["jobs"]):
        said = result["jobs"][answer[index]] if index in answer else None
        groups = pair_groups(true["groups"], said["groups"] if said else ())
        pairs.append(JobPair(true, said, groups))
    taken = set(answer.values())
    return pairs, [job for index, job in enumerate(result["jobs"]) if index not in taken]


def _fabric(group: Document) -> frozenset[object]:
    return frozenset(group.get("members") or ()) | edges_of(group)


def seconds(text: str, epoch: str) -> float:
    """Seconds from `epoch` to `text`, both RFC 3339 in UTC with up to nanoseconds.

    The difference is taken in integers: a double holds today's time to 240 ns only.
    """
    return (nanoseconds(text) - nanoseconds(epoch)) / 1e9


def nanoseconds(text: str) -> int:
    """RFC 3339 text (UTC, ``Z``) as nanoseconds since the epoch."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    at = datetime.fromisoformat(whole).replace(tzinfo=UTC)
    return int(at.timestamp()) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)


def pair_boundaries(
    true_s: NDArray[np.float64], said_s: NDArray[np.float64], reach_s: float
) -> list[tuple[int, int]]:
    """Pair boundaries in order, one to one, none further apart than `reach_s`.

    Parameters
    ----------
    true_s, said_s : (n,), (m,) float64, ascending, seconds.
    reach_s : a pair's largest distance.

    Returns
    -------
    Indices (true, said), ascending, of the cheapest alignment: a pair costs its distance, a
    boundary left alone costs `reach_s`. So two within reach that block nothing are always paired.
    """
    n, m = len(true_s), len(said_s)
    cost = np.full((n + 1, m + 1), inf)
    cost[0, :] = np.arange(m + 1) * reach_s
    cost[:, 0] = np.arange(n + 1) * reach_s
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            distance = abs(true_s[i - 1] - said_s[j - 1])
            pair = cost[i - 1, j - 1] + distance if distance <= reach_s else inf
            cost[i, j] = min(pair, cost[i - 1, j] + reach_s, cost[i, j - 1] + reach_s)
    pairs = []
    i, j = n, m
    while i and j:
        distance = abs(true_s[i - 1] - said_s[j - 1])
        if distance <= reach_s and cost[i, j] == cost[i - 1, j - 1] + distance:
            pairs.append((i - 1, j - 1))
            i, j = i - 1, j - 1
        elif cost[i, j] == cost[i - 1, j] + reach_s:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def anomalies_of(job: Document | None) -> list[Document]:
    """A job's anomalies without its own id as a subject, which truth and result number apart."""
    if job is None:
        return []
    own = {"type": "job", "id": job["id"]}
    return [
        anomaly | {"subjects": [s | {"id": ""} if s == own else s for s in anomaly["subjects"]]}
        for anomaly in job.get("anomalies") or ()
    ]


def pair_anomalies(
    true: Sequence[Document], said: Sequence[Document], slack_s: float
) -> list[tuple[int, int]]:
    """Pair anomalies of the same kind whose times meet; an equal first subject is preferred.

    An anomaly without an end lasts for ever; `slack_s` widens both ends of the truth's (a period:
    a finding names whole iterations).
    """
    slack_ns = int(slack_s * 1e9)
    gain = np.zeros((len(true), len(said)))
    for row, t in enumerate(true):
        low, high = _interval(t)
        for column, r in enumerate(said):
            start, end = _interval(r)
            if t["kind"] == r["kind"] and start <= high + slack_ns and end >= low - slack_ns:
                gain[row, column] = 1.0 + _TIE_BREAK * (first_subject(t) == first_subject(r))
    return assign(gain)


def first_subject(anomaly: Document) -> tuple[str, str] | None:
    """(type, id) of the most likely subject."""
    subjects = anomaly.get("subjects") or ()
    return (subjects[0]["type"], subjects[0]["id"]) if subjects else None


def _interval(anomaly: Document) -> tuple[float, float]:
    end = anomaly.get("end")
    return nanoseconds(anomaly["start"]), inf if end is None else nanoseconds(end)
