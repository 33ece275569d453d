"""The truth of a run as documents: from what ran where, and from the programs' own clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from bench.claims import KINDS
from tests.testbed import clocks
from tests.testbed.cases import Program
from tests.testbed.clocks import Clocks
from tests.testbed.hosts import Host
from tests.testbed.shapes import Channel, Drawn
from tests.testbed.switch import AGENT, BRIDGE

Document = dict[str, Any]


def window(began_ns: int, ended_ns: int, jobs: Sequence[Document]) -> Document:
    """The truth of a whole capture."""
    span = {"start": rfc3339(began_ns), "end": rfc3339(ended_ns)}
    return {"schema_version": 1, "window": span, "jobs": list(jobs)}


def job(name: str, program: Program, placed: Sequence[Host], runs: Sequence[Clocks]) -> Document:
    """The truth of one program, its ranks on the hosts `placed`, over all its runs."""
    spans = []
    for timed in runs:
        cuts = clocks.ends_ns(timed) if program.ends else clocks.starts_ns(timed)
        spans += list(pairwise(cuts.tolist()))
    iterations = [
        {"index": i, "start": rfc3339(start), "end": rfc3339(end)}
        for i, (start, end) in enumerate(spans)
    ]
    return {
        "id": name,
        "hosts": sorted(host.name for host in placed),
        "endpoints": sorted(host.address for host in placed),
        "parallelism": {kind: program.sizes.get(kind) for kind in KINDS},
        "groups": [
            _group(f"{drawn.kind}-{i}", drawn, placed) for i, drawn in enumerate(program.drawn)
        ],
        "period_s": float(np.median([end - start for start, end in spans])) / 1e9,
        "iterations": iterations,
    }


def untold(name: str, program: Program) -> list[tuple[str, str]]:
    """Job and id of the groups of a program whose kind the wire does not tell."""
    return [(name, f"{drawn.kind}-{i}") for i, drawn in enumerate(program.drawn) if not drawn.told]


def _group(name: str, drawn: Drawn, placed: Sequence[Host]) -> Document:
    channels = [_channel(channel, placed) for channel in drawn.channels]
    edges = {tuple(edge) for channel in channels for edge in channel["edges"]}
    algorithm = {
        "algorithm": drawn.algorithm,
        "variant": drawn.variant,
        "collective": drawn.collective,
        "share": 1.0,
        "channels": channels,
    }
    return {
        "id": name,
        "kind": drawn.kind,
        "collective": drawn.collective,
        "algorithm": drawn.algorithm,
        "members": [placed[rank].address for rank in drawn.members],
        "edges": sorted(list(edge) for edge in edges),
        "algorithms": [algorithm],
    }


def _channel(channel: Channel, placed: Sequence[Host]) -> Document:
    def address(rank: int) -> str:
        return placed[rank].address

    order, parent = channel.order, channel.parent
    return {
        "order": None if order is None else [address(rank) for rank in order],
        "parent": None if parent is None else {address(a): address(b) for a, b in parent.items()},
        "edges": [[address(a), address(b)] for a, b in channel.edges],
    }


def inventory(hosts: Sequence[Host], numbers: Mapping[str, int]) -> str:
    """The inventory of the testbed as TOML.

    Parameters
    ----------
    hosts : all hosts of the switch.
    numbers : ifIndex by port name.
    """
    lines = []
    for host in hosts:
        lines += ["[[hosts]]", f'name = "{host.name}"', f'nics = ["{host.address}"]', ""]
    lines += ["[[switches]]", f'name = "{BRIDGE}"', f'agent = "{AGENT}"', 'role = "leaf"', ""]
    for host in hosts:
        lines += ["[[switches.ports]]", f"ifindex = {numbers[host.port]}"]
        lines += [f'name = "{host.port}"', f'host = "{host.name}"', "nic = 0", ""]
    return "\n".join(lines)


def rfc3339(ns: int) -> str:
    """A time with nanoseconds, in UTC."""
    seconds, fraction = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"
