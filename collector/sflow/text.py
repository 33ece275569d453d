"""XDR strings (RFC 4506, 4.11), and the names that drops have."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from collector.schema import U8
from collector.sflow import tags
from collector.wire import u32

_NO_REASON: Final = np.frombuffer(b"NOT_SPECIFIED\0", np.uint8)


@njit(cache=True, nogil=True)
def text(buffer: U8, at: int, end: int, out: U8) -> int:
    """Copy an XDR string's first bytes to `out`; returns where it ends, -1 = it is cut off."""
    if end - at < 4 or u32(buffer, at) > end - at - 4:
        return -1
    size = u32(buffer, at)
    out[:] = 0
    for i in range(min(size, len(out))):
        out[i] = buffer[at + 4 + i]
    return at + 4 + (size + 3) // 4 * 4


@njit(cache=True, nogil=True)
def _says_nothing(name: U8) -> bool:
    """Whether this is the reason that Linux gives where its code does not know one."""
    return bool(np.all(name[: len(_NO_REASON)] == _NO_REASON))


@njit(cache=True, nogil=True)
def detail(buffer: U8, tag: int, at: int, end: int, rank: int, out: U8) -> int:
    """Copy what names a drop to `out` if it says more than what is there; returns its rank.

    Most says a trap of the hardware, then a reason of Linux, an access list, a function.
    """
    if tag == tags.HARDWARE_TRAP and rank < 5:
        trap = text(buffer, at, end, out)  # the group, and then the trap itself
        if trap >= 0:
            text(buffer, trap, end, out)
            return 5
    elif tag == tags.LINUX_REASON and rank < 4:
        held = out.copy()
        if text(buffer, at, end, out) >= 0:
            if not _says_nothing(out):
                return 4
            if not rank:
                return 1
            out[:] = held
    elif tag == tags.ACL and rank < 3:
        if end - at >= 4 and text(buffer, at + 4, end, out) >= 0:
            return 3
    elif tag == tags.FUNCTION and rank < 2 and text(buffer, at, end, out) >= 0:
        return 2
    return rank
