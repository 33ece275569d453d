"""Hosts: one network namespace each, on a port of the switch, ranks placed on them by seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.testbed.shell import run

# Checksums must be real on the wire, and a sampled frame no larger than a real one.
OFFLOADS = ("tx", "off", "tso", "off", "gso", "off", "gro", "off")


@dataclass(frozen=True, slots=True)
class Host:
    """One host: `number` from 0; its name, address and port follow from that."""

    number: int

    @property
    def name(self) -> str:
        return f"n{self.number}"

    @property
    def address(self) -> str:
        return f"10.99.0.{self.number + 1}"

    @property
    def port(self) -> str:
        return f"sw{self.number}"

    def command(self, words: Sequence[str]) -> list[str]:
        """`words` as run on this host, under its own name.

        OpenMPI takes ranks of one host name for neighbours and would use shared memory.
        """
        rename = 'echo "$0" > /proc/sys/kernel/hostname; exec "$@"'
        inside = ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c", rename]
        return [*inside, self.name, *words]


def build(host: Host, mtu: int) -> None:
    """The namespace of a host and its link; the switch's end is left for the switch to take."""
    run(["ip", "netns", "add", host.name])
    ends = ["ip", "link", "add", host.port, "mtu", str(mtu), "type", "veth"]
    run([*ends, "peer", "name", "eth0", "mtu", str(mtu), "netns", host.name])
    run(["ethtool", "-K", host.port, *OFFLOADS])
    run(["ip", "link", "set", host.port, "up"])
    within = ["ip", "netns", "exec", host.name]
    run([*within, "ethtool", "-K", "eth0", *OFFLOADS])
    run([*within, "ip", "link", "set", "lo", "up"])
    run([*within, "ip", "address", "add", f"{host.address}/24", "dev", "eth0"])
    run([*within, "ip", "link", "set", "eth0", "up"])


def place(ranks: int, hosts: int, seed: int) -> tuple[Host, ...]:
    """The host of each rank: `ranks` different ones of `hosts`, drawn by `seed`."""
    return tuple(Host(i) for i in random.Random(seed).sample(range(hosts), ranks))
