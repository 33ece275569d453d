"""A job's endpoints and edges as one graph."""

from __future__ import annotations

from typing import Any

import networkx as nx

from api.contract import Document
from api.http.schemas import Node, Topology, TopologyEdge


def topology(job: Document) -> Topology:
    """Who talks to whom in a job, and what for.

    Parameters
    ----------
    job
        A job of the contract.

    Returns
    -------
    Topology
        Nodes in the job's order of endpoints. Edges are those of the job and of its groups; one
        that only a group has carried no bytes that were seen.
    """
    graph = _graph(job)
    _attach_groups(graph, job["groups"])
    return Topology(
        job=job["id"],
        nodes=[
            Node(
                endpoint=endpoint, host=about.get("host"), coordinates=about.get("coordinates", {})
            )
            for endpoint, about in graph.nodes(data=True)
        ],
        edges=[_edge(src, dst, about) for src, dst, about in graph.edges(data=True)],
    )


def _graph(job: Document) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(job["endpoints"])
    for rank in job["ranks"]:
        graph.add_node(rank["endpoint"], host=rank["host"], coordinates=rank["coordinates"])
    for edge in job["edges"]:
        graph.add_edge(edge["src"], edge["dst"], bytes=edge["bytes"], groups=[])
    return graph


def _attach_groups(graph: nx.DiGraph, groups: list[Document]) -> None:
    for group in sorted(groups, key=lambda group: -(group["bytes_per_iteration"] or 0)):
        for src, dst in group["edges"]:
            if not graph.has_edge(src, dst):
                graph.add_edge(src, dst, bytes=0, groups=[])
            graph.edges[src, dst]["groups"].append(group)
    for group in groups:
        edges = [graph.edges[src, dst] for src, dst in group["edges"]]
        total = sum(edge["bytes"] for edge in edges)
        # Bytes of an edge that serves two groups are not told apart, so no share is known then.
        if group["bytes_per_iteration"] is None or not total:
            continue
        if any(len(edge["groups"]) > 1 for edge in edges):
            continue
        for edge in edges:
            edge["share"] = round(group["bytes_per_iteration"] * edge["bytes"] / total)


def _edge(src: str, dst: str, about: dict[str, Any]) -> TopologyEdge:
    groups = about["groups"]
    return TopologyEdge(
        src=src,
        dst=dst,
        bytes=about["bytes"],
        bytes_per_iteration=about.get("share"),
        groups=[group["id"] for group in groups],
        kind=groups[0]["kind"] if groups else "unknown",
        algorithm=groups[0]["algorithm"] if groups else "unknown",
    )
