"""The inventory: hosts, NIC addresses in GPU order, switches, ports, storage subnets."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    nics: tuple[str, ...]  # address text; index = GPU (rail) number


@dataclass(frozen=True, slots=True)
class Port:
    ifindex: int
    name: str
    speed_gbps: float | None = None
    host: str | None = None
    nic: int | None = None
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    name: str
    agent: str
    role: str | None = None
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """What the operator wrote down; an empty one is valid and everything still works."""

    hosts: tuple[Host, ...] = ()
    switches: tuple[Switch, ...] = ()
    storage: tuple[IPv4Network | IPv6Network, ...] = field(default=())
