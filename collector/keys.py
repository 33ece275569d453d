"""Dense numbers for keys of three words, by hashing: rows are never sorted.

Keys come from the network, so the hash is keyed: who does not know the secret cannot choose keys
that fall into one slot, and make every look-up walk through all of them.
"""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collector.schema import I64, U64

_ANY_NUMBER: Final = 1 << 62


@njit(cache=True)
def _number(
    first: U64,
    second: U64,
    third: U64,
    secret: np.uint64,
    slots: I64,
    keys: NDArray[np.uint64],
    count: int,
    most: int,
    out: I64,
) -> int:
    """Number the rows with linear probing; returns the new number of keys."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(first)):
        mixed = (first[row] ^ secret) * np.uint64(0x9E37_79B9_7F4A_7C15)
        mixed = (mixed ^ (mixed >> np.uint64(32)) ^ second[row]) * np.uint64(0xBF58_476D_1CE4_E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ third[row]) * np.uint64(0x94D0_49BB_1331_11EB)
        slot = (mixed ^ (mixed >> np.uint64(32))) & mask
        while True:
            number = slots[slot]
            if number < 0:
                number = count
                if count == most:
                    break
                slots[slot] = number
                keys[number, 0] = first[row]
                keys[number, 1] = second[row]
                keys[number, 2] = third[row]
                count += 1
                break
            if (
                keys[number, 0] == first[row]
                and keys[number, 1] == second[row]
                and keys[number, 2] == third[row]
            ):
                break
            slot = (slot + np.uint64(1)) & mask
        out[row] = number
    return count


class KeyTable:
    """Numbers keys from 0 in order of first appearance, over any number of calls.

    Parameters
    ----------
    most
        So many keys are remembered, and no more.
    """

    def __init__(self, most: int = _ANY_NUMBER) -> None:
        self._most = most
        self._secret = np.uint64(secrets.randbits(64))
        self._count = 0
        self._keys = np.zeros((0, 3), np.uint64)
        self._slots: I64 = np.full(1, -1, np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The keys by number; uint64, shape (len, 3)."""
        return self._keys[: self._count]

    def number(self, first: U64, second: U64, third: U64) -> I64:
        """The number of each row's key; keys not seen before get the next ones.

        Parameters
        ----------
        first, second, third : uint64, shape (n,)

        Returns
        -------
        int64, shape (n,)
            `most` for keys that came when the table was full.
        """
        self._reserve(min(self._count + len(first), self._most))
        return self._fill(first, second, third)

    def _fill(self, first: U64, second: U64, third: U64) -> I64:
        out = np.empty(len(first), np.int64)
        self._count = _number(
            first,
            second,
            third,
            self._secret,
            self._slots,
            self._keys,
            self._count,
            self._most,
            out,
        )
        return out

    def _reserve(self, keys: int) -> None:
        """Make room for so many keys, at most half of the slots in use."""
        if keys <= len(self._keys):
            return
        size = 1 << (keys - 1).bit_length()
        first, second, third = (np.ascontiguousarray(column) for column in self.keys.T)
        self._count = 0
        self._keys = np.zeros((size, 3), np.uint64)
        self._slots = np.full(2 * size, -1, np.int64)
        self._fill(first, second, third)
