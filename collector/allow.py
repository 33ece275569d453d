"""Which senders may be heard: telemetry steers conclusions, so a site may name its switches."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final

import numpy as np

from collector.link import DatagramBatch

_MAPPED: Final = 0xFFFF << 32  # an IPv4 address lies behind this in the lower 64 bits
_HALF: Final = (1 << 64) - 1


class AllowList:
    """Lets datagrams of some networks pass.

    Parameters
    ----------
    networks
        None at all: everyone may send.

    Attributes
    ----------
    refused
        Datagrams that were left out.
    """

    def __init__(self, networks: Sequence[IPv4Network | IPv6Network]) -> None:
        self.refused = 0
        self._networks = [_as_ipv6(network) for network in networks]

    def allows(self, hi: int, lo: int) -> bool:
        """Whether the sender of this address, in halves, may be heard."""
        return not self._networks or any(
            (hi & int(hi_mask), lo & int(lo_mask)) == (int(net_hi), int(net_lo))
            for net_hi, net_lo, hi_mask, lo_mask in self._networks
        )

    def passed(self, batch: DatagramBatch) -> DatagramBatch:
        """The datagrams of allowed senders, in their order."""
        if not self._networks:
            return batch
        allowed = np.zeros(len(batch), np.bool_)
        for hi, lo, hi_mask, lo_mask in self._networks:
            allowed |= ((batch.src_hi & hi_mask) == hi) & ((batch.src_lo & lo_mask) == lo)
        if allowed.all():
            return batch
        self.refused += int((~allowed).sum())
        return batch.take(allowed)


def _as_ipv6(
    network: IPv4Network | IPv6Network,
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Both halves of a network's address and of its mask, IPv4 mapped."""
    address, mask = int(network.network_address), int(network.netmask)
    if network.version == 4:
        address |= _MAPPED
        mask |= ((1 << 96) - 1) << 32
    halves = (address >> 64, address & _HALF, mask >> 64, mask & _HALF)
    hi, lo, hi_mask, lo_mask = (np.uint64(half) for half in halves)
    return hi, lo, hi_mask, lo_mask
