"""Ports that move: one name, another interface index.

A port that is broken out, or a switch that starts again, may keep the name of a port and give it
another ifIndex (sflow/host-sflow#66, sonic-net/sonic-swss#2825). What was known of the old index is
not true of the new one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from collector.keys import KeyTable
from collector.polled import PortBatch
from collector.schema import I64, U32, U64

MOST_NAMES: Final = 1 << 16
_WORDS: Final = 8  # of a name


@njit(cache=True, nogil=True)
def _digests(words: U64) -> U64:
    """Two hashes of each row of words: names are told apart by 128 bits."""
    out = np.empty((2, len(words)), np.uint64)
    for row in range(len(words)):
        for nth in range(2):
            value = np.uint64(0xCBF2_9CE4_8422_2325) + np.uint64(nth)
            for word in words[row]:
                value = (value ^ word) * np.uint64(0x9E37_79B9_7F4A_7C15)
                value ^= value >> np.uint64(29)
            out[nth, row] = value
    return out


@njit(cache=True, nogil=True)
def _follow(number: I64, ifindex: U32, index: I64, before: I64) -> None:
    for row in range(len(number)):
        n = number[row]
        if n < len(index):
            if index[n] >= 0 and index[n] != ifindex[row]:
                before[row] = index[n]
            index[n] = ifindex[row]


class PortNames:
    """Follows the names of ports, in the order of arrival."""

    def __init__(self) -> None:
        self._keys = KeyTable(MOST_NAMES)
        self._index: I64 = np.full(MOST_NAMES, -1, np.int64)

    def take(self, ports: PortBatch) -> I64:
        """Take in ports.

        Returns
        -------
        int64, shape (len(ports),)
            The ifIndex that a port of this exporter and name had before; -1 = this one, or none.
        """
        before = np.full(len(ports), -1, np.int64)
        rows = np.flatnonzero(ports.name != b"")
        if not len(rows):
            return before
        words = np.ascontiguousarray(ports.name[rows]).view(np.uint64).reshape(-1, _WORDS)
        first, second = _digests(words)
        number = self._keys.number(ports.exporter[rows].astype(np.uint64), first, second)
        moved = np.full(len(rows), -1, np.int64)
        _follow(number, ports.ifindex[rows], self._index, moved)
        before[rows] = moved
        return before
