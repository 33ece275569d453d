"""Identity: which jobs found now are those found before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

SAME: Final = 0.5  # of all endpoints of both that they share, for one to be the other

Id = TypeVar("Id", bound=Hashable)


def identify(
    found: Sequence[frozenset[str]], known: Mapping[Id, frozenset[str]]
) -> list[Id | None]:
    """The known job that each found one is, by the endpoints they share.

    Parameters
    ----------
    found
        Endpoints of each job found; no endpoint lies in two.
    known
        Endpoints of the jobs known so far, the oldest first.

    Returns
    -------
    list
        None for a new job. No known job is given twice: where one fell apart or several became
        one, the pair that shares the larger part of its endpoints wins; of equal pairs, that of the
        older job, then that with the lowest endpoint.
    """
    owners: dict[str, list[Id]] = {}
    for name, endpoints in known.items():
        for endpoint in endpoints:
            owners.setdefault(endpoint, []).append(name)
    age = {name: nth for nth, name in enumerate(known)}
    shares = []
    for number, endpoints in enumerate(found):
        shared = Counter(name for endpoint in endpoints for name in owners.get(endpoint, ()))
        for name, both in shared.items():
            share = both / (len(endpoints) + len(known[name]) - both)
            if share >= SAME:
                shares.append((-share, age[name], min(endpoints), number, name))
    out: list[Id | None] = [None] * len(found)
    taken: set[Id] = set()
    for *_, number, name in sorted(shares, key=lambda entry: entry[:3]):
        if out[number] is None and name not in taken:
            out[number] = name
            taken.add(name)
    return out
