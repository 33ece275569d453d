"""Where the jobs of a fleet run: every NIC belongs to exactly one job.

A job takes the same rails on each of its hosts: all eight, one half of them or a quarter, as a
scheduler shares hosts out by GPU. A job on one host keeps its traffic inside it and no switch sees
it, so the smallest here has two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

RAILS: Final = 8
LARGE_SHARE: Final = 20  # one job in so many is large
LARGE_HOSTS: Final = (6, 12)  # of the fleet's hosts the first takes one in six, each other in 12


@dataclass(frozen=True, slots=True)
class Place:
    """Hosts by fabric number, in rank order, and the NICs a job uses on each of them."""

    hosts: tuple[int, ...]
    rails: tuple[int, ...]


def place_jobs(jobs: int, hosts: int, rng: np.random.Generator) -> list[Place]:
    """Give every NIC of `hosts` hosts to one of `jobs` jobs.

    Parameters
    ----------
    jobs, hosts
        One job in `LARGE_SHARE` is large, the others have 2 to 4 hosts.

    Returns
    -------
    list of Place, length `jobs`
        The large ones first.

    Raises
    ------
    ValueError
        So many jobs do not fit.
    """
    large = [max(4, hosts // LARGE_HOSTS[min(n, 1)] // 4 * 4) for n in range(jobs // LARGE_SHARE)]
    order = rng.permutation(hosts)
    bands = _bands(jobs - len(large), hosts - sum(large))
    if not bands:
        raise ValueError(f"{jobs} jobs of 2 to 4 hosts, a few larger, do not fill {hosts} hosts")
    places = []
    at = 0
    for count in large:
        places.append(Place(tuple(order[at : at + count].tolist()), tuple(range(RAILS))))
        at += count
    for columns, count in zip((1, 2, 4), bands[int(rng.integers(len(bands)))], strict=True):
        width = RAILS // columns
        for column in range(columns):
            rails = tuple(range(column * width, (column + 1) * width))
            # Neighbours of one column are apart in the next: jobs share hosts in all ways.
            band = rng.permutation(order[at : at + count])
            places += [Place(tuple(part.tolist()), rails) for part in _parts(band, rng)]
        at += count
    return places


def _bands(jobs: int, hosts: int) -> list[tuple[int, int, int]]:
    """All ways to share `hosts` out to whole, halved and quartered ones that give `jobs` jobs."""
    found = []
    for whole in range(hosts + 1):
        for halved in range(hosts - whole + 1):
            quartered = hosts - whole - halved
            counts = _count(whole) + 2 * _count(halved) + 4 * _count(quartered)
            if counts == jobs and 1 not in (whole, halved, quartered):
                found.append((whole, halved, quartered))
    # Where it can be, a fleet has jobs of every width.
    return [bands for bands in found if min(bands) > 0] or found


def _count(hosts: int) -> int:
    """Jobs of 2 to 4 hosts, 3 in the mean, that fill a column of at least two hosts."""
    return (hosts + 1) // 3 if hosts else 0


def _parts(
    hosts: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator
) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Cut a column into `_count` parts of 2 to 4 hosts."""
    sizes = np.full(_count(len(hosts)), 2)
    while sizes.sum() < len(hosts):
        sizes[rng.choice(np.flatnonzero(sizes < 4))] += 1
    yield from np.split(hosts, np.cumsum(sizes)[:-1]) if len(sizes) else ()
