from __future__ import annotations

from api.contract import job_document
from api.http.topology import topology
from patterns.result import EdgeVolume, Rank
from tests.api import made
from tests.api.http.made import Service

A, B, C, D = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"


def volume(src: str, dst: str, size_bytes: float) -> EdgeVolume:
    return EdgeVolume(src, dst, size_bytes, size_bytes, size_bytes, 10, 0)


def test_topology_of_a_job(service: Service) -> None:
    answer = service.json("/api/v1/jobs/job-1/topology")
    assert answer["job"] == "job-1"
    assert [node["endpoint"] for node in answer["nodes"]] == list(made.job().endpoints)
    assert answer["nodes"][5] == {
        "endpoint": "10.0.1.2",
        "host": "gpu-002",
        "coordinates": {"dp": 1},
    }
    assert answer["edges"][0] == {
        "src": "10.0.0.1",
        "dst": "10.0.0.3",
        "bytes": 6_100_000_000,
        "bytes_per_iteration": 1_234_000_000,
        "groups": ["dp-0"],
        "kind": "dp",
        "algorithm": "ring",
    }
    # Two rings of four; of seven edges the job itself has seen nothing.
    assert len(answer["edges"]) == 8
    assert [edge["bytes"] for edge in answer["edges"]].count(0) == 7


def test_bytes_of_a_group_are_shared_out_by_volume() -> None:
    ring = made.ring_group([0, 1, 2, 3], 0)
    job = made.job(
        groups=(ring,),
        edges=(volume(A, B, 1e9), volume(B, C, 2e9), volume(C, D, 3e9), volume(D, A, 4e9)),
    )
    edges = topology(job_document(job)).edges
    assert [(edge.src, edge.dst, edge.bytes_per_iteration) for edge in edges] == [
        (A, B, 123_400_000),
        (B, C, 246_800_000),
        (C, D, 370_200_000),
        (D, A, 493_600_000),
    ]


def test_edge_of_two_groups_is_not_shared_out() -> None:
    ring, chain = made.ring_group([0, 1, 2, 3], 0), made.chain_group([0, 1], 0)
    job = made.job(groups=(chain, ring), edges=(volume(A, B, 1e9), volume(B, C, 1e9)))
    edges = {(edge.src, edge.dst): edge for edge in topology(job_document(job)).edges}
    both = edges[A, B]
    assert both.groups == ["dp-0", "pp-0-0"]  # the one that carries more first
    assert (both.kind, both.algorithm, both.bytes_per_iteration) == ("dp", "ring", None)
    # How much of a ring's bytes is left for its other edges is then not known either.
    assert edges[B, C].groups == ["dp-0"]
    assert edges[B, C].bytes_per_iteration is None
    assert (edges[B, A].kind, edges[B, A].algorithm) == ("pp", "chain")


def test_edges_without_a_group_and_endpoints_without_a_rank() -> None:
    job = made.job(
        endpoints=(A, B, C),
        ranks=(Rank(A, "gpu-001", {"dp": 0, "pp": 1}, None, {}),),
        groups=(),
        edges=(volume(A, B, 7.4),),
    )
    found = topology(job_document(job))
    assert [(n.endpoint, n.host, n.coordinates) for n in found.nodes] == [
        (A, "gpu-001", {"dp": 0, "pp": 1}),
        (B, None, {}),
        (C, None, {}),
    ]
    (edge,) = found.edges
    assert edge.model_dump() == {
        "src": A,
        "dst": B,
        "bytes": 7,
        "bytes_per_iteration": None,
        "groups": [],
        "kind": "unknown",
        "algorithm": "unknown",
    }
