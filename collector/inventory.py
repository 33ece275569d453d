"""The inventory: hosts, NIC addresses in GPU order, switches, ports, storage subnets."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import NoReturn

from collector.addresses import from_text, to_text
from collector.errors import InventoryError
from collector.messages import CLASS_NAMES, MESSAGE_CLASSES, MESSAGE_LENGTHS


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
    message_lengths: tuple[int, ...] = MESSAGE_LENGTHS  # bytes, of `collector.messages.CLASS_NAMES`


_ROLES = ("leaf", "spine", "storage")


def read_inventory(path: Path) -> Inventory:
    """Read an inventory file.

    Parameters
    ----------
    path
        A TOML file with ``[[hosts]]``, ``[[switches]]`` (each with ``[[switches.ports]]``),
        ``[storage]`` and ``[messages]``; all may be absent.

    Returns
    -------
    Inventory
        Addresses in canonical text.

    Raises
    ------
    InventoryError
        The file cannot be read, is no TOML, or contradicts itself; names the key.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8-sig"))  # editors of some put a mark in front
    except OSError as error:
        raise InventoryError(path, "", error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise InventoryError(path, "", f"offset {error.start}: not UTF-8 text") from error
    except (ValueError, RecursionError) as error:  # also a number or a nesting without end
        raise InventoryError(path, "", f"not TOML: {error}") from error
    root = _Table(path, "", document)
    root.only("hosts", "switches", "storage", "messages")
    hosts = tuple(_read_host(table) for table in root.tables("hosts"))
    by_name = _distinct(path, {f"hosts[{i}].name": h.name for i, h in enumerate(hosts)}, "host")
    _distinct(
        path,
        {f"hosts[{i}].nics[{j}]": nic for i, h in enumerate(hosts) for j, nic in enumerate(h.nics)},
        "address",
    )
    nics = {name: len(hosts[index].nics) for index, name in enumerate(by_name)}
    switches = tuple(_read_switch(table, nics) for table in root.tables("switches"))
    _distinct(path, {f"switches[{i}].name": s.name for i, s in enumerate(switches)}, "switch")
    _distinct(path, {f"switches[{i}].agent": s.agent for i, s in enumerate(switches)}, "address")
    return Inventory(hosts, switches, _read_storage(root), _read_messages(root))


class _Table:
    """One TOML table and the key that leads to it; its methods fail with that key."""

    def __init__(self, file: Path, key: str, values: Mapping[str, object]) -> None:
        self.file = file
        self.key = key
        self._values = values

    def fail(self, key: str, reason: str) -> NoReturn:
        raise InventoryError(self.file, f"{self.key}.{key}" if self.key else key, reason)

    def only(self, *known: str) -> None:
        for key in self._values:
            if key not in known:
                self.fail(key, f"unknown key; known here: {', '.join(known)}")

    def has(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if not isinstance(value, str) or not value:
            self.fail(key, "missing" if value is None else "must be a text that is not empty")
        if not value.isprintable():  # names are written to terminals
            self.fail(key, f"{value!r} holds characters that cannot be printed")
        return value

    def number(self, key: str, least: int) -> int:
        value = self._values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fail(key, "missing" if value is None else f"must be a whole number from {least}")
        return value

    def positive(self, key: str) -> float:
        value = self._values.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e9:
            self.fail(key, "must be a number above 0")
        return float(value)

    def address(self, key: str, text: str) -> str:
        try:
            return to_text(*from_text(text))
        except ValueError:
            self.fail(key, f"{text!r} is no IP address")

    def texts(self, key: str) -> list[str]:
        value = self._values.get(key)
        if not isinstance(value, list):
            self.fail(key, "missing" if value is None else "must be a list of texts")
        for index, item in enumerate(value):
            if not isinstance(item, str):
                self.fail(f"{key}[{index}]", "must be a text")
        return value

    def tables(self, key: str) -> list[_Table]:
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fail(key, f"must be a list of tables: [[{key}]]")
        prefix = f"{self.key}.{key}" if self.key else key
        return [_Table(self.file, f"{prefix}[{i}]", item) for i, item in enumerate(value)]

    def table(self, key: str) -> _Table:
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, f"must be a table: [{key}]")
        return _Table(self.file, f"{self.key}.{key}" if self.key else key, value)


def _read_host(table: _Table) -> Host:
    table.only("name", "nics")
    nics = table.texts("nics")
    if not nics:
        table.fail("nics", "a host has at least one NIC")
    return Host(
        table.text("name"),
        tuple(table.address(f"nics[{index}]", text) for index, text in enumerate(nics)),
    )


def _read_switch(table: _Table, nics: Mapping[str, int]) -> Switch:
    table.only("name", "agent", "role", "ports")
    role = table.text("role") if table.has("role") else None
    if role is not None and role not in _ROLES:
        table.fail("role", f"must be one of {', '.join(_ROLES)}")
    rows = table.tables("ports")
    ports = tuple(_read_port(row, nics) for row in rows)
    keys = [row.key for row in rows]
    _distinct(
        table.file,
        {f"{k}.ifindex": str(p.ifindex) for k, p in zip(keys, ports, strict=True)},
        "ifindex",
    )
    _distinct(table.file, {f"{k}.name": p.name for k, p in zip(keys, ports, strict=True)}, "port")
    agent = table.address("agent", table.text("agent"))
    return Switch(table.text("name"), agent, role, ports)


def _read_port(table: _Table, nics: Mapping[str, int]) -> Port:
    table.only("ifindex", "name", "speed_gbps", "host", "nic", "peer")
    host = table.text("host") if table.has("host") else None
    nic = table.number("nic", 0) if table.has("nic") else None
    peer = table.text("peer") if table.has("peer") else None
    if host is not None:
        if peer is not None:
            table.fail("peer", "a port leads to a host or to a switch, not to both")
        if host not in nics:
            table.fail("host", f"no host is named {host!r}")
        if nic is None:
            table.fail("nic", f"missing: which NIC of {host!r}")
        if nic >= nics[host]:
            table.fail("nic", f"{host!r} has NICs 0 to {nics[host] - 1}")
    elif nic is not None:
        table.fail("nic", "a NIC number without its host")
    if peer is not None and not all(peer.partition(":")):
        table.fail("peer", f"{peer!r} is not of the form switch:port")
    return Port(
        ifindex=table.number("ifindex", 1),
        name=table.text("name"),
        speed_gbps=table.positive("speed_gbps") if table.has("speed_gbps") else None,
        host=host,
        nic=nic,
        peer=peer,
    )


def _read_storage(root: _Table) -> tuple[IPv4Network | IPv6Network, ...]:
    table = root.table("storage")
    table.only("subnets")
    subnets = []
    for index, text in enumerate(table.texts("subnets") if table.has("subnets") else []):
        try:
            subnets.append(ip_network(text))
        except ValueError as error:
            table.fail(f"subnets[{index}]", str(error))
    return tuple(subnets)


def _read_messages(root: _Table) -> tuple[int, ...]:
    """Lengths of the site's messages; those that it does not name are NCCL's own.

    One of NCCL's that is another's at this site is 0: no message has it.
    """
    table = root.table("messages")
    table.only(*CLASS_NAMES)
    said: dict[int, str] = {}
    for name in filter(table.has, CLASS_NAMES):
        length = table.number(name, 1)
        if length in said:
            table.fail(name, f"{length} bytes are already those of {said[length]}")
        said[length] = name
    own = {name: length for length, name in said.items()}
    return tuple(
        own.get(name, 0 if usual in said else usual) for name, usual in MESSAGE_CLASSES.items()
    )


def _distinct(file: Path, values: Mapping[str, str], what: str) -> tuple[str, ...]:
    """The values in order; a second use of one is an error that names both keys."""
    first: dict[str, str] = {}
    for key, value in values.items():
        if value in first:
            raise InventoryError(file, key, f"{what} {value!r} is already at {first[value]}")
        first[value] = key
    return tuple(first)
