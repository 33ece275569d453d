"""Jobs whose steps flow records hide, by what their endpoints draw."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from collector.inventory import Host, Inventory
from patterns.analyse import analyse_progress
from patterns.result import JobResult
from reconstruct.progress import join
from reconstruct.records import bins_of_records
from tests.reconstruct.recorded import EXPORTER, MS, joined, roce

LENGTH_MS = 990.0  # of records, by an active timeout of a second
SECONDS = 40
Volumes = Mapping[tuple[int, int], int]  # packets a second

RINGS = {
    (a, b): 5000
    for ring in ((0, 1, 2, 3), (4, 5, 6, 7))
    for a, b in zip(ring, ring[1:] + ring[:1], strict=True)
}
PAIRS = {edge: 7000 for a in range(4) for edge in ((a, a + 4), (a + 4, a))}


def address(host: int) -> str:
    return f"10.0.0.{host + 1}"


def jobs(volumes: Volumes) -> tuple[JobResult, ...]:
    """Jobs of connections that send on and on."""
    rng = np.random.default_rng(3)
    batches = []
    for port, ((src, dst), packets) in enumerate(volumes.items()):
        starts = 1000.0 * np.arange(SECONDS) + rng.uniform(0, 900)
        counts = rng.normal(packets, packets / 50, SECONDS).astype(int)
        rows = [
            (address(src), address(dst), start, start + LENGTH_MS, count)
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
        ]
        batches.append(roce(rows, port=50_000 + port))
    built = bins_of_records(joined(batches), (EXPORTER,), 0, (SECONDS + 2) * 1000 * MS)
    hosts = sorted({host for edge in volumes for host in edge})
    inventory = Inventory(hosts=tuple(Host(f"n{h}", (address(h),)) for h in hosts))
    return analyse_progress(join([built]), inventory).jobs


def test_pairs_between_rings_may_carry_more_than_they() -> None:
    """A pipeline of two stages under data parallelism, as on the testbed."""
    (job,) = jobs(RINGS | PAIRS)
    assert job.endpoints == tuple(address(host) for host in range(8))
    kinds = sorted((group.kind, group.algorithm, len(group.members)) for group in job.groups)
    assert kinds == [("dp", "ring", 4)] * 2 + [("unknown", "unknown", 2)] * 4
    assert job.period_s is None
    assert job.evidence["period"].basis.startswith("unknown: flow records last up to 0.99 s")


@pytest.mark.parametrize(
    "left", [dict(list(RINGS.items())[:4]) | PAIRS, PAIRS], ids=["one ring", "no ring"]
)
def test_pairs_alone_may_do_anything(left: Volumes) -> None:
    assert jobs(left) == ()
