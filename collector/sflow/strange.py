"""Tags that nobody here knows: counted by datagram and tag, in a table of bounded length."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector.schema import I64, U8, U32

_LOOK_BACK: Final = 4  # the same few tags follow one another in every sample of a datagram


class Strange(NamedTuple):
    """Unknown tags; columns of shape (capacity,), but `used` of shape (2,).

    `used` holds the number of rows in use, and how many tags found no room.
    """

    datagram: I64
    kind: U8  # Kind
    tag: U32
    times: I64
    used: I64

    @classmethod
    def room(cls, datagrams: int) -> Strange:
        """An empty table for the tags of so many datagrams."""
        rows = 4 * datagrams + 64
        return cls(
            np.empty(rows, np.int64),
            np.empty(rows, np.uint8),
            np.empty(rows, np.uint32),
            np.empty(rows, np.int64),
            np.zeros(2, np.int64),
        )


@njit(cache=True, nogil=True)
def note(strange: Strange, datagram: int, kind: int, tag: int) -> None:
    """Count one unknown tag of a datagram."""
    used = strange.used[0]
    for row in range(max(used - _LOOK_BACK, 0), used):
        if (
            strange.datagram[row] == datagram
            and strange.kind[row] == kind
            and strange.tag[row] == tag
        ):
            strange.times[row] += 1
            return
    if used == len(strange.datagram):
        strange.used[1] += 1
        return
    strange.datagram[used] = datagram
    strange.kind[used] = kind
    strange.tag[used] = tag
    strange.times[used] = 1
    strange.used[0] = used + 1
